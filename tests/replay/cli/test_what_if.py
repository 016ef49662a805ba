"""`refold what-if` from the command line: output, exit codes, and the log that it saves."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from controller.fingerprint import core_fingerprint
from replay.cli.main import app
from replay.explore.saved import save, saved_run
from replay.world.inputs import CrashBroker
from replay.world.scenario import TopicSpec
from tests.races.catalogue import DEFECTS
from tests.replay.what_if.simulated import scenario

pytestmark = pytest.mark.timeout(180)

INCIDENTS = Path(__file__).parents[2] / "incidents"
UNCLEAN = INCIDENTS / "unclean-election"
SAME_RUN = "the same run: all events, commands and znodes are as saved"


def refold(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_dropped_failure_is_compared_with_the_log() -> None:
    result = refold("what-if", UNCLEAN, "--drop", "90")
    assert result.exit_code == 1, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "changed: event 90 did not happen: the registration of broker 1 ended"
    assert lines[1].startswith("continued after event 89 (2026-11-26T10:23:11.251360Z) for ")
    assert "the outcome differs for " in lines[2]
    assert any("orders-3" in one and "offline" in one and "9.8 s" in one for one in lines)
    assert "fidelity: without the changes, 6 of 6 partitions fare as in the log" in lines
    assert any(one.startswith("  log end offsets (6): ") for one in lines)


def test_change_without_an_effect_exits_with_0() -> None:
    result = refold("what-if", UNCLEAN, "--set", "num.partitions=3")
    assert result.exit_code == 0, result.output
    assert "the outcome is the same for all 6 partitions" in result.stdout


def test_json_has_outcomes_differences_and_assumptions() -> None:
    result = refold("what-if", UNCLEAN, "--drop", "90", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["differs"]
    assert document["happened"]["orders-3"]["offline_ms"] > 9_000
    assert document["changed"]["orders-3"]["offline_ms"] == 0
    assert document["fidelity"]["agreeing"] == 6
    assert {
        key: one[key]
        for one in document["assumptions"]
        if one["about"] == "producers"
        for key in ("about", "count")
    } == {"about": "producers", "count": 2}
    assert {one["what"] for one in document["effect"] if one["partition"] == "orders-3"} >= {
        "offline",
        "leader",
    }


def test_answer_says_in_its_sentence_how_little_of_the_log_is_reproduced() -> None:
    log = INCIDENTS / "target-replaced-before-2.7"
    result = refold("what-if", log, "--set", "num.partitions=3")
    assert result.exit_code == 0, result.output
    summary = (
        "the outcome is the same for all 3 partitions, but the simulation is not reliable for this "
        "log: without the changes only 1 of 3 partitions fare as in the log"
    )
    assert summary in result.stdout.splitlines()
    document = json.loads(refold("what-if", log, "--set", "num.partitions=3", "--json").stdout)
    assert document["summary"] == summary
    assert document["fidelity"]["is_low"]


def test_outcome_without_partitions_is_not_compared() -> None:
    log = INCIDENTS / "deletion-after-two-moves"
    result = refold("what-if", log, "--set", "num.partitions=3")
    assert result.exit_code == 0, result.output
    assert "the simulated cluster has no partitions to compare at the end" in result.stdout


@pytest.fixture(scope="module")
def run_of_other_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a run with a race that the code does not have."""
    folder = tmp_path_factory.mktemp("race") / "run"
    defect = DEFECTS["R4"]
    assert defect.directed is not None
    scenario, inputs = defect.directed()
    with defect.plant():
        save(saved_run(scenario, inputs, seed=1, strategy="directed", before=1), folder)
    return folder / "refold-100-run-1"


def test_run_that_is_not_repeated_names_the_version_that_saved_it(run_of_other_code: Path) -> None:
    question = ("what-if", run_of_other_code, "--crash", "broker=1@50")
    lines = refold(*question).stdout.splitlines()
    by = f"core {core_fingerprint()}; the code of this version runs it differently"
    assert any(one.startswith("the run was saved by refold ") and by in one for one in lines)
    assert "  payments-0: isr: 1 in the log, 1,2 simulated" in lines
    document = json.loads(refold(*question, "--json").stdout)
    assert document["not_repeated"]["core"] == core_fingerprint()
    assert document["happened"]["payments-0"]["isr"] == [1]


def test_futures_of_a_run_that_is_not_repeated_are_those_of_this_version(
    run_of_other_code: Path,
) -> None:
    options = ("--branches", "1", "--moments", "2", "--seed", "7", "--workers", "1")
    search = ("what-if", run_of_other_code, "--invariant", "payments-0 lost", *options)
    assert "all futures are runs of this version" in refold(*search).stdout
    document = json.loads(refold(*search, "--json").stdout)
    assert document["not_repeated"]["core"] == core_fingerprint()


def test_cancellation_without_an_effect_says_so() -> None:
    recording = INCIDENTS.parent / "recordings" / "reassign-5.tar.xz"
    result = refold("what-if", recording, "--cancel-reassignment", "t-03-4@600")
    assert result.exit_code == 0, result.output
    assert (
        "cancelled too late, without an effect: the simulated cluster has already ended the "
        "reassignment of t-03-4"
    ) in result.stdout.splitlines()


