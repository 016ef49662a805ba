"""Invariants of KIP-236: cancelled reassignments, their records, and entries of the znodes.

They are about refold: a controller with Kafka's rules knows nothing of these znodes.
"""

from typing import ClassVar, Final

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.values import Assignment
from controller.core.znodes import Name, Reassignment
from replay.explore.invariants.invariant import AssignmentWrite, Invariant, Report
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic
from replay.names import partition_name
from replay.parsed_znodes import is_request, parsed_entries
from replay.subjects import subject_of

_RECORDS: Final = f"{znodes.REASSIGNMENTS}/"
_DONE: Final = "reassignments_cancelled"
"""Is logged when a controller carries out a cancellation."""
_NOT_ROLLED_BACK: Final = (
    "rollback_given_up",
    "reassignment_not_cancelled",
    "reassignment_ended",
    "reassignment_failed",
    "record_removed",
)


class NothingCompletesWhileCancelled(Invariant):
    """Source: KIP-236 C-28, KB 14.2.3."""

    NAME: ClassVar[str] = "nothing-completes-while-cancelled"
    STATEMENT: ClassVar[str] = (
        "While a controller knows that /admin/reassign_cancel exists, it completes no reassignment."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._by_admin: dict[Name, bool] = {}

    def assignment_written(self, write: AssignmentWrite) -> None:
        was_by_admin = self._by_admin.get(write.name, False)
        self._by_admin[write.name] = not self.known.is_refold(write.process)
        before, after = write.before, write.after
        if before is None or was_by_admin or not self.known.cancel_known_to(write.process):
            return
        is_completed = before.is_being_reassigned and after == Assignment(before.target)
        if is_completed and set(after.replicas) != set(before.origin):
            self.violated(
                partition_name(*write.name),
                f"{write.process} completed the reassignment to {list(after.replicas)} while "
                f"{znodes.REASSIGN_CANCEL} existed",
            )


class _CancellationInvariant(Invariant):
    """Follows what /admin/reassign_cancel covers: from its creation until a controller has carried
    it out, and then until the end of the run or of the exception.

    A cancellation that is deleted before a controller knows it, also a later controller, and a
    stock controller, end all claims.
    """

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self.covered: dict[Name, tuple[int, ...]] = {}
        self.cancelled: dict[Name, tuple[int, ...]] = {}
        self._czxid = 0
        """The czxid of /admin/reassign_cancel; 0 if it does not exist."""

    def admin_written(self, path: str, data: bytes | None, process: str) -> None:
        if path == znodes.REASSIGN_CANCEL:
            if data is not None:
                if not self._czxid:
                    self.covered, self._czxid = self.cover(), self.known.cancel
                return
            if self._is_known():
                self._begin()
            else:
                self._forget()
            self._czxid = 0
        elif path == znodes.REASSIGN_PARTITIONS:
            self.entries_written(process)

    def cover(self) -> dict[Name, tuple[int, ...]]:
        """The partitions whose reassignments the new znode cancels, each with its target
        replicas."""
        raise NotImplementedError

    def entries_written(self, process: str) -> None:
        """A client or controller wrote /admin/reassign_partitions."""
        if not self.known.is_refold(process):
            self.covered.clear()

    def _begin(self) -> None:
        self.cancelled |= self.covered
        self.covered.clear()

    def _is_known(self) -> bool:
        active = self.known.active_process()
        return active is not None and self._knows(active)

    def _knows(self, process: str) -> bool:
        """Whether a controller knows this cancellation, not an earlier one."""
        return self.known.cancel_known_to(process) == self._czxid

    def _forget(self) -> None:
        self.covered.clear()
        self.cancelled.clear()

    def noticed(self, process: str, code: str, subject: str) -> None:
        if code == _DONE and self._knows(process) and self.known.has_role(process):
            self._begin()
        elif code == "elected" and not (self._czxid and self.known.is_refold(process)):
            self._forget()

    def topic_deleted(self, topic: KnownTopic) -> None:
        for number in topic.assignments:
            self.covered.pop((topic.name, number), None)
            self.cancelled.pop((topic.name, number), None)


class CancelledRolledBack(_CancellationInvariant):
    """Source: KIP-236 C-05, C-13; docs/kip-236-design.md#a-rollback-step-by-step"""

    NAME: ClassVar[str] = "cancelled-rolled-back"
    STATEMENT: ClassVar[str] = (
        "A reassignment that a controller has begun to cancel by /admin/reassign_cancel does not "
        "end in its target, also after a failover. The exception is a rollback that the "
        "controller gives up, which it logs."
    )

    def cover(self) -> dict[Name, tuple[int, ...]]:
        found = {}
        for path, data in self.known.admin.items():
            name, record = _record(path, data)
            if record is None or not record.legacy:
                continue
            assignment = self.known.assignment(name)
            if assignment is None or not assignment.is_being_reassigned:
                continue
            if assignment.target == record.replicas != record.original_replicas:
                found[name] = record.replicas
        return found

    def noticed(self, process: str, code: str, subject: str) -> None:
        super().noticed(process, code, subject)
        if code in _NOT_ROLLED_BACK and self.cancelled:
            for name in [
                one for one in self.cancelled if partition_name(*one) in subject.split(", ")
            ]:
                del self.cancelled[name]

    def assignment_written(self, write: AssignmentWrite) -> None:
        after, target = write.after, self.cancelled.get(write.name)
        if after.is_being_reassigned and after.target == target:
            return
        self.covered.pop(write.name, None)
        if self.cancelled.pop(write.name, None) is None or not self.known.is_refold(write.process):
            return
        if after.replicas == target:
            self.violated(
                partition_name(*write.name),
                f"{write.process} completed the reassignment to {list(after.replicas)}, which "
                f"{znodes.REASSIGN_CANCEL} has cancelled",
            )


class CancelledEntriesGone(_CancellationInvariant):
    """Source: KIP-236 C-05, C-06; the rollback's steps 5 and 6."""

    NAME: ClassVar[str] = "cancelled-entries-gone"
    STATEMENT: ClassVar[str] = (
        "The reassignment of an entry that a controller has begun to cancel does not begin again, "
        "also after a failover, unless a client requests it again."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._is_touched = False
        self._submitted: dict[Name, int] = {}
        """For what is cancelled, how often it had been requested when the znode was created."""
        self._covered_submitted: dict[Name, int] = {}

    def cover(self) -> dict[Name, tuple[int, ...]]:
        known = self.known
        found = known.entries_of(znodes.REASSIGN_PARTITIONS)
        others = set(known.entries_of(znodes.REASSIGN_PARTITIONS_EXTRA))
        for path in known.admin:
            if is_request(path):
                others |= set(known.request_of(path))
        self._is_touched = False
        covered = {name: target for name, target in found.items() if name not in others}
        self._covered_submitted = {name: known.requests_of(name).submitted for name in covered}
        return covered

    def _begin(self) -> None:
        self._submitted |= {name: self._covered_submitted[name] for name in self.covered}
        super()._begin()

    def entries_written(self, process: str) -> None:
        super().entries_written(process)
        # The znode has one zxid: a new controller may take the entries that are left for younger.
        self._is_touched = True

    def noticed(self, process: str, code: str, subject: str) -> None:
        super().noticed(process, code, subject)
        if code == "elected" and self._is_touched:
            self._forget()

    def assignment_written(self, write: AssignmentWrite) -> None:
        before, after, target = write.before, write.after, self.cancelled.get(write.name)
        if target is None or before is None or before.is_being_reassigned:
            return
        if not self.known.is_refold(write.process):
            # A tool may write what it read before the rollback.
            return
        requests = self.known.requests_of(write.name)
        if not after.is_being_reassigned or after.target != target:
            return
        if requests.submitted == self._submitted.get(write.name):
            self.violated(
                partition_name(*write.name),
                f"{write.process} began the reassignment to {list(target)}, whose entry "
                f"{znodes.REASSIGN_CANCEL} has cancelled",
            )


class OlderEntriesRemoved(Invariant):
    """Source: KIP-236 C-05, C-06; docs/kip-236.md#cancel; race kip-236-failover-5-6."""

    NAME: ClassVar[str] = "older-entries-removed"
    STATEMENT: ClassVar[str] = (
        "When a refold controller that has read /admin/reassign_cancel has handled all its "
        "events, /admin/reassign_partitions has no entry from before the cancellation. Entries of "
        "reassignments that are under way do not count. If the znode was written since, this is "
        "not checked."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._czxid = 0
        """The czxid of /admin/reassign_cancel; 0: it does not exist."""
        self._older: dict[Name, tuple[int, ...]] = {}

    def admin_written(self, path: str, data: bytes | None, process: str) -> None:
        if path == znodes.REASSIGN_CANCEL:
            if data is None:
                self._older, self._czxid = {}, 0
            elif not self._czxid:
                self._older = self.known.entries_of(znodes.REASSIGN_PARTITIONS)
                self._czxid = self.known.cancel
        elif path == znodes.REASSIGN_PARTITIONS:
            self._older = {}

    def handled(self, process: str) -> None:
        known = self.known
        if not self._older or not known.is_refold(process) or not known.has_role(process):
            return
        if known.cancel_known_to(process) != self._czxid:
            # It knows an earlier one, which may be older than the entries, or none.
            return
        for name, target in self._older.items():
            assignment = known.assignment(name)
            is_under_way = assignment is not None and assignment.is_being_reassigned
            if is_under_way or znodes.reassignment_path(*name) in known.admin:
                continue
            self.violated(
                partition_name(*name),
                f"{process} has handled {znodes.REASSIGN_CANCEL}, and the older entry for "
                f"{list(target)} is still there",
            )


class RecordsOutliveMoves(Invariant):
    """Source: the order of B6 and B7, and of the rollback's steps 5 and 6."""

    NAME: ClassVar[str] = "records-outlive-moves"
    STATEMENT: ClassVar[str] = (
        "A controller deletes the record below /admin/reassignments only when the reassignment in "
        "the topic's znode has ended, unless the topic is being deleted."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._records: dict[str, tuple[int, ...]] = {}
        self._by_others: dict[Name, None] = {}
        """The assignments that a tool wrote last, perhaps as they were before a reassignment ended;
        the controller writes its own again."""

    def assignment_written(self, write: AssignmentWrite) -> None:
        if self.known.is_refold(write.process):
            self._by_others.pop(write.name, None)
        else:
            self._by_others[write.name] = None

    def admin_written(self, path: str, data: bytes | None, process: str) -> None:
        if not path.startswith(_RECORDS):
            return
        name, record = _record(path, data)
        if record is not None:
            self._records[path] = record.replicas
            return
        target = self._records.pop(path, None)
        assignment = self.known.assignment(name)
        if data is not None or assignment is None or not self.known.is_refold(process):
            return
        if self.known.is_queued(name[0]) or not assignment.is_being_reassigned:
            return
        if assignment.target == target and name not in self._by_others:
            self.violated(
                partition_name(*name),
                f"{process} deleted {path}, and the reassignment to {list(target)} has not ended",
            )


class EntriesAccountedFor(Invariant):
    """Source: race R22, KIP-236 (an extra entry that is moved)."""

    NAME: ClassVar[str] = "entries-accounted-for"
    STATEMENT: ClassVar[str] = (
        "A controller removes an entry of /admin/reassign_partitions, or of the extra znode, only "
        "when it has moved it, or logged the result."
    )

    _PATHS: ClassVar = (znodes.REASSIGN_PARTITIONS, znodes.REASSIGN_PARTITIONS_EXTRA)

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._entries: dict[str, dict[Name, tuple[int, ...]]] = {one: {} for one in self._PATHS}
        self._unhandled: dict[tuple[str, Name], int] = {}
        """Entries of each znode about which nothing was logged, with the number of submissions at
        that time."""
        self._removed: dict[tuple[str, Name], tuple[int, ...]] = {}
        """Handled entries that a client has removed since the controller was idle. If a client
        writes them again, the controller cannot see that they are others."""

    def admin_written(self, path: str, data: bytes | None, process: str) -> None:
        before = self._entries.get(path)
        if before is None:
            return
        after = self._entries[path] = parsed_entries(path, data)
        if not self.known.is_refold(process):
            for name, target in before.items():
                if after.get(name) != target and (path, name) not in self._unhandled:
                    self._removed[path, name] = target
            for name, target in after.items():
                if target not in (before.get(name), self._removed.get((path, name))):
                    self._unhandled[path, name] = self.known.requests_of(name).submitted
            return
        for name, target in before.items():
            submitted = self._unhandled.get((path, name))
            if name in after or submitted is None:
                continue
            if self._follow_entry(path, name, target) or self._is_over(name, target, submitted):
                del self._unhandled[path, name]
            else:
                self.violated(
                    partition_name(*name),
                    f"{process} removed the entry with replicas {list(target)} from {path}, and "
                    "has logged nothing about it",
                )

    def handled(self, process: str) -> None:
        self._removed.clear()

    def _follow_entry(self, path: str, name: Name, target: tuple[int, ...]) -> bool:
        """Follow an entry that is in the other znode now, in which it is still unhandled. Returns
        whether it is there."""
        for other, entries in self._entries.items():
            if other != path and entries.get(name) == target:
                self._unhandled[other, name] = self._unhandled[path, name]
                return True
        return False

    def _is_over(self, name: Name, target: tuple[int, ...], submitted: int) -> bool:
        known = self.known
        assignment = known.assignment(name)
        if assignment is None or known.is_queued(name[0]) or assignment == Assignment(target):
            return True
        if known.requests_of(name).submitted != submitted:
            return True
        # The request takes the place of the entry (KB 7.3), even if it is older.
        return known.is_requested_by_api(name)

    def noticed(self, process: str, code: str, subject: str) -> None:
        if self._unhandled and code.startswith(("reassignment", "rollback")):
            names = subject.split(", ")
            for key in [one for one in self._unhandled if partition_name(*one[1]) in names]:
                if code != "rollback" or self._is_rolled_back(*key):
                    del self._unhandled[key]

    def _is_rolled_back(self, path: str, name: Name) -> bool:
        """Whether a rollback of the partition is about this entry: a client may write another
        one meanwhile."""
        record_path = znodes.reassignment_path(*name)
        _, record = _record(record_path, self.known.admin.get(record_path))
        return record is None or self._entries[path].get(name) == record.replicas


def _record(path: str, data: bytes | None) -> tuple[Name, Reassignment | None]:
    """The partition and the content of a record; none if it is deleted or cannot be parsed."""
    subject = subject_of(path)
    if subject.kind != "reassignment" or subject.topic is None or subject.partition is None:
        return ("", 0), None
    name = subject.topic, subject.partition
    if data is None:
        return name, None
    try:
        return name, znodes.read_reassignment(path, data)
    except ZnodeError:
        return name, None
