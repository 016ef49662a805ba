"""A shorter log of the same incident: from a session's beginning on, up to an event."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from controller.core.canonical import digest, encode_command
from controller.core.commands import CommandId, Issued
from controller.core.events import BrokerAnswered, Outcome, Recorded, SessionConnected
from controller.core.fold import Fold
from controller.event_log.records import command_record, event_record
from controller.fingerprint import code_version, core_fingerprint
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from eventstore.writer import LogWriter
from replay.errors import ReplayError
from replay.incidents.world_cutting import cut_world
from replay.logs.decode import configuration_of, records
from replay.logs.recorded_fold import fold_event

_WRITTEN_AT_ONCE: Final = 500


class Cut(Struct, frozen=True):
    """What was cut out: its first and last event in the log that it is of, and how many it has."""

    first: int
    last: int
    events: int


def cut(reader: LogReader, target: Path, first: int, last: int) -> Cut:
    """Write the events up to `last` to the new log `target`, from the last beginning of a session
    on from which event `first` is decided on as in the log; of an imported log from the last
    election on. Raises ReplayError, LogError."""
    if reader.header.kind != "recorded":
        return Cut(*cut_world(reader, target, first, last))
    if reader.header.first_seq != 1:
        raise ReplayError(
            f"{reader.path} begins with event {reader.header.first_seq}: what was before is only "
            "in a snapshot, which other versions cannot read"
        )
    for begin in _beginnings(reader, first):
        found = _cut(reader, begin, last)
        if found is not None:
            _write(reader, target, found)
            return Cut(begin, last, len(found))
    raise ReplayError(f"{reader.path} does not replay: `refold replay` shows where")


Decided = tuple[Recorded, list[Issued]]


def _beginnings(reader: LogReader, first: int) -> list[int]:
    """The events at which a session begins, the last one up to `first` in front; and the log's."""
    found = [
        event.seq
        for event, _ in records(reader)
        if event.seq <= first
        and isinstance(event.event, SessionConnected)
        and not event.event.renewed
    ]
    return [*(one for one in reversed(found) if one != 1), 1]


def _cut(reader: LogReader, begin: int, last: int) -> list[Decided] | None:
    """The events with other numbers, and what is decided on them; None where that is not what the
    log has: something from before the beginning counts."""
    fold = Fold(configuration_of(reader.header))
    numbers: dict[int, int] = {}
    found: list[Decided] = []
    for event, stored in _between(reader, begin, last):
        answered = _answered(event)
        if answered is not None and answered.cause not in numbers:
            # It answers what was asked before: nobody waits for it.
            if stored:
                return None
            continue
        number = numbers[event.seq] = len(found) + 1
        own = structs.replace(event, seq=number)
        if answered is not None:
            id = CommandId(numbers[answered.cause], answered.ordinal)
            own = structs.replace(own, event=structs.replace(event.event, command=id))
        issued = fold_event(fold, own)
        if not is_as_stored(issued, stored):
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


def _answered(event: Recorded) -> CommandId | None:
    return event.event.command if isinstance(event.event, (Outcome, BrokerAnswered)) else None


def is_as_stored(issued: list[Issued], stored: list[CommandRecord]) -> bool:
    """A log that was not closed may lack the last commands."""
    return len(stored) <= len(issued) and all(
        record.digest == digest(encode_command(one.command))
        for one, record in zip(issued, stored, strict=False)
    )


def _write(reader: LogReader, target: Path, decided: list[Decided]) -> None:
    header = structs.replace(
        reader.header,
        predecessor=None,
        core_fingerprint=core_fingerprint(),
        code_version=code_version(),
    )
    with LogWriter.create(target, header) as writer:
        for place in range(0, len(decided), _WRITTEN_AT_ONCE):
            some = decided[place : place + _WRITTEN_AT_ONCE]
            writer.append(
                [event_record(event) for event, _ in some],
                [command_record(one) for _, issued in some for one in issued],
            )
