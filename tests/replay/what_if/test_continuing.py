"""Questions about committed incidents and recordings, and their answers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from replay.what_if.assumptions import AssumptionKind
from replay.what_if.causes import BrokerUnregistered
from replay.what_if.changes import WhatIfChanges
from replay.what_if.continuing import WhatIfAnswer, what_if
from replay.what_if.outcome import OutcomeAspect
from replay.what_if.starting import START_MS
from replay.world.inputs import CrashBroker, ElectLeaders, StopBroker
from replay.world.scenario import TopicSpec
from tests.replay.what_if.simulated import incident_at, log_of_run, scenario

INCIDENTS = Path(__file__).parents[2] / "incidents"


def answer(name: str, changes: WhatIfChanges | None = None) -> WhatIfAnswer:
    return what_if(incident_at(INCIDENTS / name), changes or WhatIfChanges())[0]


def test_broker_that_was_down_is_offline_until_it_has_registered(tmp_path: Path) -> None:
    begun = scenario(TopicSpec("solo", ((2,),)), TopicSpec("t", ((1, 3),)))
    incident = incident_at(log_of_run(tmp_path, begun, CrashBroker(8_000, 2, False, None)))
    (gone,) = [one.seq for one in incident.causes if isinstance(one.what, BrokerUnregistered)]
    found = what_if(incident, WhatIfChanges(restart=(f"broker=2@{gone}",)))[0]
    assert found.control["solo", 0].offline_ms > 10_000
    assert 1_000 <= found.changed["solo", 0].offline_ms < 1_700


def test_broker_that_ran_ends_at_the_event_of_its_restart(tmp_path: Path) -> None:
    begun = scenario(TopicSpec("solo", ((2,),)), TopicSpec("t", ((1, 3),)))
    incident = incident_at(log_of_run(tmp_path, begun))
    changes = WhatIfChanges(restart=(f"broker=2@{incident.first_seq}",))
    answer, continued = what_if(incident, changes)
    (crash,) = [one for one in continued.inputs if isinstance(one, CrashBroker)]
    assert crash.at_ms == START_MS
    assert 0 < answer.changed["solo", 0].offline_ms < 1_700


def test_broker_whose_shutdown_lasts_long_returns_as_in_the_log(tmp_path: Path) -> None:
    begun = scenario(TopicSpec("t", ((1, 2),)), TopicSpec("u", ((3, 1),)), active_ms=50_000)
    faults = (
        CrashBroker(8_000, 2, False, None),
        StopBroker(16_000, 1, 6_000),  # broker 1 asks three times, because it is the last replica
        ElectLeaders(35_000, (("t", 0),)),
    )
    incident = incident_at(log_of_run(tmp_path, begun, *faults))
    (crash,) = [
        one.seq
        for one in incident.causes
        if isinstance(one.what, BrokerUnregistered) and one.what.broker == 2
    ]
    found = what_if(incident, WhatIfChanges(drop=(crash,)))[0]
    assert found.fidelity.differences == []
    assert 6_000 < found.control["t", 0].offline_ms < 8_000
    assert found.changed["t", 0].offline_ms == 0
    assert found.changed["t", 0].leader == 1


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name",
    [
        "admin-requests",
        "bounced-broker",
        "broker-crash",
        "broker-crash-2.6",
        "controlled-shutdown",
        "leader-rebalance",
        "log-dir",
        "reassignment",
        "stock-unclean-election",
        "topic-deletion",
        "unauthorized-requests",
        "unclean-default",
        "unclean-election",
    ],
)
def test_incident_without_a_change_fares_as_in_the_log(name: str) -> None:
    found = answer(name)
    assert found.effect == []
    assert found.fidelity.differences == []
    assert found.fidelity.agreeing == found.fidelity.partitions > 0


def test_difference_between_the_world_and_the_log_is_reported() -> None:
    fidelity = answer("brokers-together").fidelity
    names = {one.partition for one in fidelity.differences}
    assert fidelity.agreeing == fidelity.partitions - len(names)
    assert names


def test_partition_stays_online_if_its_last_replica_does_not_fail() -> None:
    found = answer("unclean-election", WhatIfChanges(drop=(90,)))
    offline = {one.partition: one for one in found.effect if one.what is OutcomeAspect.OFFLINE}
    assert list(offline) == ["orders-3"]
    assert offline["orders-3"].other == "0.0 s"
    before, after = found.control["orders", 3], found.changed["orders", 3]
    assert before.lost_all
    assert not after.lost_all
    assert (before.unclean, after.unclean) == (1, 0)


def test_unclean_election_by_configuration_ends_the_outage_earlier() -> None:
    setting = WhatIfChanges(set=("orders:unclean.leader.election.enable=true",))
    found = answer("unclean-election", setting)
    before, after = found.control["orders", 3], found.changed["orders", 3]
    assert after.offline_ms < before.offline_ms
    assert after.unclean == 1


def test_broker_that_comes_back_later_leaves_the_partition_offline_for_longer() -> None:
    found = answer("unclean-election", WhatIfChanges(delay=("103=3s",)))
    before, after = found.control["orders", 3], found.changed["orders", 3]
    assert after.offline_ms >= before.offline_ms


def test_crash_of_another_broker_leaves_more_partitions_offline() -> None:
    found = answer("unclean-election", WhatIfChanges(crash=("broker=2@95",)))
    offline = {one.partition for one in found.effect if one.what is OutcomeAspect.OFFLINE}
    assert {"orders-0", "orders-1", "orders-2"} <= offline


def test_crashed_controller_changes_no_outcome() -> None:
    assert answer("broker-crash", WhatIfChanges(crash=("controller@70",))).effect == []


def test_reassignment_completes_without_its_cancellation() -> None:
    found = answer("reassignment", WhatIfChanges(drop=(110,)))
    assert found.control["moved", 1].replicas == (1, 2)
    assert found.changed["moved", 1].replicas == (1, 3)


def test_stock_cluster_without_a_failure_has_no_outage() -> None:
    found = answer("stock-unclean-election", WhatIfChanges(drop=(511,)))
    assert found.control["never_04", 0].offline_ms > 10_000
    assert found.changed["never_04", 0].offline_ms == 0
    about = {one.about for one in found.assumptions}
    assert {AssumptionKind.CONTROLLER_IN_PLACE, AssumptionKind.CLIENTS_NOT_SEEN} <= about


def test_assumptions_are_counted() -> None:
    found = {one.about: one.count for one in answer("unclean-election").assumptions}
    assert found[AssumptionKind.LOG_END_OFFSETS] == 6
    assert found[AssumptionKind.CAUSES_OF_FAILURES] == 2
    assert AssumptionKind.CONTROLLER_IN_PLACE not in found


@pytest.mark.parametrize(
    "recording",
    ["controller-znode-delete-2", "deletion-11", "restarts-80110", "rolling-restart-4", "topics-1"],
)
def test_ordinary_operations_of_a_stock_cluster_fare_as_in_the_log(
    log_of: Callable[[str], Path], recording: str
) -> None:
    found = what_if(incident_at(log_of(recording)), WhatIfChanges())[0]
    assert found.fidelity.differences == []


@pytest.mark.parametrize("recording", ["shadow-6", "zk-session-expiry-1", "zookeeper-931204"])
def test_controllers_of_a_stock_cluster_fail_and_take_over_as_in_the_log(
    log_of: Callable[[str], Path], recording: str
) -> None:
    found = what_if(incident_at(log_of(recording)), WhatIfChanges())[0]
    assert found.fidelity.differences == []


@pytest.mark.parametrize("recording", ["chaos-80101", "log-dirs-20261106", "log-dirs-91010"])
def test_failed_log_directories_and_slow_take_overs_are_repeated(
    log_of: Callable[[str], Path], recording: str
) -> None:
    found = what_if(incident_at(log_of(recording)), WhatIfChanges())[0]
    assert not found.fidelity.is_low


def test_partition_without_replicas_is_continued(log_of: Callable[[str], Path]) -> None:
    found = what_if(incident_at(log_of("chaos-9120556-later")), WhatIfChanges())[0]
    assert any(one.replicas == () for one in found.happened.values())


def test_cancellation_after_the_end_of_a_reassignment_is_too_late(
    log_of: Callable[[str], Path],
) -> None:
    incident = incident_at(log_of("reassign-5"))
    found = what_if(incident, WhatIfChanges(cancel_reassignment=("t-03-4@600",)))[0]
    assert found.cancelled_too_late == ["t-03-4"]


@pytest.mark.slow
def test_recording_of_a_stock_cluster_is_continued(log_of: Callable[[str], Path]) -> None:
    incident = incident_at(log_of("broker-crash-2"))
    found = what_if(incident, WhatIfChanges())[0]
    assert found.fidelity.agreeing >= found.fidelity.partitions // 2
