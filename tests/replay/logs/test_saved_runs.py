"""Commands open the logs of saved runs, and those of incidents that were made from one."""

from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from replay.cli.main import app
from tests.replay.what_if.simulated import run_with_two_logs

INCIDENT = Path("tests/incidents/entry-seen-before-own-write")
NUMBERS = ("--set", "num.partitions=3")
ONE_LOG = [["events"], ["what-if", *NUMBERS], ["inspect"]]


def refold(command: str, path: Path, *options: str) -> Result:
    return CliRunner().invoke(app, [command, str(path), *options])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_with_two_logs(tmp_path_factory.mktemp("saved") / "run")


@pytest.mark.parametrize("name", ["", "run.json"])
@pytest.mark.parametrize("command", [*ONE_LOG, ["report", "--json"]], ids=lambda one: one[0])
def test_incident_with_its_run_is_opened_as_its_log(name: str, command: list[str]) -> None:
    result = refold(command[0], INCIDENT / name, *command[1:])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["", "run.json"])
@pytest.mark.parametrize("command", ONE_LOG, ids=lambda one: one[0])
def test_command_for_one_log_names_the_logs_of_a_run_with_their_terms(
    run: Path, name: str, command: list[str]
) -> None:
    result = refold(command[0], run / name, *command[1:])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert f"{run} has 2 logs" in line
    assert f"{run / 'refold-100-run-1'} (term 1), " in line
    assert f"{run / 'refold-100-run-2'} (term 2, the end of the run)" in line


@pytest.mark.parametrize("name", ["", "run.json"])
def test_why_reads_all_logs_of_a_run(run: Path, name: str) -> None:
    result = refold("why", run / name)
    assert result.exit_code == 0, result.output
    assert "of term 2" in result.stdout


def test_run_of_stock_controllers_has_no_log(run: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes((run / "run.json").read_bytes())
    result = refold("events", tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path} has no log: stock controllers write none" in result.stderr
