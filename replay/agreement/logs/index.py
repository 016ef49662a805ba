"""An index of an imported log, built in a first reading.

The comparison reads the log in order, but some facts come too late in it: a request is logged when
it is answered, after the writes that it caused, and a topic id after it was drawn. The index finds
them by time.
"""

import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.values import Assignment
from eventstore.records import EventRecord
from replay.agreement.decisions.write_batch import StockDecision
from replay.agreement.logs.broker_responses import CONTROLLER_APIS
from replay.agreement.logs.coverage import LogCoverage
from replay.agreement.logs.inferred_requests import InferredRequests
from replay.agreement.logs.logged_reads import BrokersRead, StatesRead, TopicsRead
from replay.agreement.logs.markers import IS_DEBUG, LocatedMarker, marker_of
from replay.agreement.logs.protocol_evidence import ProtocolEvidence
from replay.agreement.logs.received_requests import (
    NO_REQUEST,
    LoggedApiRequest,
    RequestOrder,
)
from replay.parsed_znodes import parsed_topic
from replay.stock_clusters.imported_log.api_requests import UnreadableRequestError, api_request_of
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    DecisionObserved,
    ImportedEvent,
    ImportEnded,
    RequestInferred,
    RequestServed,
    StateChangeLogged,
)
from replay.stock_clusters.imported_log.reading import ImportedRecord
from replay.stock_clusters.imports.coverage import RequestLogCoverage
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    CloseSession,
    Create,
    CreateSession,
    Delete,
    Error,
    Multi,
    Operation,
    SessionEnd,
    SetData,
    Transaction,
)
from replay.subjects import OF_TOPICS, subject_of
from replay.znode_tree.paths import below
from replay.znode_view import ZnodeView

LINE_MS: Final = 20
"""The line of a request comes at most this long after its response, by the clock of one machine."""
_TOGETHER_MS: Final = 50
"""Writes that were sent at once are at most this far apart."""
_NS: Final = 1_000_000
_LOOKAHEAD: Final = 1000
_NO_END: Final = sys.maxsize
_KEPT: Final = 8
"""The last writes of a session that are kept in any case."""


class _StateWrite(NamedTuple):
    """A write of a partition's state."""

    seq: int
    time_ms: int
    cxid: int
    partition: tuple[str, int]

    def is_followed_by(self, other: "_StateWrite") -> bool:
        """Whether another write was sent together with this one."""
        return other.cxid == self.cxid + 1 and other.time_ms <= self.time_ms + _TOGETHER_MS


