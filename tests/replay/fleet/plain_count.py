"""The figures of one log counted in plain Python, event by event: what Spark's must equal."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from controller.core import commands, events
from controller.core.canonical import EVENT_SCHEMAS, decode_command, decode_event, decode_reason
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord
from eventstore.upcasters import Upcasters
from replay.older_events import UPCASTS
from replay.world_log import encoding
from replay.world_log import events as world
from replay.zookeeper_log import transactions

Partition = tuple[str, int]
_TOPIC = re.compile(r".*/brokers/topics/([^/]+)")
_STATE = re.compile(r".*/brokers/topics/([^/]+)/partitions/(\d+)/state")
_BROKER = re.compile(r".*/brokers/ids/(\d+)")


class Move(NamedTuple):
    """A reassignment that is under way: what it adds and removes, and from what to what."""

    seq: int
    move: tuple[list[int], list[int]]
    target: list[int]
    before: list[int]


class PlainCount:
    """Follows a log. Durations are in microseconds."""

    def __init__(self, log: Path) -> None:
        self.leaders: dict[Partition, int] = {}
        self.isrs: dict[Partition, list[int]] = {}
        self.assigned: dict[Partition, tuple[list[int], list[int], list[int]]] = {}
        self.there: set[int] = set()
        self.known: set[int] = set()
        self.outages: Counter[tuple[str, int, str]] = Counter()
        self.leader_changes: Counter[Partition] = Counter()
        self.departures: Counter[int] = Counter()
        self.moves: list[tuple[str, int, int, int | None, str]] = []
        self.failovers: dict[int, int] = {}
        self._moving: dict[Partition, Move] = {}
        self._issued: dict[tuple[int, int], CommandRecord] = {}
        self._session_of: dict[int, str] = {}
        self._stood = 0
        self._elected: tuple[int, int, int] | None = None
        self._decided: dict[int, world.Observed] = {}
        self._follow(log)

    def _follow(self, log: Path) -> None:
        reader = LogReader(log, Upcasters({**EVENT_SCHEMAS, **encoding.SCHEMAS}, UPCASTS))
        caused: dict[int, list[CommandRecord]] = {}
        for one in reader.commands():
            caused.setdefault(one.cause, []).append(one)
            self._issued[one.cause, one.ordinal] = one
        records = list(reader.events())
        for record in records:
            if record.kind == "observed":
                found = encoding.decode_event(record.payload)
                assert isinstance(found, world.Observed)
                self._decided[record.cause or 0] = found
        before = records[0].wall_ns // 1000
        for record in records:
            now = record.wall_ns // 1000
            self._pass(now - before)
            before = now
            if record.kind in encoding.SCHEMAS:
                self._of_world(record, encoding.decode_event(record.payload), now)
            else:
                self._of_daemon(record.seq, decode_event(record.payload))
            self._of_commands(record.seq, caused.get(record.seq, []), now)
        for partition, begun in self._moving.items():
            self.moves.append((*partition, begun.seq, None, "ongoing"))

    def _pass(self, micros: int) -> None:
        for partition, leader in self.leaders.items():
            if leader == -1 or leader in self.known - self.there:
                self.outages[*partition, "unavailable"] += micros
        for partition, isr in self.isrs.items():
            replicas, adding, _ = self.assigned.get(partition, ([], [], []))
            if len(isr) < len(set(replicas) - set(adding)):
                self.outages[*partition, "under_replicated"] += micros

    def _of_world(self, record: EventRecord, event: Any, now: int) -> None:
        match event:
            case world.ZnodesRestored():
                for path, data, owner in zip(event.paths, event.data, event.owners, strict=True):
                    self._put(record.seq, path, data, f"session {owner:#x}")
            case transactions.Transaction(content=transactions.Multi(error=0) as multi):
                for one in multi.operations:
                    self._operate(record, one)
                self._elect(record, now)
            case transactions.Transaction(content=transactions.CloseSession()):
                gone = [one for one, held in self._session_of.items() if held == record.channel]
                for broker in gone:
                    self._leave(broker)
            case transactions.Transaction():
                self._operate(record, event.content)
            case world.ControllerLogged(broker=broker, text=text):
                if "Starting the controller scheduler" in text and self._elected is not None:
                    term, began, controller = self._elected
                    if controller == broker:
                        self.failovers[term] = now - began
                        self._elected = None

    def _elect(self, record: EventRecord, now: int) -> None:
        decision = self._decided.get(record.seq)
        if decision is not None and decision.what == "election" and decision.error == 0:
            self._elected = decision.epoch, now, decision.broker

    def _operate(self, record: EventRecord, operation: Any) -> None:
        match operation:
            case transactions.Create(path=path, data=data):
                self._put(record.seq, path, data or b"", record.channel)
            case transactions.SetData(path=path, data=data):
                self._put(record.seq, path, data or b"")
            case transactions.Delete(path=path):
                self._remove(record.seq, path)

    def _of_daemon(self, seq: int, event: events.Event) -> None:
        match event:
            case events.ZnodesWritten(command=command, offset=offset, errors=errors):
                body = self._body(command)
                for place, error in enumerate(errors, offset):
                    operation: Any = body.operations[place]
                    if error or not hasattr(operation, "path"):
                        continue
                    if hasattr(operation, "data"):
                        self._put(seq, operation.path, operation.data)
                    elif type(operation).__name__ == "Delete":
                        self._remove(seq, operation.path)
            case events.ZnodesRead(command=command, offset=offset, errors=errors, data=data):
                paths = self._body(command).paths[offset:]
                for path, error, found in zip(paths, errors, data, strict=False):
                    if not error and found:
                        self._put(seq, path, found)

    def _body(self, command: commands.CommandId) -> Any:
        body = self._issued[command.cause, command.ordinal].body
        assert body is not None
        return decode_command(body)

    def _of_commands(self, seq: int, issued: list[CommandRecord], now: int) -> None:
        opened = set()
        was_there = set(self.there)
        for one in issued:
            rule = decode_reason(one.reason).rule
            if one.kind == "read_stats" and rule == "controller election":
                self._stood = now
            if one.kind == "notice" and rule == "elected":
                self._elected = one.term, self._stood, 0
            if one.kind == "notice" and rule == "failover_done" and self._elected is not None:
                self.failovers[one.term] = now - self._elected[1]
            if one.kind == "close_channel" and rule != "resignation":
                self.there.discard(int(one.target.removeprefix("broker ")))
            if one.kind == "open_channel":
                broker = int(one.target.removeprefix("broker "))
                if rule == "failover":
                    opened.add(broker)
                self.there.add(broker)
                self.known.add(broker)
        if opened:
            self.there = opened
        for broker in was_there - self.there:
            self.departures[broker] += 1

    def _leave(self, broker: int) -> None:
        del self._session_of[broker]
        self.there.discard(broker)
        self.departures[broker] += 1

    def _put(self, seq: int, path: str, data: bytes, session: str = "") -> None:
        if (found := _BROKER.fullmatch(path)) is not None and session:
            self.there.add(int(found[1]))
            self.known.add(int(found[1]))
            self._session_of[int(found[1])] = session
        elif (found := _STATE.fullmatch(path)) is not None:
            partition, told = (found[1], int(found[2])), json.loads(data)
            if self.leaders.get(partition, told["leader"]) != told["leader"]:
                self.leader_changes[partition] += 1
            self.leaders[partition], self.isrs[partition] = told["leader"], told["isr"]
        elif (found := _TOPIC.fullmatch(path)) is not None:
            told = json.loads(data)
            for number, replicas in told["partitions"].items():
                adding = told.get("adding_replicas", {}).get(number, [])
                removing = told.get("removing_replicas", {}).get(number, [])
                self.assigned[found[1], int(number)] = replicas, adding, removing
                self._move(seq, (found[1], int(number)), replicas, adding, removing)

    def _move(self, seq: int, partition: Partition, *now: list[int]) -> None:
        replicas, adding, removing = now
        move = sorted(adding), sorted(removing)
        begun = self._moving.get(partition)
        if begun is not None and begun.move != move:
            del self._moving[partition]
            outcome = "replaced"
            if move == ([], []) and sorted(replicas) == begun.target:
                outcome = "completed"
            elif move == ([], []) and sorted(replicas) == begun.before:
                outcome = "cancelled"
            self.moves.append((*partition, begun.seq, seq, outcome))
        if move != ([], []) and partition not in self._moving:
            target = sorted(set(replicas) - set(removing))
            before = sorted(set(replicas) - set(adding))
            self._moving[partition] = Move(seq, move, target, before)

    def _remove(self, seq: int, path: str) -> None:
        if (found := _BROKER.fullmatch(path)) is not None:
            if int(found[1]) in self._session_of:
                self._leave(int(found[1]))
        elif (found := _STATE.fullmatch(path)) is not None:
            self._forget(seq, (found[1], int(found[2])))
        elif (found := _TOPIC.fullmatch(path)) is not None:
            for partition in [one for one in self.assigned if one[0] == found[1]]:
                self._forget(seq, partition)

    def _forget(self, seq: int, partition: Partition) -> None:
        self.leaders.pop(partition, None)
        self.isrs.pop(partition, None)
        self.assigned.pop(partition, None)
        if (begun := self._moving.pop(partition, None)) is not None:
            self.moves.append((*partition, begun.seq, seq, "deleted"))
