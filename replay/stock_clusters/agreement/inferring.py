"""Requests that no log has, as the fold is asked for them: their writes show what they were."""

from collections.abc import Iterator
from typing import Final

from controller.core.events import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReceived,
    ProposedState,
)
from controller.core.state import ControllerContext
from controller.core.triggers import ApiCall
from controller.core.values import NO_BROKER, NO_EPOCH
from replay.stock_clusters.imported_log.events import RequestInferred

_UNNUMBERED: Final = 0
_BY_NAME: Final = 1
"""The last version of AlterPartition that names topics."""


def calls_of(found: RequestInferred, context: ControllerContext) -> Iterator[ApiCall]:
    """The requests; an AlterPartition comes from the leader of its partitions."""
    of_leader: dict[int, list[ProposedState]] = {}
    for one in found.alter_partition:
        partition = context.find(one.topic, one.partition)
        state = partition.leadership if partition is not None else None
        of_leader.setdefault(state.leader if state is not None else NO_BROKER, []).append(one)
    for leader, states in of_leader.items():
        broker = context.brokers.get(leader)
        epoch = broker.epoch if broker is not None else NO_EPOCH
        yield ApiCall(AlterPartitionReceived(_UNNUMBERED, _BY_NAME, leader, epoch, states))
    if found.reassignments:
        asked = AlterPartitionReassignmentsReceived(_UNNUMBERED, 0, found.reassignments)
        yield ApiCall(asked)
