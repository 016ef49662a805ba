"""Checks SQLite's write-ahead log of a log that no daemon writes any more.

SQLite reads the frames of a `-wal` file up to the first checksum mismatch and silently drops the
rest. That is right for a transaction that a crash interrupted, but not for a changed byte, which
would silently remove everything after it. (https://www.sqlite.org/fileformat.html, 4.1)
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from eventstore.errors import PUT_A_COPY, LogCorrupt, from_os

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_LITTLE_ENDIAN: Final = 0x377F0682
_MAGIC: Final = (_LITTLE_ENDIAN, _LITTLE_ENDIAN + 1)
"""By the byte order of the checksums."""
_SUMMED_HEADER_BYTES: Final = 24
_SUMMED_FRAME_BYTES: Final = 8

Sum = tuple[int, int]


class _Frame(NamedTuple):
    commits: bool
    salts: Sum
    stored: Sum
    summed: bytes


def check_write_ahead(wal: Path) -> None:
    """Check that each committed transaction of a write-ahead file can be read. Raises LogCorrupt,
    and LogFailed if the file cannot be read."""
    try:
        content = wal.read_bytes()
    except OSError as error:
        raise from_os(error, wal) from error
    if len(content) <= _HEADER.size + _FRAME.size:
        return
    magic, _, page_size, _, *rest = _HEADER.unpack_from(content)
    salts, stored = (rest[0], rest[1]), (rest[2], rest[3])
    if magic not in _MAGIC or not page_size:
        raise _corruption_error(wal, "the head")
    order = "<" if magic == _LITTLE_ENDIAN else ">"
    running = _sum((0, 0), content[:_SUMMED_HEADER_BYTES], order)
    if running != stored:
        raise _corruption_error(wal, "the head")
    broken = 0
    for number, frame in enumerate(_frames(content, page_size), 1):
        if not broken:
            running = _sum(running, frame.summed, order)
            broken = 0 if (frame.salts, frame.stored) == (salts, running) else number
        # Frames of an earlier use of the file have different values for both salts.
        is_of_now = any(own == its for own, its in zip(salts, frame.salts, strict=True))
        if broken and frame.commits and is_of_now:
            raise _corruption_error(wal, f"frame {broken}")


def _corruption_error(wal: Path, what: str) -> LogCorrupt:
    text = f"it was changed, and all later records cannot be read: {PUT_A_COPY}"
    return LogCorrupt(wal, text, f"{what} in {wal.name}")


def _frames(content: bytes, page_size: int) -> Iterator[_Frame]:
    size = _FRAME.size + page_size
    for start in range(_HEADER.size, len(content) - size + 1, size):
        _, pages, *rest = _FRAME.unpack_from(content, start)
        head = content[start : start + _SUMMED_FRAME_BYTES]
        page = content[start + _FRAME.size : start + size]
        yield _Frame(pages > 0, (rest[0], rest[1]), (rest[2], rest[3]), head + page)


def _sum(running: Sum, data: bytes, order: str) -> Sum:
    first, second = running
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
