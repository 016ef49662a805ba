"""Each invariant about recovery misses what a planted state lacks, and nothing in a healthy one."""

from typing import Any

import pytest
from msgspec import structs

from controller.core import znodes
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.configuration import Configuration
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes import Reassignment, broker_config_path, write_reassignment
from replay.explore.invariants.catalogue import RECOVERY
from replay.explore.invariants.cluster_view import CachedPartition
from replay.explore.invariants.known_cluster import KnownTopic
from replay.explore.invariants.recovery import (
    AdminZnodesGone,
    ControllerActive,
    DeletionsEnded,
    IsrsFull,
    MetadataCurrent,
    PartitionsLed,
    PreferredLeaders,
    ProceduresEnded,
    ReassignmentsEnded,
    Recovery,
    RequestsAnswered,
    StraysDeleted,
)
from replay.explore.run import Run
from replay.world.inputs import FailLogDirectory, Reassign, StopBroker, Target
from replay.world.scenario import BrokerSpec, ControllerSpec, Scenario, TopicSpec
from tests.replay.explore.invariants.facts import NAME, RecoveryHistory, configured

_UNCLEAN = "unclean.leader.election.enable"


@pytest.mark.parametrize("invariant", RECOVERY, ids=lambda one: one.NAME)
def test_healthy_cluster_lacks_nothing(invariant: type[Recovery]) -> None:
    assert not RecoveryHistory(invariant).missing()


def test_controller_znode_without_a_controller_is_missed() -> None:
    cluster = RecoveryHistory(ControllerActive)
    cluster.view.controller = None
    assert cluster.missing() == [
        ("/controller", "has the broker id 100, and no process acts with epoch 1")
    ]


def test_leader_that_does_not_lead_is_missed() -> None:
    cluster = RecoveryHistory(PartitionsLed)
    cluster.view.leaderships[1, NAME] = (1, 4)
    assert cluster.missing()[0][0] == "orders-0"


def test_leader_whose_log_directory_has_failed_is_missed() -> None:
    cluster = RecoveryHistory(PartitionsLed)
    cluster.view.dead[1] = None
    assert cluster.missing() == [("orders-0", "the leader, broker 1, is not live")]


def test_request_without_an_answer_is_missed() -> None:
    cluster = RecoveryHistory(RequestsAnswered)
    asked = ElectLeadersReceived(7, 2, "preferred", None, 30_000)
    cluster.known.open_requests["refold 100", 7] = asked
    assert cluster.missing() == [("refold 100", "has not answered request 7, ElectLeadersReceived")]


def test_partition_that_its_preferred_replica_could_lead_is_missed() -> None:
    cluster = RecoveryHistory(PreferredLeaders)
    cluster.known.states[NAME] = LeaderAndIsr(2, 6, (1, 2, 3), 0, 1)
    assert cluster.missing() == [("orders-0", "is not led by its preferred replica 1")]
    cluster.view.dead[1] = None
    assert not cluster.missing()


@pytest.mark.parametrize(
    "settings",
    [
        {"leader_imbalance_per_broker_percentage": 100},
        {"auto_leader_rebalance_enable": False},
        {"leader_imbalance_check_interval_seconds": 300},
    ],
)
def test_imbalance_that_the_controller_permits_is_not_missed(settings: dict[str, Any]) -> None:
    cluster = RecoveryHistory(PreferredLeaders)
    cluster.known.states[NAME] = LeaderAndIsr(2, 6, (1, 2, 3), 0, 1)
    cluster.view.active_configuration = structs.replace(
        cluster.view.active_configuration, **settings
    )
    assert not cluster.missing()


@pytest.mark.parametrize("invariant", [PreferredLeaders, MetadataCurrent])
def test_assignment_that_a_tool_has_changed_does_not_count(invariant: type[Recovery]) -> None:
    cluster = RecoveryHistory(invariant)
    before, by_tool = cluster.topic.assignments[0], Assignment((2, 1))
    cluster.topic.assignments[0] = by_tool
    assert cluster.missing()
    cluster.topic.assigned(0, before, by_controller=False)
    assert not cluster.missing()
    cluster.topic.assigned(0, by_tool, by_controller=True)
    assert cluster.missing()


