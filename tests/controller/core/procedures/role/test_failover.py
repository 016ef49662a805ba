"""Failover: a new controller takes over the existing cluster (KB 6.2, 6.3, 17.1, 17.10)."""

from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.commands import ReadChildren, ReadZnodes, StopReplicaRequest
from controller.core.operations import Create, Delete, SetData
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import ANY_VERSION
from controller.core.znodes import REASSIGNMENT_REQUESTS, REASSIGNMENTS
from tests.controller.core.cluster import Cluster, writes_state
from tests.controller.core.procedures.elections.electing import put_election_quietly, restart
from tests.controller.core.procedures.reassignment.interrupting import OtherControllersTerm
from tests.controller.core.procedures.reassignment.reassigning import T0, cluster_of, reassign
from tests.controller.core.procedures.topics.deleting import deletes, mark_quietly


def test_failover_follows_kafkas_order() -> None:
    cluster = Cluster(1)
    cluster.change_topic_quietly("t", {0: [1]})
    seen = cluster.seen()
    cluster.start()
    steps = [
        one.path if isinstance(one, ReadChildren) else one.paths[0]
        for one in seen.commands
        if isinstance(one, ReadChildren | ReadZnodes)
    ]
    assert steps[steps.index(znodes.FEATURE) :][:11] == [
        znodes.FEATURE,
        znodes.LOG_DIR_EVENTS,
        znodes.ISR_CHANGES,
        znodes.CONFIG_CHANGES,
        znodes.broker_config_path(None),
        znodes.BROKER_IDS,
        znodes.broker_path(1),
        znodes.TOPICS,
        znodes.topic_path("t"),
        znodes.state_path("t", 0),
        znodes.DELETE_TOPICS,
    ]


def test_brokers_learn_the_live_brokers_before_partitions() -> None:
    cluster = Cluster(1, 2)
    cluster.change_topic_quietly("t", {0: [1, 2]})
    seen = cluster.seen()
    cluster.start()
    announced = "t-0 leader 1 e 0 isr [1,2] v 0 ce 1 replicas [1,2]"
    expected = [
        "UpdateMetadata v8; live [1,2]",
        f"LeaderAndIsr v7; {announced} new",
        f"UpdateMetadata v8; live [1,2]; {announced} offline []",
    ]
    assert seen.requested() == {1: expected, 2: expected}


def test_CI_04_new_broker_gets_one_request_on_the_control_plane_listener() -> None:
    cluster = Cluster(control_plane_listener="CONTROL")
    data = (
        b'{"version":5,"host":"h","port":9092,"endpoints":["PLAINTEXT://h:9092","CONTROL://c:9093"]'
        b',"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","CONTROL":"PLAINTEXT"}}'
    )
    session = cluster.zookeeper.create_session()
    cluster.zookeeper.apply(session, Create(znodes.broker_path(1), data, ephemeral=True), 0)
    seen = cluster.seen()
    cluster.start()
    assert [one.endpoint.port for one in seen.opened()] == [9093]
    assert seen.requests(1) == ["UpdateMetadata v8; live [1]"]


def test_broker_without_the_controllers_listener_is_reported() -> None:
    cluster = Cluster(1, control_plane_listener="CONTROL")
    seen = cluster.seen()
    cluster.start()
    assert seen.channels() == []
    assert seen.notices() == [("no_listener", znodes.broker_path(1))]


def test_SU_01_former_controller_that_leads_dies_and_returns() -> None:
    """Epochs rise by two if the new controller finds the leader dead (KB 6.3, end)."""
    cluster = Cluster(0, 1).start()
    cluster.create_topic("t", {0: [0, 1]})
    cluster.unregister(0)
    cluster.expire()
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1] v 2 ce 2"
    cluster.start_broker(0)
    cluster.set_isr("t", 0, [1, 0])
    cluster.unregister(1)
    cluster.expire()
    assert cluster.state("t", 0) == "leader 0 e 4 isr [0] v 5 ce 3"


