"""Commands open the logs of saved runs, and those of incidents that were made from one."""

import json
import shutil
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from replay.cli.main import app
from tests.controller.core.cluster import Cluster
from tests.replay.recorded_log import write_log
from tests.replay.what_if.simulated import run_with_two_logs

INCIDENT = Path("tests/incidents/entry-seen-before-own-write")
NUMBERS = ("--set", "num.partitions=3")
ONE_LOG = [["what-if", *NUMBERS], ["inspect"]]
ALL_LOGS = ["events", "decisions"]


def refold(command: str, path: Path, *options: str) -> Result:
    return CliRunner().invoke(app, [command, str(path), *options])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_with_two_logs(tmp_path_factory.mktemp("saved") / "run")


@pytest.mark.parametrize("name", ["", "run.json"])
@pytest.mark.parametrize(
    "command", [*ONE_LOG, ["report", "--json"], ["events"]], ids=lambda one: one[0]
)
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
    assert f"{run} has 2 daemon logs" in line
    assert f"{run / 'refold-100-run-1'} (term 1), " in line
    assert f"{run / 'refold-100-run-2'} (term 2, the end of the run)" in line


@pytest.mark.parametrize("name", ["", "run.json"])
def test_why_reads_all_logs_of_a_run(run: Path, name: str) -> None:
    result = refold("why", run / name)
    assert result.exit_code == 0, result.output
    assert "of term 2" in result.stdout


@pytest.mark.parametrize("command", ALL_LOGS)
@pytest.mark.parametrize("name", ["", "run.json"])
def test_command_that_lists_reads_the_logs_of_a_run_in_their_order(
    run: Path, name: str, command: str
) -> None:
    result = refold(command, run / name)
    assert result.exit_code == 0, result.output
    headings = [one for one in result.stdout.splitlines() if one.startswith("refold-100")]
    assert headings == ["refold-100-run-1", "refold-100-run-2"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log folder of a daemon that has run twice: topic t was created in the first run, and u in
    the second."""
    folder = tmp_path_factory.mktemp("runs")
    for name, topic in (("run-1", "t"), ("run-2", "u")):
        cluster = Cluster(1, 2).start()
        cluster.create_topic(topic, {0: [1, 2]})
        write_log(folder / name, cluster)
    return folder


@pytest.mark.parametrize("command", ONE_LOG, ids=lambda one: one[0])
def test_command_for_one_log_names_the_runs_of_a_daemon_with_their_times(
    runs: Path, command: list[str]
) -> None:
    result = refold(command[0], runs, *command[1:])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert f"{runs} has 2 daemon logs: give one of {runs / 'run-1'} (" in line
    assert "`refold why`, `events` and `decisions` read all of them" in line


def test_folder_of_imported_logs_is_described_as_such(
    log_of: Callable[[str], Path], tmp_path: Path
) -> None:
    for name in ("first", "second"):
        shutil.copytree(log_of("unclean-3"), tmp_path / name)
    line = refold("inspect", tmp_path).stderr
    assert f"{tmp_path} has 2 imported logs: give one of {tmp_path / 'first'} (" in line
    assert "`refold why --term` those of one cluster" in line
    assert refold("why", tmp_path, "--term", "1").exit_code == 0


def test_imported_log_next_to_a_run_is_not_one_of_its_logs(
    log_of: Callable[[str], Path], run: Path, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path, dirs_exist_ok=True)
    shutil.copytree(log_of("unclean-3"), tmp_path / "stock")
    line = refold("inspect", tmp_path).stderr
    assert f"{tmp_path} has 2 daemon logs and 1 imported log: " in line
    assert f"{tmp_path / 'refold-100-run-2'} (term 2, the end of the run)" in line
    assert f"{tmp_path / 'stock'} (imported)" in line
    shown = refold("report", tmp_path, "--json").stdout
    assert str(tmp_path / "refold-100-run-1") in shown
    assert str(tmp_path / "stock") not in shown


def test_times_of_the_last_runs_are_shown_if_a_daemon_has_run_often(tmp_path: Path) -> None:
    for number in range(8):
        write_log(tmp_path / f"run-{number}", Cluster(1).start())
    line = refold("inspect", tmp_path).stderr
    assert f"{tmp_path / 'run-3'} (2023-11-14T22:13:20.001000Z to 2023-11-14T" in line
    assert "and 3 earlier ones" in line
    assert "run-2" not in line


@pytest.mark.parametrize("command", ALL_LOGS)
def test_each_line_of_json_names_its_log(runs: Path, command: str) -> None:
    result = refold(command, runs, "--json")
    found = [json.loads(one) for one in result.stdout.splitlines()]
    assert [one for one, _ in groupby(found, lambda one: one["log"])] == ["run-1", "run-2"]
    alone = refold(command, runs / "run-2", "--json").stdout.splitlines()
    of_second = [one for one in found if one.pop("log") == "run-2"]
    assert of_second == [json.loads(one) for one in alone]


def test_limit_counts_the_lines_of_all_logs(runs: Path) -> None:
    count = len(refold("events", runs / "run-1", "--json").stdout.splitlines())
    result = refold("events", runs, "--json", "--limit", str(count + 2))
    logs = [json.loads(one)["log"] for one in result.stdout.splitlines()]
    assert logs == ["run-1"] * count + ["run-2"] * 2


def test_topic_is_found_in_the_log_that_has_it(runs: Path) -> None:
    result = refold("events", runs, "--topic", "u")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("run-2\n")
    result = refold("events", runs, "--topic", "nosuch")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "run-1: the log has no topic nosuch" in result.stderr
    assert "run-2: the log has no topic nosuch" in result.stderr


def test_number_of_an_event_is_refused_for_several_logs(runs: Path) -> None:
    result = refold("events", runs, "--from", "3")
    assert result.exit_code == 2
    assert "each log numbers its events from 1" in " ".join(result.stderr.split())
    assert refold("events", runs, "--from", "2023-11-14T22:13:20").exit_code == 0


def test_run_of_stock_controllers_has_no_log(run: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes((run / "run.json").read_bytes())
    result = refold("events", tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path} has no log: stock controllers write none" in result.stderr
