"""Opens the index of a log, and makes it first if the log is long and its folder may be written."""

from collections.abc import Iterator
from contextlib import contextmanager

from replay.index.store import EventIndex
from replay.inspect.at import FOLDED_AT_ONCE_MAX, run_index_process
from replay.logs.caches import keeps_caches
from replay.logs.open_log import OpenedLog
from replay.progress import Progress


@contextmanager
def index_of(log: OpenedLog, progress: Progress) -> Iterator[EventIndex | None]:
    """The index of a log. None if the log is short and has none, if its commands are not those that
    its events lead to, if a daemon is writing it, or if its folder cannot be written. The answer is
    then found by a fold. Raises LogError."""
    index = _index_of(log, progress)
    try:
        yield index
    finally:
        if index is not None:
            index.close()


def _index_of(log: OpenedLog, progress: Progress) -> EventIndex | None:
    reader = log.reader
    index = EventIndex.open_for(reader)
    if index is None:
        count = reader.last_seq - reader.header.first_seq + 1
        if count <= FOLDED_AT_ONCE_MAX or not keeps_caches(reader.path):
            return None
        run_index_process(reader, progress)
        index = EventIndex.open_for(reader)
    if index is not None and index.about.differs_at:
        index.close()
        return None
    return index
