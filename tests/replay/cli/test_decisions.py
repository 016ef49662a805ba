"""`refold decisions`: the option --rule."""

import pytest
from click.testing import Result
from typer.testing import CliRunner

from replay.cli.main import app


def decisions(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["decisions", *arguments])


@pytest.mark.parametrize(
    "source", ["tests/incidents/broker-crash", "tests/recordings/broker-crash-2.tar.xz"]
)
def test_rule_that_the_log_does_not_have_is_an_error(source: str) -> None:
    result = decisions(source, "--rule", "electon")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no rule whose name contains 'electon'; " in result.stderr
    assert "ules: AlterPartition, " in result.stderr
    result = decisions(source, "--rule", "LEADER", "--to", "1")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.endswith(": no decisions match\n")
