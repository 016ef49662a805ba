"""An incident in a log becomes a scenario and inputs."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from controller.core.configuration import Configuration
from replay.errors import ReplayError
from replay.explore.from_log.reading import start_of_log
from replay.explore.from_log.schedule import Schedule
from replay.explore.run import run
from replay.world.inputs import (
    AllocateProducerIds,
    AlterUserScramCredentials,
    CancelReassignment,
    ChangeBrokerConfig,
    CrashBroker,
    CreatePartitions,
    CreateTopic,
    CredentialChange,
    DeleteControllerZnode,
    DeleteTopic,
    ElectLeaders,
    EndCancellation,
    FailLogDirectory,
    FeatureChange,
    Input,
    KillController,
    PauseProcess,
    Reassign,
    ShutDownController,
    StopBroker,
    UpdateFeatures,
)

T = TypeVar("T", bound=Input)

INCIDENTS = Path(__file__).parents[3] / "incidents"


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
    assert ("the shutdown at the end of the log was left out" in result.notes) is not is_kept


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


def test_requests_for_producer_ids_are_inputs() -> None:
    begun = start_of_log(INCIDENTS / "rare-requests")
    assert [one.broker for one in begun.inputs if isinstance(one, AllocateProducerIds)] == [1]


def test_requests_for_credentials_and_features_are_inputs() -> None:
    begun = start_of_log(INCIDENTS / "admin-requests")
    [_, deleted] = [one for one in begun.inputs if isinstance(one, AlterUserScramCredentials)]
    assert deleted.changes == (
        CredentialChange("alice", "SCRAM-SHA-256", None),
        CredentialChange("carol", "SCRAM-SHA-256", None),
    )
    updates = [one for one in begun.inputs if isinstance(one, UpdateFeatures)]
    assert [one.validate_only for one in updates] == [True, False, False]
    assert updates[1].changes == (
        FeatureChange("old", 0, "safe_downgrade"),
        FeatureChange("new", 1),
    )
    assert "/feature" in begun.scenario.znodes


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


def _of_kind(inputs: tuple[Input, ...], kind: type[T]) -> list[T]:
    return [one for one in inputs if isinstance(one, kind)]


@pytest.mark.parametrize(
    ("name", "znode"),
    [
        ("cancellation-failover", "/admin/reassign_cancel"),
        ("cancellation-failover", "/admin/reassign_partitions"),
        ("deletion-failover", "/admin/delete_topics/moved"),
    ],
)
def test_pending_work_of_administrators_is_part_of_the_start(name: str, znode: str) -> None:
    assert znode in start_of_log(INCIDENTS / name).scenario.znodes


def test_pending_requests_are_numbered_as_a_new_zookeeper_does() -> None:
    schedule = Schedule(Configuration(broker_id=100))
    request = "/admin/reassignment_requests/request_"
    content = {f"{request}0000000007": b"{}", f"{request}0000000012": b"[]"}
    schedule.begin(0, content, [1])
    znodes = schedule.result().scenario.znodes
    assert znodes == {f"{request}0000000000": "{}", f"{request}0000000001": "[]"}


def test_pending_deletions_and_the_epoch_are_part_of_the_start() -> None:
    schedule = Schedule(Configuration(broker_id=100))
    deletion = "/admin/replica_deletions/3_1"
    schedule.begin(0, {deletion: b"{}", "/controller_epoch": b"3"}, [1])
    assert schedule.result().scenario.znodes == {deletion: "{}", "/controller_epoch": "3"}


def test_failed_log_directory_is_an_input() -> None:
    begun = start_of_log(INCIDENTS / "log-dir")
    (failure,) = _of_kind(begun.inputs, FailLogDirectory)
    assert (failure.broker, failure.partitions) == (2, (("orders", 1),))
    (stop,) = _of_kind(begun.inputs, StopBroker)
    assert failure.at_ms < stop.at_ms


def test_standby_takes_what_it_saw_before_it_took_over() -> None:
    begun = start_of_log(INCIDENTS / "standby")
    (crash,) = _of_kind(begun.inputs, CrashBroker)
    assert crash.broker == 2
    topics = [one.topic for one in _of_kind(begun.inputs, CreateTopic)]
    assert topics == ["followed", "later"]
    # The role of broker 2 ended with the broker. That of broker 3 ended alone.
    assert len(_of_kind(begun.inputs, DeleteControllerZnode)) == 1
    names = [one.process for one in begun.scenario.controllers if one.runs]
    assert names == ["refold 1000", "stock 2", "stock 3", "refold 1001"]


def test_request_that_a_take_over_finds_comes_before_it() -> None:
    begun = start_of_log(INCIDENTS / "moved-during-take-over")
    (move,) = _of_kind(begun.inputs, Reassign)
    (vacated,) = _of_kind(begun.inputs, DeleteControllerZnode)
    assert move.route == "request"
    assert move.at_ms < vacated.at_ms


def test_log_without_inputs_says_that_a_random_mix_is_explored() -> None:
    begun = start_of_log(INCIDENTS / "restart-without-a-controller")
    assert begun.inputs == ()
    assert any("random mix" in one for one in begun.notes)


def test_partitions_that_a_tool_added_are_added() -> None:
    begun = start_of_log(INCIDENTS / "added-partitions")
    (added,) = _of_kind(begun.inputs, CreatePartitions)
    assert added.route == "znode"


def test_changed_configuration_of_all_brokers_is_an_input() -> None:
    begun = start_of_log(INCIDENTS / "unclean-default")
    (change,) = _of_kind(begun.inputs, ChangeBrokerConfig)
    assert change.broker is None
    assert change.configs == {"unclean.leader.election.enable": "true"}


def test_single_controller_gets_a_standby_and_a_note() -> None:
    begun = start_of_log(INCIDENTS / "reassigned-topic-deleted")
    first, second = begun.scenario.controllers
    assert (first.process, second.process) == ("refold 100", "refold 101")
    assert second.configuration.standby
    assert any("refold 101 was added as a standby" in one for one in begun.notes)


def test_controllers_of_the_log_are_in_the_scenario() -> None:
    begun = start_of_log(INCIDENTS / "originals-return-while-rollback-waits")
    assert [one.process for one in begun.scenario.controllers] == ["refold 101", "refold 100"]
    assert not any("standby" in one for one in begun.notes)


def test_events_without_an_input_are_counted_by_kind() -> None:
    schedule = Schedule(Configuration(broker_id=100))
    schedule.begin(0, {}, [1])
    for kind in ("changes of quotas", "changes of ACLs", "changes of quotas"):
        schedule.leave_out(kind)
    assert "left out: changes of quotas (2), changes of ACLs (1)" in schedule.result().notes


@pytest.mark.slow
def test_requests_in_the_logs_of_brokers_are_inputs(log_of: Callable[[str], Path]) -> None:
    begun = start_of_log(log_of("reassign-cancel-6"))
    assert len(_of_kind(begun.inputs, Reassign)) == 4
    assert len(_of_kind(begun.inputs, CancelReassignment)) == 2
    elections = start_of_log(log_of("preferred-election-9")).inputs
    routes = [one.route for one in _of_kind(elections, ElectLeaders)]
    assert routes == ["api", "znode", "api", "znode"]


@pytest.mark.slow
def test_broker_whose_process_goes_on_was_paused(log_of: Callable[[str], Path]) -> None:
    begun = start_of_log(log_of("zk-session-expiry-1"))
    paused = [one.process for one in _of_kind(begun.inputs, PauseProcess)]
    assert paused.count("broker 3") == 3
    # Two of the brokers had the role when they were paused.
    assert {"refold 1000000", "refold 1000001"} <= set(paused)
    assert not _of_kind(begun.inputs, KillController)
    # The brokers start only after the log has begun.
    assert all(one.at_ms < 4_000 for one in _of_kind(begun.inputs, CrashBroker))


@pytest.mark.slow
def test_added_partitions_and_failed_disks_of_a_stock_cluster_are_inputs(
    log_of: Callable[[str], Path],
) -> None:
    assert len(_of_kind(start_of_log(log_of("topics-1")).inputs, CreatePartitions)) == 4
    disks = start_of_log(log_of("log-dirs-91010"))
    failures = _of_kind(disks.inputs, FailLogDirectory)
    assert failures
    assert all(one.partitions for one in failures)
