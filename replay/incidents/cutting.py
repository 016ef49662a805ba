"""Cuts a log to an incident: from the beginning of a session to an event."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from controller.core.commands import CommandId, Issued
from controller.core.events import BrokerResponded, Outcome, Recorded, SessionConnected
from controller.core.fold import Fold
from controller.event_log.records import command_record, event_record
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from eventstore.writer import LogWriter
from replay.errors import ReplayError
from replay.incidents.imported_cutting import cut_imported
from replay.logs.decode import configuration_of, records
from replay.logs.other_core import header_of_rewritten_log, is_same_decision
from replay.logs.recorded_fold import fold_event

_WRITTEN_AT_ONCE: Final = 500


class CutLog(Struct, frozen=True):
    """The cut part: its first and last event in the original log, and its number of events."""

    first: int
    last: int
    events: int


def cut_log(reader: LogReader, target: Path, first: int, last: int) -> CutLog:
    """Write the events up to `last` to the new log `target`.

    A recorded log is cut at the last session before event `first` from which the decisions are the
    same as in the whole log, an imported log at the last election. Raises ReplayError, LogError.
    """
    if reader.header.kind != "recorded":
        return CutLog(*cut_imported(reader, target, first, last))
    if reader.header.first_seq != 1:
        raise ReplayError(
            f"{reader.path} begins with event {reader.header.first_seq}: the earlier state is only "
            "in a snapshot, which other versions cannot read"
        )
    for begin in _beginnings(reader, first):
        found = _renumbered_events(reader, begin, last)
        if found is not None:
            _write(reader, target, found)
            return CutLog(begin, last, len(found))
    raise ReplayError(f"{reader.path} does not replay: `refold replay` shows where")


Decided = tuple[Recorded, list[Issued]]


def _beginnings(reader: LogReader, first: int) -> list[int]:
    """The events up to `first` at which a session begins, the last one first, and event 1."""
    found = [
        event.seq
        for event, _ in records(reader)
        if event.seq <= first
        and isinstance(event.event, SessionConnected)
        and not event.event.renewed
    ]
    return [*(one for one in reversed(found) if one != 1), 1]


def _renumbered_events(reader: LogReader, begin: int, last: int) -> list[Decided] | None:
    """The renumbered events with their decisions; None if the decisions differ from the log's,
    because they depend on earlier events."""
    fold = Fold(configuration_of(reader.header))
    numbers: dict[int, int] = {}
    found: list[Decided] = []
    for event, stored in _between(reader, begin, last):
        answered = _answered_command(event)
        if answered is not None and answered.cause not in numbers:
            # The outcome of a command from before the cut.
            if stored:
                return None
            continue
        number = numbers[event.seq] = len(found) + 1
        own = structs.replace(event, seq=number)
        if answered is not None:
            id = CommandId(numbers[answered.cause], answered.ordinal)
            own = structs.replace(own, event=structs.replace(event.event, command=id))
        issued = fold_event(fold, own)
        if not are_same_decisions(issued, stored):
            return None
        found.append((own, issued))
    return found


def _between(
    reader: LogReader, begin: int, last: int
) -> Iterator[tuple[Recorded, list[CommandRecord]]]:
    for event, stored in records(reader):
        if event.seq > last:
            return
        if event.seq >= begin:
            yield event, stored


def _answered_command(event: Recorded) -> CommandId | None:
    return event.event.command if isinstance(event.event, (Outcome, BrokerResponded)) else None


def are_same_decisions(issued: list[Issued], stored: list[CommandRecord]) -> bool:
    """Whether the stored commands were issued. A log that was not closed may lack the last ones."""
    return len(stored) <= len(issued) and all(map(is_same_decision, stored, issued))


def _write(reader: LogReader, target: Path, decided: list[Decided]) -> None:
    with LogWriter.create(target, header_of_rewritten_log(reader.header)) as writer:
        for place in range(0, len(decided), _WRITTEN_AT_ONCE):
            some = decided[place : place + _WRITTEN_AT_ONCE]
            writer.append(
                [event_record(event) for event, _ in some],
                [command_record(one) for _, issued in some for one in issued],
            )
