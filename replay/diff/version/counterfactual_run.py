"""Runs a version that has left a recorded log, to the end of the log.

The events of the cluster keep their order and times. A command that the log also contains gets the
log's outcome, at the log's time. A znode has the log's content until the version writes it and the
log does not, or the other way around.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.canonical import kind_of
from controller.core.commands import Issued, ReadStats, ReadZnodes, SyncZnodes, WatchSubtree
from controller.core.events import (
    BrokerResponded,
    ChildrenRead,
    NumbersDrawn,
    Outcome,
    Recorded,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    TimerFired,
    TopicIdsDrawn,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.fold import Fold
from controller.core.operations import CONNECTION_LOSS, SESSION_EXPIRED
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from replay.diff.messages import FoldedLog
from replay.diff.version import assumptions
from replay.diff.version.adapted_requests import adapt_request, adapt_state
from replay.diff.version.command_responder import AS_IN_LOG, READS, WRITES, CommandResponder
from replay.diff.version.diverged_zookeeper import DivergedZooKeeper
from replay.diff.version.fold_recorder import FoldRecorder
from replay.diff.version.log_commands import AHEAD_NS, LogCommand, LogCommands
from replay.diff.version.recorded_history import RecordedHistory
from replay.logs.decode import decode_recorded
from replay.progress import Progress

_ZOOKEEPER: Final = "zookeeper"
_LOST: Final = (CONNECTION_LOSS, SESSION_EXPIRED)


class CounterfactualRun:
    """One version, from the event at which it leaves the log to the log's end."""

    def __init__(
        self,
        fold: Fold,
        reader: LogReader,
        history: RecordedHistory,
        recorder: FoldRecorder,
        last: Recorded,
        progress: Progress,
    ) -> None:
        """`last` is the event at which the version leaves the log; the fold includes it."""
        self._fold = fold
        self._reader = reader
        self._history = history
        self._recorder = recorder
        self._progress = progress
        self._left_at = last.seq
        self._log = LogCommands()
        self._zookeeper = DivergedZooKeeper(
            history.znodes, last.seq, history.session_when_left, history.watches
        )
        self._responder = CommandResponder(
            fold,
            self._zookeeper,
            self._log,
            history.usual_ns,
            history.timers_when_left,
            last,
            recorder,
        )
        for id, command in history.pending_when_left.items():
            self._responder.adopt(id, command)

    def leave(self, issued: Sequence[Issued], stored: Sequence[CommandRecord]) -> None:
        """Begin with the commands that the version issued instead of the stored ones."""
        for record in stored:
            self._log.add(record, self._responder.now_ns)
        self._responder.carry_out(issued)
        self._responder.work()

    def run(self) -> FoldedLog:
        """Run to the end of the log. Raises ReplayError, LogError."""
        responder, last = self._responder, self._reader.last_seq
        for event in self._rest():
            if self._fold.controller.is_stopping and not responder.pending:
                break
            responder.run_until(event.wall_ns)
            responder.event = kind_of(event.event)
            self._apply(event)
            self._complete(event)
            responder.work()
            self._progress("following", event.seq, last)
        responder.finish()
        assumed = responder.assumed
        assumed[assumptions.UNKNOWN] += len(self._zookeeper.unknown)
        assumed[assumptions.EARLY] += len(self._zookeeper.early)
        assumed[assumptions.BODIES] += self._history.without_body
        timelines = self._recorder.timelines.result()
        return FoldedLog(responder.seq, responder.now_ns, self._left_at, dict(+assumed), timelines)

    def _rest(self) -> Iterator[Recorded]:
        """The rest of the log. Its commands are known up to AHEAD_NS before their event."""
        coming: deque[Recorded] = deque()
        for record, stored in self._reader.records(EventFilter(first_seq=self._left_at + 1)):
            event = decode_recorded(record)
            while coming and coming[0].wall_ns + AHEAD_NS < event.wall_ns:
                yield coming.popleft()
            coming.append(event)
            for one in stored:
                self._log.add(one, event.wall_ns)
        yield from coming

    # Events of the log

    def _apply(self, event: Recorded) -> None:
        """Translate an event of the log into events for the version."""
        happened = event.event
        if isinstance(happened, ZnodesWritten):
            self._apply_write(event.seq, happened)
            return
        self._advance(event.seq)
        match happened:
            case ZnodesRead() | ChildrenRead():
                self._apply_read(happened)
            case TopicIdsDrawn() | NumbersDrawn() | BrokerResponded():
                self._pass_on(happened, event.channel)
            case TimerFired(timer=timer):
                if self._responder.timers.get(timer) == AS_IN_LOG:
                    del self._responder.timers[timer]
                    self._responder.receive(happened, event.channel)
            case WatchFired():
                if self._fires_here(event.seq):
                    self._responder.receive(happened, event.channel)
            case SessionConnected() | SessionDisconnected() | SessionExpired():
                self._change_session(happened, event.channel)
            case AlterPartitionReceived():
                context = self._fold.controller.context
                adapted = adapt_request(happened, context, self._history.accepted)
                self._responder.assumed.update(adapted.assumed)
                for request in adapted.requests:
                    self._responder.receive(request, event.channel)
            case _:
                self._responder.receive(happened, event.channel)

    def _advance(self, seq: int) -> None:
        """Advance the simulated ZooKeeper to an event of the log."""
        zookeeper = self._zookeeper
        for path in self._history.znodes.changed_by_others.get(seq, ()):
            if not zookeeper.has_diverged(path):
                continue
            if znodes.partition_of_state(path) is None:
                zookeeper.set_from_log(path)
                continue
            logged = self._history.znodes.znode_at(path, seq)
            now = adapt_state(path, zookeeper.find(path), logged)
            if now is None:
                self._responder.assumed[assumptions.STATE_BY_LEADER] += 1
            else:
                self._responder.assumed[assumptions.OTHER_LEADER] += 1
                zookeeper.put(path, now)
        self._responder.seq = zookeeper.seq = seq

    def _apply_read(self, outcome: ZnodesRead | ChildrenRead) -> None:
        one = self._log.of.get(outcome.command)
        if one is None:
            return
        counterpart = one.counterpart
        if counterpart is not None:
            command = counterpart.command
            has_diverged = isinstance(command, READS) and self._zookeeper.any_diverged(command)
            if has_diverged and not _is_lost(outcome):
                self._responder.answer_simulated(counterpart)
            else:
                self._pass_on(outcome, _ZOOKEEPER)
            return
        for place in _places(outcome):
            issued, _ = one.items.get(place, (None, 0))
            pending = self._responder.pending.get(issued.id) if issued is not None else None
            if pending is not None:
                pending.missing -= 1
                if pending.missing <= 0:
                    self._responder.answer_simulated(pending.issued)

    def _apply_write(self, seq: int, outcome: ZnodesWritten) -> None:
        one = self._log.of.get(outcome.command)
        if one is None:
            self._advance(seq)
        elif one.counterpart is not None:
            self._apply_common_write(seq, one.counterpart, outcome)
        else:
            self._apply_log_write(seq, one, outcome)

    def _apply_common_write(self, seq: int, counterpart: Issued, outcome: ZnodesWritten) -> None:
        """Apply a write that the log and the version have in common. If any of its znodes has
        diverged, the write is simulated, and the log's write is not applied."""
        zookeeper, command = self._zookeeper, counterpart.command
        operations = command.operations if isinstance(command, WRITES) else ()
        is_simulated = (
            isinstance(command, WRITES)
            and zookeeper.any_diverged(command)
            and not _is_lost(outcome)
        )
        if is_simulated:
            for operation in operations:
                zookeeper.keep(operation.path)
        self._advance(seq)
        if is_simulated:
            self._responder.answer_simulated(counterpart)
        else:
            self._pass_on(outcome, _ZOOKEEPER)
        for operation in operations:
            zookeeper.rejoin(operation.path)

    def _apply_log_write(self, seq: int, one: LogCommand, outcome: ZnodesWritten) -> None:
        """Apply a write of the log. Znodes that the version does not write diverge."""
        zookeeper, command = self._zookeeper, one.command
        operations = command.operations if isinstance(command, WRITES) else ()
        places = [place for place in _places(outcome) if place < len(operations)]
        for place in places:
            if place not in one.items or zookeeper.may_differ(operations[place]):
                zookeeper.keep(operations[place].path)
        self._advance(seq)
        self._complete_batch_writes(one, outcome)
        for place in places:
            zookeeper.rejoin(operations[place].path)

    def _complete_batch_writes(self, one: LogCommand, outcome: ZnodesWritten) -> None:
        """Complete the writes of batches that the log answers in parts."""
        for number, place in enumerate(_places(outcome)):
            issued, own_place = one.items.get(place, (None, 0))
            pending = self._responder.pending.get(issued.id) if issued is not None else None
            if pending is None or not isinstance(pending.issued.command, WRITES):
                continue
            operation = pending.issued.command.operations[own_place]
            if self._zookeeper.may_differ(operation) and not _is_lost(outcome):
                self._responder.write_places(pending, [own_place])
            else:
                error, version = outcome.errors[number], outcome.versions[number]
                self._responder.add_result(pending, own_place, error, version)

    def _fires_here(self, seq: int) -> bool:
        """Whether a watch fires for the version, too: not for a write that only the log made."""
        place = self._history.own_watches.get(seq)
        if place is None:
            return True
        one = self._log.of.get(place[0])
        return one is not None and (one.counterpart is not None or place[1] in one.items)

    def _pass_on(self, outcome: Outcome | BrokerResponded, channel: str) -> None:
        """Pass an outcome of the log to the command of the version that it belongs to."""
        one = self._log.of.get(outcome.command)
        counterpart = one.counterpart if one is not None else None
        if counterpart is not None:
            self._responder.pending.pop(counterpart.id, None)
            self._responder.receive(structs.replace(outcome, command=counterpart.id), channel)
        elif one is not None and isinstance(outcome, (TopicIdsDrawn, NumbersDrawn)):
            self._responder.drawn[one.digest].append(outcome)
        elif one is not None and isinstance(outcome, BrokerResponded):
            self._responder.answered[one.digest].append(outcome)

    def _complete(self, event: Recorded) -> None:
        """After its last outcome, a command of the log cannot be taken any more."""
        happened = event.event
        if not isinstance(happened, (Outcome, BrokerResponded)):
            return
        one = self._log.of.get(happened.command)
        if one is None:
            return
        if isinstance(happened, (ZnodesRead, ZnodesWritten)):
            one.answered = happened.offset + len(happened.errors)
            if one.answered < _size(one):
                return
        self._log.end(happened.command)

    def _change_session(
        self, event: SessionConnected | SessionDisconnected | SessionExpired, channel: str
    ) -> None:
        """Change the session. Pending commands fail if the connection is lost."""
        if isinstance(event, SessionConnected):
            self._zookeeper.session = event.session_id
        elif isinstance(event, SessionDisconnected):
            self._responder.lose_all(CONNECTION_LOSS)
        else:
            self._responder.lose_all(SESSION_EXPIRED)
            self._zookeeper.end_session()
        self._responder.receive(event, channel)


def _places(outcome: ZnodesRead | ChildrenRead | ZnodesWritten) -> range:
    """The items of a command that an outcome is about."""
    if isinstance(outcome, ChildrenRead):
        return range(1)
    return range(outcome.offset, outcome.offset + len(outcome.errors))


def _is_lost(outcome: ZnodesRead | ChildrenRead | ZnodesWritten) -> bool:
    if isinstance(outcome, ChildrenRead):
        return outcome.error in _LOST
    return any(error in _LOST for error in outcome.errors)


def _size(one: LogCommand) -> int:
    """The number of items that have results; 0 if unknown."""
    command = one.command
    if isinstance(command, (ReadZnodes, ReadStats)):
        return len(command.paths)
    if isinstance(command, WRITES):
        return len(command.operations)
    return 1 if isinstance(command, (SyncZnodes, WatchSubtree)) else 0
