"""The health of a partition from its leader, ISR and replicas, as `kafka-topics --describe` shows
them.

The rules are those of "Kafka's life and death: failover mechanism", section 5 b. A partition
without an ISR serves no requests. Clients do not notice a smaller ISR, but a broker is missing.
With a full ISR and a leader other than the preferred one, load is unevenly spread. Two things
changed in Kafka since then: a partition without leader keeps its last ISR, and replicas that a
reassignment adds do not count as missing.
"""

from collections.abc import Sequence
from typing import Final

from controller.core.values import NO_LEADER, Assignment, LeaderAndIsr

OFFLINE: Final = "offline"
UNDER_REPLICATED: Final = "under_replicated"
NOT_PREFERRED: Final = "not_preferred"
HEALTHY: Final = "healthy"


def health_of(leader: int, isr: Sequence[int], replicas: Sequence[int]) -> str:
    """OFFLINE, UNDER_REPLICATED, NOT_PREFERRED or HEALTHY: the worst that applies. `replicas` are
    in the order of the assignment, without those being added."""
    if leader == NO_LEADER or not isr:
        return OFFLINE
    if any(one not in isr for one in replicas):
        return UNDER_REPLICATED
    return HEALTHY if leader == replicas[0] else NOT_PREFERRED


def health_of_state(state: LeaderAndIsr | None, assignment: Assignment) -> str:
    """The health from the controller's state. A partition that never had a state has no ISR."""
    if state is None:
        return OFFLINE
    kept = [one for one in assignment.replicas if one not in assignment.adding]
    return health_of(state.leader, state.isr, kept or assignment.replicas)
