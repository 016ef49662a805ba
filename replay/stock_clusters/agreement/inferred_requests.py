"""Requests that no log has, put together from what their writes show."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from controller.core import znodes
from replay.stock_clusters.agreement.hash_order import in_table_order
from replay.stock_clusters.imported_log.events import RequestInferred
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_SOON: Final = 50
"""Records within which a request's next write stands."""


class InferredRequests:
    """Takes what each write shows in order; what a whole request asked for is known behind that."""

    def __init__(self, writes: Mapping[int, Sequence[tuple[int, str]]]) -> None:
        """`writes` are those of each session so far: record and path."""
        self._writes = writes
        self._inferred: dict[int, RequestInferred] = {}
        self._last_inferred: tuple[int, int, int] | None = None
        self._reassignments: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._reassigning: dict[int, RequestInferred] = {}

    def take(self, seq: int, transaction: Transaction, found: RequestInferred) -> None:
        """A write stands for what was asked for."""
        self._take_alter_partition(transaction, found)
        self._take_reassigned(seq, transaction.session, found)

    def pass_by(self, session: int) -> None:
        """A session has decided something itself."""
        if not self._is_of_reassignment(session):
            self._reassigning.pop(session, None)

    def whole(self, found: RequestInferred) -> RequestInferred:
        """What one request asked for, of which this is the first write; nothing for the others.

        The writes of an AlterPartition are sent together: their cxids follow one another. Those of
        a reassignment request come partition by partition, in the order of Kafka's hash map, with
        nothing else between.
        """
        return self._inferred.get(found.zxid, found)

    def take_next_reassignment(self, session: int, seq: int) -> RequestInferred | None:
        """The reassignment request that shows next in what a session writes, soon behind a record:
        what it takes out of /admin/reassign_partitions it writes before, all at once. The next
        write of that is another request's."""
        requests = self._reassignments.get(session, [])
        place = bisect_right(requests, seq, key=lambda one: one[0])
        if place == len(requests) or requests[place][0] > seq + _SOON:
            return None
        if znodes.REASSIGN_PARTITIONS in self._written(session, seq, requests[place][0]):
            return None
        _, zxid = requests.pop(place)
        found = self._inferred[zxid]
        self._inferred[zxid] = structs.replace(found, reassignments=[])
        return found

    def _written(self, session: int, after: int, until: int) -> set[str]:
        writes = self._writes.get(session, [])
        first, last = (bisect_right(writes, at, key=lambda one: one[0]) for at in (after, until))
        return {path for _, path in writes[first:last]}

    def _take_alter_partition(self, transaction: Transaction, found: RequestInferred) -> None:
        last = self._last_inferred
        self._last_inferred = None
        if not found.alter_partition:
            return
        if last is not None and last[:2] == (transaction.session, transaction.cxid - 1):
            first = self._inferred[last[2]]
            states = [*first.alter_partition, *found.alter_partition]
            self._inferred[last[2]] = structs.replace(first, alter_partition=states)
            self._inferred[found.zxid] = structs.replace(found, alter_partition=[])
            self._last_inferred = (transaction.session, transaction.cxid, last[2])
        else:
            self._inferred[found.zxid] = found
            self._last_inferred = (transaction.session, transaction.cxid, found.zxid)

    def _take_reassigned(self, seq: int, session: int, found: RequestInferred) -> None:
        begun = self._reassigning.pop(session, None)
        if not found.reassignments:
            return
        if begun is not None:
            first = self._inferred[begun.zxid]
            asked = [*first.reassignments, *found.reassignments]
            names = [(one.topic, one.partition) for one in asked]
            if in_table_order(names) == names:
                self._inferred[begun.zxid] = structs.replace(first, reassignments=asked)
                self._inferred[found.zxid] = structs.replace(found, reassignments=[])
                self._reassigning[session] = begun
                return
        self._inferred[found.zxid] = self._reassigning[session] = found
        self._reassignments[session].append((seq, found.zxid))

    def _is_of_reassignment(self, session: int) -> bool:
        """Whether a session's last write goes on with the reassignment request that it is at."""
        begun = self._reassigning.get(session)
        if begun is None:
            return False
        asked = self._inferred[begun.zxid].reassignments
        paths = {znodes.state_path(one.topic, one.partition) for one in asked}
        paths |= {znodes.topic_path(one.topic) for one in asked}
        *_, before, (_, path) = [(0, ""), *self._writes[session]]
        if path == znodes.REASSIGN_PARTITIONS:
            # What is done is taken out of it: its topic was written just before.
            return before[1] in paths and znodes.state_of(before[1]) is None
        return path in paths
