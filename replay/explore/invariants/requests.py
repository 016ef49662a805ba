"""Invariants of requests: the controller answers those of brokers and clients once, and carries out
those in ZooKeeper, or has a reason not to."""

from typing import ClassVar

from controller.core import znodes
from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.values import UNKNOWN_BROKER_EPOCH
from controller.core.znodes import Name
from replay.explore.invariants.invariant import AssignmentWrite, Invariant, Report
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic
from replay.names import broker_name, partition_name
from replay.parsed_znodes import is_request, parsed_entries, parsed_request
from replay.world.processes import is_controller

_DELETIONS = f"{znodes.DELETE_TOPICS}/"
_ENTRIES = (znodes.REASSIGN_PARTITIONS, znodes.REASSIGN_PARTITIONS_EXTRA)


class AnsweredOnce(Invariant):
    """Source: KB 11. `requests-answered` holds that the response comes."""

    NAME: ClassVar[str] = "answered-once"
    STATEMENT: ClassVar[str] = (
        "A controller answers a request once, and no request of an earlier run."
    )

    def answered(self, process: str, request: ApiRequest | None, response: ApiResponse) -> None:
        if request is None:
            number = response.request
            self.violated(process, f"answered request {number} without being asked, or again")


class EarlierRunsRefused(Invariant):
    """Source: KIP-380; KB 9.5, 11.2, 11.4: a request that a broker sent before it restarted may
    arrive late. Responses are decided with what the controller knows at that time."""

    NAME: ClassVar[str] = "earlier-runs-refused"
    STATEMENT: ClassVar[str] = (
        "A controller grants no request of a broker (AlterPartition, ControlledShutdown, "
        "AllocateProducerIds) with an earlier broker epoch than the one that it knows of that "
        "broker."
    )

    def granted(self, process: str, broker: int, broker_epoch: int) -> None:
        known = self.known.broker_epoch_known_to(process, broker)
        is_earlier = known is None or broker_epoch < known
        if is_earlier and broker_epoch != UNKNOWN_BROKER_EPOCH:
            self.violated(
                broker_name(broker),
                f"{process} granted a request with broker epoch {broker_epoch}, and knows the "
                f"broker epoch {known}",
            )