def test_partition_whose_isr_is_dead_needs_no_leader() -> None:
    cluster = RecoveryHistory(PartitionsLed)
    cluster.known.states[NAME] = LeaderAndIsr(-1, 6, (3,), 0, 1)
    assert cluster.missing()
    cluster.view.dead[3] = None
    assert not cluster.missing()


def test_live_replica_outside_of_isr_is_missed() -> None:
    cluster = RecoveryHistory(IsrsFull)
    cluster.known.states[NAME] = LeaderAndIsr(1, 5, (1, 2), 0, 1)
    assert cluster.missing() == [("orders-0", "brokers [3] are not in the ISR [1, 2]")]
    cluster.view.dead[3] = None
    assert not cluster.missing()


def test_replica_that_only_a_tool_has_assigned_need_not_be_in_the_isr() -> None:
    """A controller continues with the assignment that it knows, until it writes the tool's."""
    cluster = RecoveryHistory(IsrsFull)
    by_tool = Assignment((2, 1, 3))
    cluster.known.states[NAME] = LeaderAndIsr(1, 5, (1, 2), 0, 1)
    cluster.topic.assigned(0, Assignment((1, 2)), by_controller=False)
    cluster.topic.assignments[0] = by_tool
    assert not cluster.missing()
    cluster.topic.assigned(0, by_tool, by_controller=True)
    assert cluster.missing()


def without_leader() -> RecoveryHistory:
    """Replicas 2 and 3 are live, and the ISR is only replica 1, which is not."""
    cluster = RecoveryHistory(PartitionsLed)
    cluster.known.states[NAME] = LeaderAndIsr(-1, 5, (1,), 0, 1)
    cluster.view.dead[1] = None
    return cluster


@pytest.mark.parametrize(
    ("topic", "default", "is_missed"),
    [
        ([], [], False),
        (["true"], [], True),
        ([], ["true"], True),
        (["true", "false"], ["true"], False),
        # The end of a setting is no reason for an election.
        (["false", None], ["true"], False),
        ([], ["true", None], False),
    ],
)
def test_partition_without_leader_is_missed_if_any_live_replica_may_lead(
    topic: list[str | None], default: list[str | None], is_missed: bool
) -> None:
    cluster = without_leader()
    configured(cluster.known, "orders", _UNCLEAN, *topic)
    configured(cluster.known, None, _UNCLEAN, *default)
    assert bool(cluster.missing()) is is_missed
    cluster.known.admin["/admin/reassign_cancel"] = b"{}"
    assert not cluster.missing()


def test_replicas_that_a_reassignment_adds_need_not_lead_an_offline_partition() -> None:
    """Its start triggers no election."""
    cluster = without_leader()
    configured(cluster.known, "orders", _UNCLEAN, "true")
    cluster.topic.assignments[0] = Assignment((2, 3, 1), (2, 3), (1,))
    assert not cluster.missing()
    cluster.topic.assignments[0] = Assignment((2, 3, 1), (2,), (1,))
    assert cluster.missing()


@pytest.mark.parametrize("of_all_brokers", [None, "false"])
def test_default_of_the_controller_counts_unless_a_dynamic_one_does(
    of_all_brokers: str | None,
) -> None:
    cluster = without_leader()
    cluster.view.active_configuration = Configuration(
        broker_id=100, unclean_leader_election_enable=True
    )
    configured(cluster.known, None, _UNCLEAN, of_all_brokers)
    assert bool(cluster.missing()) is (of_all_brokers is None)
    cluster.known.configs[broker_config_path(100)] = [{_UNCLEAN: "true"}]
    assert cluster.missing()


@pytest.mark.parametrize(("replicas", "is_missed"), [((1, 2), False), ((1, 2, 3), True)])
def test_member_of_the_isr_that_is_no_replica_need_not_lead(
    replicas: tuple[int, ...], is_missed: bool
) -> None:
    cluster = RecoveryHistory(PartitionsLed)
    cluster.topic.assignments[0] = Assignment(replicas)
    cluster.known.states[NAME] = LeaderAndIsr(-1, 5, (3,), 0, 1)
    assert bool(cluster.missing()) is is_missed


