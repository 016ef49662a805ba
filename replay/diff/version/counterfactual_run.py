"""A version that has left the log: what the world does stays, what it is answered is its own.

Exogenous events keep their order and times. A command that the log has, too, is answered as in the
log, when it was. A znode is as in the log until the two differ on it: the version wrote what the
log did not, or did not write what the log did.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.canonical import kind_of
from controller.core.commands import Issued, ReadStats, ReadZnodes, SyncZnodes
from controller.core.events import (
    BrokerAnswered,
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
from replay.diff.messages import Folded
from replay.diff.version import assumptions
from replay.diff.version.command_responder import AS_IN_LOG, READS, WRITES, CommandResponder
from replay.diff.version.diverged_zookeeper import DivergedZooKeeper
from replay.diff.version.fold_options import Wanted
from replay.diff.version.log_commands import AHEAD_NS, LogCommand, LogCommands
from replay.diff.version.own_requests import as_it_would_be, state_as_it_would_be
from replay.diff.version.recorded_history import RecordedHistory
from replay.logs.decode import recorded
from replay.progress import Progress

_ZOOKEEPER: Final = "zookeeper"
_LOST: Final = (CONNECTION_LOSS, SESSION_EXPIRED)


class CounterfactualRun:
    """One version from where it leaves the log, to the log's end and what was under way then."""

    def __init__(
        self,
        fold: Fold,
        reader: LogReader,
        story: RecordedHistory,
        wanted: Wanted,
        last: Recorded,
        progress: Progress,
    ) -> None:
        """`last` is the event at which it leaves, folded already."""
        self._fold = fold
        self._reader = reader
        self._story = story
        self._wanted = wanted
        self._progress = progress
        self._left_at = last.seq
        self._log = LogCommands()
        self._world = DivergedZooKeeper(
            story.znodes, last.seq, story.session_when_left, story.watches
        )
        timers = story.timers_when_left
        self._own = CommandResponder(
            fold, self._world, self._log, story.usual_ns, timers, last, wanted
        )
        for id, command in story.open_when_left.items():
            self._own.adopt(id, command)

    def leave(self, issued: Sequence[Issued], stored: Sequence[CommandRecord]) -> None:
        """What the version wants instead of what the log has is the beginning."""
        for record in stored:
            self._log.add(record, self._own.now_ns)
        self._own.carry_out(issued)
        self._own.work()

    def go(self) -> Folded:
        """On to the end. Raises ReplayError, LogError."""
        own, last = self._own, self._reader.last_seq
        for event in self._rest():
            if self._fold.controller.is_stopping and not own.waiting:
                break
            own.run_until(event.wall_ns)
            own.event = kind_of(event.event)
            self._take(event)
            self._end(event)
            own.work()
            self._progress("following", event.seq, last)
        own.finish()
        own.assumed[assumptions.UNKNOWN] += len(self._world.unknown)
        own.assumed[assumptions.EARLY] += len(self._world.early)
        own.assumed[assumptions.BODIES] += self._story.without_body
        courses = self._wanted.courses.result()
        return Folded(own.seq, own.now_ns, self._left_at, dict(+own.assumed), courses)

    def _rest(self) -> Iterator[Recorded]:
        """The rest of the log. Its commands can be taken a moment before their event comes."""
        coming: deque[Recorded] = deque()
        for record, stored in self._reader.records(EventFilter(first_seq=self._left_at + 1)):
            event = recorded(record)
            while coming and coming[0].wall_ns + AHEAD_NS < event.wall_ns:
                yield coming.popleft()
            coming.append(event)
            for one in stored:
                self._log.add(one, event.wall_ns)
        yield from coming

    # Events of the log

    def _take(self, event: Recorded) -> None:
        """What an event of the log is here."""
        happened = event.event
        if isinstance(happened, ZnodesWritten):
            self._written(event.seq, happened)
            return
        self._move_on(event.seq)
        match happened:
            case ZnodesRead() | ChildrenRead():
                self._read(happened)
            case TopicIdsDrawn() | NumbersDrawn() | BrokerAnswered():
                self._pass_on(happened, event.channel)
            case TimerFired(timer=timer):
                if self._own.timers.get(timer) == AS_IN_LOG:
                    del self._own.timers[timer]
                    self._own.happen(happened, event.channel)
            case WatchFired():
                if self._is_told(event.seq):
                    self._own.happen(happened, event.channel)
            case SessionConnected() | SessionDisconnected() | SessionExpired():
                self._change_session(happened, event.channel)
            case AlterPartitionReceived():
                context = self._fold.controller.context
                requests, adapted, moved = as_it_would_be(happened, context, self._story.accepted)
                self._own.assumed[assumptions.ALTER_PARTITION] += adapted
                self._own.assumed[assumptions.OTHER_LEADER] += moved
                for request in requests:
                    self._own.happen(request, event.channel)
            case _:
                self._own.happen(happened, event.channel)

    def _move_on(self, seq: int) -> None:
        """The log's ZooKeeper counts as it is after this event."""
        world = self._world
        for path in self._story.znodes.changed_by_others.get(seq, ()):
            if not world.has_own(path):
                continue
            if znodes.state_of(path) is None:
                world.take_from_log(path)
                continue
            logged = self._story.znodes.at(path, seq)
            now = state_as_it_would_be(path, world.find(path), logged)
            if now is None:
                self._own.assumed[assumptions.STATE_BY_LEADER] += 1
            else:
                self._own.assumed[assumptions.OTHER_LEADER] += 1
                world.put(path, now)
        self._own.seq = world.seq = seq

    def _read(self, outcome: ZnodesRead | ChildrenRead) -> None:
        one = self._log.of.get(outcome.command)
        if one is None:
            return
        taken = one.taken_by
        if taken is not None:
            command = taken.command
            is_own = isinstance(command, READS) and self._world.has_own_among(command)
            if is_own and not _is_lost(outcome):
                self._own.answer_by_world(taken)
            else:
                self._pass_on(outcome, _ZOOKEEPER)
            return
        for place in _places(outcome):
            issued, _ = one.items.get(place, (None, 0))
            waiting = self._own.waiting.get(issued.id) if issued is not None else None
            if waiting is not None:
                waiting.open -= 1
                if waiting.open <= 0:
                    self._own.answer_by_world(waiting.issued)

    def _written(self, seq: int, outcome: ZnodesWritten) -> None:
        one = self._log.of.get(outcome.command)
        if one is None:
            self._move_on(seq)
        elif one.taken_by is not None:
            self._written_by_both(seq, one.taken_by, outcome)
        else:
            self._written_by_log(seq, one, outcome)

    def _written_by_both(self, seq: int, taken: Issued, outcome: ZnodesWritten) -> None:
        """The same command. Where anything of it differs, the version does it in its own world, in
        which what the log's did is not done before."""
        world, command = self._world, taken.command
        operations = command.operations if isinstance(command, WRITES) else ()
        is_own = (
            isinstance(command, WRITES) and world.has_own_among(command) and not _is_lost(outcome)
        )
        if is_own:
            for operation in operations:
                world.keep(operation.path)
        self._move_on(seq)
        if is_own:
            self._own.answer_by_world(taken)
        else:
            self._pass_on(outcome, _ZOOKEEPER)
        for operation in operations:
            world.settle(operation.path)

    def _written_by_log(self, seq: int, one: LogCommand, outcome: ZnodesWritten) -> None:
        """What of it the version does not do, is different from now on."""
        world, command = self._world, one.command
        operations = command.operations if isinstance(command, WRITES) else ()
        places = [place for place in _places(outcome) if place < len(operations)]
        for place in places:
            if place not in one.items:
                world.keep(operations[place].path)
        self._move_on(seq)
        self._written_items(one, outcome)
        for place in places:
            world.settle(operations[place].path)

    def _written_items(self, one: LogCommand, outcome: ZnodesWritten) -> None:
        """Writes of commands that the log answers in parts."""
        for number, place in enumerate(_places(outcome)):
            issued, own_place = one.items.get(place, (None, 0))
            waiting = self._own.waiting.get(issued.id) if issued is not None else None
            if waiting is None or not isinstance(waiting.issued.command, WRITES):
                continue
            path = waiting.issued.command.operations[own_place].path
            if self._world.has_own(path) and not _is_lost(outcome):
                self._own.write_places(waiting, [own_place])
            else:
                error, version = outcome.errors[number], outcome.versions[number]
                self._own.settle(waiting, own_place, error, version)

    def _is_told(self, seq: int) -> bool:
        """Whether a watch fires here, too: not for what the log wrote and the version did not."""
        place = self._story.own_watches.get(seq)
        if place is None:
            return True
        one = self._log.of.get(place[0])
        return one is not None and (one.taken_by is not None or place[1] in one.items)

    def _pass_on(self, outcome: Outcome | BrokerAnswered, channel: str) -> None:
        """As the log has it, to the command that has taken the log's."""
        one = self._log.of.get(outcome.command)
        taken = one.taken_by if one is not None else None
        if taken is not None:
            self._own.waiting.pop(taken.id, None)
            self._own.happen(structs.replace(outcome, command=taken.id), channel)
        elif one is not None and isinstance(outcome, (TopicIdsDrawn, NumbersDrawn)):
            self._own.drawn[one.digest].append(outcome)
        elif one is not None and isinstance(outcome, BrokerAnswered):
            self._own.answered[one.digest].append(outcome)

    def _end(self, event: Recorded) -> None:
        """Nobody can take a command whose last outcome has come."""
        happened = event.event
        if not isinstance(happened, (Outcome, BrokerAnswered)):
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
        """What is not answered by then never is."""
        if isinstance(event, SessionConnected):
            self._world.session = event.session_id
        elif isinstance(event, SessionDisconnected):
            self._own.lose_all(CONNECTION_LOSS)
        else:
            self._own.lose_all(SESSION_EXPIRED)
            self._world.end_session()
        self._own.happen(event, channel)


def _places(outcome: ZnodesRead | ChildrenRead | ZnodesWritten) -> range:
    """The items of a command that it is about."""
    if isinstance(outcome, ChildrenRead):
        return range(1)
    return range(outcome.offset, outcome.offset + len(outcome.errors))


def _is_lost(outcome: ZnodesRead | ChildrenRead | ZnodesWritten) -> bool:
    if isinstance(outcome, ChildrenRead):
        return outcome.error in _LOST
    return any(error in _LOST for error in outcome.errors)


def _size(one: LogCommand) -> int:
    """How many items have outcomes; 0 where that is not known."""
    command = one.command
    if isinstance(command, (ReadZnodes, ReadStats)):
        return len(command.paths)
    if isinstance(command, WRITES):
        return len(command.operations)
    return 1 if isinstance(command, SyncZnodes) else 0
