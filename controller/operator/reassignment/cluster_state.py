"""The state of a cluster, as far as reassignments need it. Plain values, read from ZooKeeper or
through Kafka's APIs."""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from msgspec import Struct

from controller.core import znodes
from controller.core.values import NO_LEADER, Assignment, Broker
from controller.core.znodes import (
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
    Entries,
    Entry,
    Reassignment,
    ReassignmentRequest,
    ReplicaDeletion,
)
from controller.operator.reassignment.documents import Partition


class ControllerKind(Enum):
    """The kind of controller of the cluster."""

    REFOLD = "refold"
    STOCK = "stock"
    NONE = "none"


class CurrentController(Struct, frozen=True):
    """The controller; `broker` is -1 for none."""

    kind: ControllerKind
    broker: int = -1


NO_CONTROLLER: Final = CurrentController(ControllerKind.NONE)


class Leadership(Struct, frozen=True):
    """A partition's leader and ISR."""

    leader: int = NO_LEADER
    isr: tuple[int, ...] = ()


class ReassignmentRecord(Struct, frozen=True):
    """A child of /admin/reassignments. `czxid` identifies the reassignment; a different `mzxid`
    means that its target was changed."""

    reassignment: Reassignment
    czxid: int
    mzxid: int


class UnusableRecord(Struct, frozen=True):
    """A child of /admin/reassignments that cannot be read or does not match the topic's znode,
    and why. Its czxid still identifies the reassignment."""

    why: str
    czxid: int


class SubmittedEntries(Struct, frozen=True):
    """/admin/reassign_partitions or /admin/reassign_partitions_extra; `version` is None if it
    does not exist."""

    entries: Entries = {}
    version: int | None = None


class CancelZnode(Struct, frozen=True):
    """/admin/reassign_cancel. `is_forced`: the rollback does not wait for min.insync.replicas."""

    version: int
    is_forced: bool = False


class ReassignmentZnodes(Struct, frozen=True):
    """The znodes of KIP-236 (KB 14.1, 14.4). `requests`: pending requests, by path. `unusable`:
    records that cannot be used. `unreadable`: why other znodes cannot be read, by path.
    `kip_236_active`: the parent of requests exists; refold creates it when it takes the role."""

    pending: SubmittedEntries = SubmittedEntries()
    extra: SubmittedEntries = SubmittedEntries()
    cancellation: CancelZnode | None = None
    records: dict[Partition, ReassignmentRecord] = {}
    requests: dict[str, ReassignmentRequest] = {}
    unreadable: dict[str, str] = {}
    unusable: dict[Partition, UnusableRecord] = {}
    kip_236_active: bool = True

    @property
    def cancel_exists(self) -> bool:
        """Whether /admin/reassign_cancel exists."""
        return self.cancellation is not None

    @property
    def cancellable(self) -> Entries:
        """The reassignments that --cancel rolls back, with their originals: the entries of
        /admin/reassign_partitions and the reassignments that they started. A stock controller may
        have removed the entry.
        """
        begun = {
            name: Entry(one.reassignment.replicas, one.reassignment.original_replicas)
            for name, one in self.records.items()
            if one.reassignment.legacy and name not in self.pending.entries
        }
        return self.pending.entries | begun


class Deletions(Struct, frozen=True):
    """Children of /admin/replica_deletions by path, and why some of them cannot be read."""

    by_path: dict[str, ReplicaDeletion] = {}
    unreadable: dict[str, str] = {}


