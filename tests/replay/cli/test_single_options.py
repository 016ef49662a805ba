"""Options with one value that are given twice."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from replay.cli.main import app


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.mark.parametrize("command", ["events", "decisions", "inspect", "why", "health"])
def test_option_with_one_value_is_refused_if_it_is_given_twice(command: str, log: Path) -> None:
    option = "--at" if command in ("why", "health", "inspect") else "--broker"
    found = run(command, log, option, "1", option, "2")
    assert (found.exit_code, found.stdout) == (2, "")
    assert f"{option}" in found.stderr
    assert "is given 2 times: give it once" in " ".join(found.stderr.replace("│", " ").split())


def test_options_that_can_be_repeated_and_flags_are_accepted(log: Path) -> None:
    kinds = ("--kind", "watch_fired", "--kind", "znodes_read")
    found = run("events", log, *kinds, "--json", "--json")
    assert found.exit_code == 0, found.stderr
    assert '"kind":"watch_fired"' in found.stdout
    assert '"kind":"znodes_read"' in found.stdout
