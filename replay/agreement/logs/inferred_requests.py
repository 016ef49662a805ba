"""API requests that are in no log, reconstructed from the writes that they led to."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import structs

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived, ProposedState
from controller.core.api_requests.reassignments import AlterPartitionReassignmentsReceived
from controller.core.state import ControllerContext
from controller.core.triggers import ApiCall
from controller.core.values import NO_BROKER, NO_EPOCH
from replay.agreement.processing_order import mutable_map_order
from replay.stock_clusters.imported_log.events import RequestInferred
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_REQUEST_RECORDS_MAX: Final = 50
"""A write of a request is at most this many records after the previous one."""
_NO_NUMBER: Final = 0
_LAST_VERSION_WITH_NAMES: Final = 1
"""The last version of AlterPartition that names topics."""


def api_calls_of(found: RequestInferred, context: ControllerContext) -> Iterator[ApiCall]:
    """The requests; an AlterPartition is sent by the leader of its partitions."""
    by_leader: dict[int, list[ProposedState]] = {}
    for one in found.alter_partition:
        partition = context.find(one.topic, one.partition)
        state = partition.leadership if partition is not None else None
        by_leader.setdefault(state.leader if state is not None else NO_BROKER, []).append(one)
    for leader, states in by_leader.items():
        broker = context.brokers.get(leader)
        epoch = broker.epoch if broker is not None else NO_EPOCH
        yield ApiCall(
            AlterPartitionReceived(_NO_NUMBER, _LAST_VERSION_WITH_NAMES, leader, epoch, states)
        )
    if found.reassignments:
        yield ApiCall(AlterPartitionReassignmentsReceived(_NO_NUMBER, 0, found.reassignments))


class NextReassignment(NamedTuple):
    """A reassignment request, of which `before` are partitions that keep their replicas. The
    session writes them before the others."""

    request: RequestInferred
    before: list[tuple[str, int]]


def _is_one_request(before: Sequence[tuple[str, int]], found: RequestInferred) -> bool:
    """Whether partitions come before those of a request in the order of Kafka's hash map."""
    names = [*before, *((one.topic, one.partition) for one in found.reassignments)]
    return len({*names}) == len(names) and (not before or mutable_map_order(names) == names)


def _are_together(before: Transaction, after: Transaction) -> bool:
    """Whether two writes were sent together. Two requests of a leader never have the same time: it
    sends the next one after the response to the first."""
    if before.session != after.session:
        return False
    return after.cxid == before.cxid + 1 or after.time_ms == before.time_ms


