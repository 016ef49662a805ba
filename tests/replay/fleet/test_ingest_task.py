"""The work of an executor on one input; without Spark."""

import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import parquet

from eventstore.reader import LogReader
from eventstore.segment import open_segment
from replay.fleet.day_files import put_in_place
from replay.fleet.errors import OutputError
from replay.fleet.ingest_task import Task
from replay.fleet.segments import log_name
from tools.fleet.histories import GeneratedHistory, write_log

Row = dict[str, Any]


def ingest(segment: Path, out: Path, before: Row | None = None) -> tuple[Row, list[Row]]:
    """The unit's row of the manifest, and the records in its files."""
    known = None
    if before is not None:
        names = ("last_seq", "last_command", "event_chain", "command_chain")
        known = {name: before[name] for name in names}
    out.mkdir(exist_ok=True)
    task = Task(out, out)
    unit = {"kind": "segment", "path": str(segment), "known": known, "cluster": "c", "log": "l"}
    unit["copies"] = [str(segment)]
    [row] = task.ingest(unit)
    task.shared.close()
    files = sorted(out.rglob(f"{row.get('token') or 'none'}-*.parquet"))
    records = [one for file in files for one in parquet.ParquetFile(file).read().to_pylist()]
    return row, records


def segment_of(log: Path) -> Path:
    return LogReader(log).segments[-1]


def change(segment: Path, statement: str) -> None:
    connection = sqlite3.connect(segment)
    connection.execute(statement)
    connection.commit()
    connection.close()


def numbers(records: list[Row]) -> list[int]:
    return sorted(one["seq"] for one in records if one["record"] == "event")


