"""What a cluster looks like to somebody who moves partitions. Plain values: read from ZooKeeper or
over Kafka's APIs, judged elsewhere."""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from msgspec import Struct

from controller.core import znodes
from controller.core.reassignment_znodes import (
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
    Entries,
    Entry,
    Reassignment,
    Request,
)
from controller.core.values import NO_LEADER, Assignment, Broker
from controller.operator.reassignment.documents import Partition


class Role(Enum):
    """Who has the controller's role."""

    REFOLD = "refold"
    STOCK = "stock"
    NOBODY = "nobody"


class Controller(Struct, frozen=True):
    """Who is controller; `broker` is -1 for nobody."""

    role: Role
    broker: int = -1


NOBODY: Final = Controller(Role.NOBODY)


class Leadership(Struct, frozen=True):
    """A partition's leader and ISR."""

    leader: int = NO_LEADER
    isr: tuple[int, ...] = ()


class Record(Struct, frozen=True):
    """A child of /admin/reassignments: `czxid` names this reassignment, another `mzxid` says that
    its target was changed."""

    reassignment: Reassignment
    czxid: int
    mzxid: int


class Unusable(Struct, frozen=True):
    """A child of /admin/reassignments that cannot be read, or does not fit the topic's znode: what
    is wrong with it. It identifies its reassignment all the same."""

    why: str
    czxid: int


class Submitted(Struct, frozen=True):
    """/admin/reassign_partitions, or the extra one; `version` is None where it does not exist."""

    entries: Entries = {}
    version: int | None = None


class KipZnodes(Struct, frozen=True):
    """The znodes of the znode routes (kip-236.md). `requests` are those not taken up yet, by path;
    `unreadable` says of other znodes why they cannot be read, by path, `unusable` of records.
    `are_served`: the parent of requests stands, which refold makes when it takes the role."""

    pending: Submitted = Submitted()
    extra: Submitted = Submitted()
    cancel_stands: bool = False
    records: dict[Partition, Record] = {}
    requests: dict[str, Request] = {}
    unreadable: dict[str, str] = {}
    unusable: dict[Partition, Unusable] = {}
    are_served: bool = True

    @property
    def cancellable(self) -> Entries:
        """What --cancel rolls back: the entries of /admin/reassign_partitions, and what was begun
        by them, with its originals; a stock controller may have taken the entry away."""
        begun = {
            name: Entry(one.reassignment.replicas, one.reassignment.original_replicas)
            for name, one in self.records.items()
            if one.reassignment.legacy and name not in self.pending.entries
        }
        return self.pending.entries | begun


class View(Struct, frozen=True):
    """One look at a cluster.

    `brokers` are those that live and hold replicas. `assignments` are those of the topics that were
    asked for and of every partition that is on its way. `versions` has the version of each topic
    znode, `unreadable_topics` says of topics why nobody can read theirs, `deleted` the topics that
    are about to go, `least_in_sync` min.insync.replicas of the topics that were asked for.
    Without ZooKeeper `kip` is None.
    """

    controller: Controller
    brokers: dict[int, Broker]
    assignments: dict[Partition, Assignment]
    leaderships: dict[Partition, Leadership] = {}
    versions: dict[str, int] = {}
    deleted: frozenset[str] = frozenset()
    kip: KipZnodes | None = None
    least_in_sync: dict[str, int] = {}
    unreadable_topics: dict[str, str] = {}

    @property
    def is_interruptible(self) -> bool:
        """Whether a refold has the role that acts on the znodes of KIP-236."""
        return self.controller.role is Role.REFOLD and self.znodes.are_served

    @property
    def znodes(self) -> KipZnodes:
        """Those of KIP-236; nothing where only Kafka's APIs were asked."""
        return self.kip or KipZnodes()

    def origin(self, partition: Partition) -> tuple[int, ...]:
        """What a partition had before it began to move, or has: where it goes back to."""
        record = self.znodes.records.get(partition)
        if record is not None:
            return record.reassignment.original_replicas
        entry = self.znodes.pending.entries.get(partition)
        if entry is not None and entry.original_replicas is not None:
            return entry.original_replicas
        assignment = self.assignments.get(partition)
        return assignment.origin if assignment is not None else ()

    def origins(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, ...]]:
        """The same of several that exist."""
        return {one: self.origin(one) for one in partitions if one in self.assignments}

    def route(self, partition: Partition) -> str:
        """The znode by which a partition is being reassigned, "Kafka's API", or empty: it is not.
        Without ZooKeeper nobody tells which route it is.

        A legacy record belongs to /admin/reassign_partitions (kip-236.md, A and B together).
        """
        kip = self.znodes
        record = kip.records.get(partition)
        if partition in kip.pending.entries or (record and record.reassignment.legacy):
            return znodes.REASSIGN_PARTITIONS
        if record is not None:
            return REASSIGNMENTS
        if partition in kip.extra.entries:
            return REASSIGN_PARTITIONS_EXTRA
        if any(partition in one.assignments for one in kip.requests.values()):
            return REASSIGNMENT_REQUESTS
        assignment = self.assignments.get(partition)
        if assignment is None or not assignment.is_being_reassigned:
            return ""
        if partition in kip.unusable:
            # Entries that are under way stand in their znode as long.
            return REASSIGNMENTS
        return KAFKA_API if self.kip is not None else UNKNOWN_ROUTE

    def is_cancelled(self, partition: Partition) -> bool:
        """Whether it is being rolled back. What was submitted since waits instead."""
        kip = self.znodes
        if not kip.cancel_stands or partition not in kip.cancellable:
            return False
        assignment = self.assignments.get(partition)
        is_moving = assignment is not None and assignment.is_being_reassigned
        return is_moving or partition in kip.records

    def target(self, partition: Partition) -> tuple[int, ...]:
        """What a partition that is being reassigned shall have, as far as was asked for; while
        it is cancelled, what it goes back to."""
        if self.is_cancelled(partition):
            return self.origin(partition)
        kip = self.znodes
        for submitted in (kip.extra, kip.pending):
            if partition in submitted.entries:
                return submitted.entries[partition].replicas
        for request in kip.requests.values():
            if partition in request.assignments:
                return request.assignments[partition]
        record = kip.records.get(partition)
        return record.reassignment.replicas if record else self.assignments[partition].target

    @property
    def without_record(self) -> list[Partition]:
        """What moves with refold in control and has no record: Kafka's API has none, and somebody
        may have deleted one. Nobody but refold can tell, at its next look."""
        kip = self.znodes
        if self.kip is None or not self.is_interruptible:
            return []
        moving = (name for name, one in self.assignments.items() if one.is_being_reassigned)
        return sorted(one for one in moving if one not in kip.records and one not in kip.unusable)

    @property
    def moving(self) -> list[Partition]:
        """Every partition that is on its way by any route, sorted."""
        kip = self.znodes
        named = {*kip.pending.entries, *kip.extra.entries, *kip.records}
        named.update(one for request in kip.requests.values() for one in request.assignments)
        named.update(name for name, one in self.assignments.items() if one.is_being_reassigned)
        return sorted(named)


KAFKA_API: Final = "Kafka's API"
UNKNOWN_ROUTE: Final = "a route that --zookeeper shows"
