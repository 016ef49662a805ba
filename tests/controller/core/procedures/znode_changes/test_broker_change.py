"""Brokers that register, fail, restart and change (KB 3.3, 3.4, 9.1 to 9.4, 17.1)."""

import msgspec
import pytest

from controller.core import znodes
from controller.core.commands import (
    Choice,
    ReadZnodes,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.events import BrokerResponded
from controller.core.operations import SetData
from controller.core.state_machines import PartitionState
from controller.core.values import ANY_VERSION
from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA
from tests.controller.core.cluster import Cluster, reads, writes_state
from tests.controller.core.denied_reads import ReadDenyingCluster
from tests.controller.core.procedures.elections.electing import put_election
from tests.controller.core.procedures.reassignment.interrupting import submit
from tests.controller.core.procedures.reassignment.reassigning import T0

UNCLEAN = b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'
CLEAN = b'{"version":1,"config":{"unclean.leader.election.enable":"false"}}'


# Start-up -------------------------------------------------------------------------------------


def test_OB_16_requests_when_a_broker_dies_and_returns() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("r", {0: [3, 1]})
    seen = cluster.seen()
    cluster.stop_broker(3)
    announced = "r-0 leader 1 e 1 isr [1] v 1 ce 1 replicas [3,1]"
    update = f"UpdateMetadata v8; live [1,2]; {announced} offline [3]"
    assert seen.requested() == {
        1: [f"LeaderAndIsr v7; {announced}", update] * 2,
        2: [update, update],
    }
    seen = cluster.seen()
    cluster.start_broker(3)
    update = f"UpdateMetadata v8; live [1,2,3]; {announced} offline []"
    assert seen.requested() == {
        1: ["UpdateMetadata v8; live [1,2,3]", update],
        2: ["UpdateMetadata v8; live [1,2,3]", update],
        3: [update, f"LeaderAndIsr v7; {announced}", update],
    }


def test_answer_with_a_stale_epoch_changes_nothing() -> None:
    """KB 3.11.1: brokers answer a repeated LeaderAndIsr with code 11."""
    cluster = Cluster(1).start()
    seen = cluster.seen()
    request = BrokerResponded(cluster.commands()[-1].id, 1, 1, 11, [("t", 0, 11)])
    cluster.happen(request, "broker:1")
    assert seen.notices() == []
    assert seen.broker_requests() == []


def test_SU_04_known_broker_epochs_are_those_in_zookeeper() -> None:
    cluster = Cluster(1, 2).start()

    def known() -> dict[int, int]:
        brokers = cluster.fold.controller.context.brokers
        return {id: broker.epoch for id, broker in brokers.items()}

    cluster.stop_broker(2)
    assert known() == {1: cluster.broker_epoch(1)}
    cluster.start_broker(2)
    assert known() == {1: cluster.broker_epoch(1), 2: cluster.broker_epoch(2)}


def test_new_broker_learns_every_partition_with_a_leader() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1]})
    cluster.create_topic("leaderless", {0: [9]})
    seen = cluster.seen()
    cluster.start_broker(2)
    assert seen.channels() == ["open channel to 2"]
    assert seen.requested() == {
        1: ["UpdateMetadata v8; live [1,2]"],
        2: [
            "UpdateMetadata v8; live [1,2]; "
            "t-0 leader 1 e 0 isr [1] v 0 ce 1 replicas [1] offline []"
        ],
    }


def test_new_broker_brings_its_new_partitions_online() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [2]})
    assert cluster.state("t", 0) is None
    cluster.start_broker(2)
    assert cluster.state("t", 0) == "leader 2 e 0 isr [2] v 0 ce 1"


# Failure --------------------------------------------------------------------------------------


def test_CI_05_offline_replicas_are_announced_and_withdrawn() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 3], 1: [1, 2]})
    cluster.stop_broker(3)

    def announced(broker: int) -> dict[int, UpdateMetadataPartition]:
        """The last announced state of each partition."""
        return {
            partition.partition: partition
            for one in cluster.commands()
            if isinstance(one.command, UpdateMetadataRequest) and one.command.broker == broker
            for partition in one.command.partitions
        }

    for broker in (1, 2):
        first, second = announced(broker)[0], announced(broker)[1]
        assert (first.replicas, first.offline_replicas) == ((1, 3), (3,))
        assert first.leadership.isr == (1,)
        assert (second.replicas, second.offline_replicas) == ((1, 2), ())
    cluster.start_broker(3)
    for broker in (1, 2, 3):
        assert {number: one.replicas for number, one in announced(broker).items()} == {
            0: (1, 3),
            1: (1, 2),
        }
        assert not any(one.offline_replicas for one in announced(broker).values())


