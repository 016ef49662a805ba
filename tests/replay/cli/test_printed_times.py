"""Times that a command prints, given back to a command."""

import json

import pytest
from typer.testing import CliRunner

from replay.cli.main import app
from replay.times import nanoseconds_of

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


def test_times_of_what_if_are_those_of_the_log() -> None:
    """An event has the same time in each command, to the microsecond."""
    search = ("--invariant", "orders-3 offline", "--branches", "2", "--moments", "4")
    result = CliRunner().invoke(
        app, ["what-if", INCIDENT, *search, "--seed", "7", "--workers", "1", "--json"]
    )
    points = json.loads(result.stdout)["points"]
    listed = _printed("events", INCIDENT, "--json").splitlines()
    times = {one["seq"]: one["time"] for one in map(json.loads, listed)}
    assert {one["seq"]: one["time"] for one in points}.items() <= times.items()
    answer = json.loads(_printed("what-if", INCIDENT, "--set", "num.partitions=3", "--json"))
    assert answer["begin"] == times[answer["begin_seq"]]
    took_ms = (nanoseconds_of(answer["end"]) - nanoseconds_of(answer["begin"])) / 1e6
    assert took_ms == answer["end_ms"] - answer["begin_ms"]
