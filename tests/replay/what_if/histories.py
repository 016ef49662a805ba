"""Histories of t-0 on the brokers 1 to 3."""

from controller.core.values import Assignment, LeaderAndIsr
from replay.what_if.history import ClusterHistory, PartitionSnapshot

NAME = ("t", 0)
ASSIGNMENT = Assignment((1, 2))


def now(leader: int, *isr: int, assignment: Assignment = ASSIGNMENT) -> PartitionSnapshot:
    return PartitionSnapshot(LeaderAndIsr(leader, 0, isr, 0, 1), assignment)


def history(*partitions: tuple[int, PartitionSnapshot]) -> ClusterHistory:
    """All brokers are registered. The partition changes at these times, by the event of the next
    number."""
    found = ClusterHistory()
    for broker in (1, 2, 3):
        found.note_broker(0, 0, broker, is_registered=True)
    for at_ms, one in partitions:
        found.note_partition(at_ms + 1, at_ms, NAME, one)
    return found
