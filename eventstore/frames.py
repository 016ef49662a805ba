"""The frames that transfer a log, and the receiver that restores a log from them.

A segment consists of its header, its commands and events as stored, with their chain values, and
its closing record if it has one. `stream` and `mirror` use these frames.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from eventstore import snapshots
from eventstore.errors import LogCorrupt, LogTooNew, from_os
from eventstore.records import FORMAT
from eventstore.restoring import RestoredSegment

EventRow = tuple[int, int, int, int, str, int, str, str, int | None, bytes, bytes]
CommandRow = tuple[int, int, int, str, str, bytes, bytes, bytes | None, bytes]
"""A stored record with its chain value at the end."""


class _Frame(Struct, frozen=True, array_like=True):
    """Base of the frames."""


class SegmentFrame(_Frame, frozen=True, tag="segment"):
    """Begins a segment. `format` comes first, so that a newer format is recognized."""

    format: int
    header: bytes


class EventsFrame(_Frame, frozen=True, tag="events"):
    """Rows of the events table."""

    rows: list[EventRow]


class CommandsFrame(_Frame, frozen=True, tag="commands"):
    """Rows of the commands table."""

    rows: list[CommandRow]


class ClosingFrame(_Frame, frozen=True, tag="closing"):
    """The closing record."""

    body: bytes


class SnapshotFrame(_Frame, frozen=True, tag="snapshot"):
    """A whole snapshot."""

    seq: int
    fingerprint: str
    body: bytes


class EndFrame(_Frame, frozen=True, tag="end"):
    """The end of a complete transfer."""


Frame = SegmentFrame | EventsFrame | CommandsFrame | ClosingFrame | SnapshotFrame | EndFrame
encode: Final = msgspec.msgpack.Encoder().encode
decode: Final = msgspec.msgpack.Decoder(Frame).decode
"""Raises msgspec.MsgspecError."""


class FrameReceiver:
    """Writes the frames of one log to a folder. Errors name `source`."""

    def __init__(self, folder: Path, source: str) -> None:
        self._folder = folder
        self._source = source
        self._segment: RestoredSegment | None = None

    def add(self, frame: Frame) -> None:
        """Store the content of the next frame."""
        match frame:
            case SegmentFrame():
                self._begin(frame)
            case EventsFrame(rows=rows):
                self._current().insert(events=rows)
            case CommandsFrame(rows=rows):
                self._current().insert(commands=rows)
            case ClosingFrame(body=body):
                self._current().end(body)
            case SnapshotFrame(seq=seq, fingerprint=fingerprint, body=body):
                snapshots.put_snapshot(self._folder, fingerprint, seq, body)

    def close(self) -> None:
        """Close the last segment."""
        if self._segment:
            self._segment.close()

    def _begin(self, frame: SegmentFrame) -> None:
        if frame.format > FORMAT:
            text = f"made by a newer refold (format {frame.format}, this one reads {FORMAT})"
            raise LogTooNew(self._source, text)
        self.close()
        self._segment = RestoredSegment(self._folder, frame.header, self._source)

    def _current(self) -> RestoredSegment:
        if self._segment is None:
            raise LogCorrupt(self._source, "has records before the first header")
        return self._segment


@contextmanager
def receiving(folder: Path, source: str) -> Iterator[FrameReceiver]:
    """Create a log in an empty folder. `verify` can then check its records.

    Errors in records or on disk inside the block are raised as LogCorrupt or LogFull.
    """
    receiver = FrameReceiver(folder, source)
    try:
        yield receiver
    except OSError as error:
        raise from_os(error, folder) from error
    finally:
        receiver.close()
