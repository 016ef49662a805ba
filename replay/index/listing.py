"""The events and decisions of a log that a question selects, found with the index.

Only events that may match are described. The caller checks each of them again.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, groupby
from operator import and_, attrgetter
from typing import Final

from msgspec import Struct

from controller.core.canonical import decode_command, decode_reason
from controller.core.commands import Command, CommandId, Issued
from controller.core.events import Recorded
from eventstore.records import CommandRecord, EventRecord
from replay.index.postings import DECISION, RULE
from replay.index.store import EventIndex
from replay.listing.imported import CLASSIFIED_WITHIN, RecordDescriber
from replay.listing.recorded import EventDescriber
from replay.listing.values import STEPS, ListedDecision, ListedEvent, ListedItem
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.progress import Progress
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.reading import ImportedLog

_AT_ONCE: Final = 500


class IndexSelection(Struct, frozen=True):
    """Selects items: those about all of the subjects, of one of the kinds, and of a term.
    None and () accept everything."""

    subjects: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    term: int | None = None

    def selects(self, one: ListedItem) -> bool:
        """Whether an item is selected."""
        return (
            all(each in one.subjects for each in self.subjects)
            and self.term in (None, one.term)
            and (not self.kinds or one.kind in self.kinds)
        )

    def keys(self, what: str) -> list[list[str]]:
        """The keys of postings; an item is in at least one of each list."""
        found = [[f"{what} {one}"] for one in self.subjects]
        if self.kinds:
            found.append([f"{what} kind {one}" for one in self.kinds])
        if self.term is not None:
            found.append([f"{what} term {self.term}"])
        return found


def events(
    log: OpenedLog,
    index: EventIndex,
    wanted: IndexSelection,
    first: int,
    last: int,
    progress: Progress,
) -> Iterator[ListedEvent]:
    """The events of a range that may match. Raises LogError."""
    numbers = _in_range(event_numbers(index, wanted), first, last)
    if isinstance(log, ImportedLog):
        return _imported_events(log, numbers, progress)
    return (event for event, _ in _described_events(log, index, numbers, progress))


def decisions(
    log: OpenedLog,
    index: EventIndex,
    wanted: IndexSelection,
    first: int,
    last: int,
    progress: Progress,
    *,
    rule: str | None,
    with_steps: bool,
) -> Iterator[ListedDecision]:
    """The decisions of the events of a range that may match: their rule contains a text, and they
    are no steps. Raises LogError."""
    found = decision_numbers(index, wanted, rule=rule, with_steps=with_steps)
    numbers = _in_range(found, first, last)
    if isinstance(log, ImportedLog):
        return (one.listed for some in _batched(numbers) for one in index.decisions(some))
    return chain.from_iterable(
        found for _, found in _described_events(log, index, numbers, progress)
    )


def event_numbers(index: EventIndex, wanted: IndexSelection) -> set[int]:
    """The events that may match. Raises LogError."""
    return _matching_numbers(index, wanted.keys("event"))


def decision_numbers(
    index: EventIndex, wanted: IndexSelection, *, rule: str | None = None, with_steps: bool = False
) -> set[int]:
    """The events with a decision that may match, as for `decisions`. Raises LogError."""
    keys = wanted.keys("decision")
    if rule is not None:
        keys.append(index.keys_with(RULE, rule))
    if not with_steps and not wanted.kinds:
        kinds = index.keys(_KIND)
        keys.append([one for one in kinds if one.removeprefix(_KIND) not in STEPS])
    return _matching_numbers(index, keys)


_KIND: Final = f"{DECISION}kind "


def _matching_numbers(index: EventIndex, keys: list[list[str]]) -> set[int]:
    """The events that are in a posting of each list."""
    sets = (set(chain.from_iterable(map(index.numbers, one))) for one in keys)
    return reduce(and_, sets)


def _in_range(numbers: Iterable[int], first: int, last: int) -> list[int]:
    return sorted(one for one in numbers if first <= one <= last)


class _StoredDecisions:
    """In place of a fold: the commands of an event are those of the log and of the index."""

    def __init__(self, index: EventIndex) -> None:
        self._index = index
        self._seq = 0
        self.derived: dict[int, list[Issued]] = {}

    def fold(self, event: Recorded, stored: Sequence[CommandRecord] | None) -> list[Issued]:
        """The commands of an event."""
        self._seq = event.seq
        return self.derived.get(event.seq, [])

    def topic_name(self, id: str) -> str:
        """The name of a topic at the event."""
        return self._index.topic_name(id, self._seq)


def _described_events(
    log: RecordedLog, index: EventIndex, numbers: list[int], progress: Progress
) -> Iterator[tuple[ListedEvent, list[ListedDecision]]]:
    decided = _StoredDecisions(index)
    describer = EventDescriber(log, decided)
    for place, some in enumerate(_batched(numbers)):
        records = list(log.reader.events_numbered(some))
        causes = {one.seq for one in records} | {one.cause for one in records if one.cause}
        decided.derived = _commands(log, index, sorted(causes))
        describer.pending = _by_id(decided.derived, records)
        for record in records:
            yield describer.apply(record, [])[:2]
        progress("reading", place * _AT_ONCE, len(numbers))


def _imported_events(
    log: ImportedLog, numbers: list[int], progress: Progress
) -> Iterator[ListedEvent]:
    describe = RecordDescriber(log.begun.chroot)
    for place, some in enumerate(_batched(numbers)):
        wanted = set(some)
        before = {one - back for one in some for back in range(1, CLASSIFIED_WITHIN + 1)}
        for record in log.reader.events_numbered(sorted(wanted | before)):
            event = event_of(record)
            if record.seq in wanted:
                yield describe(record, event)
            else:
                describe.skip(event)
        progress("reading", place * _AT_ONCE, len(numbers))


def _batched(numbers: list[int]) -> Iterator[list[int]]:
    for place in range(0, len(numbers), _AT_ONCE):
        yield numbers[place : place + _AT_ONCE]


def _by_id(
    commands: dict[int, list[Issued]], records: Iterable[EventRecord]
) -> dict[CommandId, Command]:
    """The commands that these events can be outcomes of."""
    causes = {one.cause for one in records if one.cause}
    return {one.id: one.command for cause in causes for one in commands.get(cause, ())}


def _commands(log: RecordedLog, index: EventIndex, causes: list[int]) -> dict[int, list[Issued]]:
    """The commands of these events as they were derived, by event."""
    found = {one.id: one for one in index.commands(causes)}
    for record in log.reader.commands_caused_by(causes):
        id = CommandId(record.cause, record.ordinal)
        if id not in found and record.body is not None:
            reason, command = decode_reason(record.reason), decode_command(record.body)
            found[id] = Issued(id, record.term, command, reason)
    ordered = sorted(found.values(), key=attrgetter("id"))
    return {cause: list(some) for cause, some in groupby(ordered, lambda one: one.id.cause)}