@pytest.fixture(scope="module")
def continued(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("what-if") / "continued"
    result = refold("what-if", UNCLEAN, "--drop", "90", "--out", folder)
    assert result.exit_code == 1, result.output
    log = folder / "refold-1000-run-1"
    assert f"a log for replay, why, inspect and diff: {log}" in result.stdout
    return log


def test_logs_of_a_run_with_a_failover_are_named_with_their_terms(tmp_path: Path) -> None:
    recording = INCIDENTS.parent / "recordings" / "broker-crash-2.tar.xz"
    run = tmp_path / "run"
    result = refold("what-if", recording, "--drop", "459", "--out", run)
    assert result.exit_code == 1, result.output
    logs = [one for one in result.stdout.splitlines() if one.startswith("a log for ")]
    assert len(logs) == 3
    assert logs[0].endswith(f"{run}/refold-1000000-run-1 (term 2)")
    assert logs[2].endswith(f"{run}/refold-1000000-run-3 (term 4, the end of the run)")
    assert result.stdout.endswith(f"together: refold report {run}, refold why {run}\n")


@pytest.mark.parametrize(
    "command",
    [
        ["replay", "LOG"],
        ["why", "LOG", "--partition", "orders-3"],
        ["inspect", "LOG"],
        ["events", "LOG"],
        ["decisions", "LOG"],
        ["health", "LOG"],
        ["log", "verify", "LOG"],
        ["log", "show", "LOG", "--format", "kafka"],
        ["what-if", "LOG", "--set", "num.partitions=3"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_saved_log_is_opened_by_other_commands(continued: Path, command: Sequence[str]) -> None:
    result = refold(*[str(continued) if one == "LOG" else one for one in command])
    assert result.exit_code == 0, result.output
    assert result.stdout


@pytest.mark.long
@pytest.mark.slow
def test_saved_log_is_compared_by_diff(continued: Path) -> None:
    result = refold("diff", continued, "--base", ".", "--head", ".")
    assert result.exit_code == 0, result.output


def test_saved_run_is_reproduced_by_the_explorer(continued: Path) -> None:
    result = refold("explore", "--reproduce", continued.parent)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == SAME_RUN


@pytest.mark.parametrize("name", ["", "run.json"])
def test_incident_that_was_made_from_a_run_is_continued_from_its_log_and_the_output_says_so(
    name: str,
) -> None:
    path = INCIDENTS / "cancelled-during-failover" / name
    result = refold("what-if", path, "--set", "num.partitions=3")
    assert "run.json: its run is not repeated, its log is continued" in result.stdout
    other = refold("what-if", UNCLEAN, "--set", "num.partitions=3")
    assert "run.json" not in other.stdout


def test_continued_run_of_the_explorer_is_the_same_run_after_the_cluster_has_recovered(
    tmp_path: Path,
) -> None:
    begun = scenario(TopicSpec("t", ((1, 2), (2, 1))), quiet_ms=30_000)
    run = saved_run(begun, (CrashBroker(8_000, 2, False, 9_000),), seed=1, strategy="x", before=1)
    log = save(run, tmp_path / "explored")[0]
    folder = tmp_path / "continued"
    assert refold("what-if", log, "--out", folder).exit_code == 0
    result = refold("explore", "--reproduce", folder)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == SAME_RUN
    again = refold("what-if", folder, "--set", "num.partitions=3")
    assert again.exit_code == 0, again.output
    assert "runs it differently" not in again.stdout


@pytest.mark.long
def test_point_of_no_return_names_the_event() -> None:
    options = ("--branches", "8", "--moments", "8", "--seed", "7", "--workers", "1")
    result = refold("what-if", UNCLEAN, "--invariant", "orders-3 offline", *options)
    assert result.exit_code == 1, result.output
    rises = [one for one in result.stdout.splitlines() if one.startswith("rises from ")]
    assert "at event 90 (" in rises[0]
    assert rises[0].endswith("broker 1 ended (the controller read this at event 93)")
    assert "seed 7" in result.stdout


def test_json_has_the_curve() -> None:
    options = ("--branches", "4", "--moments", "4", "--seed", "7", "--workers", "1", "--json")
    result = refold("what-if", INCIDENTS / "broker-crash", "--invariant", "orders-1 lost", *options)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert {one["futures"] for one in document["points"]} == {4}
    assert document["jumps"] == []
    assert document["condition"] == "orders-1 lost"


def test_invariant_of_the_explorer_is_a_condition() -> None:
    options = ("--branches", "1", "--moments", "2", "--seed", "7", "--workers", "1")
    result = refold("what-if", INCIDENTS / "broker-crash", "--invariant", "leader-in-isr", *options)
    assert result.exit_code == 0, result.output
    assert "it does not change by 10 % or more anywhere" in result.stdout


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "nothing is changed"),
        (("--drop", "95"), "did not come from outside"),
        (("--drop", "5000"), "there is no event 5000"),
        (
            ("--crash", "broker=9@80"),
            "the log has no broker 9; brokers: 1,2,3",
        ),
        (("--set", "foo=1"), "is not a setting that changes a continuation"),
        (("--invariant", "broken"), "no invariant has this name; invariants: "),
        (("--drop", "90", "--out", INCIDENTS), "exists already"),
    ],
)
def test_wrong_change_is_one_line_and_status_2(options: tuple[str | Path, ...], text: str) -> None:
    result = refold("what-if", UNCLEAN, *options)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("refold what-if: ")
    assert text in line
    assert result.stdout == ""


@pytest.mark.parametrize(
    "options",
    [
        ("--drop", "90", "--branches", "5"),
        ("--invariant", "orders-3 offline", "--out", "x"),
        ("--drop", "ninety"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: tuple[str, ...]) -> None:
    assert refold("what-if", UNCLEAN, *options).exit_code == 2


def test_missing_log_is_status_2(tmp_path: Path) -> None:
    result = refold("what-if", tmp_path / "none", "--drop", "1")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