@pytest.mark.parametrize(("replicas", "is_missed"), [((1, 2), False), ((1, 2, 3), True)])
def test_isr_without_a_live_replica_cannot_grow(replicas: tuple[int, ...], is_missed: bool) -> None:
    cluster = RecoveryHistory(IsrsFull)
    cluster.topic.assignments[0] = Assignment(replicas)
    cluster.known.states[NAME] = LeaderAndIsr(-1, 5, (3,), 0, 1)
    assert bool(cluster.missing()) is is_missed


@pytest.mark.parametrize("is_cancelling", [True, False])
def test_added_replica_waits_while_a_cancellation_exists(is_cancelling: bool) -> None:
    cluster = RecoveryHistory(IsrsFull)
    cluster.topic.assignments[0] = Assignment((3, 1, 2), (3,), (1,))
    cluster.known.states[NAME] = LeaderAndIsr(1, 5, (1, 2), 0, 1)
    if is_cancelling:
        cluster.known.admin["/admin/reassign_cancel"] = b"{}"
    assert bool(cluster.missing()) is not is_cancelling


@pytest.mark.parametrize("has_kip_236", [True, False])
def test_replica_with_the_log_of_an_earlier_topic_needs_remembered_deletions(
    has_kip_236: bool,
) -> None:
    cluster = RecoveryHistory(IsrsFull)
    cluster.known.states[NAME] = LeaderAndIsr(1, 5, (1, 2), 0, 1)
    cluster.known.has_kip_236 = lambda: has_kip_236
    assert cluster.missing()
    cluster.known.has_earlier_log = lambda broker, name: (broker, name) == (3, NAME)
    assert bool(cluster.missing()) is has_kip_236


def test_running_broker_without_registration_is_missed() -> None:
    cluster = RecoveryHistory(IsrsFull)
    del cluster.known.brokers[3]
    assert cluster.missing() == [("broker 3", "runs and is not registered")]
    cluster.known.unregistered_by_tools[3] = None
    assert not cluster.missing()


def test_replica_that_is_not_assigned_is_missed() -> None:
    cluster = RecoveryHistory(StraysDeleted)
    cluster.topic.assignments[0] = Assignment((1, 2))
    assert cluster.missing() == [("broker 3", "has a replica of orders-0, which is not its")]
    cluster.known.had_kafka = True
    assert not cluster.missing()


def test_stray_of_an_assignment_that_a_tool_has_changed_does_not_count() -> None:
    cluster = RecoveryHistory(StraysDeleted)
    cluster.topic.assignments[0] = Assignment((2, 1))
    assert cluster.missing()
    cluster.known.changed_by_tools[NAME] = None
    assert not cluster.missing()


def test_stray_of_a_directory_that_had_failed_does_not_count() -> None:
    """Broker 3 starts with a failed directory, and confirms that a replica in it is deleted."""
    scenario = Scenario(
        brokers=tuple(map(BrokerSpec, (1, 2, 3, 4))),
        broker_settings={
            "replica.lag.time.max.ms": "10000",
            "zookeeper.session.timeout.ms": "9000",
        },
        topics=(TopicSpec("orders", ((1,), (2,), (3, 1))), TopicSpec("payments", ((1,),))),
        controllers=(
            ControllerSpec(
                Configuration(
                    broker_id=101, kip_236_enable=True, leader_imbalance_check_interval_seconds=4
                )
            ),
        ),
        load=None,
        active_ms=9_935,
    )
    played = Run(
        scenario,
        (
            StopBroker(7_033, 3, 1, 0),
            FailLogDirectory(7_038, 3, (("orders", 2),), survives_restart=True),
            Reassign(7_147, (Target("orders", 2, (2, 4)),), "request"),
        ),
    )
    assert played.cluster is not None
    assert ("orders", 2) in played.cluster.brokers[3].disk.logs
    assert played.outcome().violation is None


def test_broker_that_does_not_know_its_registration_is_missed() -> None:
    cluster = RecoveryHistory(IsrsFull)
    cluster.view.epochs[3] = 99
    assert cluster.missing() == [
        ("broker 3", "is registered with broker epoch 103, and takes it for 99")
    ]


def test_controller_that_still_handles_an_event_is_missed() -> None:
    cluster = RecoveryHistory(ProceduresEnded)
    cluster.view.busy.append("refold 101")
    assert cluster.missing() == [("refold 101", "still handles an event")]