def test_all_records_of_a_log_are_in_the_files(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    row, records = ingest(
        segment_of(write_log(tmp_path / "log", short_history, "c", 1)), tmp_path / "out"
    )
    assert row.get("reason") is None
    assert numbers(records) == list(range(1, 401))
    assert len(records) == 400 + len(short_history.commands)
    assert (row["events"], row["commands"]) == (400, len(short_history.commands))
    assert row["is_closed"]


def test_log_that_grew_adds_only_new_records(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    young = write_log(tmp_path / "young", short_history, "c", 1, until=150, is_closed=False)
    grown = write_log(tmp_path / "grown", short_history, "c", 1)
    before, first = ingest(segment_of(young), tmp_path / "out")
    row, second = ingest(segment_of(grown), tmp_path / "out", before)
    assert row.get("reason") is None
    assert numbers(first) + numbers(second) == list(range(1, 401))
    assert len(first) + len(second) == 400 + len(short_history.commands)


def test_commands_stored_late_have_the_clocks_of_their_causes(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    young = write_log(tmp_path / "young", short_history, "c", 1, until=150, is_closed=False)
    change(segment_of(young), "delete from commands where cause > 100")
    before, first = ingest(segment_of(young), tmp_path / "out")
    grown = write_log(tmp_path / "grown", short_history, "c", 1)
    row, second = ingest(segment_of(grown), tmp_path / "out", before)
    assert row.get("reason") is None
    walls = {event.seq: (event.wall_ns, event.mono_ns) for event in short_history.events}
    late = [one for one in second if one["record"] == "command" and one["seq"] <= 150]
    assert {one["seq"] > 100 for one in late} == {True}
    for one in first + second:
        assert (one["wall_ns"], one["mono_ns"]) == walls[one["seq"]]


def test_log_that_does_not_continue_the_known_chain_is_set_aside(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    young = write_log(tmp_path / "young", short_history, "c", 1, until=150, is_closed=False)
    other = write_log(tmp_path / "other", short_history, "c", 2)
    before, _ = ingest(segment_of(young), tmp_path / "out")
    row, records = ingest(segment_of(other), tmp_path / "out", before)
    assert "it was changed" in row["reason"]
    assert records == []


def test_sound_copy_is_ingested_after_a_changed_one(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    changed = segment_of(write_log(tmp_path / "changed", short_history, "c", 1))
    sound = segment_of(write_log(tmp_path / "sound", short_history, "c", 1))
    change(changed, "update events set payload = x'00' where seq = 222")
    (out := tmp_path / "out").mkdir()
    task = Task(out, out)
    unit = {"kind": "segment", "path": str(changed), "known": None, "cluster": "c", "log": "l"}
    refused, row = task.ingest({**unit, "copies": [str(changed), str(sound)]})
    task.shared.close()
    assert (refused["path"], row["path"]) == (str(changed), str(sound))
    assert "event 222" in refused["reason"]
    assert numbers(parquet_rows(out)) == list(range(1, 401))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("update events set payload = x'00' where seq = 222", "event 222"),
        ("update commands set reason = x'00' where rowid = 200", "command "),
        ("delete from events where seq = 222", "event 222: it is missing"),
        ("delete from events where seq > 222", "closing record"),
        ("delete from commands where cause > 300", "closing record"),
        ("update events set kind = 7 where seq = 9", "event 9"),
        ("delete from header", "header"),
    ],
)
def test_damaged_log_leaves_no_record(
    statement: str, reason: str, short_history: GeneratedHistory, tmp_path: Path
) -> None:
    segment = segment_of(write_log(tmp_path / "log", short_history, "c", 1))
    change(segment, statement)
    row, _ = ingest(segment, tmp_path / "out")
    assert reason in row["reason"]
    assert list((tmp_path / "out").rglob("*.parquet")) == []


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_file_cut_in_the_middle_is_set_aside(
    share: float, short_history: GeneratedHistory, tmp_path: Path
) -> None:
    segment = segment_of(write_log(tmp_path / "log", short_history, "c", 1))
    content = segment.read_bytes()
    segment.write_bytes(content[: int(len(content) * share)])
    row, _ = ingest(segment, tmp_path / "out")
    assert segment.name in row["reason"]
    assert "replace the file with an intact copy" in row["reason"]


def test_large_damaged_log_leaves_no_file(
    short_history: GeneratedHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.fleet.ingest_task.OWN_FILES_BYTES", 1000)
    monkeypatch.setattr("replay.fleet.day_files.GROUP_ROWS", 10)
    segment = segment_of(write_log(tmp_path / "log", short_history, "c", 1))
    _, records = ingest(segment, tmp_path / "whole")
    assert len(records) == 400 + len(short_history.commands)
    change(segment, "delete from events where seq > 222")
    row, _ = ingest(segment, tmp_path / "out")
    assert "closing record" in row["reason"]
    assert list((tmp_path / "out").rglob("*.parquet")) == []


def test_each_day_has_a_folder(short_history: GeneratedHistory, tmp_path: Path) -> None:
    ingest(segment_of(write_log(tmp_path / "log", short_history, "c", 1)), tmp_path / "out")
    days = {row["time"].date().isoformat() for row in [*parquet_rows(tmp_path / "out")]}
    assert {folder.name for folder in (tmp_path / "out").glob("*/cluster=c/*")} == {
        f"date={day}" for day in days
    }


def test_only_committed_files_are_moved_into_the_table(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    """One of two attempts at the same log is committed, and the move is interrupted and
    repeated."""
    segment = segment_of(write_log(tmp_path / "log", short_history, "c", 1))
    written, table = tmp_path / "written", tmp_path / "table"
    kept = SimpleNamespace(**ingest(segment, written)[0])
    ingest(segment, written)
    first, *_ = sorted((written / kept.token).rglob("*.parquet"))
    there = table / first.relative_to(written / kept.token)
    there.parent.mkdir(parents=True)
    first.rename(there)
    for _ in range(2):
        put_in_place([kept], written, table)
    assert numbers(parquet_rows(table)) == list(range(1, 401))
    assert len(parquet_rows(table)) == 400 + len(short_history.commands)


def test_missing_written_files_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="abc is missing: use a folder that all executors share"):
        put_in_place([SimpleNamespace(token="abc")], tmp_path, tmp_path / "table")


def parquet_rows(folder: Path) -> list[Row]:
    return [
        one
        for file in folder.rglob("*.parquet")
        for one in parquet.ParquetFile(file).read().to_pylist()
    ]


def test_copy_of_a_log_has_the_same_name(short_history: GeneratedHistory, tmp_path: Path) -> None:
    names = []
    for folder, number in (("one", 1), ("same", 1), ("other", 2)):
        log = write_log(tmp_path / folder, short_history, "c", number)
        with open_segment(segment_of(log)) as segment:
            names.append(log_name(segment))
    one, same, other = names
    assert one == same != other
