"""Commands that fold a log notice that its stored commands are not those of its events."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eventstore import folders
from replay.cli.main import app
from tests.replay.recorded_log import incident, write_log

INCIDENT = Path("tests/incidents/failover")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of a daemon that decided nothing at one event at which this code decides something."""
    history = incident()
    middle = len(history.history) // 2
    place = next(
        place for place, (_, issued) in enumerate(history.history) if issued and place > middle
    )
    history.history[place] = (history.history[place][0], [])
    return write_log(tmp_path / "log", history, close=False)


@pytest.mark.parametrize("command", ["events", "decisions", "inspect"])
def test_missing_commands_are_noted_in_one_line(command: str, log: Path) -> None:
    result = CliRunner().invoke(app, [command, str(log)])
    assert result.exit_code == 0
    [note] = result.stderr.splitlines()
    assert note.startswith(
        f"refold {command}: the commands that the log has are not those that its events lead to,"
        " from event "
    )
    assert note.endswith(f"`refold replay {log}` lists the differences")


@pytest.mark.parametrize("command", ["events", "decisions", "inspect", "why"])
def test_log_without_its_last_commands_is_damaged(command: str, tmp_path: Path) -> None:
    """Later events of the log answer them."""
    log = write_log(tmp_path / "log", incident(), close=False)
    [segment] = folders.segments_of(log)
    with closing(sqlite3.connect(segment, isolation_level=None)) as database:
        [(last,)] = database.execute("select max(seq) from events")
        database.execute("delete from commands where cause > ?", (last // 2,))
    result = CliRunner().invoke(app, [command, str(log)])
    assert result.exit_code == 2
    assert "missing, although the log has its outcome" in result.stderr


@pytest.mark.parametrize("command", ["events", "decisions", "inspect"])
def test_log_of_a_killed_daemon_without_its_last_commands_has_no_note(
    command: str, tmp_path: Path
) -> None:
    history = incident()
    last = history.history[-1][0].seq
    log = write_log(tmp_path / "log", history, close=False, commands_until=last - 1)
    result = CliRunner().invoke(app, [command, str(log)])
    assert (result.exit_code, result.stderr) == (0, "")


def test_missing_commands_are_a_note_of_the_explanation(log: Path) -> None:
    result = CliRunner().invoke(app, ["why", str(log)])
    notes = [one for one in result.stdout.splitlines() if one.startswith("note: ")]
    text = "the commands that the log has are not those that its events lead to"
    assert any(text in one for one in notes)


@pytest.mark.parametrize("command", ["stats", "tail"])
def test_commands_that_do_not_fold_name_those_that_check(command: str) -> None:
    result = CliRunner().invoke(app, ["log", command, str(INCIDENT)])
    [note] = result.stderr.splitlines()
    assert note.startswith("refold log: not checked: ")
    assert f"refold log verify {INCIDENT}" in note
    assert f"refold replay {INCIDENT}" in note
