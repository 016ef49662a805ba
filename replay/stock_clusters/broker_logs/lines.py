"""Lines in the layout of Kafka's log4j.properties: `[%d] %p %m (%c)%n`."""

import bz2
import gzip
import lzma
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast
from zlib import error as ZlibError

_PACKED: Final[Mapping[bytes, Callable[[BinaryIO], object]]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7zXZ\0": lzma.open,
    b"BZh": bz2.open,
}
"""How compressed files begin, and what reads them."""
_NOT_READ: Final[Mapping[bytes, str]] = {
    b"PK\3\4": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"7z\xbc\xaf\x27\x1c": "7z",
}
_MAGIC_BYTES_MAX: Final = 6
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one line: what is longer is cut into several, which fit no layout."""

_LAYOUT: Final = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) (.*)"
    r" \(([\w.$]+)\)\s*",
    re.DOTALL,
)
_STACK_TRACE: Final = re.compile(
    r"\s+at |\s+\.\.\. \d+ (?:more|common)|\s*(?:Caused by|Suppressed): "
    r"|[\w.$]+(?:Exception|Error)\b"
)


class Line(NamedTuple):
    """One line of a log; `time_ms` is the wall clock."""

    time_ms: int
    message: str


class LeftOut:
    """How many lines of a file are left out, and the number of the first of them, 0 for none."""

    def __init__(self) -> None:
        self.count = self.first = 0

    def add(self, number: int) -> None:
        """Leave out the line with this number."""
        self.count += 1
        self.first = self.first or number


class LineCounts:
    """How many lines of a file were read, and which of them are left out: those that fit no layout
    (`unfit`), and those in a text form that nobody can take apart (`of_text_form`). Of a request
    log `requests` are the lines that could be taken.

    The lines of stack traces fit none, too, and are not counted among these.
    """

    def __init__(self) -> None:
        self.read = self.requests = 0
        self.unfit = LeftOut()
        self.of_text_form = LeftOut()
        self.fault = ""
        """Why the file cannot be read on, if it cannot."""


def lines_of(path: Path, zone: tzinfo, counts: LineCounts) -> Iterator[Line]:
    """The lines of a file that fit the layout, whose times are those of a time zone; as far as it
    can be read."""
    try:
        with _opened(path) as stream:
            while raw := stream.readline(LINE_BYTES_MAX):
                counts.read += 1
                text = raw.decode("utf-8", "replace")
                line = _line(text, zone)
                if line is not None:
                    yield line
                elif not _STACK_TRACE.match(text):
                    counts.unfit.add(counts.read)
    except (OSError, EOFError, ZlibError, lzma.LZMAError) as error:
        counts.fault = getattr(error, "strerror", None) or str(error)


def first_time_ms(path: Path, zone: tzinfo) -> int | None:
    """The time of the first line that has one."""
    return next((line.time_ms for line in lines_of(path, zone, LineCounts())), None)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as stream:
        # Rotated files are often compressed; in an archive they have lost their name's end.
        begin = stream.read(_MAGIC_BYTES_MAX)
        stream.seek(0)
        for magic, kind in _NOT_READ.items():
            if begin.startswith(magic):
                raise EOFError(f"{kind} is not read; unpack it, or pack it as gz, xz or bz2")
        opens = (opened for magic, opened in _PACKED.items() if begin.startswith(magic))
        opened = next(opens, None)
        yield stream if opened is None else cast(BinaryIO, opened(stream))


def _line(text: str, zone: tzinfo) -> Line | None:
    found = _LAYOUT.fullmatch(text)
    if found is None:
        return None
    seconds = _seconds(found[1], zone)
    return None if seconds is None else Line(seconds * 1000 + int(found[2]), found[4])


@lru_cache(maxsize=1024)
def _seconds(text: str, zone: tzinfo) -> int | None:
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())
    except (ValueError, OverflowError):
        return None
