"""A run is a function of its scenario and inputs, and reports the first violation."""

import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from msgspec import structs

from controller.core import znodes
from controller.core.state_machines import PartitionState
from replay.explore.coverage import PARTITION_TRANSITIONS, REPLICA_TRANSITIONS, Coverage
from replay.explore.generators.attempt import Attempts
from replay.explore.generators.mix import random_mix
from replay.explore.generators.scenarios import generic
from replay.explore.generators.strategies import STRATEGIES
from replay.explore.invariants.leadership import LeaderInIsr
from replay.explore.numbers import RandomNumbers
from replay.explore.run import NO_EXCEPTION, Run, run
from replay.explore.verdict import not_checked
from replay.world.inputs import (
    CrashBroker,
    CrashController,
    DeleteControllerZnode,
    HoldLink,
    Input,
    LoseReply,
    Reassign,
    StopBroker,
    Target,
    WriteZnode,
)
from replay.world.scenario import Scenario
from tests.replay.explore.defects import leader_outside_of_isr

INPUTS: tuple[Input, ...] = (CrashBroker(6_000, 1), DeleteControllerZnode(6_010))


def small() -> Scenario:
    """A generic cluster with a short active part."""
    return structs.replace(generic(), active_ms=12_000)


@pytest.fixture
def _defect(monkeypatch: pytest.MonkeyPatch) -> None:
    leader_outside_of_isr(monkeypatch.setattr)


def test_healthy_run_recovers_and_everything_is_checked() -> None:
    outcome = run(small(), INPUTS)
    assert outcome.violation is None
    assert outcome.not_checked == []
    assert outcome.coverage.inputs == {"CrashBroker": 1, "DeleteControllerZnode": 1}
    assert "BrokerChange" in outcome.coverage.procedures
    assert "ONLINE to OFFLINE" in outcome.coverage.partition_transitions
    assert outcome.coverage.crash_points
    assert outcome.coverage.racing


def test_changes_of_isrs_and_writes_that_are_not_done_are_counted() -> None:
    """Broker 1 restarts, so that leaders remove it and add it again. The reply to a write of the
    controller is lost meanwhile."""
    inputs = (StopBroker(6_000, 1, 500), LoseReply(6_000, "refold 100", is_carried_out=True))
    with_it, without = run(small(), inputs).coverage, run(small(), ()).coverage
    assert with_it.refused_writes.get("no reply", 0) > without.refused_writes.get("no reply", 0)
    assert with_it.isr_proposals.get("larger", 0) > without.isr_proposals.get("larger", 0)
    nothing = not_checked(Coverage(runs=1))
    assert "ISRs that no leader asked for: larger, smaller" in nothing
    assert any(
        one.startswith("reasons for which no write failed: another version") for one in nothing
    )


def test_follower_that_falls_behind_is_counted_as_a_smaller_isr() -> None:
    lags = HoldLink(4_000, "broker 2", "broker 1", 16_000, accepts=True)
    assert run(generic(), (lags,)).coverage.isr_proposals["smaller"] > 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_crash_counts_at_its_act(when: Literal["before", "after"]) -> None:
    """The third act of a run is the creation of the parent of its records."""
    acts = Run(small(), (), keeps_acts=True).outcome().acts["refold 100"]
    third = acts[2]
    crash = CrashController(0, "refold 100", third.number, when)
    crashes = run(small(), (crash,)).coverage.crashes
    assert list(crashes) == [f"{third.point} | {when}, same"]
    assert third.point not in (acts[1].point, acts[3].point)


def test_acts_of_the_quiet_part_are_no_crash_points() -> None:
    """The controller starts in the quiet part."""
    scenario = structs.replace(small(), active_ms=1, quiet_ms=100_000)
    coverage = run(scenario, ()).coverage
    assert "Create /controller_epoch" in coverage.acts
    assert coverage.crash_points == {}


