"""An incident in a log becomes a scenario and inputs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from controller.core.configuration import Configuration
from replay.errors import ReplayError
from replay.explore.from_log.reading import start_of_log
from replay.explore.from_log.schedule import Schedule
from replay.explore.run import run
from replay.world.inputs import (
    CancelReassignment,
    CrashBroker,
    CreateTopic,
    DeleteTopic,
    EndCancellation,
    Input,
    Reassign,
    ShutDownController,
    StopBroker,
)

INCIDENTS = Path(__file__).parents[2] / "incidents"


def test_crashed_broker_crashes_and_starts_again() -> None:
    begun = start_of_log(INCIDENTS / "broker-crash")
    assert [one.id for one in begun.scenario.brokers] == [1, 2, 3]
    (crash,) = [one for one in begun.inputs if isinstance(one, CrashBroker)]
    assert crash.broker == 2
    assert crash.restart_after_ms is not None


def test_controlled_shutdown_is_no_crash() -> None:
    begun = start_of_log(INCIDENTS / "controlled-shutdown")
    (stop,) = [one for one in begun.inputs if isinstance(one, StopBroker)]
    assert stop.broker == 1


@pytest.mark.parametrize(
    ("last", "is_kept"),
    [
        pytest.param((ShutDownController(9_000, "refold 100"),), False, id="controller"),
        pytest.param((StopBroker(8_000, 1, None), StopBroker(9_000, 2, None)), False, id="all"),
        pytest.param((StopBroker(9_000, 2, None),), True, id="one broker"),
        pytest.param((StopBroker(9_000, 2, 50),), True, id="restart"),
    ],
)
def test_shutdown_that_ends_a_recording_is_left_out(last: tuple[Input, ...], is_kept: bool) -> None:
    schedule = Schedule(Configuration(broker_id=100))
    schedule.begin(0, {}, [1, 2])
    for one in (CrashBroker(5_000, 1), *last):
        schedule.add(one)
    result = schedule.result()
    assert result.inputs == (CrashBroker(5_000, 1), *(last if is_kept else ()))
    assert bool(result.notes) is not is_kept


def test_cancelled_reassignment_is_requested_and_cancelled() -> None:
    begun = start_of_log(INCIDENTS / "cancellation")
    kinds = [type(one) for one in begun.inputs]
    assert kinds.index(Reassign) < kinds.index(CancelReassignment) < kinds.index(EndCancellation)
    move = next(one for one in begun.inputs if isinstance(one, Reassign))
    assert move.route == "znode"
    assert {(one.topic, one.partition) for one in move.targets} == {("moved", 0), ("moved", 1)}


def test_topics_of_the_start_and_requests_about_topics_are_kept() -> None:
    begun = start_of_log(INCIDENTS / "topics")
    assert begun.scenario.topics
    assert any(isinstance(one, CreateTopic) for one in begun.inputs)
    assert any(isinstance(one, DeleteTopic) for one in begun.inputs)


@pytest.mark.parametrize(
    "name",
    [
        "bounced-broker",
        "broker-crash",
        "cancellation-failover",
        "deletion-failover",
        "failover",
        "kraft-epoch-above",
        "reassignment-replaced",
        "topic-deletion",
    ],
)
def test_incident_runs_without_a_violation(name: str) -> None:
    begun = start_of_log(INCIDENTS / name)
    assert run(begun.scenario, begun.inputs).violation is None


def test_imported_log_becomes_a_scenario() -> None:
    begun = start_of_log(INCIDENTS / "stock-unclean-election")
    assert any(isinstance(one, CreateTopic) for one in begun.inputs)
    assert begun.scenario.controllers[0].process == "refold 1000000"


def test_log_without_a_failover_is_refused() -> None:
    with pytest.raises(ReplayError, match="no failover"):
        start_of_log(INCIDENTS / "failed-failover")


@pytest.mark.slow
def test_recording_of_a_stock_cluster_runs(log_of: Callable[[str], Path]) -> None:
    begun = start_of_log(log_of("broker-crash-2"))
    assert begun.scenario.brokers
    assert run(begun.scenario, begun.inputs).violation is None