def test_failover_with_a_dead_follower_raises_the_epoch_once() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.unregister(2)
    seen = cluster.seen()
    cluster.expire()
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 2"
    announced = "t-0 leader 1 e 1 isr [1] v 1 ce 2 replicas [1,2]"
    before = "t-0 leader 1 e 0 isr [1,2] v 0 ce 1 replicas [1,2]"
    assert seen.requests(1) == [
        "UpdateMetadata v8; live [1]",
        f"LeaderAndIsr v7; {before}",
        f"UpdateMetadata v8; live [1]; {before} offline [2]",
        f"LeaderAndIsr v7; {announced}",
        f"UpdateMetadata v8; live [1]; {announced} offline [2]",
    ]


def test_failover_without_changes_writes_no_state() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    seen = cluster.seen()
    cluster.expire()
    assert seen.written() == [
        znodes.CONTROLLER,
        znodes.CONTROLLER_EPOCH,
        znodes.PREFERRED_ELECTION,
    ]
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2] v 0 ce 1"


def test_last_member_of_an_isr_is_kept_at_every_failover() -> None:
    """KB 5.2.3: leader -1, the same ISR, and a new epoch each time."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1]})
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader -1 e 1 isr [1] v 1 ce 1"
    cluster.expire()
    assert cluster.state("t", 0) == "leader -1 e 2 isr [1] v 2 ce 2"


def test_unreadable_state_of_a_partition_without_a_live_replica_is_reported() -> None:
    cluster = Cluster(1)
    cluster.change_topic_quietly("t", {0: [2]})
    path = znodes.state_path("t", 0)
    cluster.put_with_parents(path, b"?")
    seen = cluster.seen()
    cluster.start()
    assert ("unreadable_znode", path) in seen.notices()


def test_states_after_a_failover_follow_the_live_brokers() -> None:
    """KB 4.2.1, 5.3: no replica remains in DELETION_INELIGIBLE."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2]})
    cluster.create_topic("u", {0: [9]})
    cluster.unregister(2)
    cluster.expire()
    assert cluster.partition("t", 0).state is PartitionState.ONLINE
    assert cluster.partition("t", 1).state is PartitionState.OFFLINE
    assert cluster.partition("u", 0).state is PartitionState.NEW
    assert cluster.partition("t", 0).replica_states == {
        1: ReplicaState.ONLINE,
        2: ReplicaState.OFFLINE,
    }
    assert cluster.partition("u", 0).replica_states == {9: ReplicaState.OFFLINE}


def test_old_notifications_are_deleted_unread() -> None:
    cluster = Cluster(1)
    isr = f"{znodes.ISR_CHANGES}/isr_change_0000000001"
    log_dir = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_0000000001"
    cluster.ask(Create(isr, b"{"))
    cluster.ask(Create(log_dir, b"{"))
    seen = cluster.seen()
    cluster.start()
    deleted = [one for one in seen.writes() if isinstance(one, Delete)]
    request = Delete(znodes.PREFERRED_ELECTION, ANY_VERSION)
    assert deleted == [Delete(log_dir, ANY_VERSION), Delete(isr, ANY_VERSION), request]
    assert seen.notices() == []


def test_SU_03_requests_carry_the_czxid_of_the_registration() -> None:
    cluster = Cluster(1, 2)
    seen = cluster.seen()
    cluster.start()
    sent = {one.broker: one.broker_epoch for one in seen.broker_requests()}
    assert sent == {1: cluster.broker_epoch(1), 2: cluster.broker_epoch(2)}
    assert sent[1] != sent[2]


def test_CI_49_topic_id_is_kept_by_a_new_controller() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2]})
    given = cluster.topic("t").topic_id
    session = cluster.seize_role(1)
    cluster.run()
    cluster.leave_role(session)
    assert given is not None
    assert cluster.topic("t").topic_id == given
    assert cluster.partition("t", 0).topic.id == given


def test_CI_50_new_controller_without_topic_ids_assigns_none() -> None:
    cluster = Cluster(1, inter_broker_protocol_version="2.7-IV0").start()
    cluster.create_topic("t", {0: [1]})
    cluster.expire()
    assert cluster.topic("t").topic_id is None
    assert cluster.partition("t", 0).topic.id is None


