"""Controlled shutdown: rows CI-24, CI-25, PS-10, OB-09, OB-11 of KB 17 (KB 9.5)."""

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.values import UNKNOWN_BROKER_EPOCH
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import controlled_shutdown


def test_CI_24_brokers_shut_down_one_by_one_until_the_last_keeps_its_leaders() -> None:
    cluster = Cluster(0, 1, 2).start()
    cluster.create_topic("t", {0: [0, 1, 2]})
    assert controlled_shutdown(cluster, 2).remaining == ()
    state = cluster.leadership("t", 0)
    assert (state.leader, state.isr) == (0, (0, 1))
    assert controlled_shutdown(cluster, 1).remaining == ()
    assert cluster.leadership("t", 0).leader == 0
    last = controlled_shutdown(cluster, 0)
    assert (last.error, last.remaining) == (codes.NONE, (("t", 0),))
    assert cluster.leadership("t", 0).leader == 0


def test_CI_25_old_broker_epoch_is_rejected() -> None:
    cluster = Cluster(1, 2).start()
    epoch = cluster.broker_epoch(2)
    assert controlled_shutdown(cluster, 2, epoch - 1).error == codes.STALE_BROKER_EPOCH
    assert 2 not in cluster.fold.controller.context.shutting_down
    assert controlled_shutdown(cluster, 2, epoch + 1).error == codes.NONE


def test_PS_10_leadership_moves_and_the_broker_is_notified() -> None:
    cluster = Cluster(5, 6).start()
    cluster.create_topic("t", {0: [5, 6]})
    seen = cluster.seen()
    answer = controlled_shutdown(cluster, 5)
    assert (answer.error, answer.remaining) == (codes.NONE, ())
    assert cluster.state("t", 0) == "leader 6 e 1 isr [6] v 1 ce 1"
    assert seen.kinds(5) == seen.kinds(6) == ["LeaderAndIsr", "UpdateMetadata"]


def test_OB_09_led_followed_and_unreplicated_partitions_are_handled_in_order() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("foll", {0: [2, 1, 3]})
    cluster.create_topic("lead", {0: [1, 2, 3]})
    cluster.create_topic("one", {0: [1]})
    seen = cluster.seen()
    assert controlled_shutdown(cluster, 1).remaining == ()
    assert cluster.state("lead", 0) == "leader 2 e 1 isr [2,3] v 1 ce 1"
    assert cluster.state("foll", 0) == "leader 2 e 1 isr [2,3] v 1 ce 1"
    assert cluster.state("one", 0) == "leader 1 e 0 isr [1] v 0 ce 1"
    # First the partitions it leads, then StopReplica, then the ISRs it follows in.
    assert seen.kinds(1) == [
        "LeaderAndIsr",
        "UpdateMetadata",
        "StopReplica",
        "UpdateMetadata",
        "StopReplica",
    ]
    cluster.stop_broker(1)
    assert cluster.state("one", 0) == "leader -1 e 1 isr [1] v 1 ce 1"
    assert cluster.fold.controller.context.shutting_down == {}


def test_OB_11_unknown_broker_is_rejected() -> None:
    cluster = Cluster(1).start()
    unknown = controlled_shutdown(cluster, 77, UNKNOWN_BROKER_EPOCH)
    assert unknown.error == codes.BROKER_NOT_AVAILABLE
    assert controlled_shutdown(cluster, 77, 5).error == codes.UNKNOWN_SERVER_ERROR


def test_shutting_down_broker_is_live_in_the_metadata_and_its_replicas_are_offline() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    controlled_shutdown(cluster, 1)
    seen = cluster.seen()
    cluster.create_topic("u", {0: [2, 1]})
    assert cluster.state("u", 0) == "leader 2 e 0 isr [2] v 0 ce 1"
    requests = [one for one in seen.broker_requests() if one.broker == 1]
    assert requests
    [metadata] = [one for one in requests if hasattr(one, "live_brokers")]
    assert [one.id for one in metadata.live_brokers] == [1, 2]
    assert [one.offline_replicas for one in metadata.partitions] == [(1,)]


def test_controlled_shutdown_stops_no_replica_of_a_partition_without_a_leader() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.put_quietly(znodes.state_path("t", 0), b"garbage")
    cluster.expire()
    assert cluster.partition("t", 0).leadership is None
    seen = cluster.seen()
    assert controlled_shutdown(cluster, 2).remaining == ()
    assert seen.kinds(2) == []
