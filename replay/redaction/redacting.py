"""Writes a log with other names. For a recorded log, all decisions are derived and compared."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from controller.core.canonical import kind_of
from controller.core.commands import (
    Command,
    CommandId,
    Issued,
    Notice,
    ReadChildren,
    ReadStats,
    ReadZnodes,
)
from controller.core.events import ChildrenRead, Outcome, Recorded, ZnodesRead
from controller.core.fold import Fold
from controller.event_log.records import command_record, event_record
from controller.fingerprint import code_version, core_fingerprint
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord, Header
from eventstore.writer import LogWriter
from replay.errors import ReplayError
from replay.logs.decode import configuration_of, records
from replay.logs.other_core import is_same_decision
from replay.logs.recorded_fold import fold_events
from replay.progress import Progress
from replay.redaction import fields
from replay.redaction.names import Names, StandIns
from replay.redaction.vocabulary import WORDS
from replay.stock_clusters.imported_log.encoding import encode_event, event_of
from replay.stock_clusters.imported_log.events import ImportBegun

_WRITTEN_AT_ONCE: Final = 500
_TEXT_FIELDS: Final = ("message", "text", "subject", "reason")


def collect_names(reader: LogReader, names: Names) -> None:
    """Add the names in a log to `names`. Raises ReplayError if the log cannot be redacted."""
    if reader.header.first_seq != 1:
        raise ReplayError(
            f"{reader.path} begins with event {reader.header.first_seq}: the state before it is "
            "only in a snapshot, which cannot be redacted. `refold new-incident` cuts logs"
        )
    is_recorded = reader.header.kind == "recorded"
    _header(names, reader.header)
    for _ in _recorded_events(reader, names) if is_recorded else _imported_records(reader, names):
        pass


def write_redacted(
    reader: LogReader, target: Path, stand_ins: StandIns, progress: Progress
) -> None:
    """Write the redacted log to the new folder `target`. `stand_ins` are those of the names that
    `collect_names` found, also in other logs. The same log and stand-ins lead to the same records:
    the closing record has the time of the original one, or of the last event.

    Raises ReplayError if a decision would differ or a name would remain, and LogError.
    """
    header = _header(stand_ins, reader.header)
    with LogWriter.create(target, header) as writer:
        if reader.header.kind == "recorded":
            written = _derived_records(reader, stand_ins, header)
        else:
            written = ((one, []) for one in _imported_records(reader, stand_ins))
        last_ns = _write(writer, stand_ins, written, reader.last_seq, progress)
        closing = reader.closing
        writer.close(closing.closed_ns if closing is not None else last_ns or header.created_ns)


def _write(
    writer: LogWriter,
    names: StandIns,
    records: Iterable[tuple[EventRecord, list[CommandRecord]]],
    last: int,
    progress: Progress,
) -> int:
    """Write many records at once, because each append is synced to disk. Returns the time of the
    last event; 0 if there is none."""
    last_ns = 0
    coming = iter(records)
    while some := list(islice(coming, _WRITTEN_AT_ONCE)):
        for event, _ in some:
            _require_no_name(names, event)
            progress("redacting", event.seq, last)
            last_ns = event.wall_ns
        writer.append(
            [event for event, _ in some], [one for _, commands in some for one in commands]
        )
    return last_ns


def _header(names: Names, header: Header) -> Header:
    if header.kind != "recorded":
        return header
    configuration = fields.value(names, configuration_of(header))
    settings = {
        key: names.stand_in_of("value", one) for key, one in configuration.broker_settings.items()
    }
    configuration = structs.replace(configuration, broker_settings=settings)
    return structs.replace(
        header,
        configuration=msgspec.to_builtins(configuration),
        core_fingerprint=core_fingerprint(),
        code_version=code_version(),
    )


# A recorded log -----------------------------------------------------------------------------------


def _recorded_events(reader: LogReader, names: Names) -> Iterator[tuple[Recorded, list[Issued]]]:
    """The events with their new names, each with the commands that were decided for the original
    event."""
    fold = Fold(configuration_of(reader.header))
    asked: dict[CommandId, Command] = {}
    for event, issued, stored in fold_events(fold, records(reader)):
        _require_stored(event, issued, stored)
        yield structs.replace(event, event=_event(names, event, asked)), issued
        for one in issued:
            if isinstance(one.command, (ReadZnodes, ReadStats, ReadChildren)):
                asked[one.id] = one.command


def _event(names: Names, recorded: Recorded, asked: Mapping[CommandId, Command]) -> Any:
    event = recorded.event
    command = asked.get(event.command) if isinstance(event, Outcome) else None
    match event, command:
        case ZnodesRead(), ReadZnodes(paths=paths) | ReadStats(paths=paths):
            for path in paths:
                fields.value(names, path, "path")
            return fields.znodes_read(names, event, paths)
        case ChildrenRead(), ReadChildren(path=path):
            return fields.children_read(names, event, path)
        case _:
            return fields.value(names, event)


def _require_stored(event: Recorded, issued: list[Issued], stored: list[CommandRecord]) -> None:
    """Compare the stored commands of an event with the derived ones. The text of a notice is not
    compared: another core may have written it, and redaction replaces the names in it. Raises
    ReplayError."""
    for one, record in zip(issued, stored, strict=False):
        if not is_same_decision(record, one):
            raise ReplayError(
                f"event {event.seq}: the recorded {record.kind} differs from the one that is "
                "decided now; `refold replay` shows all differences. Only a log that replays can "
                "be redacted"
            )


def _derived_records(
    reader: LogReader, names: StandIns, header: Header
) -> Iterator[tuple[EventRecord, list[CommandRecord]]]:
    """The records of the new log. Its decisions must equal the original ones."""
    fold = Fold(configuration_of(header))
    stored = {event.seq: len(commands) for event, commands in reader.records()}
    for event, after, before in fold_events(fold, _recorded_events(reader, names)):
        _require_same(names, event, before, after)
        yield event_record(event), [command_record(one) for one in after[: stored[event.seq]]]


def _require_same(
    names: StandIns, event: Recorded, before: list[Issued], after: list[Issued]
) -> None:
    """Check that the decisions under the new names are the same. Raises ReplayError."""
    for one, other in zip(before, after, strict=False):
        if _without_texts(fields.value(names, one.command)) != _without_texts(other.command):
            raise ReplayError(
                f"event {event.seq} ({kind_of(event.event)}): {kind_of(one.command)} would differ "
                "under other names: this log cannot be redacted"
            )
    if len(before) != len(after):
        raise ReplayError(
            f"event {event.seq} ({kind_of(event.event)}): {len(before)} commands would be "
            f"{len(after)} under other names: this log cannot be redacted"
        )


def _without_texts(command: Command) -> Any:
    """A command without its texts, in which names can have any form."""
    if isinstance(command, Notice):
        return command.code
    return _without_text_fields(command)


def _without_text_fields(found: Any) -> Any:
    if isinstance(found, Struct):
        kept = [one for one in found.__struct_fields__ if one not in _TEXT_FIELDS]
        return {one: _without_text_fields(getattr(found, one)) for one in kept}
    if isinstance(found, (list, tuple)):
        return [_without_text_fields(one) for one in found]
    return found


# An imported log ----------------------------------------------------------------------------------


def _imported_records(reader: LogReader, names: Names) -> Iterator[EventRecord]:
    for record, _ in reader.records():
        event = event_of(record)
        if isinstance(event, ImportBegun):
            names.chroot = event.chroot
        event = fields.value(names, event)
        yield record._replace(payload=encode_event(event), channel=names.text(record.channel))


# No name remains ----------------------------------------------------------------------------------


def _require_no_name(names: StandIns, record: EventRecord) -> None:
    """Check that no name remains in an event. Raises ReplayError."""
    for text in _texts(msgspec.msgpack.decode(record.payload, strict=False)):
        for name in names.remaining_names(text):
            if name in WORDS:
                continue
            raise ReplayError(
                f"event {record.seq} ({record.kind}): the name {name!r} would remain in a place "
                "where no name is expected: this log cannot be redacted. Cut it before this "
                f"event: refold new-incident LOG --to {record.seq - 1} --redact"
            )


def _texts(found: Any) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, bytes):
        yield found.decode("utf-8", "replace")
    elif isinstance(found, list):
        for one in found:
            yield from _texts(one)
    elif isinstance(found, dict):
        yield from _texts([*found, *found.values()])