def test_CI_06_new_broker_learns_partitions_without_a_leader() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [2]})
    cluster.stop_broker(3)
    cluster.stop_broker(2)
    cluster.stop_broker(1)
    announced = "t-0 leader -1 e 1 isr [2] v 1 ce 1 replicas [2] offline [2]"
    for broker in (1, 3):
        seen = cluster.seen()
        cluster.start_broker(broker)
        assert seen.requests(broker)[0].endswith(announced)


def test_CI_07_live_brokers_learn_of_a_dead_broker_without_replicas() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [2]})
    cluster.stop_broker(2)
    seen = cluster.seen()
    cluster.stop_broker(3)
    assert seen.requested() == {1: ["UpdateMetadata v8; live [1]"]}
    assert seen.channels() == ["close channel to 3"]


def test_CI_22_last_in_sync_replica_stays_in_the_isr() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2]})
    cluster.stop_broker(2)
    assert cluster.state("t", 0) == "leader -1 e 1 isr [2] v 1 ce 1"
    assert cluster.partition("t", 0).state is PartitionState.OFFLINE


def test_CI_23_unclean_election_needs_a_live_replica() -> None:
    cluster = Cluster(1, 2, unclean_leader_election_enable=True).start()
    cluster.create_topic("t", {0: [2]})
    cluster.stop_broker(2)
    assert cluster.state("t", 0) == "leader -1 e 1 isr [2] v 1 ce 1"


def test_OB_08_leader_follower_and_only_replica_die() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("lead", {0: [1, 2, 3]})
    cluster.create_topic("foll", {0: [2, 1, 3]})
    cluster.create_topic("one", {0: [1]})
    cluster.stop_broker(1)
    assert cluster.state("lead", 0) == "leader 2 e 1 isr [2,3] v 1 ce 1"
    assert cluster.state("foll", 0) == "leader 2 e 1 isr [2,3] v 1 ce 1"
    assert cluster.state("one", 0) == "leader -1 e 1 isr [1] v 1 ce 1"
    cluster.unregister(3)
    cluster.expire()
    assert cluster.state("lead", 0) == "leader 2 e 2 isr [2] v 2 ce 2"
    assert cluster.state("foll", 0) == "leader 2 e 2 isr [2] v 2 ce 2"
    assert cluster.state("one", 0) == "leader -1 e 2 isr [1] v 2 ce 2"
    cluster.start_broker(1)
    assert cluster.state("one", 0) == "leader 1 e 3 isr [1] v 3 ce 2"


def test_several_dead_members_leave_the_isr_one_by_one() -> None:
    """KB 9.3: broker by broker, with one epoch each; the last one stays. One request announces
    the result."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [2, 3, 1]})
    cluster.set_isr("t", 0, [2, 3])
    cluster.unregister(2)
    seen = cluster.seen()
    cluster.stop_broker(3)
    assert cluster.state("t", 0) == "leader -1 e 2 isr [3] v 3 ce 1"
    announced = "t-0 leader -1 e 2 isr [3] v 3 ce 1 replicas [2,3,1]"
    assert seen.requests(1) == [
        f"LeaderAndIsr v7; {announced}",
        f"UpdateMetadata v8; live [1]; {announced} offline [2,3]",
    ]


def test_dead_brokers_get_no_requests() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert seen.requests(1) == []


def test_state_changed_between_read_and_write_is_read_again() -> None:
    """KB 4.4: the leader shrank its ISR meanwhile."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    cluster.once(writes_state("t", 0), lambda: cluster.set_isr("t", 0, [1, 3]))
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 3 e 1 isr [3] v 2 ce 1"


