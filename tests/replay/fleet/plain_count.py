"""The expected figures of one log, calculated in plain Python event by event."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from controller.core import commands, events
from controller.core.canonical import EVENT_SCHEMAS, decode_command, decode_event, decode_reason
from controller.core.operations import FENCED
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord
from eventstore.upcasters import Upcasters
from replay.logs.older_events import UPCASTS
from replay.stock_clusters.imported_log import encoding
from replay.stock_clusters.imported_log import events as imported_events
from replay.stock_clusters.zookeeper_log import transactions
from tests.replay.fleet.plain_brokers import PlainBrokers
from tests.replay.fleet.plain_moves import Assigned, Moved, Partition, PlainMoves

State = tuple[int | None, list[int]]
"""A leader and an ISR."""

_TOPIC = re.compile(r".*/brokers/topics/([^/]+)")
_STATE = re.compile(r".*/brokers/topics/([^/]+)/partitions/(\d+)/state")
_BROKER = re.compile(r".*/brokers/ids/(\d+)")
_STALE_CONTROLLER_EPOCH = 11


class Write(NamedTuple):
    """A write of a znode and its result, and the event at which a controller decided it, if one
    did."""

    seq: int
    micros: int
    channel: str
    path: str
    data: bytes
    decided_seq: int | None
    rule: str
    error: int = 0


class Row(NamedTuple):
    """The state of a partition from an event on, and the state before; leader -1 means no
    leader."""

    write: Write
    partition: Partition
    leader: int | None
    isr: list[int]
    assigned: Assigned | None
    before: State
    there: frozenset[int]
    """The brokers that were registered."""


class PlainCount:
    """Follows a log. Durations are in microseconds."""

    def __init__(self, log: Path) -> None:
        self.events = 0
        self.commands = 0
        self.observed = 0
        self.leaders: dict[Partition, int] = {}
        self.isrs: dict[Partition, list[int]] = {}
        self.assigned: dict[Partition, Assigned] = {}
        self.partitions: set[Partition] = set()
        """All partitions that ever existed."""
        self.topic_ids: dict[str, str] = {}
        self.brokers = PlainBrokers()
        self.outages: Counter[tuple[str, int, str]] = Counter()
        self.leader_changes: Counter[Partition] = Counter()
        self.failovers: dict[int, int] = {}
        self.zombies: set[tuple[int, str]] = set()
        self.writes: list[Write] = []
        self.rows: list[Row] = []
        self.records: list[tuple[EventRecord, Any]] = []
        self.issued: dict[tuple[int, int], CommandRecord] = {}
        self._moving = PlainMoves()
        self._stood = 0
        self._elected: tuple[int, int, int] | None = None
        self._decided: dict[int, imported_events.DecisionObserved] = {}
        self._follow(log)

    @property
    def moves(self) -> list[Moved]:
        """The reassignments, including those that have not ended."""
        return self._moving.all()

    def _follow(self, log: Path) -> None:
        reader = LogReader(log, Upcasters({**EVENT_SCHEMAS, **encoding.SCHEMAS}, UPCASTS))
        caused: dict[int, list[CommandRecord]] = {}
        for one in reader.commands():
            caused.setdefault(one.cause, []).append(one)
            self.issued[one.cause, one.ordinal] = one
        self.commands = len(self.issued)
        for record in reader.events():
            is_imported = record.kind in encoding.SCHEMAS
            decode: Any = encoding.decode_event if is_imported else decode_event
            self.records.append((record, decode(record.payload)))
        self.events = len(self.records)
        for record, event in self.records:
            if isinstance(event, imported_events.DecisionObserved):
                self._decided[record.cause or 0] = event
                self.observed += 1
                self._act(record, event)
        before = self.records[0][0].wall_ns // 1000
        for record, event in self.records:
            now = record.wall_ns // 1000
            self._pass(now - before)
            before = now
            if record.kind in encoding.SCHEMAS:
                self._of_world(record, event, now)
            else:
                self._of_daemon(record, event)
            self._of_commands(record, caused.get(record.seq, []), now)

    def _act(self, record: EventRecord, decision: imported_events.DecisionObserved) -> None:
        """Writes of a stock controller after the end of its term, successful or not."""
        if decision.what == "fenced":
            self.zombies.add((record.cause or 0, "fenced_write"))
        elif (
            decision.what not in ("refused", "election", "controller_epoch")
            and 0 < decision.epoch < record.term
        ):
            self.zombies.add((record.cause or 0, "late_write"))

    def _pass(self, micros: int) -> None:
        for partition, leader in self.leaders.items():
            if leader == -1 or leader in self.brokers.away:
                self.outages[*partition, "unavailable"] += micros
        for partition, isr in self.isrs.items():
            replicas, adding, _ = self.assigned.get(partition, ([], [], []))
            if len(isr) < len(set(replicas) - set(adding)):
                self.outages[*partition, "under_replicated"] += micros

    def _of_world(self, record: EventRecord, event: Any, now: int) -> None:
        match event:
            case imported_events.ZnodesRestored():
                for path, data, owner in zip(event.paths, event.data, event.owners, strict=True):
                    found = Write(record.seq, now, f"session {owner:#x}", path, data, None, "found")
                    self._put(found, is_created=True)
            case transactions.Transaction(content=transactions.Multi(error=0) as multi):
                for one in multi.operations:
                    self._operate(record, one)
                self._elect(record, now)
            case transactions.Transaction(content=transactions.CloseSession()):
                self.brokers.end_session(record)
            case transactions.Transaction():
                self._operate(record, event.content)
            case imported_events.ControllerLogged(broker=broker, text=text):
                if "Starting the controller scheduler" in text and self._elected is not None:
                    term, began, controller = self._elected
                    if controller == broker:
                        self.failovers[term] = now - began
                        self._elected = None
            case imported_events.RequestServed():
                request, response = (
                    json.loads(one or b"{}") for one in (event.request, event.response)
                )
                if (
                    response.get("errorCode") == _STALE_CONTROLLER_EPOCH
                    and "controllerEpoch" in request
                ):
                    self.zombies.add((record.seq, "stale_request"))

    def _elect(self, record: EventRecord, now: int) -> None:
        decision = self._decided.get(record.seq)
        if decision is not None and decision.what == "election" and decision.error == 0:
            self._elected = decision.epoch, now, decision.broker

    def _operate(self, record: EventRecord, operation: Any) -> None:
        decision = self._decided.get(record.seq)
        write = Write(
            record.seq,
            record.wall_ns // 1000,
            record.channel,
            getattr(operation, "path", ""),
            getattr(operation, "data", b"") or b"",
            None if decision is None else record.seq,
            "" if decision is None else decision.what,
        )
        match operation:
            case transactions.Create() | transactions.SetData():
                self.writes.append(write)
                self._put(write, is_created=isinstance(operation, transactions.Create))
            case transactions.Delete():
                self.writes.append(write)
                self._remove(record, write)

    def _of_daemon(self, record: EventRecord, event: events.Event) -> None:
        match event:
            case events.ZnodesWritten(command=command, offset=offset, errors=errors):
                if FENCED in errors:
                    self.zombies.add((record.seq, "fenced_write"))
                body = self._body(command)
                rule = decode_reason(self.issued[command.cause, command.ordinal].reason).rule
                for place, error in enumerate(errors, offset):
                    operation: Any = body.operations[place]
                    if hasattr(operation, "path"):
                        self._written(record, operation, command.cause, rule, error)
            case events.ZnodesRead(command=command, offset=offset, errors=errors, data=data):
                paths = self._body(command).paths[offset:]
                for path, error, found in zip(paths, errors, data, strict=False):
                    if not error and found:
                        read = Write(record.seq, record.wall_ns // 1000, "", path, found, None, "")
                        self._put(read)
            case events.BrokerResponded(error=error) if error == _STALE_CONTROLLER_EPOCH:
                self.zombies.add((record.seq, "stale_request"))

    def _written(
        self, record: EventRecord, operation: Any, decided_seq: int, rule: str, error: int
    ) -> None:
        data = getattr(operation, "data", None) or b""
        micros, path = record.wall_ns // 1000, operation.path
        write = Write(record.seq, micros, record.channel, path, data, decided_seq, rule, error)
        self.writes.append(write)
        if error:
            return
        if hasattr(operation, "data"):
            self._put(write)
        elif type(operation).__name__ == "Delete":
            self._remove(record, write)

    def _body(self, command: commands.CommandId) -> Any:
        body = self.issued[command.cause, command.ordinal].body
        assert body is not None
        return decode_command(body)

    def _of_commands(self, record: EventRecord, issued: list[CommandRecord], now: int) -> None:
        for one in issued:
            rule = decode_reason(one.reason).rule
            if one.kind == "read_stats" and rule == "controller election":
                self._stood = now
            if one.kind == "notice" and rule == "elected":
                self._elected = one.term, self._stood, 0
            if one.kind == "notice" and rule == "failover_done" and self._elected is not None:
                self.failovers[one.term] = now - self._elected[1]
        self.brokers.follow(record, issued)

    def _put(self, write: Write, *, is_created: bool = False) -> None:
        path, data = write.path, write.data
        if (found := _BROKER.fullmatch(path)) is not None and is_created:
            place = write.seq, write.micros, write.channel
            self.brokers.register(*place, int(found[1]), is_found=write.rule == "found")
        elif (found := _STATE.fullmatch(path)) is not None:
            partition, actual = (found[1], int(found[2])), json.loads(data)
            if self.leaders.get(partition, actual["leader"]) != actual["leader"]:
                self.leader_changes[partition] += 1
            before = self.leaders.get(partition), self.isrs.get(partition, [])
            self.leaders[partition], self.isrs[partition] = actual["leader"], actual["isr"]
            self._note(write, partition, before)
        elif (found := _TOPIC.fullmatch(path)) is not None:
            actual = json.loads(data)
            if "topic_id" in actual:
                self.topic_ids[actual["topic_id"]] = found[1]
            for number, replicas in actual["partitions"].items():
                adding = actual.get("adding_replicas", {}).get(number, [])
                removing = actual.get("removing_replicas", {}).get(number, [])
                self._assign(write, (found[1], int(number)), (replicas, adding, removing))

    def _assign(self, write: Write, partition: Partition, assigned: Assigned) -> None:
        self.partitions.add(partition)
        if self.assigned.get(partition) != assigned:
            self.assigned[partition] = assigned
            state = self.leaders.get(partition), self.isrs.get(partition, [])
            self._note(write, partition, state)
        self._moving.assign(write.seq, partition, assigned)

    def _note(self, write: Write, partition: Partition, before: State) -> None:
        leader, isr = self.leaders.get(partition), self.isrs.get(partition, [])
        assigned = self.assigned.get(partition)
        there = frozenset(self.brokers.there)
        self.rows.append(Row(write, partition, leader, isr, assigned, before, there))

    def _remove(self, record: EventRecord, write: Write) -> None:
        if (found := _BROKER.fullmatch(write.path)) is not None:
            self.brokers.leave(record, int(found[1]))
        elif (found := _STATE.fullmatch(write.path)) is not None:
            self._forget(write, (found[1], int(found[2])))
        elif (found := _TOPIC.fullmatch(write.path)) is not None:
            for partition in [one for one in self.assigned if one[0] == found[1]]:
                self._forget(write, partition)

    def _forget(self, write: Write, partition: Partition) -> None:
        self.leaders.pop(partition, None)
        self.isrs.pop(partition, None)
        self.assigned.pop(partition, None)
        self._moving.forget(write.seq, partition)
