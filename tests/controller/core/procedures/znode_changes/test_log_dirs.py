"""Log directories that fail (KB 3.11, 12.4.2)."""

from controller.core import znodes
from replay.world.requests import GetChildren
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import controlled_shutdown
from tests.controller.core.procedures.znode_changes.log_dir_failures import (
    announce,
    storage_errors,
)


def test_failed_directory_moves_its_leaders_and_leaves_the_isr() -> None:
    for protocol in ("2.6", "3.9"):
        cluster = Cluster(1, 2, inter_broker_protocol_version=protocol).start()
        cluster.create_topic("t", {0: [1, 2], 1: [1, 2], 2: [2, 1]})
        storage_errors(cluster, 1, ("t", 0), ("t", 2))
        seen = cluster.seen()
        announce(cluster, b'{"version":1,"broker":1,"event":1}')
        assert cluster.state("t", 0) == "leader 2 e 1 isr [2] v 1 ce 1"
        assert cluster.state("t", 1) == "leader 1 e 0 isr [1,2] v 0 ce 1"
        assert cluster.state("t", 2) == "leader 2 e 1 isr [2] v 1 ce 1"
        assert cluster.ask(GetChildren(znodes.LOG_DIR_EVENTS)).children == ()
        assert seen.texts_of("replicas_in_failed_log_dir")
        metadata = [one for one in seen.broker_requests() if hasattr(one, "live_brokers")]
        offline = {one.partition: one.offline_replicas for one in metadata[-1].partitions}
        assert offline.get(0, (1,)) == (1,)


def test_broker_with_the_failed_directory_is_not_sent_the_next_leaders() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    storage_errors(cluster, 1, ("t", 0))
    seen = cluster.seen()
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    assert cluster.leadership("t", 0).leader == 2
    assert [one.partitions[0].leadership.leader for one in seen.leader_and_isr(1)] == [1]
    controlled_shutdown(cluster, 2)
    assert cluster.leadership("t", 0).leader == 3
    assert [one.partitions[0].leadership.leader for one in seen.leader_and_isr(1)] == [1]


def test_repaired_directory_counts_after_a_restart() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    storage_errors(cluster, 1, ("t", 0))
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    assert cluster.fold.controller.context.offline_dirs
    storage_errors(cluster, 1)
    cluster.bounce(1)
    assert cluster.fold.controller.context.offline_dirs == {}


def test_replica_without_an_error_in_a_later_answer_is_online() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    storage_errors(cluster, 1, ("t", 0))
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    storage_errors(cluster, 1)
    before = cluster.state("t", 0)
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    assert cluster.fold.controller.context.offline_dirs == {}
    assert cluster.state("t", 0) == before


def test_unreadable_notification_is_reported_and_deleted() -> None:
    cluster = Cluster(1).start()
    seen = cluster.seen()
    announce(cluster, b"nonsense")
    assert [code for code, _ in seen.notices()] == ["unreadable_znode"]
    assert cluster.ask(GetChildren(znodes.LOG_DIR_EVENTS)).children == ()


def test_notifications_older_than_the_failover_are_deleted_unread() -> None:
    cluster = Cluster(1)
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    seen = cluster.seen()
    cluster.start()
    assert cluster.ask(GetChildren(znodes.LOG_DIR_EVENTS)).children == ()
    assert seen.notices() == []
