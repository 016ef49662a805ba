"""Finds events by subject: opaque names such as "t-0" or "broker 3", assigned by a function that
knows the payloads. The index is built on demand, in a file next to the segment."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from sqlite_utils import Database

from eventstore import folders
from eventstore.errors import LogError, from_os, from_sqlite
from eventstore.filters import EventFilter
from eventstore.records import EventRecord
from eventstore.segment import PAGE_ROWS, Segment

INDEX_SUFFIX = ".subjects"


class SubjectsOf(Protocol):
    """Names the subjects of an event. `version` must change if it names different ones."""

    version: str

    def __call__(self, record: EventRecord, /) -> Iterable[str]:
        """The subjects of a record. Called in the order of the log."""


def index_path(segment: Path) -> Path:
    """The file of a segment's index."""
    return segment.with_suffix(INDEX_SUFFIX)


def index_subjects(segment: Segment, subjects_of: SubjectsOf, path: Path | None = None) -> Path:
    """Update the index of a segment and return its path: next to the segment, or `path`.

    Raises LogReadOnly, LogFull, LogFailed.
    """
    target = path or index_path(segment.path)
    with _index(target) as database:
        _bring_up_to_date(database, segment, subjects_of)
    return target


def events_about(
    segment: Segment, wanted: EventFilter, subjects_of: SubjectsOf
) -> Iterator[list[EventRecord]]:
    """Pages of the events of a segment that pass a filter including its subject, found with the
    index. If the index cannot be kept next to the segment, it is made in a temporary folder."""
    with TemporaryDirectory(prefix="refold-") as temporary:
        path = _kept_index(segment, subjects_of)
        if path is None:
            elsewhere = Path(temporary) / index_path(segment.path).name
            path = index_subjects(segment, subjects_of, elsewhere)
        with _index(path) as database:
            for numbers in _numbers(database, wanted):
                yield list(segment.events_numbered(numbers, wanted))


def _kept_index(segment: Segment, subjects_of: SubjectsOf) -> Path | None:
    """The index next to the segment. None if it cannot be written, or if a daemon writes the
    log: its folder and disk space belong to the daemon."""
    path = index_path(segment.path)
    if folders.is_being_written(segment.path.parent):
        return None
    try:
        return index_subjects(segment, subjects_of)
    except LogError as error:
        if error.file != path:
            raise
        return None


def _bring_up_to_date(database: Database, segment: Segment, subjects_of: SubjectsOf) -> None:
    made_of = f"{segment.header_body.hex()} {subjects_of.version}"
    indexed = database.table("indexed").rows_where("made_of = ?", [made_of])
    last = next((row["last_seq"] for row in indexed), None)
    if last is None:
        database.table("subjects").delete_where()
        database.table("indexed").delete_where()
        last = 0
    with database.atomic():
        for event in segment.events(EventFilter(first_seq=last + 1)):
            rows = [(subject, event.seq) for subject in dict.fromkeys(subjects_of(event))]
            database.conn.executemany("insert into subjects values (?, ?)", rows)
            last = event.seq
        database.table("indexed").upsert({"made_of": made_of, "last_seq": last}, pk="made_of")


def _numbers(database: Database, wanted: EventFilter) -> Iterator[list[int]]:
    """The numbers of the events about a subject, in pages."""
    after = 0
    while True:
        rows = database.execute(
            "select seq from subjects where subject = ? and seq > ? order by seq limit ?",
            [wanted.subject, after, PAGE_ROWS],
        ).fetchall()
        if not rows:
            return
        numbers = [seq for (seq,) in rows]
        after = numbers[-1]
        yield numbers


@contextmanager
def _index(path: Path) -> Iterator[Database]:
    """The index, created if missing. It is not synced, since losing it costs only time."""
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise from_sqlite(error, path) from error
    try:
        database = Database(connection, execute_plugins=False)
        database.execute("pragma synchronous = off")
        database.table("subjects").create(
            {"subject": str, "seq": int}, pk=("subject", "seq"), if_not_exists=True
        )
        database.table("indexed").create(
            {"made_of": str, "last_seq": int}, pk="made_of", if_not_exists=True
        )
        yield database
    except sqlite3.Error as error:
        raise from_sqlite(error, path) from error
    except OSError as error:
        raise from_os(error, path) from error
    finally:
        connection.close()
