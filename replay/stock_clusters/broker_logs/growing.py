"""Reads controller.log and state-change.log of a running broker, as the broker writes them."""

import os
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import BinaryIO, Final

from controller.escaping import escape_unprintable
from replay.errors import ReplayError, unreadable
from replay.stock_clusters.broker_logs.lines import LINE_BYTES_MAX, LineCounts, LineParser
from replay.stock_clusters.broker_logs.reading import event_of_line, unusable_line_notes
from replay.stock_clusters.imported_log.events import (
    DamagedLines,
    LoggedEvent,
    RequestServed,
)
from replay.stock_clusters.zookeeper_log.data_folder import broker_log_kind

FOLLOWED: Final = ("controller.log", "state-change.log")
_NO_BROKER: Final = -1
_CHUNK_BYTES: Final = 1 << 20


class GrowingBrokerLog:
    """The lines of one file. When log4j renames the file and begins a new one, the old one is read
    to its end first.

    `is_at_end`: the last reading found all that the broker has written.
    """

    def __init__(self, path: Path, zone: tzinfo) -> None:
        """Open the file at its begin. Raises ReplayError if it cannot be read or is no log that can
        be followed."""
        kind = broker_log_kind(path.name)
        if kind not in FOLLOWED:
            raise ReplayError(
                f"{path} cannot be followed: its name must be {' or '.join(FOLLOWED)}"
            )
        self.path = path
        self.kind = kind
        self.counts = LineCounts()
        self.is_at_end = False
        self._broker = _NO_BROKER
        self._zone = zone
        self._parser = LineParser(zone, self.counts)
        self._begun = b""
        self._stream = self._open()

    def read(self) -> Iterator[LoggedEvent]:
        """The events of the next lines, up to the limit of one reading. Raises ReplayError."""
        self.is_at_end = False
        # If the file was renamed by now, nothing is written to the old one after this reading.
        is_renamed = self._is_renamed()
        try:
            text = self._stream.read(_CHUNK_BYTES)
        except OSError as error:
            raise unreadable(self.path, error) from None
        *lines, self._begun = (self._begun + text).split(b"\n")
        if len(self._begun) > LINE_BYTES_MAX:
            lines, self._begun = [*lines, self._begun], b""
        for one in lines:
            yield from self._events(one)
        if len(text) == _CHUNK_BYTES:
            return
        if is_renamed:
            self._stream.close()
            self._stream = self._open()
            self._begun = b""
            self._parser = LineParser(self._zone, self.counts)
            return
        self.is_at_end = True

    @property
    def notes(self) -> list[str]:
        """Notes about the lines that cannot be used."""
        return [*unusable_line_notes(escape_unprintable(self.path), self.counts)]

    @property
    def damaged_lines(self) -> list[DamagedLines]:
        """The times of the lines that could not be parsed so far."""
        return [DamagedLines(self._broker, self.kind, *one) for one in self.counts.lost.found]

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _events(self, raw: bytes) -> Iterator[LoggedEvent]:
        for line in self._parser.feed(raw + b"\n"):
            event = event_of_line(self.kind, line, _NO_BROKER, self.counts)
            if event is not None and not isinstance(event, RequestServed):
                self._broker = event.broker
                yield LoggedEvent(line.time_ms, f"broker {event.broker} {self.kind}", event)

    def _open(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise unreadable(self.path, error) from None

    def _is_renamed(self) -> bool:
        """Whether another file has this name, or the file was emptied."""
        try:
            now = self.path.stat()
        except OSError:
            return False
        opened = os.fstat(self._stream.fileno())
        is_other = (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino)
        return is_other or opened.st_size < self._stream.tell()
