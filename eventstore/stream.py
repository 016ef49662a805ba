"""A log as a stream of bytes, for pipes: `refold log copy LOG - | ssh host refold log show -`.

The stream consists of a magic and frames: four bytes of length, big-endian, and a msgpack value.
The segments come in order, followed by the snapshots and an end frame, so that a truncated stream
is detected.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from eventstore import folders, schema, snapshots
from eventstore.errors import LogCorrupt, LogNotFound, NotALog
from eventstore.frames import (
    ClosingFrame,
    CommandsFrame,
    EndFrame,
    EventsFrame,
    Frame,
    SegmentFrame,
    SnapshotFrame,
    decode,
    encode,
    receiving,
)
from eventstore.segment import open_segment

_MAGIC = b"refold log stream\n"
_FRAME_BYTES_MAX = 1 << 30


def send(path: Path, out: BinaryIO) -> None:
    """Write the log at `path`, a folder or a segment, to `out` in its current state.

    Raises the errors of reading, and OSError if `out` cannot be written.
    """
    out.write(_MAGIC)
    for segment in folders.segments_of(path):
        for frame in _segment_frames(segment):
            _write(out, frame)
    if path.is_dir():
        for name in snapshots.names_in(path):
            body = snapshots.read_snapshot(name)
            _write(out, SnapshotFrame(name.seq, name.fingerprint, body))
    _write(out, EndFrame())
    out.flush()


def receive(source: BinaryIO, folder: Path) -> None:
    """Create a log in an empty folder from the stream `source`. `verify` can then check its
    records.

    Raises LogCorrupt for a truncated or changed stream, NotALog, LogTooNew, LogFull.
    """
    if source.read(len(_MAGIC)) != _MAGIC:
        raise NotALog("the stream", "was not made by `refold log copy LOG -`")
    with receiving(folder, "the stream") as receiver:
        for frame in _frames(source):
            receiver.add(frame)


def standard_input() -> BinaryIO:
    """The stream to read if the log is "-". Raises LogNotFound if it is closed."""
    if sys.stdin is None:
        raise LogNotFound("standard input", "is closed: pipe `refold log copy LOG -` into it")
    return sys.stdin.buffer


def _segment_frames(path: Path) -> Iterator[Frame]:
    with open_segment(path) as segment:
        yield SegmentFrame(segment.header.format, segment.header_body)
        # The events end where the log ended before the commands were read, so that the stream has
        # all commands that its events answer. Nothing follows a closing record.
        closing = segment.closing
        last = {"last": segment.last_seq()}
        for rows in segment.command_rows(["cause <= :last"], last):
            yield CommandsFrame(rows)  # type: ignore[arg-type]
        for rows in segment.event_rows(["seq <= :last"], last):
            yield EventsFrame(rows)  # type: ignore[arg-type]
        if closing:
            yield ClosingFrame(schema.document(closing))


def _write(out: BinaryIO, frame: Frame) -> None:
    body = encode(frame)
    out.write(len(body).to_bytes(4, "big") + body)


def _frames(source: BinaryIO) -> Iterator[Frame]:
    """The frames before the end frame."""
    number = 0
    while True:
        number += 1
        size = int.from_bytes(_read_exactly(source, 4, number), "big")
        if size > _FRAME_BYTES_MAX:
            raise LogCorrupt("the stream", "has an impossible length", f"frame {number}")
        try:
            frame = decode(_read_exactly(source, size, number))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise LogCorrupt("the stream", f"cannot be read: {error}", f"frame {number}") from None
        if isinstance(frame, EndFrame):
            return
        yield frame


def _read_exactly(source: BinaryIO, size: int, number: int) -> bytes:
    content = source.read(size)
    if len(content) != size:
        raise LogCorrupt("the stream", "is truncated: copy it again", f"frame {number}")
    return content