def test_unfinished_reassignment_is_missed() -> None:
    cluster = RecoveryHistory(ReassignmentsEnded)
    cluster.topic.assignments[0] = Assignment((3, 1, 2), (3,), (1,))
    assert "has not ended" in cluster.missing()[0][1]
    cluster.view.dead[3] = None
    assert not cluster.missing()


@pytest.mark.parametrize(("isr", "is_missed"), [((1, 4), True), ((4,), False)])
def test_reassignment_without_a_replica_in_sync_cannot_end(
    isr: tuple[int, ...], is_missed: bool
) -> None:
    cluster = RecoveryHistory(ReassignmentsEnded)
    cluster.topic.assignments[0] = Assignment((3, 1, 2), (3,), (1,))
    cluster.known.states[NAME] = LeaderAndIsr(-1, 5, isr, 0, 1)
    assert bool(cluster.missing()) is is_missed


@pytest.mark.parametrize("is_legacy", [True, False])
def test_cancellation_ends_only_the_reassignments_that_it_cancels(is_legacy: bool) -> None:
    cluster = RecoveryHistory(ReassignmentsEnded)
    cluster.topic.assignments[0] = Assignment((3, 1, 2), (3,), (1,))
    record = Reassignment((3, 2), 2, is_legacy, (1, 2))
    cluster.known.admin["/admin/reassignments/orders/0"] = write_reassignment(record)
    cluster.known.admin["/admin/reassign_cancel"] = b'{"version":1}'
    assert bool(cluster.missing()) is is_legacy


def test_waiting_entry_is_missed_unless_a_cancellation_exists() -> None:
    cluster = RecoveryHistory(ReassignmentsEnded)
    cluster.known.admin["/admin/reassign_partitions"] = (
        b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2]}]}'
    )
    assert cluster.missing() == [("orders-0", "its entry is still in /admin/reassign_partitions")]
    cluster.known.admin["/admin/reassign_cancel"] = b'{"version":1}'
    assert not cluster.missing()


def test_znodes_of_kip_236_may_stay_if_no_controller_follows_them() -> None:
    entry = b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2]}]}'
    extra = "/admin/reassign_partitions_extra"
    cluster = RecoveryHistory(ReassignmentsEnded)
    cluster.known.admin[extra] = entry
    assert cluster.missing() == [("orders-0", f"its entry is still in {extra}")]
    cluster.known.has_kip_236 = lambda: False
    assert not cluster.missing()
    request = "/admin/reassignment_requests/request_0000000000"
    cluster = RecoveryHistory(AdminZnodesGone)
    cluster.known.admin[request] = entry
    assert cluster.missing() == [(request, "still exists")]
    cluster.known.has_kip_236 = lambda: False
    assert not cluster.missing()


def test_cancellation_that_no_controller_follows_excuses_nothing() -> None:
    cluster = RecoveryHistory(ReassignmentsEnded)
    cluster.known.admin["/admin/reassign_cancel"] = b'{"version":1}'
    cluster.known.admin["/admin/reassign_partitions"] = (
        b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2]}]}'
    )
    assert not cluster.missing()
    cluster.known.has_kip_236 = lambda: False
    assert cluster.missing()


def test_unfinished_deletion_is_missed() -> None:
    cluster = RecoveryHistory(DeletionsEnded)
    cluster.known.admin["/admin/delete_topics/orders"] = b""
    assert cluster.missing() == [("/admin/delete_topics/orders", "still exists")]
    cluster.view.dead[3] = None
    assert not cluster.missing()


def test_left_over_znodes_are_missed() -> None:
    cluster = RecoveryHistory(AdminZnodesGone)
    cluster.known.admin |= {
        "/admin/preferred_replica_election": b"",
        "/admin/reassignments/orders/0": b"",
        "/admin/reassignment_requests/request_0000000001": (
            b'{"version":1,"assignments":{"orders":{"0":[3,2]}}}'
        ),
        "/admin/replica_deletions/x": b'{"version":1,"broker":2,"partitions":{"orders":[0]}}',
    }
    assert len(cluster.missing()) == 4


def test_record_that_an_operator_created_may_be_left() -> None:
    cluster = RecoveryHistory(AdminZnodesGone)
    path = "/admin/reassignments/orders/0"
    cluster.known.admin[path] = b""
    assert cluster.missing()
    cluster.known.made_by_clients[path] = None
    assert not cluster.missing()


