"""Replicas on disk that no assignment names. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller.core import znodes
from controller.core.znodes import ReplicaDeletion, write_deletion
from controller.operator.reassignment.documents import Partition, listed, spelt
from controller.operator.reassignment.kafka_admin import LogDirs
from controller.operator.reassignment.progress import spelt_bytes
from controller.operator.reassignment.view import View

_KRAFT_METADATA: Final = "__cluster_metadata"
"""The log of a KRaft quorum, which is in no assignment."""

_CHECK_BYTES: Final = 64
"""Of a check in a multi, besides its path; at most, and with room for a chroot."""


class Stray(Struct, frozen=True):
    """A replica on the disk of a broker that no assignment names.

    `assigned` are the brokers that the partition is assigned to, None if it does not exist.
    `deletion` is the znode of a pending deletion that covers the replica.
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
        """The partition."""
        return self.topic, self.partition

    @property
    def line(self) -> str:
        """For people."""
        where = "the partition does not exist"
        if self.assigned is not None:
            where = f"assigned to {listed(self.assigned)}"
        text = f"{spelt(self.name)} on broker {self.broker}: {spelt_bytes(self.bytes)} in "
        text += f"{self.log_dir}; {where}"
        if self.deletion is not None:
            text += f"; {self.deletion} is pending: the controller deletes it"
        return text


def find_strays(
    before: View,
    after: View,
    disks: Mapping[int, LogDirs],
    deletions: Mapping[str, ReplicaDeletion],
) -> list[Stray]:
    """Replicas on the disks of brokers that neither view accounts for, sorted. `before` was looked
    at before the disks, `after` afterwards: a move that starts or ends in between is in one of
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
        and not any(_accounts_for(view, broker, one.partition) for view in (before, after))
    ]
    return sorted(found, key=lambda one: (one.name, one.broker, one.log_dir))


def still_strays(view: View, strays: Iterable[Stray]) -> list[Stray]:
    """Those that a later view does not account for either."""
    moving = set(view.moving)
    return [
        one
        for one in strays
        if one.name not in moving and not _accounts_for(view, one.broker, one.name)
    ]


def _accounts_for(view: View, broker: int, partition: Partition) -> bool:
    """Whether a replica is assigned, is deleted with its topic, or nobody can tell: its topic's
    znode cannot be read."""
    topic, _ = partition
    if topic == _KRAFT_METADATA or topic in view.deleted or topic in view.unreadable_topics:
        return True
    assignment = view.assignments.get(partition)
    return assignment is not None and broker in assignment.replicas


def split(strays: Iterable[Stray], bytes_max: int) -> list[list[Stray]]:
    """By broker, and in halves until each part can be written, with a check of each topic."""
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
    """What a child of /admin/replica_deletions says for these, which are on one broker."""
    names = dict.fromkeys(one.name for one in strays)
    return ReplicaDeletion(strays[0].broker, tuple(names))
