"""Replicas on disk that no assignment contains. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller.core import znodes
from controller.core.values import format_brokers
from controller.core.znodes import ReplicaDeletion, write_deletion
from controller.operator.reassignment.cluster_state import ClusterState
from controller.operator.reassignment.documents import Partition, format_partition
from controller.operator.reassignment.kafka_admin import LogDirs
from controller.operator.reassignment.progress import format_bytes

_KRAFT_METADATA: Final = "__cluster_metadata"
"""The log of a KRaft quorum, which has no assignment."""

_CHECK_BYTES: Final = 64
"""The size of a check in a multi, without its path; an upper bound with room for a chroot."""


class Stray(Struct, frozen=True):
    """A replica on a broker's disk that no assignment contains.

    `assigned`: the brokers that the partition is assigned to, None if it does not exist.
    `deletion`: the znode of a pending deletion that covers the replica.
    """

    topic: str
    partition: int
    broker: int
    log_dir: str
    bytes: int
    assigned: tuple[int, ...] | None
    deletion: str | None = None

    @property
    def name(self) -> Partition:
        """The topic and number of the partition."""
        return self.topic, self.partition

    @property
    def line(self) -> str:
        """One line for people."""
        where = "the partition does not exist"
        if self.assigned is not None:
            where = f"assigned to {format_brokers(self.assigned)}"
        text = (
            f"{format_partition(self.name)} on broker {self.broker}: {format_bytes(self.bytes)} in "
        )
        text += f"{self.log_dir}; {where}"
        if self.deletion is not None:
            text += f"; {self.deletion} is pending: the controller deletes the replica"
        return text


def find_strays(
    before: ClusterState,
    after: ClusterState,
    disks: Mapping[int, LogDirs],
    deletions: Mapping[str, ReplicaDeletion],
) -> list[Stray]:
    """Replicas on disk that neither state accounts for, sorted. `before` was read before the
    disks and `after` afterwards, so a reassignment that starts or ends in between is in one of
    them."""
    moving = {*before.moving, *after.moving}
    pending = {
        (one.broker, name): path for path, one in deletions.items() for name in one.partitions
    }
    found = [
        Stray(
            *one.partition,
            broker,
            one.log_dir,
            one.size,
            after.assignments[one.partition].replicas
            if one.partition in after.assignments
            else None,
            pending.get((broker, one.partition)),
        )
        for broker, disk in disks.items()
        for one in disk.replicas
        if one.partition not in moving
        and not any(_accounts_for(state, broker, one.partition) for state in (before, after))
    ]
    return sorted(found, key=lambda one: (one.name, one.broker, one.log_dir))


def still_strays(state: ClusterState, strays: Iterable[Stray]) -> list[Stray]:
    """The strays that a later state does not account for either."""
    moving = set(state.moving)
    return [
        one
        for one in strays
        if one.name not in moving and not _accounts_for(state, one.broker, one.name)
    ]


def _accounts_for(state: ClusterState, broker: int, partition: Partition) -> bool:
    """Whether a replica is assigned, will be deleted with its topic, or its topic's znode cannot
    be read."""
    topic, _ = partition
    if topic == _KRAFT_METADATA or topic in state.deleted or topic in state.unreadable_topics:
        return True
    assignment = state.assignments.get(partition)
    return assignment is not None and broker in assignment.replicas


def split_strays(strays: Iterable[Stray], bytes_max: int) -> list[list[Stray]]:
    """Split strays by broker, and in halves until each part can be written with a check of each
    topic."""
    by_broker: dict[int, list[Stray]] = {}
    for one in strays:
        by_broker.setdefault(one.broker, []).append(one)
    return [part for _, found in sorted(by_broker.items()) for part in _halves(found, bytes_max)]


def _halves(strays: list[Stray], bytes_max: int) -> list[list[Stray]]:
    topics = {one.topic for one in strays}
    checks = sum(len(znodes.topic_path(one)) + _CHECK_BYTES for one in topics)
    if len(strays) == 1 or len(write_deletion(deletion_of(strays))) + checks <= bytes_max:
        return [strays]
    half = len(strays) // 2
    return [*_halves(strays[:half], bytes_max), *_halves(strays[half:], bytes_max)]


def deletion_of(strays: Sequence[Stray]) -> ReplicaDeletion:
    """The content of a child of /admin/replica_deletions for strays of one broker."""
    names = dict.fromkeys(one.name for one in strays)
    return ReplicaDeletion(strays[0].broker, tuple(names))
