"""How a partition is, from what `kafka-topics --describe` shows of it: leader, ISR, replicas.

The rules are those of "Kafka's life and death: failover mechanism", section 5 b: without an ISR a
partition serves nobody; an ISR that lacks replicas is not noticed by clients, but somebody is gone;
a full ISR whose leader is not the first replica loads brokers unevenly. Since that was written
Kafka keeps the last ISR of a partition without a leader, and reassignments add replicas: those that
are being added are not missed.
"""

from collections.abc import Sequence
from typing import Final

from controller.core.values import NO_LEADER, Assignment, LeaderAndIsr

OFFLINE: Final = "offline"
UNDER_REPLICATED: Final = "under_replicated"
NOT_PREFERRED: Final = "not_preferred"
HEALTHY: Final = "healthy"
STATES: Final = (OFFLINE, UNDER_REPLICATED, NOT_PREFERRED, HEALTHY)
"""The worst one first."""


def health_of(leader: int, isr: Sequence[int], replicas: Sequence[int]) -> str:
    """One of STATES; `replicas` in the order of the assignment, without those being added."""
    if leader == NO_LEADER or not isr:
        return OFFLINE
    if any(one not in isr for one in replicas):
        return UNDER_REPLICATED
    return HEALTHY if leader == replicas[0] else NOT_PREFERRED


def health_of_state(state: LeaderAndIsr | None, assignment: Assignment) -> str:
    """As the controller knows it; a partition that never had a state has no ISR."""
    if state is None:
        return OFFLINE
    kept = [one for one in assignment.replicas if one not in assignment.adding]
    return health_of(state.leader, state.isr, kept or assignment.replicas)
