"""Writes a log as JSON lines, record by record. The daemon may be writing the log."""

from collections.abc import Iterator
from itertools import chain as joined
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Raw

from eventstore import chain, folders, schema, snapshots
from eventstore.chain import Row
from eventstore.errors import PUT_A_COPY, LogCorrupt
from eventstore.records import CommandRecord, EventRecord, Tip
from eventstore.segment import Segment, open_segment
from replay.export.lines import (
    LAYOUT,
    ClosingLine,
    Line,
    SegmentLine,
    SnapshotLine,
    command_line,
    end_line,
    event_line,
    line_bytes,
)
from replay.progress import Progress, unreported


def export_log(path: Path, out: BinaryIO, progress: Progress = unreported) -> int:
    """Write the current content of the log at `path`, a folder or a segment, and check its checksum
    chain. Return the number of events.

    Raises LogCorrupt and other LogErrors, OSError if `out` cannot be written.
    """
    events = 0
    for line, seq in _lines(path):
        out.write(line_bytes(line))
        if seq is not None:
            events += 1
            progress("exporting", events, None)
    out.flush()
    return events


def _lines(path: Path) -> Iterator[tuple[Line, int | None]]:
    """The lines of a log. The lines of events have the number of the event."""
    tip: Tip | None = None
    for position, segment_path in enumerate(folders.segments_of(path)):
        with open_segment(segment_path) as segment:
            yield SegmentLine(LAYOUT, Raw(segment.header_body)), None
            if not position:
                for line in _snapshots_at_start(path, segment.header.first_seq - 1):
                    yield line, None
            exported = _SegmentExport(segment)
            yield from exported.lines()
            tip = exported.tip
    assert tip is not None, "a log has a segment"
    yield end_line(tip), None


def _snapshots_at_start(path: Path, seq: int) -> Iterator[SnapshotLine]:
    if not seq or not path.is_dir():
        return
    for name in snapshots.names_in(path):
        if name.seq == seq:
            yield SnapshotLine(seq, name.fingerprint, snapshots.read_snapshot(name))


class _SegmentExport:
    """A segment that is being exported, up to `tip`."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        # This order is consistent while the log grows: no record follows a closing record, and a
        # command is stored after the event that caused it.
        self._closing = segment.closing
        [(self._commands,)] = segment.query("select count(*) from commands")
        [(self._events,)] = segment.query("select count(*) from events")
        self._tip = chain.start(segment.header, segment.header_body)
        self._chains = {"event": self._tip.event_chain, "command": self._tip.command_chain}
        self._last_seq = self._tip.last_seq

    @property
    def tip(self) -> Tip:
        """Both chains at the last record."""
        return Tip(
            self._last_seq,
            self._tip.commands + self._commands,
            self._chains["event"],
            self._chains["command"],
        )

    def lines(self) -> Iterator[tuple[Line, int | None]]:
        """Each event before its commands. Commands of events in earlier segments come first."""
        commands = self._commands_in_order()
        command = next(commands, None)
        for event in self._events_in_order():
            while command and command.cause < event.seq:
                yield command_line(command), None
                command = next(commands, None)
            yield event_line(event), event.seq
            self._last_seq = event.seq
        while command:
            yield command_line(command), None
            command = next(commands, None)
        if self._closing:
            yield ClosingLine(Raw(schema.document(self._closing))), None

    def _events_in_order(self) -> Iterator[EventRecord]:
        for row in islice(joined.from_iterable(self._segment.event_rows()), self._events):
            self._follow("event", row)
            yield EventRecord._make(row[:-1])

    def _commands_in_order(self) -> Iterator[CommandRecord]:
        for row in islice(joined.from_iterable(self._segment.command_rows()), self._commands):
            self._follow("command", row)
            yield CommandRecord._make(row[:-1])

    def _follow(self, which: str, row: Row) -> None:
        """Continue the chain. Raises LogCorrupt if the row is not the next one."""
        chained: Any = row[-1]
        if chain.link(self._chains[which], row[:-1]) != chained:
            # The first field of an event is its number, that of a command the number of its event.
            text = f"this record or the one before it was changed, moved or inserted: {PUT_A_COPY}"
            raise LogCorrupt(self._segment.path, text, f"{which} {row[0]}")
        self._chains[which] = chained