@pytest.mark.long
def test_recovery_is_not_checked_while_a_stock_controller_fails_again_and_again() -> None:
    stock = [structs.replace(one, runs=True) for one in generic(standby=()).controllers]
    scenario = structs.replace(small(), controllers=tuple(stock), load=None, quiet_ms=52_000)
    unreadable = WriteZnode(6_000, znodes.PREFERRED_ELECTION, '{"version":1}')
    outcome = run(scenario, (unreadable, DeleteControllerZnode(6_010)))
    assert outcome.violation is None
    assert {"controller-active", "procedures-ended"} <= {*outcome.not_checked}


def test_same_inputs_make_the_same_run_with_any_hash_seed() -> None:
    script = (
        "from tests.replay.explore.test_run import INPUTS, small\n"
        "from replay.explore.run import Run\n"
        "print(Run(small(), INPUTS).outcome(with_digest=True).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "42")
    }
    assert len(digests) == 1


@pytest.mark.usefixtures("_defect")
def test_planted_defect_is_reported_with_its_time() -> None:
    violation = run(small(), INPUTS).violation
    assert violation is not None
    assert violation.invariant == LeaderInIsr.NAME
    assert 6_000_000 < violation.at_us < 60_000_000


def test_exception_of_the_code_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("controller.core.fold.process", fail)
    violation = run(small(), ()).violation
    assert violation is not None
    assert violation.invariant == NO_EXCEPTION
    assert violation.text == "ZeroDivisionError: planted (replay/explore/test_run.py, fail)"


@pytest.mark.parametrize(
    "function",
    [
        "controller.core.procedures.dispatch:process_broker_change",
        "controller.core.procedures.role.controller_election:fail_over",
        "controller.core.procedures.api_calls:process_alter_partition",
        "controller.core.procedures.reassignment.partition_reassignment:_carry_out",
    ],
)
def test_exception_that_a_procedure_catches_is_a_violation(
    monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    """Each catches what it does not expect, so that the controller can continue."""

    async def fail(*_: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(function.replace(":", "."), fail)
    move = Reassign(6_000, (Target("payments", 0, (3, 4)),))
    violation = run(small(), (move, *INPUTS)).violation
    assert violation is not None
    assert violation.invariant == NO_EXCEPTION
    assert violation.text == "ZeroDivisionError: planted (replay/explore/test_run.py, fail)"


def test_acts_and_deliveries_are_kept_for_strategies() -> None:
    traced = Attempts(small(), "test", 1, random_mix).trace(INPUTS)
    assert traced.acts["refold 100"][0].point == "Startup: Create /controller_epoch"
    assert [one.number for one in traced.acts["refold 100"]][:3] == [1, 2, 3]
    assert traced.sent["refold 100>zookeeper"] > 10
    assert traced.deliveries[0].id == 1


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_strategy_runs_on_the_world(name: str) -> None:
    runs: list[Coverage] = []

    class Enough(Exception):
        pass

    def on_run(coverage: Coverage) -> bool:
        runs.append(coverage)
        if len(runs) == 3:
            raise Enough
        return True

    def base(scenario: Scenario, numbers: RandomNumbers) -> list[Input]:
        return list(INPUTS)

    with pytest.raises(Enough):
        STRATEGIES[name](Attempts(small(), name, 1, base, on_run), RandomNumbers(1))


def test_verdict_names_changes_of_acls_only_as_absent_from_the_world() -> None:
    *reachable, absent = not_checked(Coverage(runs=1))
    assert "AclChange" in absent
    assert any("procedures that no run had: " in one for one in reachable)
    assert not any("AclChange" in one for one in reachable)


def test_coverage_of_several_runs_is_added_up() -> None:
    total = Coverage()
    for seed in (1, 2):
        done = Run(small(), random_mix(small(), RandomNumbers(seed)))
        total.add(done.outcome().coverage)
    assert total.runs == 2
    assert len(total.partition_transitions) <= PARTITION_TRANSITIONS
    assert len(total.replica_transitions) <= REPLICA_TRANSITIONS
    assert total.crash_points_tried <= len(total.crash_points)
    assert all(
        one.split(" to ")[0] in PartitionState.__members__ for one in total.partition_transitions
    )
