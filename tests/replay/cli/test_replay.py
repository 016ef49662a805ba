"""`refold replay` on folders of logs and on logs that are not closed."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from replay.cli.main import app
from replay.logs.packed import log_at
from tests.replay.recorded_log import incident, write_log

INCIDENTS = Path("tests/incidents")


def replay(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with two logs of a daemon."""
    for name in ("run-1", "run-2"):
        write_log(tmp_path / "runs" / name, incident())
    return tmp_path / "runs"


def change_term(log: Path) -> None:
    with closing(sqlite3.connect(next(log.glob("*.refold")), isolation_level=None)) as database:
        database.execute("update events set term = 9 where seq = 5")


def test_folder_of_runs_replays_each_log(runs: Path) -> None:
    done = replay(runs)
    assert done.exit_code == 0, done.output
    assert f"{runs}/run-1: agrees: 126 events" in done.output
    assert f"{runs}/run-2: agrees: 126 events" in done.output
    assert done.output.endswith("2 of 2 logs agree\n")


def test_folder_of_runs_as_json_has_each_log(runs: Path) -> None:
    found = json.loads(replay(runs, "--json").stdout)["logs"]
    assert [one["log"] for one in found] == [f"{runs}/run-1", f"{runs}/run-2"]
    assert [one["agreed"] for one in found] == [136, 136]


def test_damaged_log_in_a_folder_is_named_and_the_others_are_replayed(runs: Path) -> None:
    change_term(runs / "run-1")
    done = replay(runs)
    assert done.exit_code == 2
    assert f"{runs}/run-1: cannot be used: " in done.output
    assert f"{runs}/run-2: agrees" in done.output
    assert done.output.endswith("1 of 1 logs agree, 1 cannot be used\n")


def test_folder_of_incidents_passes_over_imported_logs(tmp_path: Path) -> None:
    for name in ("failover", "topics", "stock-unclean-election"):
        shutil.copytree(INCIDENTS / name, tmp_path / name)
    done = replay(tmp_path)
    assert done.exit_code == 0
    assert f"{tmp_path}/stock-unclean-election: passed over: it is an imported log" in done.output
    assert done.output.endswith("2 of 2 logs agree, 1 passed over\n")


def test_closed_log_without_its_closing_record_is_reported_as_not_closed(tmp_path: Path) -> None:
    with log_at(INCIDENTS / "bounced-broker") as unpacked:
        log = shutil.copytree(unpacked, tmp_path / "log")
    with closing(sqlite3.connect(next(log.glob("*.refold")), isolation_level=None)) as database:
        database.execute("delete from closing")
    done = replay(log)
    assert f"{log}: not closed: records at the end may be missing" in done.output
    assert "the controller stopped, but the closing record is missing" in done.output
    verified = CliRunner().invoke(app, ["log", "verify", str(log)])
    assert "not closed" in verified.output
    assert "records at the end may be missing" in verified.output


def test_log_of_a_killed_daemon_without_commands_is_damaged(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", incident(), close=False)
    with closing(sqlite3.connect(next(log.glob("*.refold")), isolation_level=None)) as database:
        database.execute("delete from commands")
    done = replay(log)
    assert done.exit_code == 2
    assert "commands: those of event 122 are missing" in done.stderr
    verified = CliRunner().invoke(app, ["log", "verify", str(log)])
    assert verified.exit_code == 1
    assert "commands of event 122: missing" in verified.output