def test_dead_replica_is_removed_from_the_isr_as_stored() -> None:
    """KB 5.2.1."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    removal = "remove 3 from ISR"
    cluster.once(
        lambda issued: issued.reason.rule == removal, lambda: cluster.set_isr("t", 0, [1, 3])
    )
    cluster.stop_broker(3)
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 2 ce 1"


def test_deleted_state_znode_fails_only_its_partition() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    cluster.remove(znodes.state_path("t", 0))
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert ("no_leader_elected", "t-0") in seen.notices()
    assert cluster.state("t", 1) == "leader 2 e 1 isr [2] v 1 ce 1"


def test_failed_election_is_reported_with_each_candidate_and_its_reason() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3], 1: [1, 2, 3]})
    cluster.stop_broker(3)
    cluster.set_isr("t", 0, [1])
    cluster.announce_isr(("t", 0))
    seen = cluster.seen()
    cluster.stop_broker(1)
    candidates = ((1, "not online"), (2, "not in sync"), (3, "not online"))
    assert seen.failed_elections() == [
        Choice("t", 0, -1, "offline partition leader election", candidates)
    ]


# Unclean election -----------------------------------------------------------------------------


def follower_out_of_sync(**settings: object) -> Cluster:
    """An in-sync leader, and a live follower outside of the ISR."""
    cluster = Cluster(1, 2, **settings).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(2)
    cluster.start_broker(2)
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    return cluster


def test_SU_08_unclean_leader_is_the_whole_isr() -> None:
    cluster = follower_out_of_sync(unclean_leader_election_enable=True)
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 2 ce 1 recovering"


def test_unclean_leader_recovers_from_protocol_version_3_2_on() -> None:
    cluster = follower_out_of_sync(
        unclean_leader_election_enable=True, inter_broker_protocol_version="3.1"
    )
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 2 ce 1"


def test_SU_09_without_unclean_election_the_partition_waits_for_its_leader() -> None:
    cluster = follower_out_of_sync()
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader -1 e 2 isr [1] v 2 ce 1"
    cluster.start_broker(1)
    assert cluster.state("t", 0) == "leader 1 e 3 isr [1] v 3 ce 1"
    cluster.set_isr("t", 0, [1, 2])
    cluster.announce_isr(("t", 0))
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 2 e 4 isr [2] v 5 ce 1"


@pytest.mark.parametrize(
    ("default", "override", "state"),
    [
        (False, UNCLEAN, "leader 2 e 2 isr [2] v 2 ce 1 recovering"),
        (True, CLEAN, "leader -1 e 2 isr [1] v 2 ce 1"),
    ],
)
def test_SU_10_topic_override_has_priority(default: bool, override: bytes, state: str) -> None:
    cluster = follower_out_of_sync(unclean_leader_election_enable=default)
    cluster.put(znodes.topic_config_path("t"), override)
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == state


def test_configurations_are_read_only_for_partitions_without_a_live_isr_member() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert cluster.leadership("t", 0).leader == 2
    assert not any(
        znodes.topic_config_path("t") in one.paths
        for one in seen.commands
        if isinstance(one, ReadZnodes)
    )


# Restarts, and several changes at once --------------------------------------------------------


def test_CI_36_restarted_broker_gets_a_new_channel_and_its_partitions() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    before = cluster.broker_epoch(2)
    seen = cluster.seen()
    cluster.bounce(2)
    assert cluster.broker_epoch(2) > before
    assert seen.channels() == ["close channel to 2", "open channel to 2"]
    assert seen.opened()[0].broker_epoch == cluster.broker_epoch(2)
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    announced = "t-0 leader 1 e 1 isr [1] v 1 ce 1 replicas [1,2]"
    update = f"UpdateMetadata v8; live [1,2]; {announced} offline []"
    assert seen.requests(2) == [update, f"LeaderAndIsr v7; {announced}", update]
    assert {one.broker_epoch for one in seen.broker_requests() if one.broker == 2} == {
        cluster.broker_epoch(2)
    }


def test_restarted_leader_loses_its_partitions_to_another_broker() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.bounce(1)
    assert cluster.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 1"


def test_channels_are_changed_in_kafkas_order() -> None:
    """KB 3.3.3: new brokers, then restarted ones, then dead ones."""
    cluster = Cluster(1, 2, 3).start()
    cluster.unregister(1)
    cluster.unregister(2)
    cluster.register(2)
    cluster.register(4)
    seen = cluster.seen()
    cluster.run()
    assert seen.channels() == [
        "open channel to 4",
        "close channel to 2",
        "open channel to 2",
        "close channel to 1",
    ]


def test_dead_broker_may_be_elected_before_its_failure_is_handled() -> None:
    """KB 3.3.7: while a restarted broker is handled, a broker that died with it counts as live."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.unregister(1)
    cluster.register(1)
    cluster.unregister(2)
    seen = cluster.seen()
    cluster.run()
    written = [one.data for one in seen.writes() if isinstance(one, SetData)]
    assert [msgspec.json.decode(data)["leader"] for data in written] == [2, -1]
    assert cluster.state("t", 0) == "leader -1 e 2 isr [2] v 2 ce 1"


