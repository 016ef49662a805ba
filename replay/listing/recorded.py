"""The events and decisions of a recorded log, folded again from the last snapshot before them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import msgspec

from controller.core.canonical import decode_command, kind_of
from controller.core.commands import Command, CommandId, Issued, WriteAtomically, WriteZnodes
from controller.core.events import (
    BrokerResponded,
    ChildrenRead,
    Event,
    NumbersDrawn,
    Recorded,
    TopicIdsDrawn,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from eventstore.filters import EventFilter
from eventstore.records import CommandRecord, EventRecord
from replay.description.choices import leader_choice
from replay.description.commands import command_in_words
from replay.description.events import event_in_words
from replay.inspect.at import projection_from_snapshot
from replay.inspect.projections import RecordedProjection
from replay.listing.values import ListedDecision, ListedEvent, listed_event
from replay.logs.decode import decode_recorded
from replay.logs.open_log import RecordedLog
from replay.names import command_name
from replay.progress import Progress
from replay.subjects import paths_of_command, subjects_of_command, subjects_of_event
from replay.times import iso_time

_ANSWERS: Final = (
    ZnodesRead,
    ChildrenRead,
    ZnodesWritten,
    BrokerResponded,
    TopicIdsDrawn,
    NumbersDrawn,
)
WRITES: Final = (WriteZnodes, WriteAtomically)
"""The commands that write znodes."""


def events_and_decisions(
    log: RecordedLog, first: int, last: int, progress: Progress
) -> Iterator[tuple[ListedEvent, list[ListedDecision]]]:
    """Each event of a range with its decisions. Raises ReplayError, LogError."""
    projection = projection_from_snapshot(log, first - 1, progress)
    assert isinstance(projection, RecordedProjection), "the log is a recorded one"
    describer = EventDescriber(log, projection)
    wanted = EventFilter(first_seq=projection.seq + 1, last_seq=last)
    for record, stored in log.reader.records(wanted):
        progress("folding", record.seq, last)
        if record.seq < first:
            describer.skip(record, stored)
        else:
            yield describer.apply(record, stored)[:2]


class LogFold(Protocol):
    """A fold of the log: `RecordedProjection`, or a fold with an observer."""

    def fold(self, event: Recorded, stored: Sequence[CommandRecord] | None) -> list[Issued]:
        """Fold the next event and return its commands."""

    def topic_name(self, id: str) -> str:
        """The name of a topic by its id in hex."""


class DescribedEvent(NamedTuple):
    """An event with its decisions, and the znodes that it shows to be written. `content` and
    `issued` are what the first two describe."""

    event: ListedEvent
    decisions: list[ListedDecision]
    written: list[str]
    content: Event
    issued: list[Issued]


class EventDescriber:
    """Describes the events of a recorded log, in order, while they are folded."""

    def __init__(
        self,
        log: RecordedLog,
        fold: LogFold,
        pending: Mapping[CommandId, Command] = MappingProxyType({}),
    ) -> None:
        """`pending` are the commands without an outcome before the next event."""
        self._log_fold = fold
        self.pending = dict(pending)
        self._reader = log.reader
        self._broker = log.configuration.broker_id
        self._last: tuple[int, Event] | None = None
        """The number and the content of the last event."""

    def skip(self, record: EventRecord, stored: list[CommandRecord]) -> None:
        """Fold an event without describing it."""
        event, _ = self._fold(record, stored)
        self._forget(event)
        self._last = (record.seq, event)

    def apply(self, record: EventRecord, stored: list[CommandRecord]) -> DescribedEvent:
        """Fold and describe the next event."""
        event, issued = self._fold(record, stored)
        asked = self._command_of(event)
        described = DescribedEvent(
            self._event(record, event, asked),
            [self._decision(record, one) for one in issued],
            _written_paths(event, asked),
            event,
            issued,
        )
        self._forget(event)
        self._last = (record.seq, event)
        return described

    def _fold(self, record: EventRecord, stored: list[CommandRecord]) -> tuple[Event, list[Issued]]:
        taken = decode_recorded(record)
        issued = self._log_fold.fold(taken, stored)
        for one in issued:
            self.pending[one.id] = one.command
        return taken.event, issued

    def _event_at(self, seq: int) -> Event | None:
        """An event, which is the last one if events are described one after another."""
        if self._last is not None and self._last[0] == seq:
            return self._last[1]
        wanted = EventFilter(first_seq=seq, last_seq=seq)
        return next((decode_recorded(one).event for one in self._reader.events(wanted)), None)

    def _reported_before(self, record: EventRecord, event: Event) -> int | None:
        """The event before this one, if both are watches of one transaction: ZooKeeper reports a
        created or deleted znode, then that the children of its parent have changed."""
        if not isinstance(event, WatchFired) or event.change != "children":
            return None
        before = self._event_at(record.seq - 1)
        if not isinstance(before, WatchFired) or before.change not in ("created", "deleted"):
            return None
        is_same = before.zxid == event.zxid and before.path.rpartition("/")[0] == event.path
        return record.seq - 1 if is_same else None

    def _command_of(self, event: Event) -> Command | None:
        """The command of which an event is the outcome. If the fold began after the command, it is
        read from the log, which has all but large ones."""
        if not isinstance(event, _ANSWERS):
            return None
        cause, ordinal = event.command
        if event.command not in self.pending:
            for one in self._reader.commands(cause, cause):
                if one.ordinal == ordinal and one.body is not None:
                    with suppress(msgspec.DecodeError):
                        self.pending[event.command] = decode_command(one.body)
        return self.pending.get(event.command)

    def _event(self, record: EventRecord, event: Event, command: Command | None) -> ListedEvent:
        text = event_in_words(event, self._log_fold.topic_name)
        subjects = list(subjects_of_event(event, self._log_fold.topic_name))
        if command is not None:
            text += f": {command_in_words(command)}"
            subjects += subjects_of_command(command)
        return listed_event(record, text, subjects, self._reported_before(record, event))

    def _forget(self, event: Event) -> None:
        """Forget a command after its last outcome; an outcome can have several parts."""
        if not isinstance(event, _ANSWERS):
            return
        asked = self.pending.get(event.command)
        if asked is None:
            return
        parts = paths_of_command(asked)
        if not isinstance(event, (ZnodesRead, ZnodesWritten)) or (
            event.offset + len(event.errors) >= len(parts)
        ):
            del self.pending[event.command]

    def _decision(self, record: EventRecord, issued: Issued) -> ListedDecision:
        return ListedDecision(
            record.seq,
            iso_time(record.wall_ns),
            issued.term,
            self._broker,
            kind_of(issued.command),
            command_name(issued.id),
            command_in_words(issued.command),
            issued.reason.rule,
            [leader_choice(one) for one in issued.reason.choices],
            tuple(dict.fromkeys(subjects_of_command(issued.command))),
        )


def _written_paths(event: Event, command: Command | None) -> list[str]:
    """The znodes that an event shows to be written, by the controller or by another process."""
    match event:
        case WatchFired(path=path):
            return [path]
        case ZnodesWritten(offset=offset, errors=errors) if isinstance(command, WRITES):
            paths = paths_of_command(command)[offset : offset + len(errors)]
            return [path for path, error in zip(paths, errors, strict=False) if not error]
    return []