def test_CI_51_topic_id_is_kept_after_a_restart() -> None:
    first = Cluster(1).start()
    first.create_topic("z", {0: [1]})
    first.create_topic("t", {0: [1]})
    given = first.topic("t").topic_id
    first.shut_down()
    second = Cluster(zookeeper=first.zookeeper).start()
    assert second.partition("t", 0).topic.id == given
    assert second.topic("t").topic_id == given


def test_CI_52_topic_gets_its_id_when_the_protocol_version_rises() -> None:
    old = Cluster(1, inter_broker_protocol_version="2.7-IV0").start()
    old.create_topic("t", {0: [1]})
    old.shut_down()
    new = Cluster(zookeeper=old.zookeeper)
    seen = new.seen()
    new.start()
    given = new.topic("t").topic_id
    assert given is not None
    assert new.partition("t", 0).topic.id == given
    assert [one.topic_id for one in seen.leader_and_isr(1)[0].partitions] == [given]


def test_CI_53_topic_gets_its_id_without_a_new_leader_epoch() -> None:
    old = Cluster(1, 2, 3, inter_broker_protocol_version="2.7-IV0").start()
    old.create_topic("t", {0: [1, 2, 3]})
    old.shut_down()
    new = Cluster(zookeeper=old.zookeeper)
    seen = new.seen()
    new.start()
    given = new.topic("t").topic_id
    assert given is not None
    assert new.state("t", 0) == "leader 1 e 0 isr [1,2,3] v 0 ce 1"
    for broker in (1, 2, 3):
        assert [one.topic_id for one in seen.leader_and_isr(broker)[0].partitions] == [given]


def test_existing_topic_id_is_kept_below_2_8() -> None:
    new = Cluster(1).start()
    new.create_topic("t", {0: [1]})
    given = new.topic("t").topic_id
    new.shut_down()
    old = Cluster(zookeeper=new.zookeeper, inter_broker_protocol_version="2.7-IV0")
    seen = old.seen()
    old.start()
    assert old.partition("t", 0).topic.id == given
    assert not any(isinstance(one, SetData) and "topics" in one.path for one in seen.writes())


def test_reassignments_under_way_are_continued() -> None:
    cluster = Cluster(1)
    cluster.change_topic_quietly("t", {0: [2, 1], 1: [1]}, adding_replicas={"0": [2]})
    cluster.start()
    assert [one.key for one in cluster.fold.controller.context.reassigning] == [("t", 0)]


@pytest.mark.parametrize("lose_leader", [Cluster.unregister, Cluster.bounce])
def test_failover_without_kip_236_makes_none_of_its_znodes(
    lose_leader: Callable[[Cluster, int], None],
) -> None:
    """The leader of a reassignment under way is lost while there is no controller."""
    cluster = cluster_of(3, 1, 2)
    reassign(cluster, 3, 2)
    with OtherControllersTerm(cluster):
        lose_leader(cluster, 1)
    assert cluster.leadership(*T0).leader == 2
    assert not {REASSIGNMENTS, REASSIGNMENT_REQUESTS} & cluster.zookeeper.dump().keys()


def test_older_protocol_versions_get_older_request_versions() -> None:
    cluster = Cluster(1, inter_broker_protocol_version="2.6")
    cluster.change_topic_quietly("t", {0: [1]})
    seen = cluster.seen()
    cluster.start()
    assert [one.partition(";")[0] for one in seen.requests(1)] == [
        "UpdateMetadata v6",
        "LeaderAndIsr v4",
        "UpdateMetadata v6",
    ]


def test_failover_deletes_replicas_before_it_elects_the_requested_leaders() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.create_topic("u", {0: [1]})
    restart(cluster, 1, T0)
    with OtherControllersTerm(cluster):
        mark_quietly(cluster, "u")
        put_election_quietly(cluster, T0)
        seen = cluster.seen()
    issued = [one for _, commands in seen.history for one in commands]
    elects = [writes_state(*T0)(one) for one in issued]
    asks = [isinstance(one.command, StopReplicaRequest) and deletes(one.command) for one in issued]
    assert cluster.leadership(*T0).leader == 1
    assert asks.index(True) < elects.index(True)
