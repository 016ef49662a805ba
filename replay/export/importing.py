"""Makes a log of JSON lines, with the records and the checksum chain of the exported log."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from eventstore import folders, snapshots
from eventstore.errors import LogCorrupt, LogExists, LogTooNew, NotALog, from_os
from eventstore.records import Closing, CommandRecord, EventRecord, Tip
from eventstore.restoring import RestoredSegment
from replay.export.lines import (
    LAYOUT,
    ClosingLine,
    CommandLine,
    EndLine,
    EventLine,
    Line,
    SegmentLine,
    SnapshotLine,
    command_record,
    end_line,
    event_record,
    read_line,
)
from replay.progress import Progress, unreported

_BATCH: Final = 10_000
_BATCH_BYTES: Final = 8 << 20
_CHANGED: Final = "the records were changed after the export: export the log again"
_CUT: Final = 'is cut: its last line is not "end"; export the log again'


LINE_BYTES_MAX: Final = 1 << 30
"""A snapshot of a large cluster is the longest line."""


class LogSize(NamedTuple):
    """The size of the new log."""

    segments: int
    events: int
    commands: int


class _FirstLine(msgspec.Struct):
    """The fields by which the first line of an export is recognized, in any layout."""

    record: str
    layout: int


def import_lines(
    source: BinaryIO, name: str, folder: Path, progress: Progress = unreported
) -> LogSize:
    """Make a log in `folder` of the lines of `source`. Errors call the source `name`.

    Raises NotALog, LogTooNew, LogCorrupt if lines were cut or changed, LogExists, LogFull. After an
    error no log is left.
    """
    with _new_folder(folder):
        importing = _LogWriter(name, folder, progress)
        try:
            for number, text in enumerate(_lines_of(source, name), 1):
                importing.add(number, text)
            imported = importing.result()
        except EOFError:
            raise LogCorrupt(name, _CUT) from None
        except OSError as error:
            raise from_os(error, name) from error
        finally:
            importing.close()
        folders.sync_folder(folder)
        return imported


def _lines_of(source: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines. Raises LogCorrupt for one that would not fit into memory."""
    while text := source.readline(LINE_BYTES_MAX + 1):
        if len(text) > LINE_BYTES_MAX:
            raise LogCorrupt(name, "has an impossible length", "a line")
        yield text


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """Make a folder for a new log. After an error the folder is restored."""
    is_new = not folder.exists()
    folders.make_private(folder)
    if folders.segments_in(folder):
        raise LogExists(folder, "contains a log already: name another folder")
    try:
        yield
    except BaseException:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            for segment in folders.segments_in(folder):
                folders.discard(segment)
        raise


class _LogWriter:
    """Stores lines one after the other."""

    def __init__(self, name: str, folder: Path, progress: Progress) -> None:
        self._name = name
        self._folder = folder
        self._progress = progress
        self._segment: RestoredSegment | None = None
        self._events: list[EventRecord] = []
        self._commands: list[CommandRecord] = []
        self._bytes = 0
        self._number = 0
        self._ended = False
        self._count = LogSize(0, 0, 0)

    def add(self, number: int, text: bytes) -> None:
        """Store the record of a line."""
        self._number = number
        line = self._line(text)
        if self._ended:
            raise LogCorrupt(self._name, 'continues after "end"', self._place)
        try:
            self._store(line, len(text))
        except ValueError as error:
            raise LogCorrupt(self._name, f"cannot be read: {error}", self._place) from error

    def result(self) -> LogSize:
        """The size of the log. Raises LogCorrupt if lines are missing, NotALog if all are."""
        if not self._number:
            raise NotALog(self._name, "is empty: it was not made by `refold log export`")
        if not self._ended:
            raise LogCorrupt(self._name, _CUT)
        return self._count

    def close(self) -> None:
        """Close the last segment."""
        if self._segment:
            self._segment.close()

    @property
    def _place(self) -> str:
        return f"line {self._number}"

    def _line(self, text: bytes) -> Line:
        if self._number == 1:
            self._check_first(text)
        try:
            return read_line(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            what = "is cut or was changed" if not text.endswith(b"\n") else "cannot be read"
            raise LogCorrupt(self._name, f"{what}: {error}", self._place) from error

    def _check_first(self, text: bytes) -> None:
        try:
            first = msgspec.json.decode(text, type=_FirstLine)
        except (msgspec.DecodeError, UnicodeDecodeError):
            first = None
        if first is None or first.record != "segment":
            raise NotALog(self._name, "was not made by `refold log export`")
        if first.layout > LAYOUT:
            text_ = f"made by a newer refold (layout {first.layout}, this one reads {LAYOUT})"
            raise LogTooNew(self._name, f"{text_}: upgrade")

    def _store(self, line: Line, size: int) -> None:
        match line:
            case EventLine():
                self._events.append(event_record(line))
                self._progress("importing", self._count.events + len(self._events), None)
            case CommandLine():
                self._commands.append(command_record(line))
            case SegmentLine(header=header):
                self._begin(bytes(header))
            case SnapshotLine(seq=seq, fingerprint=fingerprint, state=state):
                snapshots.put_snapshot(self._folder, fingerprint, seq, state)
            case ClosingLine(closing=closing):
                self._close(bytes(closing))
            case EndLine():
                if end_line(self._tip()) != line:
                    raise LogCorrupt(self._name, _CHANGED, self._place)
                self._ended = True
        self._bytes += size
        if len(self._events) + len(self._commands) >= _BATCH or self._bytes >= _BATCH_BYTES:
            self._flush()

    def _begin(self, header: bytes) -> None:
        before = self._tip() if self._segment else None
        self.close()
        self._segment = RestoredSegment(self._folder, header, self._name)
        if before is not None and self._segment.header.predecessor != before:
            raise LogCorrupt(self._name, _CHANGED, self._place)
        self._count = self._count._replace(segments=self._count.segments + 1)

    def _close(self, body: bytes) -> None:
        tip = self._tip()
        if msgspec.json.decode(body, type=Closing).tip != tip:
            raise LogCorrupt(self._name, _CHANGED, self._place)
        self._current().end(body)

    def _tip(self) -> Tip:
        """Both checksum chains at the last line that was read."""
        self._flush()
        return self._current().tip

    def _flush(self) -> None:
        if self._events or self._commands:
            self._current().append(self._events, self._commands)
        segments, events, commands = self._count
        self._count = LogSize(segments, events + len(self._events), commands + len(self._commands))
        self._events, self._commands, self._bytes = [], [], 0

    def _current(self) -> RestoredSegment:
        if self._segment is None:
            raise LogCorrupt(self._name, "has records before its first segment", self._place)
        return self._segment
