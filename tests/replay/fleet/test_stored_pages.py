"""Pages of a segment from SQLite's ADBC driver, compared with Python's sqlite3."""

import multiprocessing
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from eventstore.errors import LogCorrupt
from eventstore.segment import open_segment
from eventstore.verify import verify
from eventstore.writer import LogWriter
from replay.fleet import stored_pages
from replay.fleet.manifest import KnownRecords
from replay.fleet.segment_ingest import IngestedPart, ingest_segment
from replay.fleet.stored_pages import StoredPages
from tests.eventstore.samples import command, event, events, header, write_log
from tools.fleet.histories import GeneratedHistory
from tools.fleet.histories import write_log as write_history

_EVENTS = 3_000
_ALL = 1 << 62


def rows_of(pages: list[list[Any]]) -> list[tuple[Any, ...]]:
    return [
        row for page in pages for row in zip(*(column.to_pylist() for column in page), strict=True)
    ]


def segment_of(log: Path) -> Path:
    return next(log.glob("*.refold"))


@pytest.mark.parametrize("page_rows", [1, 7, 4096])
def test_pages_equal_the_rows_of_the_log(
    page_rows: int, short_history: GeneratedHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if all values of a column in a page are null, so that its type cannot be inferred."""
    monkeypatch.setattr(stored_pages, "PAGE_ROWS", page_rows)
    path = segment_of(write_history(tmp_path / "log", short_history, "c", 1))
    with open_segment(path) as segment, StoredPages(segment) as pages:
        events_read = list(pages.events(0, _ALL))
        commands_read = list(pages.commands(0, _ALL))
        assert rows_of(events_read) == [row for page in segment.event_rows() for row in page]
        assert rows_of(commands_read) == [row for page in segment.command_rows() for row in page]
    assert {len(page[0]) for page in events_read[:-1]} <= {page_rows}


def test_pages_have_the_requested_rows(tmp_path: Path) -> None:
    path = segment_of(write_log(tmp_path / "log", 10))
    with open_segment(path) as segment, StoredPages(segment) as pages:
        assert [row[0] for row in rows_of(list(pages.events(3, 7)))] == [4, 5, 6, 7]
        assert [row[0] for row in rows_of(list(pages.commands(8, 10)))] == [9, 10]
        assert list(pages.events(10, 10)) == []


def test_page_with_large_records_has_fewer_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory of a task is bounded."""
    monkeypatch.setattr(stored_pages, "PAGE_BYTES", 10_000)
    with LogWriter.create(tmp_path / "log", header()) as writer:
        records = [event(n, payload=bytes(4_000 if n == 60 else 10)) for n in range(1, 101)]
        writer.append(records, [command(n, body=bytes(6_000)) for n in (1, 2, 3)])
    path = segment_of(tmp_path / "log")
    with open_segment(path) as segment, StoredPages(segment) as pages:
        monkeypatch.setattr(stored_pages, "PAGE_ROWS", 50)
        assert [len(page[0]) for page in pages.events(0, 100)] == [50, *[2] * 5, 40]
        assert [len(page[0]) for page in pages.commands(0, 3)] == [1, 1, 1]


@pytest.mark.parametrize(
    "change",
    [
        "mono_ns = 'soon'",
        "mono_ns = 1.5",
        "term = x'00'",
        "kind = 7",
        "kind = cast(x'ff' as text)",
        "origin = null",
        "payload = 7",
        "payload = cast('é' as text)",
        "chain = null",
        "chain = x'00'",
    ],
)
@pytest.mark.parametrize("page_rows", [1, 4096])
def test_changed_value_is_reported_as_damage(
    change: str,
    page_rows: int,
    short_history: GeneratedHistory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_pages, "PAGE_ROWS", page_rows)
    path = segment_of(write_history(tmp_path / "log", short_history, "c", 1))
    connection = sqlite3.connect(path)
    connection.execute(f"update events set {change} where seq = 222")
    connection.commit()
    connection.close()
    with pytest.raises(LogCorrupt, match=r"event 222: .* replace the file with an intact copy"):
        ingest_segment(path, None, "c", "l", lambda _: None)


def test_additional_column_is_reported_as_damage(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    path = segment_of(write_history(tmp_path / "log", short_history, "c", 1))
    connection = sqlite3.connect(path)
    connection.execute("alter table events add column extra text")
    connection.commit()
    connection.close()
    with pytest.raises(LogCorrupt, match=r"event 1: .* replace the file with an intact copy"):
        ingest_segment(path, None, "c", "l", lambda _: None)


def test_damaged_page_of_the_file_is_reported(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    path = segment_of(write_history(tmp_path / "log", short_history, "c", 1))
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = bytes(4096)
    path.write_bytes(content)
    with pytest.raises(LogCorrupt, match="replace the file with an intact copy"):
        ingest_segment(path, None, "c", "l", lambda _: None)


@pytest.mark.long
def test_log_can_be_read_while_another_process_writes_it(tmp_path: Path) -> None:
    """Closing a connection must not release the locks of the reader's other connection. Otherwise
    the writer would checkpoint its write-ahead log during a read."""
    context = multiprocessing.get_context("spawn")
    is_begun = context.Event()
    writing = context.Process(target=_write, args=(tmp_path / "log", is_begun))
    writing.start()
    try:
        assert is_begun.wait(60)
        path = segment_of(tmp_path / "log")
        known, seen = None, []
        is_over, reads = False, 0
        while not is_over:
            is_over = not writing.is_alive()
            read: list[Any] = []
            found = ingest_segment(path, known, "c", "l", read.append)
            seen += [seq for batch in read for seq in _event_numbers(batch)]
            known = _known(found)
            reads += 1
    finally:
        writing.join()
    assert writing.exitcode == 0
    assert seen == list(range(1, _EVENTS + 1))
    assert found.is_closed
    assert reads > 2
    report = verify(tmp_path / "log")
    assert report.is_sound
    assert report.events == _EVENTS


def _write(folder: Path, is_begun: Any) -> None:
    with LogWriter.create(folder, header()) as writer:
        for first in range(1, _EVENTS, 3):
            batch = events(first, first + 2, payload=bytes(2_000))
            writer.append(batch, [command(one.seq) for one in batch])
            is_begun.set()


def _known(found: IngestedPart) -> KnownRecords:
    return KnownRecords(found.last_seq, found.last_command, found.event_chain, found.command_chain)


def _event_numbers(batch: Any) -> list[int]:
    rows = batch.select(["record", "seq"]).to_pylist()
    return [row["seq"] for row in rows if row["record"] == "event"]