class InferredRequests:
    """Combines the writes of one request, which are added in the order of the log."""

    def __init__(self, writes: Mapping[int, Sequence[tuple[int, str]]]) -> None:
        """`writes` has the record and the path of each write so far, by session."""
        self._writes = writes
        self._inferred: dict[int, RequestInferred] = {}
        self._last_alter_partition: tuple[Transaction, int] | None = None
        """The last write of an AlterPartition, and the zxid of the request's first one."""
        self._reassignments: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._reassigning: dict[int, RequestInferred] = {}

    def note(self, seq: int, transaction: Transaction, found: RequestInferred) -> None:
        """Add a write that shows a request."""
        self._note_alter_partition(transaction, found)
        self._note_reassignment(seq, transaction.session, found)

    def note_decision(self, session: int) -> None:
        """Note that the session's next write is a decision; it may end a request's writes."""
        if not self._continues_reassignment(session):
            self._reassigning.pop(session, None)

    def forget(self, seq: int, zxid: int) -> None:
        """Forget requests whose writes come before record `seq` and transaction `zxid`."""
        kept = {one.zxid for one in self._reassigning.values()}
        if self._last_alter_partition is not None:
            kept.add(self._last_alter_partition[1])
        self._inferred = {at: one for at, one in self._inferred.items() if at >= zxid or at in kept}
        for requests in self._reassignments.values():
            requests[:] = [one for one in requests if one[0] >= seq or one[1] in kept]

    @property
    def size(self) -> int:
        """The number of requests that are kept."""
        return len(self._inferred)

    def whole_request(self, found: RequestInferred) -> RequestInferred:
        """The whole request if this is its first write; an empty one for its other writes.

        The writes of an AlterPartition are sent together, so their cxids are consecutive, unless
        another thread of the broker reads a znode meanwhile: then their times are equal. The writes
        of a reassignment request come partition by partition in the order of Kafka's hash map, with
        no other writes between them.
        """
        return self._inferred.get(found.zxid, found)

    def take_next_reassignment(self, session: int, seq: int) -> NextReassignment | None:
        """Remove and return the reassignment request whose writes begin soon after a record.

        The request first writes /admin/reassign_partitions, once. If the session writes that znode
        again before the request's other writes, that write belongs to another request, unless it
        follows a finished reassignment.
        """
        requests = self._reassignments.get(session, [])
        place = bisect_right(requests, seq, key=lambda one: one[0])
        if place == len(requests) or requests[place][0] > seq + _REQUEST_RECORDS_MAX:
            return None
        at, zxid = requests[place]
        found = self._inferred[zxid]
        before = self._partitions_between(session, seq, at)
        if before is None or not _is_one_request(before, found):
            return None
        del requests[place]
        self._inferred[zxid] = structs.replace(found, reassignments=[])
        return NextReassignment(found, before)

    def _partitions_between(
        self, session: int, after: int, until: int
    ) -> list[tuple[str, int]] | None:
        """The partitions whose states a session writes between two records, in order. None if it
        also writes /admin/reassign_partitions for another request."""
        writes = self._writes.get(session, [])
        first, last = (bisect_right(writes, at, key=lambda one: one[0]) for at in (after, until))
        paths = [path for _, path in writes[first:last]]
        for previous, path in pairwise(["", *paths]):
            if path == znodes.REASSIGN_PARTITIONS and znodes.topic_of(previous) is None:
                return None
        return list(dict.fromkeys(filter(None, map(znodes.partition_of_state, paths))))

    def _note_alter_partition(self, transaction: Transaction, found: RequestInferred) -> None:
        last = self._last_alter_partition
        self._last_alter_partition = None
        if not found.alter_partition:
            return
        if last is not None and _are_together(last[0], transaction):
            begun = last[1]
            first = self._inferred[begun]
            states = [*first.alter_partition, *found.alter_partition]
            self._inferred[begun] = structs.replace(first, alter_partition=states)
            self._inferred[found.zxid] = structs.replace(found, alter_partition=[])
            self._last_alter_partition = (transaction, begun)
        else:
            self._inferred[found.zxid] = found
            self._last_alter_partition = (transaction, found.zxid)

    def _note_reassignment(self, seq: int, session: int, found: RequestInferred) -> None:
        begun = self._reassigning.pop(session, None)
        if not found.reassignments:
            return
        if begun is not None:
            first = self._inferred[begun.zxid]
            targets = [*first.reassignments, *found.reassignments]
            names = [(one.topic, one.partition) for one in targets]
            if mutable_map_order(names) == names:
                self._inferred[begun.zxid] = structs.replace(first, reassignments=targets)
                self._inferred[found.zxid] = structs.replace(found, reassignments=[])
                self._reassigning[session] = begun
                return
        self._inferred[found.zxid] = self._reassigning[session] = found
        self._reassignments[session].append((seq, found.zxid))

    def _continues_reassignment(self, session: int) -> bool:
        """Whether a session's last write belongs to the reassignment request in progress."""
        begun = self._reassigning.get(session)
        if begun is None:
            return False
        targets = self._inferred[begun.zxid].reassignments
        paths = {znodes.state_path(one.topic, one.partition) for one in targets}
        paths |= {znodes.topic_path(one.topic) for one in targets}
        *_, before, (_, path) = [(0, ""), *self._writes[session]]
        if path == znodes.REASSIGN_PARTITIONS:
            # A completed partition is removed from this znode just after its topic was written.
            return before[1] in paths and znodes.partition_of_state(before[1]) is None
        return path in paths
