"""An index is used only for the log and the code that it was made of."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from stat import S_IMODE

import msgspec
import pytest

from controller.event_log.records import command_record, event_record
from eventstore import folders
from eventstore.errors import LogCorrupt
from eventstore.writer import LogWriter
from replay.index import opening
from replay.index.making import make_index
from replay.index.opening import index_of
from replay.index.postings import numbers_of
from replay.index.store import EventIndex, index_path
from replay.logs.open_log import RecordedLog, open_log
from replay.progress import unreported
from replay.stock_clusters.imported_log.reading import ImportedLog
from tests.replay.cli.command import refold
from tests.replay.diff.versions import OTHER_PROTOCOL, changed
from tests.replay.recorded_log import header, incident, write_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with its index."""
    path = write_log(tmp_path / "log", incident())
    make_index(path)
    assert is_used(path)
    return path


@pytest.fixture
def is_any_log_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "FOLDED_AT_ONCE_MAX", 10)


def is_used(path: Path) -> bool:
    with open_log(path) as log, index_of(log, unreported) as index:
        return index is not None


def test_index_of_a_log_that_has_grown_is_not_used(tmp_path: Path) -> None:
    path, history = tmp_path / "log", incident().history
    writer = LogWriter.create(path, header())
    for recorded, issued in history[:-2]:
        writer.append([event_record(recorded)], [command_record(one) for one in issued])
    make_index(path)
    assert is_used(path)
    for recorded, issued in history[-2:]:
        writer.append([event_record(recorded)], [command_record(one) for one in issued])
    assert not is_used(path)
    writer.abandon()
    assert not is_used(path)