def test_broker_deregistered_between_list_and_read_is_skipped() -> None:
    cluster = Cluster(1).start()
    cluster.register(2)
    cluster.once(reads(znodes.broker_path(2)), lambda: cluster.unregister(2))
    seen = cluster.seen()
    cluster.run()
    assert seen.channels() == []
    assert list(cluster.fold.controller.context.brokers) == [1]


# Modification ---------------------------------------------------------------------------------


def changed_registration(cluster: Cluster, broker: int, **fields: object) -> None:
    path = znodes.broker_path(broker)
    data = msgspec.json.decode(cluster.data(path) or b"{}") | fields
    cluster.ask(SetData(path, msgspec.json.encode(data), ANY_VERSION))
    cluster.run()


def test_new_endpoints_are_sent_to_all_brokers() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    changed_registration(cluster, 2, endpoints=["PLAINTEXT://elsewhere:9092"])
    assert seen.requested() == {
        1: ["UpdateMetadata v8; live [1,2]"],
        2: ["UpdateMetadata v8; live [1,2]"],
    }
    (spread, _) = seen.broker_requests()
    assert isinstance(spread, UpdateMetadataRequest)
    assert [one.endpoints[0].host for one in spread.live_brokers] == ["host1", "elsewhere"]
    assert spread.live_brokers[1].epoch == cluster.broker_epoch(2)


def test_new_rack_alone_is_not_sent() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    changed_registration(cluster, 2, rack="r9")
    assert seen.requested() == {}


# The event thread -----------------------------------------------------------------------------


def test_EM_06_error_ends_only_its_event() -> None:
    """By Kafka's rule an election that names a partition without a first leader is an error."""
    cluster = Cluster(1, rules="kafka").start()
    cluster.create_topic("new", {0: [9]})
    seen = cluster.seen()
    put_election(cluster, ("new", 0))
    assert ("procedure_failed", "ReplicaLeaderElection") in seen.notices()
    assert cluster.is_active
    cluster.start_broker(3)
    assert list(cluster.fold.controller.context.brokers) == [1, 3]


def test_EM_02_answer_to_an_update_metadata_is_processed() -> None:
    cluster = Cluster(1).start()
    (sent,) = [one for one in cluster.commands() if isinstance(one.command, UpdateMetadataRequest)]
    seen = cluster.seen()
    cluster.happen(BrokerResponded(sent.id, 1, cluster.broker_epoch(1), 41, []), "broker:1")
    assert seen.notices() == [("broker_error", "broker 1")]
    assert cluster.fold.is_idle


def test_events_are_handled_one_after_the_other() -> None:
    """A topic that is created while a broker's failure is handled waits."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.once(writes_state("t", 0), lambda: cluster.change_topic_quietly("u", {0: [2, 1]}))
    seen = cluster.seen()
    cluster.stop_broker(1)
    written = [path for path in seen.written() if path.endswith("/state")]
    assert written == [znodes.state_path("t", 0), znodes.state_path("u", 0)]
    assert cluster.state("u", 0) == "leader 2 e 0 isr [2] v 0 ce 1"


def test_broker_that_disappears_before_its_registration_is_read_is_no_error() -> None:
    cluster = Cluster(1, 2).start()
    cluster.once(reads(znodes.broker_path(2)), lambda: cluster.unregister(2))
    seen = cluster.seen()
    cluster.expire()
    assert seen.texts_of("unreadable_znode") == []
    assert list(cluster.fold.controller.context.brokers) == [1]


def test_broker_whose_restart_was_handled_in_part_keeps_its_channel() -> None:
    """The controller may not read which rollbacks the extra entries need. Broker 1 counts as a new
    broker at the next change."""
    cluster = ReadDenyingCluster(1, 2, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1]})
    submit(cluster, {T0: [2]})
    cluster.put(znodes.topic_config_path("t"), UNCLEAN)
    cluster.denied = (REASSIGN_PARTITIONS_EXTRA,)
    seen = cluster.seen()
    cluster.bounce(1)
    assert ("procedure_failed", "BrokerChange") in seen.notices()
    assert seen.channels() == ["close channel to 1", "open channel to 1"]
    cluster.denied = ()
    seen = cluster.seen()
    cluster.start_broker(3)
    assert seen.channels() == ["open channel to 3"]
    assert cluster.leadership("t", 0).leader == 1