class ClusterState(Struct, frozen=True):
    """The state of a cluster at one time.

    - `brokers`: live brokers that hold replicas.
    - `assignments`: of the requested topics and of all partitions being reassigned.
    - `versions`: the version of each topic znode.
    - `unreadable_topics`: why topic znodes cannot be read.
    - `deleted`: topics that are being deleted.
    - `least_in_sync`: min.insync.replicas of the requested topics and of those being rolled back,
      if ZooKeeper has it; otherwise the controller's configuration applies.
    - `throttled`: the brokers that the throttled replicas of those topics name, by topic. Empty
      without ZooKeeper.
    - `kip`: None without ZooKeeper.
    """

    controller: CurrentController
    brokers: dict[int, Broker]
    assignments: dict[Partition, Assignment]
    leaderships: dict[Partition, Leadership] = {}
    versions: dict[str, int] = {}
    deleted: frozenset[str] = frozenset()
    kip: ReassignmentZnodes | None = None
    least_in_sync: dict[str, int] = {}
    throttled: dict[str, frozenset[int]] = {}
    unreadable_topics: dict[str, str] = {}

    @property
    def is_interruptible(self) -> bool:
        """Whether a refold controller acts on the znodes of KIP-236."""
        return self.controller.kind is ControllerKind.REFOLD and self.znodes.kip_236_active

    @property
    def znodes(self) -> ReassignmentZnodes:
        """The znodes of KIP-236; empty if the state was read through Kafka's APIs."""
        return self.kip or ReassignmentZnodes()

    def origin(self, partition: Partition) -> tuple[int, ...]:
        """The replicas before the reassignment, or the current ones: what a rollback restores."""
        record = self.znodes.records.get(partition)
        if record is not None:
            return record.reassignment.original_replicas
        entry = self.znodes.pending.entries.get(partition)
        if entry is not None and entry.original_replicas is not None:
            return entry.original_replicas
        assignment = self.assignments.get(partition)
        return assignment.origin if assignment is not None else ()

    def origins(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, ...]]:
        """`origin` of those partitions that exist."""
        return {one: self.origin(one) for one in partitions if one in self.assignments}

    def route(self, partition: Partition) -> str:
        """The znode or API that started a partition's reassignment; empty if there is none.

        The record names the route. A legacy record belongs to /admin/reassign_partitions
        (docs/kip-236-design.md#both-designs-together). A stock controller writes no records: under
        it, a reassignment without an entry was started by Kafka's API. Without ZooKeeper the route
        is unknown.
        """
        kip = self.znodes
        if self.is_completed_elsewhere(partition):
            return ""
        record = kip.records.get(partition)
        if partition in kip.pending.entries or (record and record.reassignment.legacy):
            return znodes.REASSIGN_PARTITIONS
        if record is not None:
            return KAFKA_API if record.reassignment.api else REASSIGNMENTS
        if partition in kip.extra.entries:
            return REASSIGN_PARTITIONS_EXTRA
        if self._is_requested(partition):
            return REASSIGNMENT_REQUESTS
        assignment = self.assignments.get(partition)
        if assignment is None or not assignment.is_being_reassigned:
            return ""
        if partition in kip.unusable:
            # The record cannot be read: Kafka's API may also have started this reassignment.
            return REASSIGNMENTS
        if self.kip is None:
            return UNKNOWN_ROUTE
        return NO_RECORD if self.is_interruptible else KAFKA_API

    def is_completed_elsewhere(self, partition: Partition) -> bool:
        """Whether another controller completed the reassignment of an entry or a record, and no
        other was requested since: no cancellation undoes it. refold removes entry and record when
        it takes the role."""
        kip = self.znodes
        if partition in kip.extra.entries or self._is_requested(partition):
            return False
        assignment = self.assignments.get(partition)
        record, entry = kip.records.get(partition), kip.pending.entries.get(partition)
        if self.is_interruptible or assignment is None or (record is None and entry is None):
            return False
        target = record.reassignment.replicas if record else entry.replicas if entry else ()
        is_on_target = assignment.replicas == target and not assignment.is_being_reassigned
        return is_on_target and self.origin(partition) != target

    def is_cancelled(self, partition: Partition) -> bool:
        """Whether /admin/reassign_cancel rolls the partition back. Entries submitted after the
        cancellation wait: refold has no record of them, even if a stock controller started them."""
        kip = self.znodes
        if not kip.cancel_exists or partition not in kip.cancellable:
            return False
        if self.is_completed_elsewhere(partition):
            return False
        if self.is_interruptible:
            return partition in kip.records or partition in kip.unusable
        return self._is_moving(partition) or partition in kip.records

    def waits_to_start(self, partition: Partition) -> bool:
        """Whether the reassignment was submitted while /admin/reassign_cancel existed, and starts
        when that znode is removed."""
        is_held_up = self.is_interruptible and self.znodes.cancel_exists
        is_started = self.is_cancelled(partition) or self._is_moving(partition)
        return is_held_up and bool(self.route(partition)) and not is_started

    def _is_requested(self, partition: Partition) -> bool:
        return any(partition in one.assignments for one in self.znodes.requests.values())

    def _is_moving(self, partition: Partition) -> bool:
        assignment = self.assignments.get(partition)
        return assignment is not None and assignment.is_being_reassigned

    def _is_replaced(self, partition: Partition) -> bool:
        """Whether the extra znode has another target: then the partition is rolled back first."""
        kip = self.znodes
        extra, record = kip.extra.entries.get(partition), kip.records.get(partition)
        if kip.cancel_exists or extra is None or record is None:
            return False
        one = record.reassignment
        return one.legacy and one.replicas != extra.replicas and self._is_moving(partition)

    def target(self, partition: Partition) -> tuple[int, ...]:
        """The requested replicas of a reassignment; the original ones while it is cancelled."""
        if self.is_cancelled(partition):
            return self.origin(partition)
        record = self.znodes.records.get(partition)
        if record is not None and self.next_target(partition):
            return record.reassignment.replicas
        kip = self.znodes
        submitted = self._submitted_target(partition, kip.extra.entries, kip.pending.entries)
        if submitted:
            return submitted
        return record.reassignment.replicas if record else self.assignments[partition].target

    def next_target(self, partition: Partition) -> tuple[int, ...]:
        """The replicas to which a partition that is being reassigned or rolled back goes when
        /admin/reassign_cancel is removed; empty: no others were requested."""
        kip = self.znodes
        record = kip.records.get(partition)
        if not self.is_interruptible or not kip.cancel_exists or record is None:
            return ()
        if self.is_cancelled(partition):
            # Its entry in /admin/reassign_partitions is what was cancelled.
            return self._submitted_target(partition, kip.extra.entries)
        submitted = self._submitted_target(partition, kip.extra.entries, kip.pending.entries)
        return submitted if submitted != record.reassignment.replicas else ()

    def _submitted_target(self, partition: Partition, *znodes: Entries) -> tuple[int, ...]:
        """The replicas that an entry of these znodes or the last request names; empty: none."""
        for entries in znodes:
            if partition in entries:
                return entries[partition].replicas
        requests = [one.assignments for one in self.znodes.requests.values()]
        targets = [one[partition] for one in requests if partition in one]
        return targets[-1] if targets else ()

    def waits_for_originals(self, partition: Partition) -> int | None:
        """How many originals must be alive and in sync before a rollback removes the other
        replicas. 0 if the rollback does not wait. None if only the controller's configuration has
        the number.

        A forced rollback waits for one original only, since it does not elect an unclean leader
        either.
        """
        cancellation = self.znodes.cancellation
        if not (self.is_cancelled(partition) or self._is_replaced(partition)):
            return 0
        is_forced = cancellation is not None and cancellation.is_forced
        needed = 1 if is_forced else self.originals_needed(partition)
        origin = self.origin(partition)
        in_sync = len(self.originals_in_sync(partition))
        if in_sync >= (len(origin) if needed is None else needed):
            return 0
        assignment = self.assignments.get(partition)
        has_others = assignment is not None and not set(assignment.replicas) <= set(origin)
        return needed if has_others else 0

    def originals_needed(self, partition: Partition) -> int | None:
        """min(min.insync.replicas, number of originals), at least 1; None if only the controller's
        configuration has min.insync.replicas."""
        count = len(self.origin(partition))
        if count <= 1:
            return 1
        least = self.least_in_sync.get(partition[0])
        return None if least is None else max(1, min(least, count))

    def originals_in_sync(self, partition: Partition) -> tuple[int, ...]:
        """The originals of a partition that are alive and in the ISR."""
        isr = self.leaderships.get(partition, Leadership()).isr
        return tuple(one for one in self.origin(partition) if one in isr and one in self.brokers)

    @property
    def without_record(self) -> list[Partition]:
        """Reassignments without a record under a refold controller: a stock controller started
        them, or their record was deleted."""
        kip = self.znodes
        if self.kip is None or not self.is_interruptible:
            return []
        moving = (name for name, one in self.assignments.items() if one.is_being_reassigned)
        return sorted(
            one
            for one in moving
            if one not in kip.records and one not in kip.unusable and one[0] not in self.deleted
        )

    @property
    def moving(self) -> list[Partition]:
        """All partitions that are being reassigned, sorted; the deletion of its topic ends a
        reassignment."""
        return sorted(
            one
            for one in self._named
            if one[0] not in self.deleted and not self.is_completed_elsewhere(one)
        )

    @property
    def completed_elsewhere(self) -> list[Partition]:
        """The partitions of `is_completed_elsewhere`, sorted."""
        return sorted(one for one in self._named if self.is_completed_elsewhere(one))

    @property
    def _named(self) -> set[Partition]:
        """The partitions that znodes of reassignments, or the topics' own znodes, name."""
        kip = self.znodes
        named = {*kip.pending.entries, *kip.extra.entries, *kip.records}
        named.update(one for request in kip.requests.values() for one in request.assignments)
        named.update(name for name, one in self.assignments.items() if one.is_being_reassigned)
        return named


KAFKA_API: Final = "the AlterPartitionReassignments API"
NO_RECORD: Final = "an unrecorded route"
UNKNOWN_ROUTE: Final = "a route shown only with --zookeeper"
