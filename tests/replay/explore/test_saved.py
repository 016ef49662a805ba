"""A saved run is read back, and its logs are those of a daemon."""

from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from typer.testing import CliRunner

from controller.core import znodes
from replay.cli.main import app
from replay.errors import ReplayError
from replay.explore.generators.scenarios import generic
from replay.explore.saved import read_run, read_scenario, reserved, run_again, save, saved_run
from replay.logs.open_log import open_reader
from replay.verify.verification import verify_decisions
from replay.world.inputs import CrashBroker, DeleteControllerZnode, Input
from replay.world.scenario import Scenario
from replay.world.start_state import start_state

_INPUTS: tuple[Input, ...] = (CrashBroker(6_000, 1), DeleteControllerZnode(6_010))


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return structs.replace(generic(), active_ms=9_000)


@pytest.fixture(scope="module")
def folder(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("explored") / "found"
    save(saved_run(scenario, _INPUTS, seed=7, strategy="random", before=9), made)
    return made


def test_saved_run_is_read_back_and_runs_again(folder: Path, scenario: Scenario) -> None:
    saved = read_run(folder)
    assert (saved.scenario, saved.inputs) == (scenario, _INPUTS)
    assert (saved.seed, saved.strategy, saved.inputs_before_shrinking) == (7, "random", 9)
    assert run_again(saved).outcome(with_digest=True).digest == saved.digest
    assert read_run(folder / "run.json") == saved


def test_logs_of_a_saved_run_replay_without_a_difference(folder: Path) -> None:
    logs = sorted(one.name for one in folder.iterdir() if one.is_dir())
    assert logs == ["refold-100-run-1", "refold-101-run-1"]
    for name in logs:
        with open_reader(folder / name) as reader:
            verified = verify_decisions(reader)
        assert verified.events > 0
        assert verified.mismatched == 0
        assert verified.is_closed


def test_logs_of_other_runs_are_of_other_clusters(
    folder: Path, scenario: Scenario, tmp_path: Path
) -> None:
    """`refold fleet` would take them for copies of one log."""
    other = tmp_path / "other"
    save(saved_run(scenario, _INPUTS[:1], seed=7, strategy="random", before=9), other)
    clusters = []
    for one in (folder, other):
        with open_reader(one / "refold-100-run-1") as reader:
            clusters.append(reader.header.cluster_id)
    assert clusters[0] != clusters[1]


def test_existing_folder_is_kept(folder: Path) -> None:
    with pytest.raises(ReplayError, match="exists already"):
        save(read_run(folder), folder)


def test_empty_folder_that_a_killed_search_left_is_used(tmp_path: Path) -> None:
    left = tmp_path / "found"
    left.mkdir()
    with reserved(left):
        pass
    assert left.is_dir()


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, "cannot be read"), ("{}", "is not a run"), ("[", "is not a run")],
)
def test_unusable_run_is_refused(tmp_path: Path, content: str | None, text: str) -> None:
    file = tmp_path / "run.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ReplayError, match=text):
        read_run(file)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"broker": 1', '"broker": 99', "inputs[0] (crash_broker): broker 99 is not one of"),
        ('"active_ms": 9000', '"active_ms": -1', "active_ms must be"),
        ('"zookeeper_members": 3', '"zookeeper_members": 0', "Expected `int` >= 1"),
        ('"restart_after_ms"', '"restart_after_m"', "unknown field `restart_after_m` of inputs[0]"),
    ],
)
def test_saved_run_with_an_error_is_neither_run_nor_kept(
    folder: Path, tmp_path: Path, old: str, new: str, problem: str
) -> None:
    file = tmp_path / "run.json"
    content = (folder / "run.json").read_text()
    assert old in content
    file.write_text(content.replace(old, new))
    again = CliRunner().invoke(app, ["explore", "--reproduce", str(file)])
    kept = CliRunner().invoke(
        app, ["new-incident", str(file), "--name", "kept", "--into", str(tmp_path)]
    )
    for result in (again, kept):
        assert result.exit_code == 2
        assert problem in result.stderr
    assert not (tmp_path / "kept").exists()


def test_scenario_is_read_from_toml(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(
        """
        brokers = [{id = 1}, {id = 2}]
        topics = [{name = "t", assignment = [[1, 2]]}]
        controllers = [{configuration = {broker_id = 100}}]

        [[inputs]]
        input = "crash_broker"
        at_ms = 5000
        broker = 2
        """
    )
    scenario, inputs = read_scenario(file)
    assert [one.id for one in scenario.brokers] == [1, 2]
    assert inputs == (CrashBroker(5_000, 2),)


@pytest.mark.parametrize("given", ["", '{"version":1,"broker":7,"block_start":"0"}'])
def test_scenario_has_the_znode_of_producer_ids_as_brokers_create_it(
    given: str, tmp_path: Path
) -> None:
    file = tmp_path / "scenario.json"
    content: dict[str, object] = {
        "brokers": [{"id": 1}],
        "controllers": [{"configuration": {"broker_id": 100}}],
    }
    if given:
        content["znodes"] = {znodes.PRODUCER_IDS: given}
    file.write_bytes(msgspec.json.encode(content))
    scenario, _ = read_scenario(file)
    found = start_state(scenario).find(znodes.PRODUCER_IDS)
    assert found is not None
    assert found.data == given.encode()


def test_misspelt_field_of_a_scenario_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "scenario.json"
    file.write_text('{"brokers": [], "controllers": [], "input": []}')
    with pytest.raises(ReplayError, match="unknown field `input`"):
        read_scenario(file)