def test_deletion_in_a_failed_log_directory_may_be_left() -> None:
    cluster = RecoveryHistory(AdminZnodesGone)
    cluster.known.admin["/admin/replica_deletions/x"] = (
        b'{"version":1,"broker":2,"partitions":{"orders":[0]}}'
    )
    assert cluster.missing() == [
        ("/admin/replica_deletions/x", "still exists, although broker 2 is registered")
    ]
    cluster.view.dead[2] = None
    assert not cluster.missing()


def test_deletion_of_a_replica_that_waits_to_be_added_again_may_be_left() -> None:
    cluster = RecoveryHistory(AdminZnodesGone)
    cluster.known.admin["/admin/replica_deletions/x"] = (
        b'{"version":1,"broker":2,"partitions":{"orders":[0]}}'
    )
    cluster.topic.assignments[0] = Assignment((2, 1), (2,), ())
    assert cluster.missing()
    cluster.known.admin["/admin/reassign_cancel"] = b"{}"
    assert not cluster.missing()


@pytest.mark.parametrize(("replicas", "is_missed"), [((1, 2), False), ((1, 3), True)])
def test_deletion_of_an_assigned_replica_may_be_left_while_its_topic_waits_for_deletion(
    replicas: tuple[int, ...], is_missed: bool
) -> None:
    cluster = RecoveryHistory(AdminZnodesGone)
    cluster.known.admin["/admin/replica_deletions/x"] = (
        b'{"version":1,"broker":2,"partitions":{"orders":[0]}}'
    )
    cluster.topic.assignments[0] = Assignment(replicas)
    cluster.known.admin["/admin/delete_topics/orders"] = b""
    assert bool(cluster.missing()) is is_missed


@pytest.mark.parametrize(
    "old",
    [
        CachedPartition(1, 4, (1, 2, 3), (1, 2, 3)),
        CachedPartition(2, 5, (1, 2, 3), (1, 2, 3)),
        CachedPartition(1, 5, (1, 2), (1, 2, 3)),
        CachedPartition(1, 5, (1, 2, 3), (1, 2, 3, 4)),
    ],
)
def test_old_metadata_is_missed(old: CachedPartition) -> None:
    cluster = RecoveryHistory(MetadataCurrent)
    cluster.view.caches[2][NAME] = old
    [(subject, text)] = cluster.missing()
    assert subject == "broker 2"
    assert text == (
        f"orders-0: has {old}, not leader 1 in leader epoch 5, the ISR [1, 2, 3] and the replicas "
        "[1, 2, 3]"
    )


@pytest.mark.parametrize("live", [(1, 2), (1, 2, 3, 4, 100)])
def test_broker_that_does_not_know_which_brokers_are_registered_is_missed(
    live: tuple[int, ...],
) -> None:
    cluster = RecoveryHistory(MetadataCurrent)
    assert not cluster.missing()
    cluster.view.live_in_caches[2] = live
    [(subject, text)] = cluster.missing()
    found = [one for one in live if one != 100]
    assert (subject, text) == ("broker 2", f"knows the live brokers {found}, not [1, 2, 3]")


@pytest.mark.parametrize(
    ("is_marked", "registers_again"), [(True, False), (True, True), (False, False)]
)
def test_broker_with_metadata_of_a_deleted_topic_is_missed(
    is_marked: bool, registers_again: bool
) -> None:
    """A broker that was not registered at the deletion keeps the topic, as in Kafka. A controller
    does not see that a tool has deleted a topic's znode."""
    cluster = RecoveryHistory(MetadataCurrent)
    cluster.view.caches[2]["gone", 0] = CachedPartition(1, 5, (1, 2, 3), (1, 2, 3))
    if is_marked:
        cluster.known.admin[znodes.delete_topic_path("gone")] = b""
    cluster.delete_topic(KnownTopic("gone", 1))
    if registers_again:
        cluster.known.brokers[2] += 1
    found = [("broker 2", "gone-0: its topic does not exist")]
    assert cluster.missing() == (found if is_marked and not registers_again else [])


def test_broker_without_metadata_of_a_partition_is_missed() -> None:
    cluster = RecoveryHistory(MetadataCurrent)
    del cluster.view.caches[2][NAME]
    [(subject, text)] = cluster.missing()
    assert (subject, text.partition(",")[0]) == ("broker 2", "orders-0: has None")
