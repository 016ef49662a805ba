"""`refold explore` from the command line: output and exit codes."""

import json
import re
import tempfile
from pathlib import Path

import msgspec
import pytest
from click.testing import Result
from msgspec import structs
from typer.testing import CliRunner

from replay.cli.main import app
from replay.explore.generators.scenarios import generic
from replay.explore.invariants.catalogue import RECOVERY
from replay.explore.saved import read_run
from replay.explore.verdict import invariant_names
from replay.world.inputs import CrashBroker
from tests.replay.cli.command import refold
from tests.replay.explore.defects import leader_outside_of_isr

pytestmark = pytest.mark.timeout(180)

INCIDENTS = Path(__file__).parents[2] / "incidents"


def explore(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["explore", *map(str, arguments)])


@pytest.fixture(autouse=True)
def _separate_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tests at a time would reserve the same folder for the result of the same seed."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("scenario") / "scenario.json"
    document = msgspec.to_builtins(structs.replace(generic(), active_ms=9_000))
    document["inputs"] = [msgspec.to_builtins(CrashBroker(6_000, 1))]
    file.write_bytes(msgspec.json.encode(document))
    return file


def test_healthy_code_has_no_violation(scenario: Path, tmp_path: Path) -> None:
    options = ("--runs", "2", "--workers", "1", "--seed", "5", "--strategy", "random")
    result = explore("--scenario", scenario, *options, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "seed 5\n" in result.stdout
    assert "no violation in 2 runs" in result.stdout
    always, recovery = len(invariant_names()) - len(RECOVERY), len(RECOVERY)
    assert f"checked after every step: {always} invariants" in result.stdout
    assert f"last fault: {recovery} invariants, all of them in 2 of 2 runs" in result.stdout
    assert "not checked: " in result.stdout
    assert not (tmp_path / "out").exists()


def test_progress_fits_a_terminal_of_80_columns(scenario: Path) -> None:
    options = ("--runs", "2", "--workers", "1", "--seed", "5", "--strategy", "random")
    terminal = {"FORCE_COLOR": "1", "COLUMNS": "80"}
    command = ["explore", "--scenario", str(scenario), *options]
    shown = CliRunner().invoke(app, command, env=terminal).stderr
    assert "folded events/s" in shown
    assert re.search(r"crash points tried \d+ of the \d+ that runs passed", shown)
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown


def test_progress_counts_what_the_verdict_counts(scenario: Path) -> None:
    options = ("--runs", "2", "--workers", "1", "--seed", "5", "--strategy", "random")
    terminal = {"FORCE_COLOR": "1", "COLUMNS": "80"}
    command = ["explore", "--scenario", str(scenario), *options]
    result = CliRunner().invoke(app, command, env=terminal)
    reached = re.findall(r"procedures (\d+ of \d+)", result.stderr)
    assert f"procedures: {reached[-1]}\n" in result.stdout


def test_progress_is_printed_in_lines_without_a_terminal(
    scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.cli.explore.LINE_S", 0.0)
    options = ("--runs", "2", "--workers", "1", "--seed", "5", "--strategy", "random")
    lines = explore("--scenario", scenario, *options).stderr.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert re.match(r"exploring: [\d.]+ runs/s, .* procedures \d+ of \d+, ", line)


def test_json_has_what_the_text_has(scenario: Path) -> None:
    options = ("--runs", "1", "--workers", "1", "--seed", "5", "--json")
    result = explore("--scenario", scenario, *options)
    document = json.loads(result.stdout)
    assert document["seed"] == 5
    assert document["violation"] is None
    assert document["coverage"]["runs"] == 1
    assert "leader-in-isr" in document["checked"]


def test_violation_is_shrunk_saved_and_reproduced(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader_outside_of_isr(monkeypatch.setattr)
    options = ("--runs", "3", "--workers", "1", "--seed", "5", "--shrink-seconds", "20")
    folder = tmp_path / "found"
    result = explore("--scenario", scenario, *options, "--out", folder)
    assert result.exit_code == 1, result.output
    assert "leader-in-isr does not hold at" in result.stdout
    assert "broker 1 crashed, and started again " in result.stdout
    assert f"refold explore --reproduce {folder}" in result.stdout

    again = explore("--reproduce", folder)
    assert again.exit_code == 1
    assert "\nthe same run: all events, commands and znodes are as saved" in again.stdout

    monkeypatch.undo()
    fixed = explore("--reproduce", folder / "run.json")
    assert fixed.exit_code == 0
    assert "no violation; the run was saved with a violation of leader-in-isr" in fixed.stdout


def test_saved_run_becomes_an_incident(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader_outside_of_isr(monkeypatch.setattr)
    options = ("--runs", "3", "--workers", "1", "--seed", "5", "--shrink-seconds", "5")
    folder = tmp_path / "found"
    assert explore("--scenario", scenario, *options, "--out", folder).exit_code == 1
    monkeypatch.undo()
    new_incident = ["new-incident", str(folder / "run.json"), "--into", str(tmp_path)]
    kept = CliRunner().invoke(app, new_incident)
    assert kept.exit_code == 0, kept.output
    incident = tmp_path / "leader-in-isr"
    names = sorted(one.name for one in incident.iterdir())
    assert names == ["incident.toml", "log.tar.xz", "run.json", "transcript.txt"]
    description = (incident / "incident.toml").read_text()
    assert "it broke leader-in-isr" in description
    assert " stored leader " in description.splitlines()[0]
    named = CliRunner().invoke(app, [*new_incident, "--name", "isr"])
    assert named.exit_code == 0, named.output
    title = (tmp_path / "isr" / "incident.toml").read_text().splitlines()[0]
    assert title == description.splitlines()[0]
    titled = CliRunner().invoke(app, [*new_incident, "--name", "lost", "--title", "Lost"])
    assert titled.exit_code == 0, titled.output
    assert "Lost" in (tmp_path / "lost" / "incident.toml").read_text()
    # On a slow machine, the run is not shrunk to one log.
    log = next(one for one in sorted(folder.iterdir()) if one.is_dir())
    inspected = CliRunner().invoke(app, ["inspect", str(log)])
    assert inspected.exit_code == 0, inspected.output


def test_search_that_ends_before_its_first_run_is_no_success(
    scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("replay.explore.parallel.do_job", interrupted)
    result = explore("--scenario", scenario, "--workers", "1", "--seed", "5")
    assert result.exit_code == 2
    assert "no violation in 0 runs" in result.stdout
    assert result.stderr == "refold explore: no run has ended, so nothing was checked\n"


def test_exploration_starts_from_an_incident() -> None:
    options = ("--runs", "2", "--workers", "1", "--seed", "1", "--strategy", "random")
    result = explore("--from-log", INCIDENTS / "broker-crash", *options)
    assert result.exit_code == 0, result.output
    assert "no violation in 2 runs" in result.stdout
    added = "refold 1001 was added as a standby: a crash of refold 1000 needs a successor"
    assert f"note: {added}\n" in result.stderr
    document = json.loads(
        explore("--from-log", INCIDENTS / "broker-crash", *options, "--json").stdout
    )
    assert added in document["notes"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--scenario", "absent.json"),
        ("--from-log", "absent"),
        ("--reproduce", "absent.json"),
        ("--strategy", "luck"),
        ("--scenario", "a.json", "--from-log", "b"),
    ],
)
def test_unusable_argument_has_status_2(arguments: tuple[str, ...]) -> None:
    result = explore("--runs", "1", *arguments)
    assert result.exit_code == 2


def test_options_that_do_not_go_with_reproduce_are_named() -> None:
    result = explore("--reproduce", "run.json", "--seed", "3", "--workers", "1")
    assert result.exit_code == 2
    assert "leave out --seed, --workers" in " ".join(result.stderr.replace("│", " ").split())


def test_existing_folder_is_refused_before_the_exploration(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").touch()
    result = explore("--scenario", scenario, "--out", tmp_path)
    assert result.exit_code == 2
    assert "exists already" in result.stderr


@pytest.mark.parametrize("folder", ["/proc/nope", "/dev/null/found"])
def test_folder_that_cannot_be_made_is_refused_before_the_exploration(
    scenario: Path, folder: str
) -> None:
    result = explore("--scenario", scenario, "--runs", "1", "--out", folder)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"refold explore: {folder} cannot be created: ")
    assert "seed" not in result.stdout


def test_folder_without_a_violation_is_removed_with_its_new_parents(
    scenario: Path, tmp_path: Path
) -> None:
    options = ("--runs", "1", "--workers", "1", "--strategy", "random", "--seed", "5")
    result = explore("--scenario", scenario, *options, "--out", tmp_path / "a" / "b")
    assert result.exit_code == 0, result.output
    assert list(tmp_path.iterdir()) == []


def test_violation_is_saved_elsewhere_if_the_folder_fails(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader_outside_of_isr(monkeypatch.setattr)
    folder, elsewhere = tmp_path / "found", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    write = Path.write_bytes

    def fails(path: Path, content: bytes) -> int:
        if folder in path.parents:
            raise OSError(28, "No space left on device")
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", fails)
    options = ("--runs", "3", "--workers", "1", "--seed", "5", "--shrink-seconds", "1")
    result = explore("--scenario", scenario, *options, "--out", folder)
    assert result.exit_code == 1, result.output
    assert "No space left on device" in result.stderr
    (saved,) = elsewhere.glob("refold-explored-*")
    assert f"saved in {saved}" in result.stdout
    run = read_run(saved)
    assert run.violation is not None
    assert run.violation.invariant == "leader-in-isr"
    assert list(tmp_path.iterdir()) == [elsewhere]


@pytest.mark.slow
def test_workers_of_the_command_explore(scenario: Path) -> None:
    options = ("--runs", "4", "--workers", "2", "--seed", "5")
    done = refold("explore", "--scenario", scenario, *options)
    assert done.returncode == 0, done.stderr
    assert "with 2 workers" in done.stdout