class DeletionsKept(Invariant):
    """Source: race R13; KB 8."""

    NAME: ClassVar[str] = "deletions-kept"
    STATEMENT: ClassVar[str] = (
        "A controller deletes the marker of a topic's deletion only if the topic that was marked "
        "no longer exists, or if its configuration forbids deletions. Not checked with Kafka's "
        "rules, which lose the marker of a topic that was just created."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._marked: dict[str, int] = {}
        """The czxid of each topic that was marked."""

    def admin_written(self, path: str, data: bytes | None, process: str) -> None:
        if not path.startswith(_DELETIONS):
            return
        topic = self.known.topics.get(path.removeprefix(_DELETIONS))
        if data is not None:
            if topic is not None:
                self._marked[path] = topic.czxid
            return
        marked = self._marked.pop(path, None)
        is_kept = topic is not None and topic.czxid == marked
        if not is_controller(process) or self.known.is_kafka(process):
            return
        if is_kept and self.known.deletes_topics(process):
            self.violated(path, f"{process} deleted the znode, and the topic still exists")


class DeletionsConfirmed(Invariant):
    """Source: race R8, KB 8.2.2 and deviation deletions-of-this-term. No controller deletes
    such a log later. Kafka's controller counts responses of an earlier term."""

    NAME: ClassVar[str] = "deletions-confirmed"
    STATEMENT: ClassVar[str] = (
        "When the deletion of a topic ends, the brokers of its replicas have deleted their logs. "
        "Not checked with Kafka's rules."
    )

    def topic_deleted(self, topic: KnownTopic) -> None:
        active = self.known.active_process()
        if active is None or self.known.is_kafka(active):
            return
        for number, assignment in topic.assignments.items():
            name = topic.name, number
            left = [one for one in assignment.replicas if self.known.has_log(one, name)]
            if left:
                self.violated(
                    partition_name(*name),
                    f"{active} deleted the topic, and brokers {left} have not deleted their logs",
                )


class _Entry:
    """A request to reassign a partition that could be carried out when it was written. A controller
    may have rejected another one, even if nothing prevents it any more when it is removed.

    `brokers`: the target's brokers with their broker epochs; `requested`: how often a target was
    requested for the partition so far; `is_over`: the partition was reassigned meanwhile, or an
    administrator withdrew a request for it.
    """

    __slots__ = ("brokers", "czxid", "is_over", "requested", "target")

    def __init__(
        self, target: tuple[int, ...], czxid: int, brokers: dict[int, int], requested: int
    ) -> None:
        self.target = target
        self.czxid = czxid
        self.brokers = brokers
        self.requested = requested
        self.is_over = False


class RequestsKept(Invariant):
    """Source: race R13; KIP-236: an entry moves from one znode to another, and is never lost."""

    NAME: ClassVar[str] = "requests-kept"
    STATEMENT: ClassVar[str] = (
        "A controller removes a request, or an entry of /admin/reassign_partitions or its KIP-236 "
        "counterpart, only in these cases: the reassignment has begun, could not begin, or was "
        "withdrawn, or another request takes its place. Not checked with Kafka's rules."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._entries: dict[str, dict[Name, _Entry]] = {}
        self._contained: dict[str, dict[Name, tuple[int, ...]]] = {}
        """All targets in a znode, also those that cannot be carried out."""
        self._removed: list[tuple[str, Name, _Entry, str]] = []

    def admin_written(self, path: str, data: bytes | None, process: str) -> None:
        needs_entry = is_controller(process)
        if path in _ENTRIES:
            found = parsed_entries(path, data)
        elif is_request(path):
            request = parsed_request(path, data)
            found, needs_entry = request.assignments, needs_entry or request.legacy
        else:
            return
        before = self._entries.pop(path, {})
        contained, self._contained[path] = self._contained.get(path, {}), found
        after: dict[Name, _Entry] = {}
        for name, target in found.items():
            entry = before.get(name)
            if contained.get(name) != target:
                entry = self._possible(path, name, target)
                if needs_entry and not self._is_requested(name, target):
                    # A request made of an entry that an administrator has withdrawn meanwhile, or
                    # a forged one.
                    entry = None
            elif entry is not None and not self.known.is_refold(process):
                entry.requested += 1  # The same entry, written once more.
            if entry is not None:
                after[name] = entry
        if after:
            self._entries[path] = after
        if is_controller(process) and not self.known.is_kafka(process):
            for name, entry in before.items():
                if after.get(name) is not entry:
                    self._removed.append((path, name, entry, process))
            return
        for name, target in contained.items():
            if found.get(name) != target:
                # An administrator has withdrawn it; a request may have been made of it. Kafka's
                # controller overwrites what a client has written since it read the znode.
                self._end(name)

    def assignment_written(self, write: AssignmentWrite) -> None:
        self._end(write.name)

    def transaction_ended(self) -> None:
        removed, self._removed = self._removed, []
        for path, name, entry, process in removed:
            if self._is_dropped(path, name, entry):
                self.violated(
                    partition_name(*name),
                    f"{process} removed its entry {list(entry.target)} from {path}, and the "
                    "reassignment has not begun",
                )

    def _end(self, name: Name) -> None:
        for entries in self._entries.values():
            if name in entries:
                entries[name].is_over = True
        for _, removed, entry, _ in self._removed:
            if removed == name:
                entry.is_over = True

    def _is_requested(self, name: Name, target: tuple[int, ...]) -> bool:
        """Whether an entry of a znode has this target."""
        return any(self.known.entries_of(path).get(name) == target for path in _ENTRIES)

    def _possible(self, path: str, name: Name, target: tuple[int, ...]) -> _Entry | None:
        """An entry that nothing prevents, now."""
        known = self.known
        topic = known.topics.get(name[0])
        assignment, state = known.assignment(name), known.states.get(name)
        brokers = {one: known.brokers[one] for one in target if one in known.brokers}
        if topic is None or assignment is None or state is None or known.is_queued(name[0]):
            return None
        if assignment.is_being_reassigned or assignment.replicas == target or not target:
            return None
        if len(brokers) != len(target) or not any(one in target for one in state.isr):
            return None
        # A request needs min.insync.replicas replicas, an entry does not (KIP-236).
        if path not in _ENTRIES and len(assignment.replicas) < known.min_insync_max(name[0]):
            return None
        requests = known.requests_of(name)
        if any(one != target for one in requests.targets):
            return None  # Another request may replace this one.
        return _Entry(target, topic.czxid, brokers, requests.submitted)

    def _is_dropped(self, path: str, name: Name, entry: _Entry) -> bool:
        known = self.known
        now = self._possible(path, name, entry.target)
        requests = known.requests_of(name)
        if now is None or entry.is_over or known.was_cancelled or requests.is_cancelled:
            return False
        if known.is_requested_by_api(name):
            return False  # A request by the API takes its place.
        is_moved = any(
            name in entries and entries[name].target == entry.target
            for entries in self._entries.values()
        )
        is_same = (now.czxid, now.brokers, now.requested) == (
            entry.czxid,
            entry.brokers,
            entry.requested,
        )
        return is_same and not is_moved
