"""`refold explore --design 0.8`."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from click.testing import Result
from typer.testing import CliRunner

from controller.kafka_0_8.procedures import isr
from replay.cli.main import app
from replay.explore.invariants.recovery import Recovery
from replay.explore.kafka_0_8.generator import draw_run
from replay.explore.kafka_0_8.invariants import ALWAYS, RECOVERY
from replay.explore.kafka_0_8.losses import KNOWN_FLAWS, TRUNCATION
from replay.explore.kafka_0_8.run import RULES, Run08
from replay.explore.kafka_0_8.saved import read_run_08
from replay.explore.kafka_0_8.search import BrokenRun, search, shrink_run
from replay.explore.numbers import RandomNumbers
from replay.world.inputs import (
    ControllerFault,
    CrashBroker,
    CreateTopic,
    DeleteTopic,
    Fault,
    PauseProcess,
    Reassign,
    StopBroker,
)
from replay.world.kafka_0_8.networked.inputs import BrokerListAct, Input08
from replay.world.scenario import Scenario
from tests.replay.explore.kafka_0_8.small import small

INCIDENTS = Path(__file__).parent / "incidents"
PAGE = Path(__file__).parents[4] / "docs" / "design-0.8.md"
FLAW = read_run_08(INCIDENTS / "committed-record-truncated")
PACKAGE = "replay.explore.kafka_0_8"
NOT_MODELLED = {"FailLogDirectory", "SlowDisk"}


@pytest.mark.parametrize("folder", sorted(INCIDENTS.iterdir()), ids=lambda one: one.name)
def test_kept_run_breaks_no_invariant_or_has_its_known_flaw(folder: Path) -> None:
    saved = read_run_08(folder)
    assert saved.reason
    found = Run08(saved.scenario, saved.inputs).violation
    if saved.violation.invariant in KNOWN_FLAWS:
        assert found is not None
        assert (found.invariant, found.subject) == (
            saved.violation.invariant,
            saved.violation.subject,
        )
    else:
        assert found is None


@pytest.mark.long
def test_random_runs_break_no_invariant() -> None:
    """AR = ISR + CUR, one leadership in an epoch, committed records are kept, and all others."""
    found = search(11, 1, lambda coverage: coverage.runs < 25)
    assert found.broken is None
    flaws = sum(found.flaw_runs.values())
    assert found.coverage.recovered == found.coverage.runs - flaws
    assert len(found.coverage.rules) > 30


@pytest.mark.long
def test_runs_do_not_depend_on_the_number_of_workers() -> None:
    first, second = (search(5, workers, lambda one: one.runs < 6) for workers in (1, 2))
    assert first.coverage.runs == 6
    assert second.coverage.runs >= 6
    assert search(5, 1, lambda one: one.runs < second.coverage.runs) == second


def test_inputs_of_all_kinds_are_drawn() -> None:
    made: set[str] = set()
    for seed in range(400):
        scenario, inputs = draw_run(RandomNumbers(seed))
        assert [one.at_ms for one in inputs] == sorted(one.at_ms for one in inputs)
        assert 3 <= len(scenario.brokers) <= 5
        assert 1 <= sum(len(one.assignment) for one in scenario.topics) <= 6
        made.update(type(one).__name__ for one in inputs)
    faults = {one.__name__ for one in get_args(Fault)}
    faults -= {one.__name__ for one in get_args(ControllerFault)} | NOT_MODELLED
    commands = {one.__name__ for one in (CreateTopic, DeleteTopic, Reassign)}
    commands |= {one.__name__ for one in get_args(BrokerListAct)}
    assert made == {*faults, *commands, "Delay", "WriteZnode"}


@pytest.mark.long
def test_needless_inputs_and_brokers_are_left_out() -> None:
    padded = [*FLAW.inputs, PauseProcess(4_000, "broker 1", 20), StopBroker(12_000, 1, 100)]
    inputs = tuple(sorted(padded, key=lambda one: one.at_ms))
    broken = BrokenRun(7, FLAW.violation, FLAW.scenario, inputs)
    least = shrink_run(broken, seconds=60)
    assert least.run == 7
    assert len(least.inputs) == len(FLAW.inputs)
    assert least.violation.invariant == TRUNCATION


def test_page_has_all_invariants_with_their_statements() -> None:
    section = PAGE.read_text().partition("## The search")[2].partition("### ")[0]
    rows = re.findall(r"(?m)^\| `([a-z-]+)` \| (.+?) \|(?: (\d+) s \|)?$", section)
    own = [one for one in (*ALWAYS, *RECOVERY) if one.__module__.startswith(PACKAGE)]
    withins = [str(one.WITHIN_MS // 1000) if issubclass(one, Recovery) else "" for one in own]
    named = [(one.NAME, one.STATEMENT, within) for one, within in zip(own, withins, strict=True)]
    assert rows == named
    shared = {one.NAME for one in (*ALWAYS, *RECOVERY)} - {one.NAME for one in own}
    assert [one for one in shared if f"`{one}`" not in section] == []


def explore(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["explore", *arguments])


def search_of(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario, inputs: Sequence[Input08]
) -> None:
    """Every run of a search is this one."""
    monkeypatch.setattr(
        "replay.explore.kafka_0_8.search.draw_run", lambda numbers: (scenario, tuple(inputs))
    )


def test_command_prints_the_result(tmp_path: Path) -> None:
    limits = ["--design", "0.8", "--seed", "2", "--workers", "1", "--out", str(tmp_path / "out")]
    result = explore(*limits, "--runs", "2")
    assert result.exit_code == 0
    assert "seed 2\nno violation in 2 runs" in result.stdout
    assert re.search(r"speed: \d+\.\d runs/s, \d+ simulated s/s", result.stdout)
    reached = rf"rules: \d+ of {len(RULES)} were the reason of a command\nnot reached: "
    assert re.search(reached, result.stdout)
    assert f"checked after every step: {len(ALWAYS)} invariants" in result.stdout
    assert "all of them in 2 of 2 runs" in result.stdout
    document = json.loads(explore(*limits, "--runs", "1", "--json").stdout)
    assert (document["coverage"]["runs"], document["violation"]) == (1, None)
    assert document["checked"][0] == "ar-is-isr-and-cur"
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_run_with_a_flaw_is_saved_and_reproduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_of(monkeypatch, FLAW.scenario, FLAW.inputs)
    folder = tmp_path / "out"
    found = explore("--design", "0.8", "--workers", "1", "--runs", "2", "--out", str(folder))
    assert found.exit_code == 0
    assert f"known flaw of the design in 2 of 2 runs: {TRUNCATION}: a member of" in found.stdout
    assert "shrunk from 2 to 2 inputs:\n" in found.stdout
    run = folder / TRUNCATION
    again = explore("--reproduce", str(run))
    assert again.exit_code == 1
    assert "record 9 at offset 9 was committed; broker 2, in the ISR, truncated" in again.stdout
    assert "the same run: all events, commands and znodes are as saved" in again.stdout
    assert CliRunner().invoke(app, ["replay", str(run / "broker-2-run-2")]).exit_code == 0
    kept = CliRunner().invoke(app, ["new-incident", str(run), "--into", str(tmp_path / "kept")])
    assert kept.exit_code == 2
    assert "a run of the 0.8 design, which this command does not keep: copy its" in kept.stderr


def test_violation_ends_with_status_1_and_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr, "has_caught_up", lambda partition, replica: False)
    scenario = small((1, 2), acks=())
    search_of(monkeypatch, scenario, [CrashBroker(5_000, 2), PauseProcess(6_000, "broker 3", 50)])
    folder = tmp_path / "out"
    limits = ["--seed", "1", "--workers", "1", "--runs", "20", "--out", str(folder), "--json"]
    found = explore("--design", "0.8", *limits)
    assert found.exit_code == 1
    document = json.loads(found.stdout)
    assert document["violation"]["violation"]["invariant"] == "isrs-full"
    assert document["shrunk"][-1]["run"]["inputs"] == []
    monkeypatch.undo()
    again = explore("--reproduce", document["shrunk"][-1]["folder"], "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["expected"]["invariant"] == "isrs-full"


def test_saved_run_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    """Its runs were lists of acts."""
    (tmp_path / "run.json").write_text('{"format": 1, "design": "0.8", "acts": []}')
    result = explore("--reproduce", str(tmp_path))
    assert result.exit_code == 2
    assert "is not a run of `refold explore`" in result.stderr


def test_run_is_a_function_of_its_scenario_and_inputs() -> None:
    scenario, inputs = draw_run(RandomNumbers(3))
    assert Run08(scenario, inputs).digest == Run08(scenario, inputs).digest


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--design", "0.9"], "'0.9' is not a design"),
        (["--design", "0.8", "--strategy", "pct"], "leave out --strategy"),
        (["--design", "0.8", "--out", "."], "exists already"),
    ],
)
def test_unusable_options_are_refused(arguments: list[str], why: str) -> None:
    result = explore(*arguments)
    assert result.exit_code == 2
    assert why in result.stderr
