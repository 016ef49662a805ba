"""Workers share the jobs, and a violation that one of them finds ends the exploration."""

import signal
from multiprocessing.context import SpawnProcess

import pytest
from msgspec import structs

from replay.explore.generators.scenarios import generic
from replay.explore.generators.strategies import ExplorationStart
from replay.explore.invariants.leadership import LeaderInIsr
from replay.explore.parallel import Budget, explore
from replay.explore.run import breaks
from replay.world.inputs import CrashBroker
from tests.replay.explore.defects import leader_outside_of_isr, plant

_START = ExplorationStart(
    structs.replace(generic(), active_ms=9_000), (CrashBroker(6_000, 1),), ("random",)
)


def test_one_worker_runs_in_this_process_until_the_budget_is_spent() -> None:
    reported: list[int] = []
    explored = explore(
        _START, 1, Budget(runs=3), 1, lambda coverage, seconds: reported.append(coverage.runs)
    )
    assert explored.case is None
    assert explored.coverage.runs == 3
    assert reported == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_workers_explore_and_report_coverage() -> None:
    explored = explore(_START, 1, Budget(runs=8), 2)
    assert explored.case is None
    assert explored.coverage.runs >= 8


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_violation_that_a_worker_finds_is_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    explored = explore(_START, 1, Budget(seconds=150), 2, prepare=plant)
    assert explored.case is not None
    assert explored.violation is not None
    assert explored.violation.invariant == LeaderInIsr.NAME
    leader_outside_of_isr(monkeypatch.setattr)
    assert breaks(explored.case.scenario, explored.case.inputs, LeaderInIsr.NAME)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_ctrl_c_while_a_worker_starts_ends_the_exploration(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[SpawnProcess] = []
    start = SpawnProcess.start

    def start_and_interrupt(process: SpawnProcess) -> None:
        start(process)
        started.append(process)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(SpawnProcess, "start", start_and_interrupt)
    explored = explore(_START, 1, Budget(seconds=60), 2)
    assert explored.was_interrupted
    assert [one.is_alive() for one in started] == [False]