class BrokerLogIndex:
    """The result of the first reading of a log."""

    def __init__(self, records: Iterable[ImportedRecord], chroot: str, view: ZnodeView) -> None:
        """Read all records. `view` shows the state before them."""
        self._existing = set(view.children(znodes.TOPICS))
        self.keeps_topics: set[int] = set()
        """Sessions that delete the deletion marker of a topic that stays
        (delete.topic.enable=false)."""
        self._chroot = chroot
        self.received_requests: dict[int, list[LoggedApiRequest]] = defaultdict(list)
        """By broker, in the order of arrival."""
        self.markers: dict[int, list[LocatedMarker]] = defaultdict(list)
        """By broker, in order. The last one is kept: it shows that there is a log."""
        self.state_changes_of: set[tuple[int, int]] = set()
        """Broker and epoch of each term whose requests are in state-change.log."""
        self.answers_of: set[tuple[int, int]] = set()
        """Broker and epoch of each term whose responses from brokers are in state-change.log."""
        self.request_logs_of: set[int] = set()
        """Brokers with a request log."""
        self.request_coverage = RequestLogCoverage()
        """When request logs contain every request."""
        self.coverage = LogCoverage()
        """The terms that the other logs cover."""
        self.writes: dict[int, list[tuple[int, str]]] = defaultdict(list)
        """By session, the record and path of each write that is a decision or was requested."""
        self.inferred = InferredRequests(self.writes)
        """Requests that are in no log."""
        self._request_orders: dict[int, RequestOrder] = {}
        self._sessions: dict[int, int] = {}
        self._silent: set[int] = set()
        self.starts: set[int] = set()
        """Sessions that begin with a new broker process."""
        self._closings: list[tuple[int, int, int]] = []
        self._ends: dict[int, int] = {}
        self._sent: dict[int, list[_StateWrite]] = defaultdict(list)
        self._stopped_ms: dict[int, list[int]] = defaultdict(list)
        self._timeouts: dict[int, int] = {}
        self._silences: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.last_transaction = 0
        """The record of the last transaction."""
        self._topic_ids: dict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self._evidence = ProtocolEvidence()
        self.brokers_read = BrokersRead()
        self.states_read = StatesRead()
        self.topics_read = TopicsRead()
        self._epochs: dict[int, list[int]] = defaultdict(list)
        self._consumed: set[int] = set()
        self._role_writes: dict[int, list[int]] = defaultdict(list)
        self._named_writes: dict[int, list[tuple[int, tuple[str, int]]]] = defaultdict(list)
        self._assignments: dict[str, dict[int, Assignment]] = {}
        self._changed: list[tuple[str, int]] = []
        self._reassignments: list[int] = []
        """The records that create /admin/reassign_partitions."""
        self._look_at(view)
        self.extend(records)

    def extend(self, records: Iterable[ImportedRecord]) -> None:
        """Read further records. A transaction and its classification come together."""
        previous: tuple[EventRecord, Transaction] | None = None
        for record, event in records:
            if isinstance(event, Transaction):
                self._changed = []
                previous = (record, event)
                self.last_transaction = record.seq
                self._note_content(record.seq, event)
                self._note_session(record.seq, event)
                self._note_existence(record.seq, event)
                self.coverage.note_transaction(event.time_ms)
            elif isinstance(event, (DecisionObserved, RequestInferred)):
                if previous is not None:
                    self._note_decision(*previous)
                if isinstance(event, RequestInferred) and previous is not None:
                    self.inferred.note(record.seq, previous[1], event)
                elif previous is not None:
                    self.inferred.note_decision(previous[1].session)
                if isinstance(event, DecisionObserved) and previous is not None:
                    self._note_observed(previous[1], event)
            else:
                self._add(record, event)
        for requests in self.received_requests.values():
            requests.sort(key=lambda one: (one.received_ms, one.answered_seq))

    def forget(self, seq: int, zxid: int) -> None:
        """Forget what is only looked up from records before `seq` and transaction `zxid`, so that
        the index of a log that is followed does not grow for ever."""
        for writes in self.writes.values():
            del writes[: bisect_left(writes[:-_KEPT], seq, key=lambda one: one[0])]
        for named in self._named_writes.values():
            del named[: bisect_left(named, seq, key=lambda one: one[0])]
        for sent in self._sent.values():
            del sent[: bisect_left(sent, seq, key=lambda one: one.seq)]
        for markers in self.markers.values():
            del markers[: bisect_left(markers[:-1], seq, key=lambda one: one.seq)]
        del self._reassignments[: bisect_left(self._reassignments, seq)]
        del self._closings[: bisect_left(self._closings, seq, key=lambda one: one[0])]
        self._consumed = {one for one in self._consumed if one >= seq}
        self._ends = {session: end for session, end in self._ends.items() if end >= seq}
        self.inferred.forget(seq, zxid)
        self.brokers_read.forget(seq)
        self.states_read.forget(seq)

    @property
    def size(self) -> int:
        """The number of writes, markers and inferred requests that are kept."""
        writes = sum(map(len, self.writes.values())) + sum(map(len, self._named_writes.values()))
        return writes + sum(map(len, self.markers.values())) + self.inferred.size

    def protocol_version(self, session: int) -> str:
        """The inter.broker.protocol.version of a broker's process."""
        return self._evidence.version(session, self._epochs.get(session, ()))

    def has_log(self, broker: int, session: int) -> bool:
        """Whether a broker's controller.log covers a session's terms."""
        return bool(self.markers.get(broker)) and self.coverage.has_lines(session)

    def has_debug(self, broker: int, session: int) -> bool:
        """Whether it does so at level DEBUG, with a line for each event."""
        return broker in self.coverage.has_debug and self.has_log(broker, session)

    def next_marker(self, broker: int, session: int, seq: int) -> LocatedMarker | None:
        """A broker's first marker after a record that was not consumed, if its log covers the
        session's terms."""
        markers = self.markers[broker] if self.has_log(broker, session) else []
        place = bisect_right(markers, seq, key=lambda one: one.seq)
        while place < len(markers) and markers[place].seq in self._consumed:
            place += 1
        return markers[place] if place < len(markers) else None

    def has_markers(self, broker: int, session: int, seq: int) -> bool:
        """Whether a broker's log has markers after a record, before the session ends."""
        following = self.next_marker(broker, session, seq)
        end = self._ends.get(session)
        return following is not None and (end is None or following.seq < end)

    def consume(self, one: LocatedMarker) -> None:
        """Note that a marker's event was begun before the marker's record."""
        self._consumed.add(one.seq)

    def consume_after_write(self, broker: int, session: int, decision: StockDecision) -> None:
        """The line of an AlterPartition may follow its first write within the same ms."""
        following = self.next_marker(broker, session, decision.seq)
        if following is None or following.marker.event != "AlterPartitionReceived":
            return
        paths = (path for path, _ in decision.operations)
        written = {*filter(None, map(znodes.partition_of_state, paths))}
        if following.time_ms <= decision.time_ms and written <= {*following.marker.partitions}:
            self.consume(following)

    def is_consumed(self, seq: int) -> bool:
        """Whether the event of a record's marker was begun before."""
        return seq in self._consumed

    def paths_after(self, session: int, seq: int, count: int) -> set[str]:
        """The paths of a session's next writes after a record, up to the beginning or end of its
        term. Once /admin/reassign_partitions is created again, its writes are for other requests.
        """
        writes = self.writes.get(session, [])
        place = bisect_right(writes, seq, key=lambda one: one[0])
        following = writes[place : place + count]
        end = next((at for at, path in following if path == znodes.CONTROLLER), _NO_END)
        place = bisect_right(self._reassignments, seq)
        created = self._reassignments[place] if place < len(self._reassignments) else _NO_END
        return {
            path
            for at, path in following
            if at <= end and (path != znodes.REASSIGN_PARTITIONS or at <= created)
        }

    def first_writes(self, session: int, seq: int) -> dict[tuple[str, int], int]:
        """The first record after `seq`, within the term, that writes about each partition; topics
        have number -1."""
        writes, role = self._named_writes.get(session, []), self._role_writes.get(session, [])
        place = bisect_right(role, seq)
        end = role[place] if place < len(role) else _NO_END
        first: dict[tuple[str, int], int] = {}
        start = bisect_right(writes, seq, key=lambda one: one[0])
        for at, name in writes[start : start + _LOOKAHEAD]:
            if at > end:
                break
            first.setdefault(name, at)
        return first

    def request_order(self, number: int) -> RequestOrder:
        """The sort key of a request: the order in which requests were processed."""
        return self._request_orders.get(number, NO_REQUEST)

    def closing(self, seq: int, until_ms: int) -> Iterator[int]:
        """Brokers that close their sessions themselves after a record, up to a time."""
        place = bisect_right(self._closings, seq, key=lambda one: one[0])
        for _, time_ms, broker in self._closings[place:]:
            if time_ms > until_ms:
                return
            yield broker

    def stopping_soon(self, time_ms: int) -> list[int]:
        """Brokers whose logs have the response to a StopReplica just after a time."""
        return [
            broker
            for broker, times in self._stopped_ms.items()
            if bisect_left(times, time_ms) < bisect_right(times, time_ms + LINE_MS)
        ]

    def written_with(self, session: int, seq: int) -> list[tuple[str, int]]:
        """The partitions whose states a session wrote together with the one in a record: their
        cxids are consecutive, and their times close."""
        sent = self._sent[session]
        first = bisect_left(sent, seq, key=lambda one: one.seq)
        together = takewhile(lambda pair: pair[0].is_followed_by(pair[1]), pairwise(sent[first:]))
        return [one.partition for one in (*sent[first : first + 1], *(b for _, b in together))]

    def is_responsive(self, broker: int, time_ms: int) -> bool:
        """Whether a broker was alive at a time, and not in the timeout before its session
        expired."""
        return all(not start <= time_ms < end for start, end in self._silences[broker])

    def next_topic_id(self, topic: str, seq: int) -> bytes | None:
        """The id that a topic has in its znode for the first time after a record."""
        ids = self._topic_ids.get(topic, [])
        place = bisect_right(ids, seq, key=lambda one: one[0])
        return ids[place][1] if place < len(ids) else None

    def _look_at(self, view: ZnodeView) -> None:
        """Read the state before the first record."""
        for child in view.children(znodes.BROKER_IDS):
            znode = view.find(f"{znodes.BROKER_IDS}/{child}")
            if znode is not None and znodes.is_broker_id(child):
                self._sessions[znode.owner] = int(child)
                self.coverage.note_registration(int(child), 0)
                self._evidence.note_registration(znode.owner, znode.data)
        for topic in view.children(znodes.TOPICS):
            znode = view.find(znodes.topic_path(topic))
            if znode is not None:
                self._note_topic(0, topic, znode.data)
        feature = view.find(znodes.FEATURE)
        if feature is not None:
            self._evidence.note_feature(feature.owner, feature.data)

    def _note_content(self, seq: int, transaction: Transaction) -> None:
        for one in _operations(transaction):
            if not isinstance(one, (Create, SetData)):
                continue
            path = self._path(one)
            subject = subject_of(path)
            if subject.kind == "topic":
                self._note_topic(seq, subject.topic or "", one.data)
            elif subject.kind in OF_TOPICS:
                self._evidence.note_state(transaction.session, path, one)
            elif subject.kind == "broker":
                self._evidence.note_registration(transaction.session, one.data)
            elif path == znodes.FEATURE:
                self._evidence.note_feature(transaction.session, one.data)

    def _note_existence(self, seq: int, transaction: Transaction) -> None:
        """Only a broker with delete.topic.enable=false deletes the marker of a topic that stays."""
        for one in _operations(transaction):
            path = self._path(one)
            if path == znodes.REASSIGN_PARTITIONS and isinstance(one, Create):
                self._reassignments.append(seq)
            subject = subject_of(path)
            if subject.kind == "topic" and isinstance(one, Create):
                self._existing.add(subject.topic or "")
            elif subject.kind == "topic" and isinstance(one, Delete):
                self._existing.discard(subject.topic or "")
            elif subject.kind == "topic deletion" and isinstance(one, Delete):
                is_guarded = isinstance(transaction.content, Multi)
                if is_guarded and subject.topic in self._existing:
                    self.keeps_topics.add(transaction.session)

    def _note_session(self, seq: int, transaction: Transaction) -> None:
        if isinstance(transaction.content, CloseSession):
            self._ends[transaction.session] = seq
            self._silent.discard(transaction.session)
            broker = self._sessions.pop(transaction.session, None)
            timeout_ms = self._timeouts.pop(transaction.session, 0)
            if broker is not None and transaction.session_end is not SessionEnd.EXPIRED:
                self._closings.append((seq, transaction.time_ms, broker))
            elif broker is not None:
                silence = (transaction.time_ms - timeout_ms, transaction.time_ms)
                self._silences[broker].append(silence)
            return
        if isinstance(transaction.content, CreateSession):
            self._timeouts[transaction.session] = transaction.content.timeout_ms
            self._silent.add(transaction.session)
            return
        broker = self._registered_broker(transaction)
        if broker is not None:
            self._sessions[transaction.session] = broker
            self.coverage.note_registration(broker, transaction.time_ms)
        if transaction.session in self._silent:
            self._silent.discard(transaction.session)
            # A new process creates the persistent znodes first; in a later session it registers at
            # once (KafkaServer.startup, KafkaController.processRegisterBrokerAndReelect).
            if broker is None:
                self.starts.add(transaction.session)

    def _registered_broker(self, transaction: Transaction) -> int | None:
        """The broker that a transaction registers, None if it registers none."""
        for one in _operations(transaction):
            subject = subject_of(self._path(one))
            if isinstance(one, Create) and subject.kind == "broker":
                return subject.broker
        return None

    def _note_topic(self, seq: int, name: str, data: bytes | None) -> None:
        content = parsed_topic(name, data)
        if content is None:
            return
        before = self._assignments.get(name, {})
        self._changed += [
            (name, number)
            for number, one in content.assignments.items()
            if before.get(number) != one
        ]
        self._assignments[name] = content.assignments
        topic_id = content.topic_id
        self._evidence.note_topic(name, has_id=topic_id is not None)
        ids = self._topic_ids[name] if topic_id is not None else []
        if topic_id is not None and (not ids or ids[-1][1] != topic_id):
            ids.append((seq, topic_id))

    def _note_observed(self, transaction: Transaction, event: DecisionObserved) -> None:
        session, term = transaction.session, (event.broker, event.epoch)
        if event.what == "election":
            self._epochs[session].append(event.epoch)
        if not event.error:
            self.coverage.note_decision(session, term, event.what, transaction.time_ms)

    def _note_decision(self, record: EventRecord, transaction: Transaction) -> None:
        named = self._named_writes[transaction.session]
        named += [(record.seq, name) for name in self._changed]
        for one in _operations(transaction):
            path = self._path(one)
            partition = znodes.partition_of_state(path)
            if partition is not None:
                named.append((record.seq, partition))
                sent = self._sent[transaction.session]
                time_ms, cxid = transaction.time_ms, transaction.cxid
                sent.append(_StateWrite(record.seq, time_ms, cxid, partition))
            subject = subject_of(path)
            if subject.topic is not None and subject.kind in OF_TOPICS:
                named.append((record.seq, (subject.topic, -1)))
        written = [(record.seq, self._path(one)) for one in _operations(transaction)]
        self.writes[transaction.session] += written
        if any(path == znodes.CONTROLLER for _, path in written):
            self._role_writes[transaction.session].append(record.seq)

    def _path(self, operation: Operation) -> str:
        """The path of an operation as Kafka's path; "" if it is outside the chroot."""
        return below(path_of(operation), self._chroot) or ""

    def _add(self, record: EventRecord, event: ImportedEvent) -> None:
        time_ms = record.wall_ns // _NS
        match event:
            case ControllerLogged(broker=broker):
                self.request_coverage.note(time_ms, event)
                self.topics_read.note(record.seq, event)
                is_debug = IS_DEBUG.search(event.text) is not None
                self.coverage.note_line(record.seq, time_ms, event, is_debug=is_debug)
                if (found := marker_of(event)) is not None:
                    self.markers[broker].append(LocatedMarker(record.seq, time_ms, found))
            case StateChangeLogged(broker=broker, epoch=epoch, what=what):
                self.coverage.note_state_change(record.seq, time_ms, event)
                self.state_changes_of.add((broker, epoch))
                self.brokers_read.note(record.seq, event)
                self.states_read.note(record.seq, event)
                if what == "response":
                    self.answers_of.add((broker, epoch))
            case RequestServed(broker=broker, api=api, version=version, client=client):
                self.request_logs_of.add(broker)
                self.request_coverage.note(time_ms, event)
                self.coverage.note_served(record.seq, time_ms, event)
                if api in CONTROLLER_APIS and client.isdecimal():
                    self.coverage.note_controllers(broker, int(client), event.correlation)
                if api == "STOP_REPLICA":
                    self._stopped_ms[broker].append(time_ms)
                    self._evidence.note_stop_replica(event.request, version)
                if api == "LEADER_AND_ISR":
                    self._evidence.note_leader_and_isr(event.request, version)
                with suppress(UnreadableRequestError):
                    self._note_request(record, event)
            case ImportEnded(torn=torn, known_ms=known_ms):
                self.coverage.note_end(torn, known_ms)

    def _note_request(self, record: EventRecord, served: RequestServed) -> None:
        request = api_request_of(served, record.seq)
        if request is not None:
            received = LoggedApiRequest(served.received_ms, record.seq, request)
            self.received_requests[served.broker].append(received)
            answered_ms = record.wall_ns // _NS
            self._request_orders[record.seq] = RequestOrder(answered_ms, served.received_ms)


def _operations(transaction: Transaction) -> Iterator[Operation]:
    return (one for one in transaction.operations if isinstance(one, (Create, SetData, Delete)))


def path_of(operation: Operation) -> str:
    """The path of an operation; "" for a refused one."""
    return "" if isinstance(operation, Error) else operation.path


def operations_of(event: Transaction) -> Iterator[Operation]:
    """The writes of a transaction, also of a refused one."""
    content = event.content
    if isinstance(content, Multi):
        yield from (one for one in content.operations if not isinstance(one, (Check, Error)))
    elif isinstance(content, (Create, Delete, SetData)):
        yield content
