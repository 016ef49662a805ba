"""A log as a stream of bytes, for pipes: `refold log copy LOG - | ssh host refold log show -`.

The magic, then frames: four bytes of length, big-endian, and a msgpack value. Each segment is its
header, its commands and events as they are stored, with their chain values, and its closing
record if it has one; then come the snapshots, and an end, so that a cut stream is noticed.
"""

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct
from sqlite_utils import Database

from eventstore import folders, schema, snapshots
from eventstore.chain import Row
from eventstore.errors import LogCorrupt, LogNotFound, LogTooNew, NotALog, from_os, from_sqlite
from eventstore.records import FORMAT, Header
from eventstore.segment import open_segment

_MAGIC = b"refold log stream\n"
_FRAME_BYTES_MAX = 1 << 30


class _Frame(Struct, frozen=True, array_like=True):
    """Base of the frames."""


class _Segment(_Frame, frozen=True, tag="segment"):
    """A segment begins. `format` comes first, so that a newer one is recognised."""

    format: int
    header: bytes


class _Events(_Frame, frozen=True, tag="events"):
    """Rows of the table of events."""

    rows: list[tuple[int, int, int, int, str, int, str, str, int | None, bytes, bytes]]


class _Commands(_Frame, frozen=True, tag="commands"):
    """Rows of the table of commands."""

    rows: list[tuple[int, int, int, str, str, bytes, bytes, bytes | None, bytes]]


class _Closing(_Frame, frozen=True, tag="closing"):
    """The closing record."""

    body: bytes


class _Snapshot(_Frame, frozen=True, tag="snapshot"):
    """A snapshot, whole."""

    seq: int
    fingerprint: str
    body: bytes


class _End(_Frame, frozen=True, tag="end"):
    """Nothing is missing."""


_ANY_FRAME = _Segment | _Events | _Commands | _Closing | _Snapshot | _End
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_ANY_FRAME).decode


def send(path: Path, out: BinaryIO) -> None:
    """Write the log at `path`, a folder or a segment, to `out` as it is now.

    Raises what reading raises, and OSError when `out` cannot be written.
    """
    out.write(_MAGIC)
    for segment in folders.segments_of(path):
        for frame in _segment_frames(segment):
            _write(out, frame)
    if path.is_dir():
        for name in snapshots.names_in(path):
            body = snapshots.read_snapshot(name)
            _write(out, _Snapshot(name.seq, name.fingerprint, body))
    _write(out, _End())
    out.flush()


def receive(source: BinaryIO, folder: Path) -> None:
    """Make a log in an empty folder of what `source` brings. `verify` then checks its records.

    Raises LogCorrupt for a stream that is cut or changed, NotALog, LogTooNew, LogFull.
    """
    if source.read(len(_MAGIC)) != _MAGIC:
        raise NotALog("the stream", "is not made by `refold log copy LOG -`")
    receiver = _Receiver(folder)
    try:
        for frame in _frames(source):
            receiver.take(frame)
    except sqlite3.IntegrityError as error:
        raise LogCorrupt("the stream", f"a record is there twice ({error})") from error
    except sqlite3.Error as error:
        raise from_sqlite(error, folder) from error
    except OSError as error:
        raise from_os(error, folder) from error
    finally:
        receiver.close()


def standard_input() -> BinaryIO:
    """Where a stream comes from when the log is "-". Raises LogNotFound where it is closed."""
    if sys.stdin is None:
        raise LogNotFound("standard input", "is closed: pipe `refold log copy LOG -` into it")
    return sys.stdin.buffer


def _segment_frames(path: Path) -> Iterator[_ANY_FRAME]:
    with open_segment(path) as segment:
        yield _Segment(segment.header.format, segment.header_body)
        # In this order it is consistent while the log grows: nothing comes after a closing record,
        # and a command is stored after the event that caused it.
        closing = segment.closing
        for rows in segment.command_rows():
            yield _Commands(rows)  # type: ignore[arg-type]
        for rows in segment.event_rows():
            yield _Events(rows)  # type: ignore[arg-type]
        if closing:
            yield _Closing(schema.document(closing))


def _write(out: BinaryIO, frame: _ANY_FRAME) -> None:
    body = _encode(frame)
    out.write(len(body).to_bytes(4, "big") + body)


def _frames(source: BinaryIO) -> Iterator[_ANY_FRAME]:
    """The frames before the end."""
    number = 0
    while True:
        number += 1
        size = int.from_bytes(_read(source, 4, number), "big")
        if size > _FRAME_BYTES_MAX:
            raise LogCorrupt("the stream", "has an impossible length", f"frame {number}")
        try:
            frame = _decode(_read(source, size, number))
        except msgspec.MsgspecError as error:
            raise LogCorrupt("the stream", f"cannot be read: {error}", f"frame {number}") from None
        if isinstance(frame, _End):
            return
        yield frame


def _read(source: BinaryIO, size: int, number: int) -> bytes:
    content = source.read(size)
    if len(content) != size:
        raise LogCorrupt("the stream", "is cut: copy it again", f"frame {number}")
    return content


class _Receiver:
    """Writes the segments of a stream into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._database: Database | None = None

    def take(self, frame: _ANY_FRAME) -> None:
        """Store what a frame holds."""
        match frame:
            case _Segment():
                self._begin(frame)
            case _Events(rows=rows):
                self._insert(schema.INSERT_EVENT, rows)
            case _Commands(rows=rows):
                self._insert(schema.INSERT_COMMAND, rows)
            case _Closing(body=body):
                schema.store_closing(self._current(), body)
            case _Snapshot(seq=seq, fingerprint=fingerprint, body=body):
                snapshots.put_snapshot(self._folder, fingerprint, seq, body)

    def close(self) -> None:
        """Let go of the segment that was written last."""
        if self._database:
            self._database.close()

    def _begin(self, frame: _Segment) -> None:
        if frame.format > FORMAT:
            text = f"made by a newer refold (format {frame.format}, this one reads {FORMAT})"
            raise LogTooNew("the stream", text)
        try:
            header = msgspec.json.decode(frame.header, type=Header)
        except msgspec.DecodeError as error:
            raise LogCorrupt("the stream", f"cannot be read: {error}", "header") from error
        self.close()
        path = folders.segment_path(self._folder, header.first_seq)
        if path.exists():
            raise LogCorrupt("the stream", "has a segment twice", f"event {header.first_seq}")
        schema.create(path, frame.header)
        self._database = schema.connect(path, busy_ms=0)

    def _insert(self, statement: str, rows: Sequence[Row]) -> None:
        database = self._current()
        with database.atomic():
            database.conn.executemany(statement, rows)

    def _current(self) -> Database:
        if self._database is None:
            raise LogCorrupt("the stream", "has records before the first header")
        return self._database
