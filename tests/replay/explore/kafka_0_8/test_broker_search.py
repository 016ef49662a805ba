"""`refold explore --design 0.8`."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from controller.kafka_0_8 import records
from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.procedures import isr
from controller.kafka_0_8.state import Partition
from replay.cli.main import app
from replay.explore.kafka_0_8.acts import Act, drawn
from replay.explore.kafka_0_8.monitor import COMMITTED_RECORDS_KEPT, INVARIANTS
from replay.explore.kafka_0_8.search import BrokenRun, play, search, shrunk
from replay.explore.numbers import Numbers

FLAW = [
    Act("produce", 3, topic="u", number=-1),
    Act("wait", number=150),
    Act("cut", 3, 4),
    Act("stop", 4, number=1),
    Act("start", 4),
    Act("stop", 3, number=1),
    Act("wait", number=1000),
]
"""A record of u-0 is committed; its follower restarts without reaching the leader, which dies."""


def test_flaw_of_the_design_is_found_and_named() -> None:
    _, violation = play(FLAW)
    assert violation is not None
    assert violation.invariant == COMMITTED_RECORDS_KEPT
    assert "record r0 of u-0 was acknowledged with acks -1 and is lost" in violation.text


def test_needless_acts_are_left_out() -> None:
    padded = [Act("produce", 1), *FLAW[:2], Act("lose-connection", 2), *FLAW[2:], Act("delete")]
    broken = shrunk(BrokenRun(7, COMMITTED_RECORDS_KEPT, "", padded))
    assert broken.acts == FLAW
    assert "record r1 of u-0" not in broken.text
    assert str(broken.acts[3]) == "stop broker 4; its session ends"


def test_runs_do_not_depend_on_the_number_of_workers() -> None:
    first, second = (search(5, workers, lambda done: done < 20) for workers in (1, 2))
    assert first.runs == 20
    assert second.runs >= 20
    again = search(5, 1, lambda done: done < second.runs)
    assert again == second
    assert again.violation is None


def test_page_has_all_invariants() -> None:
    page = (Path(__file__).parents[4] / "docs" / "design-0.8.md").read_text()
    _, _, section = page.partition("## The search")
    assert [one for one in INVARIANTS if f"`{one}`" not in section] == []


def test_acts_of_all_kinds_are_drawn() -> None:
    found = drawn(Numbers(1), 300)
    assert len({one.what for one in found}) == 12
    assert all(str(one) for one in found)


def test_high_watermark_that_does_not_wait_for_the_isr_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def commit_at_once(broker: Broker, partition: Partition) -> None:
        partition.local.hw = max(partition.local.hw, partition.local.leo)

    monkeypatch.setattr(records, "commit", commit_at_once)
    found = search(1, 1, lambda done: done < 20)
    assert found.violation is not None
    assert found.violation.invariant == "isr-has-committed-records"


def test_isr_that_does_not_grow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isr, "has_caught_up", lambda partition, replica: False)
    found = search(1, 1, lambda done: done < 20)
    assert found.violation is not None
    assert found.violation.invariant == "replicas-catch-up"


def explore(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["explore", *arguments])


def test_command_prints_the_result(tmp_path: Path) -> None:
    limits = ["--design", "0.8", "--seed", "1", "--workers", "1", "--out", str(tmp_path / "out")]
    result = explore(*limits, "--runs", "3")
    assert result.exit_code == 0
    assert "seed 1\nno violation in 3 runs" in result.stdout
    assert "checked: ar-is-isr-and-cur, one-leader-in-an-epoch" in result.stdout
    document = json.loads(explore(*limits, "--runs", "2", "--json").stdout)
    assert (document["runs"], document["violation"]) == (2, None)
    assert not (tmp_path / "out").exists()


def test_run_with_a_flaw_is_saved_and_reproduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    padded = [*FLAW, Act("wait", number=5)]
    monkeypatch.setattr("replay.explore.kafka_0_8.search.drawn", lambda numbers, count: padded)
    folder = tmp_path / "out"
    found = explore("--design", "0.8", "--workers", "1", "--runs", "2", "--out", str(folder))
    assert found.exit_code == 0
    assert "known flaw of the design in 2 of 2 runs" in found.stdout
    assert "shrunk from 8 to 7 acts:\n  produce to u-0 on broker 3 with acks -1" in found.stdout
    run = folder / COMMITTED_RECORDS_KEPT
    again = explore("--reproduce", str(run))
    assert again.exit_code == 1
    assert "record r0 of u-0 was acknowledged with acks -1 and is lost" in again.stdout
    assert "the same run: all events and commands are as saved" in again.stdout
    assert CliRunner().invoke(app, ["replay", str(run / "broker-4-run-2")]).exit_code == 0


def test_violation_ends_with_status_1_and_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr, "has_caught_up", lambda partition, replica: False)
    folder = tmp_path / "out"
    limits = ["--seed", "1", "--workers", "1", "--runs", "20", "--out", str(folder), "--json"]
    found = explore("--design", "0.8", *limits)
    assert found.exit_code == 1
    document = json.loads(found.stdout)
    assert document["violation"]["invariant"] == "replicas-catch-up"
    assert len(document["shrunk"][-1]["acts"]) < len(document["violation"]["acts"])
    monkeypatch.undo()
    again = explore("--reproduce", document["shrunk"][-1]["folder"], "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["expected"]["invariant"] == "replicas-catch-up"


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
