"""Logs of a few records, for a `BrokerLogIndex`."""

import json
from typing import Any

from eventstore.records import EventRecord
from replay.agreement.logs.index import BrokerLogIndex
from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportedEvent,
    RequestInferred,
    RequestServed,
)
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    Operation,
    SetData,
)
from tests.replay.agreement.view import (
    Tree,
    Written,
    create,
    topic_json,
    transaction,
)

GUARD = Check("/controller_epoch", 1)


class Log:
    """Records, one a second; the first is number 1."""

    def __init__(self, chroot: str = "") -> None:
        self._chroot = chroot
        self._records: list[tuple[EventRecord, ImportedEvent]] = []
        self._zxid = 0

    def add(self, event: ImportedEvent) -> int:
        seq = len(self._records) + 1
        wall_ns = seq * 1_000_000_000
        record = EventRecord(seq, wall_ns, wall_ns, 1, "", 1, "", "exogenous", None, b"")
        self._records.append((record, event))
        return seq

    def write(self, *written: Written, session: int = 7, cxid: int = 1, time_ms: int = 0) -> int:
        self._zxid += 1
        one = transaction(self._zxid, *written, session=session, cxid=cxid, time_ms=time_ms)
        return self.add(one)

    def decide(self, *written: Operation, what: str = "partition_state", **of: Any) -> int:
        """Adds a guarded write that is a decision."""
        seq = self.write(GUARD, *written, **of)
        self.add(DecisionObserved(self._zxid, what, 1, of.get("epoch", 1), 0, False))
        return seq

    def infer(
        self, written: Operation, *, cxid: int, session: int = 7, time_ms: int = 0, **request: Any
    ) -> RequestInferred:
        """Adds a guarded write from which a request is inferred."""
        self.write(GUARD, written, cxid=cxid, session=session, time_ms=time_ms)
        found = RequestInferred(
            self._zxid, 1, request.get("alter_partition", []), request.get("reassignments", [])
        )
        self.add(found)
        return found

    def elect(self, epoch: int, session: int = 7) -> None:
        self.write(
            create("/controller", b"{}"), SetData("/controller_epoch", b"1", 1), session=session
        )
        self.add(DecisionObserved(self._zxid, "election", 1, epoch, 0, False))

    def serve(self, api: str, version: int, request: Any, received_ms: int = 5) -> int:
        body = json.dumps(request).encode()
        return self.add(RequestServed(1, api, version, "2", 1, "", received_ms, body, b"{}"))

    def register(self, version: int, session: int = 7, broker: int = 1) -> None:
        data = json.dumps({"version": version, "host": "h", "port": 1, "endpoints": []}).encode()
        path = f"{self._chroot}/brokers/ids/{broker}"
        self.write(create(path, data), SetData(path, data, 1), session=session)

    def index(self, feature: int = 0, topics: tuple[str, ...] = ()) -> BrokerLogIndex:
        first = Tree(self._chroot)
        if feature:
            content = {"version": feature, "status": 1, "features": {}}
            first.put("/feature", json.dumps(content).encode())
        for topic in topics:
            first.put(f"/brokers/topics/{topic}", topic_json())
        return self.index_from(first)

    def index_from(self, first: Tree) -> BrokerLogIndex:
        """The index of a log with this state before the first record."""
        return BrokerLogIndex(iter(self._records), self._chroot, first.view)
