"""Parses lines in the layout of Kafka's log4j.properties: `[%d] %p %m (%c)%n`, or with `%-5p`."""

import lzma
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from zlib import error as ZlibError

from replay.stock_clusters.zookeeper_log.compression import decompressed_by_content

_NOT_READ: Final[Mapping[bytes, str]] = {
    b"PK\3\4": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"7z\xbc\xaf\x27\x1c": "7z",
}
_MAGIC_BYTES_MAX: Final = max(map(len, _NOT_READ))
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""The length of a line. Longer lines are split into several, which do not match the layout."""

_LAYOUT: Final = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\] (TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +(.*)"
    r" \(([\w.$]+)\)\s*",
    re.DOTALL,
)
_STACK_TRACE: Final = re.compile(
    r"\s+at |\s+\.\.\. \d+ (?:more|common)|\s*(?:Caused by|Suppressed): "
    r"|[\w.$]+(?:Exception|Error)\b"
)

_LAYOUT_PART: Final = re.compile(r"\[|.* \([\w.$]+\)\s*$")
"""A damaged line that is not part of a stack trace still begins or ends like the layout."""
_TRACE_PART: Final = re.compile(
    r"\s|.*\((?:[\w$.]+:\d+|Native Method|Unknown Source)\)\s*$|.*(?:Exception|Error)\b"
)
"""A damaged line of a stack trace still begins or ends like one, or names an exception."""
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

_ERROR: Final = re.compile(r"\[[^]]*\] (?:ERROR|FATAL) ")
_EXCEPTION: Final = re.compile(r"[\w.$]+(?:Exception|Error)\b")
_EXCEPTION_MAX: Final = 500
"""Characters: Kafka prints whole maps in the messages of some exceptions."""


class LogLine(NamedTuple):
    """One line of a log; `time_ms` is its wall clock, `number` counts from 1. The message of an
    error ends with the first line of its stack trace."""

    time_ms: int
    message: str
    number: int = 0


class UnknownLineError(Exception):
    """A line is of a component of the broker that is not known."""


class LeftOutLines:
    """The number of lines of a file that are left out, and the line number of the first, 0 if none
    is."""

    def __init__(self) -> None:
        self.count = self.first = 0

    def add(self, number: int) -> None:
        """Count a line that is left out, by its line number."""
        self.count += 1
        self.first = self.first or number


TOGETHER_MS: Final = 4_000
"""Damaged parts of a log so close to each other are one part: a decision is compared with a log
only if no damaged part is within half of this time (agreement/logs/log_ends.py)."""


class UnparsedLineTimes:
    """When the lines of a log that cannot be parsed were written, by the lines around them."""

    def __init__(self) -> None:
        self._last_ms: int | None = None
        self._found: list[tuple[int, int]] = []
        self._is_open = False

    def add(self, time_ms: int) -> None:
        """Add a line that has a readable time."""
        self._add(time_ms, time_ms)

    def _add(self, from_ms: int, to_ms: int) -> None:
        """Add a part. If it begins soon after the last one, both are one, so that a log in another
        layout, followed for months, takes little memory."""
        if self._found:
            first_ms, last_ms = self._found[-1]
            if last_ms <= to_ms and from_ms - last_ms <= TOGETHER_MS:
                self._found[-1] = min(first_ms, from_ms), to_ms
                return
        self._found.append((from_ms, to_ms))

    def add_without_time(self) -> None:
        """Add a line without a readable time."""
        self._is_open = True

    def pass_time(self, time_ms: int) -> None:
        """Take note of the time of a line that can be parsed."""
        if self._is_open:
            from_ms = time_ms if self._last_ms is None else min(self._last_ms, time_ms)
            self._add(from_ms, time_ms)
        self._is_open, self._last_ms = False, time_ms

    @property
    def found(self) -> Sequence[tuple[int, int | None]]:
        """The times, from and to, in ms; to None if no line with a time follows. A log without any
        time is not used at all."""
        if not self._is_open or self._last_ms is None:
            return self._found
        return [*self._found, (self._last_ms, None)]


class LineCounts:
    """Counts of a file's lines.

    `malformed` lines do not match the layout; lines of stack traces are not counted. `of_text_form`
    lines are in Kafka's older text form, which cannot be parsed. `unknown` lines match the layout
    and are of no known component. `requests` counts the usable lines of a request log. `lost` has
    the times of the lines that cannot be parsed, also of other files of the log.
    """

    def __init__(self, lost: UnparsedLineTimes | None = None) -> None:
        self.lost = UnparsedLineTimes() if lost is None else lost
        self.read = self.requests = 0
        self.malformed = LeftOutLines()
        self.of_text_form = LeftOutLines()
        self.unknown = LeftOutLines()
        self.fault = ""
        """Why the rest of the file cannot be read, "" if it can."""
        self.is_torn = False
        """Whether the last line has no end."""

    @property
    def not_understood(self) -> int:
        """The number of lines that are left out because they cannot be parsed. If the rest of the
        file cannot be read, that counts as one."""
        left_out = self.malformed.count + self.of_text_form.count + self.unknown.count
        return left_out + bool(self.fault)


def lines_of(path: Path, zone: tzinfo, counts: LineCounts) -> Iterator[LogLine]:
    """The lines of a file that match the layout, up to the first one that cannot be read. `zone`
    is the time zone of the times."""
    parser = LineParser(zone, counts)
    try:
        with _open_decompressed(path) as stream:
            while raw := stream.readline(LINE_BYTES_MAX):
                yield from parser.feed(raw)
    except (OSError, EOFError, ZlibError, lzma.LZMAError) as error:
        counts.fault = getattr(error, "strerror", None) or str(error)
    yield from parser.rest()


class LineParser:
    """Parses the lines of one file, one after the other. An error is kept back until the next line
    shows whether an exception belongs to it."""

    def __init__(self, zone: tzinfo, counts: LineCounts) -> None:
        self._zone = zone
        self._counts = counts
        self._failed: LogLine | None = None
        self._is_in_trace = False

    def feed(self, raw: bytes) -> Iterator[LogLine]:
        """The lines that are complete with this one."""
        self._counts.read += 1
        self._counts.is_torn = not raw.endswith(b"\n")
        failed, number = self._failed, self._counts.read
        text = raw.decode("utf-8", "replace")
        line = _line(text, self._zone, number)
        self._is_in_trace = line is None and self._is_trace(text)
        if line is not None:
            self._counts.lost.pass_time(line.time_ms)
        elif failed is not None and _EXCEPTION.match(text):
            message = f"{failed.message}: {text.strip()[:_EXCEPTION_MAX]}"
            failed = failed._replace(message=message)
        elif not self._is_in_trace:
            self._counts.malformed.add(number)
            self._counts.lost.add_without_time()
        self._failed = None
        if failed is not None:
            yield failed
        if line is not None and _ERROR.match(text):
            self._failed = line
        elif line is not None:
            yield line

    def _is_trace(self, text: str) -> bool:
        """Whether a line is part of a stack trace, also if it is damaged."""
        if _STACK_TRACE.match(text):
            return True
        is_alike = bool(_TRACE_PART.match(text)) and not _LAYOUT_PART.match(text)
        return self._is_in_trace and is_alike

    def rest(self) -> Iterator[LogLine]:
        """The line that was kept back."""
        failed, self._failed = self._failed, None
        if failed is not None:
            yield failed


def first_time_ms(path: Path, zone: tzinfo) -> int | None:
    """The time of the first line with a time."""
    return next((line.time_ms for line in lines_of(path, zone, LineCounts())), None)


@contextmanager
def _open_decompressed(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as stream:
        # Rotated files are often compressed; unpacked from an archive, they have no suffix.
        begin = stream.read(_MAGIC_BYTES_MAX)
        stream.seek(0)
        for magic, kind in _NOT_READ.items():
            if begin.startswith(magic):
                raise EOFError(f"{kind} cannot be read; unpack it, or compress it as gz, xz or bz2")
        yield decompressed_by_content(stream)


def _line(text: str, zone: tzinfo, number: int) -> LogLine | None:
    found = _LAYOUT.fullmatch(text)
    if found is None or _REPLACEMENT in text:
        return None
    seconds = _seconds(found[1], zone)
    return None if seconds is None else LogLine(seconds * 1000 + int(found[2]), found[4], number)


@lru_cache(maxsize=1024)
def _seconds(text: str, zone: tzinfo) -> int | None:
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())
    except (ValueError, OverflowError):
        return None
