"""The events and decisions of a recorded log, folded again from the last snapshot before them."""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from controller.core.canonical import kind_of
from controller.core.commands import CommandId, Issued
from controller.core.events import (
    BrokerResponded,
    ChildrenRead,
    Event,
    NumbersDrawn,
    Recorded,
    TopicIdsDrawn,
    ZnodesRead,
    ZnodesWritten,
)
from eventstore.filters import EventFilter
from eventstore.records import CommandRecord, EventRecord
from replay.description.choices import chosen
from replay.description.commands import command_in_words
from replay.description.events import event_in_words
from replay.inspect.at import projection_before
from replay.inspect.projections import RecordedProjection
from replay.listing.values import ListedDecision, ListedEvent, listed_event
from replay.logs.decode import recorded
from replay.logs.open_log import RecordedLog
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


def listed(
    log: RecordedLog, first: int, last: int, progress: Progress
) -> Iterator[tuple[ListedEvent, list[ListedDecision]]]:
    """Each event of a range with its decisions. Raises ReplayError, LogError."""
    folding = projection_before(log, first)
    assert isinstance(folding, RecordedProjection), "the log is a recorded one"
    listing = RecordedListing(folding, log.configuration.broker_id)
    wanted = EventFilter(first_seq=folding.seq + 1, last_seq=last)
    for record, stored in log.reader.records(wanted):
        progress("folding", record.seq, last)
        event, issued = listing.take(record, stored)
        if record.seq >= first:
            yield listing.event(record, event), [listing.decision(record, one) for one in issued]
        listing.forget(event)


class Folding(Protocol):
    """A fold of the log: `RecordedProjection`, or a fold with an observer."""

    def fold(self, event: Recorded, stored: Sequence[CommandRecord] | None) -> list[Issued]:
        """Fold the next event and return its commands."""

    def topic_name(self, id: str) -> str:
        """The name of a topic by its id in hex."""


class RecordedListing:
    """Describes the events and decisions of a log while it is folded, event by event: first `take`,
    then `event` and `decision`, then `forget`."""

    def __init__(self, folding: Folding, broker: int) -> None:
        self._folding = folding
        self._broker = broker
        self._pending: dict[CommandId, Issued] = {}

    def take(self, record: EventRecord, stored: list[CommandRecord]) -> tuple[Event, list[Issued]]:
        """Fold the next event."""
        taken = recorded(record)
        issued = self._folding.fold(taken, stored)
        for one in issued:
            self._pending[one.id] = one
        return taken.event, issued

    def event(self, record: EventRecord, event: Event) -> ListedEvent:
        """The event that was just folded, as an item."""
        text = event_in_words(event, self._folding.topic_name)
        subjects = list(subjects_of_event(event, self._folding.topic_name))
        asked = self._pending.get(event.command) if isinstance(event, _ANSWERS) else None
        if asked is not None:
            text += f": {command_in_words(asked.command)}"
            subjects += subjects_of_command(asked.command)
        return listed_event(record, text, subjects)

    def forget(self, event: Event) -> None:
        """Forget a command after its last outcome; an outcome can have several parts."""
        if not isinstance(event, _ANSWERS):
            return
        asked = self._pending.get(event.command)
        if asked is None:
            return
        parts = paths_of_command(asked.command)
        if not isinstance(event, (ZnodesRead, ZnodesWritten)) or (
            event.offset + len(event.errors) >= len(parts)
        ):
            del self._pending[event.command]

    def decision(self, record: EventRecord, issued: Issued) -> ListedDecision:
        """A command of the event, as an item."""
        return ListedDecision(
            record.seq,
            iso_time(record.wall_ns),
            issued.term,
            self._broker,
            kind_of(issued.command),
            f"{issued.id.cause}.{issued.id.ordinal}",
            command_in_words(issued.command),
            issued.reason.rule,
            [chosen(one) for one in issued.reason.choices],
            tuple(dict.fromkeys(subjects_of_command(issued.command))),
        )
