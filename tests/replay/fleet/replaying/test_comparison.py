"""Comparing a version with one log, and rebuilding a log from the table; without Spark."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eventstore.reader import LogReader
from eventstore.verify import verify
from replay.diff.messages import FoldLog
from replay.diff.processes import FoldResult, VersionProcess
from replay.diff.references import find_version
from replay.errors import ReplayError
from replay.fleet.day_files import put_in_place
from replay.fleet.ingest_task import Task
from replay.fleet.rebuild import StoredLog, StoredSegment, rebuild
from replay.fleet.replaying.comparison import VersionReplay, compare_log
from replay.logs.decode import UPCASTERS
from tests.replay.diff import versions
from tests.replay.diff.versions import ROOT, Edit, changed
from tests.replay.fleet.replaying.logs import write_rolled
from tools.fleet.histories import GeneratedHistory, simulated_history, write_log

Fold = Callable[[FoldLog], FoldResult]


def judged(log: Path, tmp_path: Path, *edits: Edit, with_this: bool = False) -> VersionReplay:
    """Compares this version with some changes; `with_this`: the unchanged version takes part."""
    folder = changed(tmp_path / "version", *edits)
    version = find_version(str(folder), ROOT, tmp_path / "cache")
    this = find_version(str(ROOT), ROOT, tmp_path / "cache")
    with (
        VersionProcess(version) as process,
        VersionProcess(this) as other,
        LogReader.open(log, UPCASTERS) as reader,
    ):
        return compare_log(str(log), reader, process.fold, [other.fold] if with_this else [])


@pytest.fixture
def log(short_history: GeneratedHistory, tmp_path: Path) -> Path:
    return write_log(tmp_path / "log", short_history, "c", 1)


def test_version_that_differs_only_in_reads_agrees(log: Path, tmp_path: Path) -> None:
    found = judged(log, tmp_path, versions.READS_TWICE)
    assert found.left_at > 0
    assert found.agreed == found.decisions
    assert found.divergences == []


@pytest.mark.long
def test_divergences_do_not_depend_on_a_following_version(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", simulated_history(400, 1_790_000_000_000, 0), "c", 1)
    alone = judged(log, tmp_path / "1", versions.LAST_OF_ISR)
    together = judged(log, tmp_path / "2", versions.LAST_OF_ISR, with_this=True)
    assert alone.divergences
    assert (alone.decided, alone.differing) == (together.decided, together.differing)
    of_log = [one for one in alone.divergences if one.what != "new" and not one.is_harmless]
    assert alone.differing == Counter(one.counted_rule for one in of_log)
    assert not alone.differing - alone.decided
    assert [(one.seq, one.what, one.rule) for one in alone.divergences] == [
        (one.seq, one.what, one.rule) for one in together.divergences
    ]


@pytest.mark.long
def test_commands_a_killed_daemon_did_not_store_are_no_divergence(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    last = short_history.commands[-1].cause
    cut = GeneratedHistory(
        short_history.begun_ms,
        short_history.events,
        [one for one in short_history.commands if one.cause < last],
    )
    log = write_log(tmp_path / "log", cut, "c", 1, is_closed=False)
    found = judged(log, tmp_path)
    assert (found.divergences, found.left_at) == ([], 0)
    assert found.agreed == found.decisions


def test_decision_that_a_closed_log_lacks_at_its_last_event_is_a_divergence(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    """A closed log has all commands of its daemon, also those of the last event."""
    last = [one for one in short_history.commands if one.kind.startswith("write_")][-1]
    place = (last.cause, last.ordinal)
    log = write_log(
        tmp_path / "log",
        GeneratedHistory(
            short_history.begun_ms,
            [one for one in short_history.events if one.seq <= last.cause],
            [one for one in short_history.commands if (one.cause, one.ordinal) < place],
        ),
        "c",
        1,
    )
    found = judged(log, tmp_path)
    assert not found.follows
    assert {(one.what, one.seq) for one in found.divergences} == {("new", last.cause)}
    assert found.agreed == found.decisions


@pytest.mark.long
def test_commands_not_stored_are_no_divergence_after_a_version_left_the_log(tmp_path: Path) -> None:
    short_history = simulated_history(400, 1_790_000_000_000, 0)
    stored = [one for one in short_history.commands if one.cause < 340]
    # A log of a killed daemon lacks only commands that no event answers.
    events = [
        one._replace(cause=None) if (one.cause or 0) >= 340 else one for one in short_history.events
    ]
    cut = GeneratedHistory(short_history.begun_ms, events, stored)
    log = write_log(tmp_path / "log", cut, "c", 1, is_closed=False)
    found = judged(log, tmp_path, versions.LAST_OF_ISR)
    assert found.divergences
    assert "new" not in {one.what for one in found.divergences if one.seq >= 340}
    # The same holds if another version follows the log and continues after its last command.
    together = judged(log, tmp_path / "2", versions.LAST_OF_ISR, with_this=True)
    assert (together.decisions, together.agreed) == (found.decisions, found.agreed)


@pytest.mark.long
def test_command_without_a_body_is_compared_if_a_version_follows_the_log(tmp_path: Path) -> None:
    """All writes are treated as too large, so that the log does not contain their bodies."""
    short_history = simulated_history(400, 1_790_000_000_000, 0)
    without = [
        one._replace(body=None) if one.kind == "write_znodes" else one
        for one in short_history.commands
    ]
    log = write_log(
        tmp_path / "log",
        GeneratedHistory(short_history.begun_ms, short_history.events, without),
        "c",
        1,
    )
    alone = judged(log, tmp_path / "1", versions.LAST_OF_ISR)
    together = judged(log, tmp_path / "2", versions.LAST_OF_ISR, with_this=True)
    assert alone.unjudged > 0
    assert "set" not in {one.kind for one in alone.divergences if one.what == "changed"}
    assert together.unjudged == 0
    assert "set" in {one.kind for one in together.divergences if one.what == "changed"}


# Rebuilding a log ---------------------------------------------------------------------------------


def in_table(log: Path, table: Path) -> StoredLog:
    """Ingest a log; returns its entry in the manifest."""
    task = Task(table, table / "written")
    rows: list[dict[str, Any]] = []
    for path in LogReader(log).segments:
        copies = [str(path)]
        unit = {"kind": "segment", "copies": copies, "known": None, "cluster": "c*", "log": "l"}
        rows += task.ingest(unit)
    task.shared.close()
    segments = tuple(
        StoredSegment(
            row["header"],
            row["first_seq"],
            row["last_seq"],
            row["last_command"],
            row["event_chain"],
            row["command_chain"],
            row["is_closed"],
        )
        for row in rows
    )
    tokens = tuple({row["token"] for row in rows})
    made = [SimpleNamespace(token=one) for one in tokens]
    put_in_place(made, table / "written", table / "records" / "batch=000001")
    return StoredLog("c*", "l", "recorded", segments, tokens)


def contents(log: Path) -> list[Any]:
    with LogReader.open(log) as reader:
        return [*reader.records()]


def test_rebuilt_log_equals_the_ingested_one(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    log = write_rolled(tmp_path / "log", short_history, "c*", 3)
    stored = in_table(log, tmp_path)
    made = rebuild(tmp_path, stored, tmp_path / "again")
    assert contents(made) == contents(log)
    report = verify(made)
    assert report.is_sound
    assert (report.segments, report.closed) == (3, True)
    piece = rebuild(tmp_path, stored, tmp_path / "piece", slice(1, 2))
    assert verify(piece).closed
    assert [one.seq for one, _ in contents(piece)] == [
        one.seq
        for one, _ in contents(log)
        if stored.segments[1].first_seq <= one.seq <= stored.segments[1].last_seq
    ]


def test_table_with_other_records_is_refused(
    short_history: GeneratedHistory, tmp_path: Path
) -> None:
    stored = in_table(write_rolled(tmp_path / "log", short_history, "c*", 3), tmp_path)
    first, *rest = stored.segments
    other = StoredSegment(
        first.header,
        first.first_seq,
        first.last_seq,
        first.commands,
        rest[0].event_chain,
        first.command_chain,
        first.is_closed,
    )
    changed = StoredLog("c*", "l", "recorded", (other, *rest), stored.tokens)
    with pytest.raises(ReplayError, match="the table does not have the records that were ingested"):
        rebuild(tmp_path, changed, tmp_path / "again")
    gap = StoredLog("c*", "l", "recorded", (first, *rest[1:]), stored.tokens)
    with pytest.raises(ReplayError, match=r"are not in the table: ingest the complete log"):
        rebuild(tmp_path, gap, tmp_path / "gap")
    gone = StoredLog("c*", "l", "recorded", stored.segments, ())
    with pytest.raises(ReplayError, match="the table does not have the records"):
        rebuild(tmp_path, gone, tmp_path / "gone")
