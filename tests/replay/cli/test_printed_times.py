"""Times that a command prints, given back to a command."""

import pytest
from typer.testing import CliRunner

from replay.cli.main import app

INCIDENT = "tests/incidents/unclean-election"
TIME = "2026-11-26T10:23:14.832940Z"
"""Of event 93, as it is printed."""


def _printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("time", [TIME, TIME.removesuffix("Z")])
def test_printed_time_of_an_event_names_the_state_after_it(time: str) -> None:
    assert _printed("inspect", INCIDENT, "--at", time).startswith(f"after event 93, {TIME}")
    why = ("why", INCIDENT, "--partition", "orders-3", "--json", "--at")
    assert _printed(*why, time) == _printed(*why, "93")


@pytest.mark.parametrize("command", [("events",), ("log", "show")])
def test_printed_time_of_an_event_as_both_ends_selects_it(command: tuple[str, ...]) -> None:
    lines = _printed(*command, INCIDENT, "--from", TIME, "--to", TIME).splitlines()
    assert [line.split()[0] for line in lines] == ["93"]


def test_time_before_the_printed_one_is_before_the_event() -> None:
    before = TIME.replace("940Z", "939Z")
    assert _printed("inspect", INCIDENT, "--at", before).startswith("after event 92, ")
