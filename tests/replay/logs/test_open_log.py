"""A log with missing records or a damaged index is rejected before anything is answered from it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay.cli.main import app
from replay.index.making import make_index
from replay.logs.packed import log_at
from tests.eventstore.samples import damage_index
from tests.replay.diff.versions import CRASH

COMMANDS = ("why", "inspect", "events", "decisions")
_TO_100 = "delete from closing; delete from events where seq > 100"


def changed(folder: Path, sql: str) -> Path:
    """A copy of a log whose file was changed."""
    with log_at(CRASH) as log:
        [segment] = Path(log).glob("*.refold")
        copy = folder / "log" / segment.name
        copy.parent.mkdir()
        copy.write_bytes(segment.read_bytes())
    with closing(sqlite3.connect(copy, isolation_level=None)) as database:
        database.executescript(sql)
    return copy.parent


def rejected(command: str, log: Path) -> str:
    result = CliRunner().invoke(app, [command, str(log)])
    assert result.exit_code == 2
    assert result.stdout == ""
    return result.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("sql", "text"),
    [
        (_TO_100, "its event is not in the log, which ends with event 100"),
        ("delete from commands", "commands: there should be 132, but there are 0"),
        ("delete from commands; delete from closing", "those of event 122 are missing"),
    ],
)
def test_missing_records_are_reported(command: str, sql: str, text: str, tmp_path: Path) -> None:
    assert text in rejected(command, changed(tmp_path, sql))


@pytest.mark.parametrize("command", COMMANDS)
def test_damaged_tree_of_a_file_is_reported(command: str, tmp_path: Path) -> None:
    log = changed(tmp_path, "")
    damage_index(log)
    assert "SQLite reports: " in rejected(command, log)


@pytest.mark.parametrize("command", COMMANDS)
def test_damage_after_the_index_was_made_is_reported(command: str, tmp_path: Path) -> None:
    """A log with an index is not checked again, but only as long as its files are the same."""
    log = changed(tmp_path, "")
    make_index(log)
    assert CliRunner().invoke(app, [command, str(log)]).exit_code == 0
    damage_index(log)
    assert "SQLite reports: " in rejected(command, log)


def test_log_that_was_killed_is_read(tmp_path: Path) -> None:
    """Its last commands may be missing."""
    sql = "delete from closing; delete from commands where cause > 122"
    result = CliRunner().invoke(app, ["why", str(changed(tmp_path, sql))])
    assert result.exit_code == 0