def test_index_of_another_log_with_equal_size_and_time_is_not_used(log: Path) -> None:
    other = incident()
    last, issued = other.history[-1]
    other.history[-1] = (msgspec.structs.replace(last, wall_ns=last.wall_ns + 1), issued)
    (segment,) = folders.segments_in(log)
    times = segment.stat()
    (found,) = folders.segments_in(write_log(log.parent / "other", other))
    shutil.copy(found, segment)
    os.utime(segment, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert not is_used(log)


def test_index_by_other_code_is_not_used(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", incident())
    code = changed(tmp_path / "code", OTHER_PROTOCOL)
    make = f"from pathlib import Path; make_index(Path({str(path)!r}))"
    subprocess.run(
        [sys.executable, "-c", f"from replay.index.making import make_index; {make}"],
        cwd=code,
        env={**os.environ, "PYTHONPATH": str(code)},
        check=True,
    )
    assert index_path(path).exists()
    assert not is_used(path)


def test_index_of_a_log_with_other_commands_than_its_events_lead_to_is_not_used(
    tmp_path: Path,
) -> None:
    """A fold derives the commands, and the note about the change is printed."""
    simulation = incident()
    seq, (recorded, issued) = next(
        (place, one) for place, one in enumerate(simulation.history) if one[1]
    )
    simulation.history[seq] = (recorded, issued[:-1])
    path = write_log(tmp_path / "log", simulation)
    make_index(path)
    assert not is_used(path)
    shown = refold("decisions", path, "--topic", "t")
    assert "the log was changed" in shown.stderr


@pytest.mark.usefixtures("is_any_log_long")
def test_index_of_a_long_log_is_made_at_the_first_question(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", incident())
    reported: set[str] = set()
    with (
        open_log(path) as log,
        index_of(log, lambda what, done, total: reported.add(what)) as index,
    ):
        assert isinstance(log, RecordedLog)
        assert index is not None
        assert index.about.last_seq == log.reader.last_seq
    assert [*path.glob(".*.partial")] == []


@pytest.mark.usefixtures("is_any_log_long")
def test_index_of_a_long_imported_log_is_made_at_the_first_question(
    log_of: Callable[[str], Path], tmp_path: Path
) -> None:
    path = Path(shutil.copytree(log_of("unclean-3"), tmp_path / "log"))
    reported: set[str] = set()
    with (
        open_log(path) as log,
        index_of(log, lambda what, done, total: reported.add(what)) as index,
    ):
        assert isinstance(log, ImportedLog)
        assert index is not None
        assert index.about.last_seq == log.reader.last_seq
    assert [*path.glob(".*.partial")] == []


@pytest.mark.usefixtures("is_any_log_long")
def test_no_index_is_made_in_the_folder_of_a_daemon(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", incident())
    lock = folders.FolderLock(path)
    assert not is_used(path)
    assert not index_path(path).exists()
    lock.release()
    assert is_used(path)


@pytest.mark.usefixtures("is_any_log_long")
def test_question_is_answered_without_an_index_if_the_folder_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path / "log", incident())
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert not is_used(path)
    assert not index_path(path).exists()


def test_index_may_be_read_by_those_who_may_read_the_log(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", incident())
    (segment,) = folders.segments_in(path)
    segment.chmod(0o640)
    make_index(path)
    assert S_IMODE(index_path(path).stat().st_mode) == 0o640


def test_damaged_index_is_not_used(log: Path) -> None:
    index_path(log).write_bytes(b"damaged")
    assert not is_used(log)


def test_index_that_is_damaged_in_the_middle_is_reported_with_what_to_do(log: Path) -> None:
    with closing(sqlite3.connect(index_path(log), isolation_level=None)) as connection:
        connection.execute("update postings set numbers = x'00'")
    with open_log(log) as opened:
        index = EventIndex.open_for(opened.reader)
        assert index is not None
        with closing(index), pytest.raises(LogCorrupt, match="delete it; it can be made again"):
            index.numbers("event t-0")


def test_index_is_read_by_another_thread_than_the_one_that_opened_it(log: Path) -> None:
    with (
        open_log(log) as opened,
        index_of(opened, unreported) as index,
        ThreadPoolExecutor() as pool,
    ):
        assert index is not None
        assert pool.submit(index.names).result() == index.names()


def test_wrong_use_of_an_index_is_not_reported_as_damage(log: Path) -> None:
    with open_log(log) as opened, index_of(opened, unreported) as index:
        assert index is not None
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        index.names()


def test_log_without_events_has_an_index(tmp_path: Path) -> None:
    LogWriter.create(tmp_path / "log", header()).close()
    make_index(tmp_path / "log")
    assert is_used(tmp_path / "log")


TABLES = ("commands", "topic_names", "names", "facts", "moves", "decisions", "begun")


def contents(path: Path) -> dict[str, object]:
    """The content of an index, independent of the order in which processes have found it."""
    with closing(sqlite3.connect(index_path(path))) as connection:
        postings: dict[str, set[int]] = {}
        for key, body in connection.execute("select key, numbers from postings"):
            postings.setdefault(key, set()).update(numbers_of([body]))
        others = {table: sorted(connection.execute(f"select * from {table}")) for table in TABLES}
    return {"postings": postings, **others}


def test_index_by_several_processes_is_that_of_one(tmp_path: Path) -> None:
    one = write_log(tmp_path / "one", incident())
    several = write_log(tmp_path / "several", incident())
    make_index(one, processes=1)
    make_index(several, processes=3)
    assert contents(several) == contents(one)


def test_index_of_an_imported_log_by_several_processes_is_that_of_one(
    log_of: Callable[[str], Path], tmp_path: Path
) -> None:
    one, several = (
        Path(shutil.copytree(log_of("unclean-3"), tmp_path / name)) for name in ("one", "several")
    )
    make_index(one, processes=1)
    make_index(several, processes=3)
    assert contents(several) == contents(one)


def test_replay_makes_the_index_in_the_same_pass(tmp_path: Path) -> None:
    path, other = (write_log(tmp_path / name, incident()) for name in ("log", "other"))
    without = refold("replay", other, "--json")
    shown = refold("replay", path, "--json", "--index")
    assert (shown.returncode, shown.stdout) == (0, without.stdout)
    assert is_used(path)
    make_index(other)
    assert contents(path) == contents(other)


def test_replay_makes_no_index_in_the_folder_of_a_daemon(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", incident())
    lock = folders.FolderLock(path)
    shown = refold("replay", path, "--index")
    lock.release()
    assert shown.returncode == 2
    assert "no running daemon" in shown.stderr
    assert not index_path(path).exists()
