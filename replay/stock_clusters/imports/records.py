"""Writes events as records of a new log, in batches."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from eventstore.folders import discard, segments_in
from eventstore.records import EventRecord, Header, Origin
from eventstore.writer import LogWriter
from replay.stock_clusters.imported_log.encoding import SCHEMAS, encode_event, kind_of
from replay.stock_clusters.imported_log.events import ImportedEvent

_BATCH: Final = 10_000
_BATCH_BYTES: Final = 8 << 20
_NS: Final = 1_000_000
_MS_MAX: Final = (2**63 - 1) // _NS


class Records:
    """Numbers and stores the events of a log. `count` is the number of the last one."""

    def __init__(
        self,
        writer: LogWriter,
        listener: Callable[[EventRecord, ImportedEvent], None] = lambda *_: None,
    ) -> None:
        """`listener` is called with each record."""
        self.count = 0
        self._writer = writer
        self._listener = listener
        self._batch: list[EventRecord] = []
        self._bytes = 0

    def add(
        self, event: ImportedEvent, time_ms: int, term: int, channel: str, cause: int | None = None
    ) -> int:
        """Store an event and return its number. Sources have no monotonic clock, so it is 0."""
        self.count = seq = self.count + 1
        kind = kind_of(event)
        if not -_MS_MAX <= time_ms <= _MS_MAX:
            time_ms = _MS_MAX if time_ms > 0 else -_MS_MAX
        origin: Origin = "exogenous" if cause is None else "reply"
        payload = encode_event(event)
        record = EventRecord(
            seq, time_ms * _NS, 0, term, kind, SCHEMAS[kind], channel, origin, cause, payload
        )
        self._batch.append(record)
        self._listener(record, event)
        self._bytes += len(payload)
        if self._bytes >= _BATCH_BYTES or len(self._batch) >= _BATCH:
            self.flush()
        return seq

    def flush(self) -> None:
        """Write the events so far to disk."""
        self._writer.append(self._batch)
        self._batch, self._bytes = [], 0
        self._writer.roll_if_due()


@contextmanager
def new_log(folder: Path, header: Header) -> Iterator[Records]:
    """The records of a new log in `folder`; an incomplete log is removed. Raises LogError."""
    is_new = not folder.exists()
    writer = LogWriter.create(folder, header)
    try:
        with writer:
            records = Records(writer)
            yield records
            records.flush()
    except BaseException:
        remove_log(folder, is_new=is_new)
        raise


def remove_log(folder: Path, *, is_new: bool) -> None:
    """Remove a log, and its folder if that `is_new`."""
    if is_new:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        for segment in segments_in(folder):
            discard(segment)
