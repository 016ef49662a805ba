"""Changes of brokers that coincide with other changes (KB 3.3, 3.4, 9.1 to 9.3)."""

from controller.core import znodes
from controller.core.commands import LeaderAndIsrRequest
from tests.controller.core.cluster import DAEMON, Cluster, reads
from tests.controller.core.procedures.znode_changes.log_dir_failures import (
    announce,
    failed_directory,
)


def test_new_broker_learns_every_partition_before_new_ones_are_created() -> None:
    """No broker could take the daemon's place in t-0."""
    cluster = Cluster().start()
    cluster.create_topic("t", {0: [DAEMON]})
    seen = cluster.seen()
    cluster.start_broker(1)
    assert seen.kinds(1) == ["UpdateMetadata", "LeaderAndIsr", "UpdateMetadata"]


def test_broker_that_failed_with_its_directory_leads_after_a_restart() -> None:
    """The response that reports the directory arrives while the broker's failure is handled."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1]})
    cluster.is_slow = lambda request: isinstance(request, LeaderAndIsrRequest)
    announce(cluster, b'{"version":1,"broker":1,"event":1}')
    answer = failed_directory(cluster, ("t", 0))
    cluster.once(reads(znodes.BROKER_IDS), lambda: cluster.happen_next(answer, "broker:1"))
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert ("replicas_in_failed_log_dir", "broker 1") in seen.notices()
    cluster.is_slow = lambda request: False
    cluster.start_broker(1)
    assert cluster.leadership("t", 0).leader == 1


def test_one_update_announces_dead_brokers_with_and_without_replicas() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.unregister(2)
    cluster.unregister(3)
    seen = cluster.seen()
    cluster.run()
    announced = "t-0 leader 1 e 1 isr [1] v 1 ce 1 replicas [1,2]"
    assert seen.requests(1) == [
        f"LeaderAndIsr v7; {announced}",
        f"UpdateMetadata v8; live [1]; {announced} offline [2]",
    ]


def test_one_update_announces_a_dead_broker_and_the_leaders_elected_with_it() -> None:
    """Broker 3 has no replicas. The topic has just been allowed unclean leaders, and no election
    has followed yet."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(2)
    cluster.start_broker(2)
    cluster.stop_broker(1)
    unclean = b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'
    cluster.put_quietly(znodes.topic_config_path("t"), unclean)
    seen = cluster.seen()
    cluster.stop_broker(3)
    announced = "t-0 leader 2 e 3 isr [2] v 3 ce 1 recovering replicas [1,2]"
    assert seen.requests(2) == [
        f"LeaderAndIsr v7; {announced}",
        f"UpdateMetadata v8; live [2]; {announced} offline [1]",
    ]


def test_modification_of_a_broker_that_registers_again_is_no_error() -> None:
    """Broker 2 changed its registration before the controller handled its failure, and is back
    before the controller handles the change."""
    cluster = Cluster(1, 2).start()
    cluster.register(3)
    cluster.put_quietly(znodes.broker_path(2), cluster.data(znodes.broker_path(3)) or b"")
    cluster.unregister(2)
    cluster.once(reads(znodes.broker_path(1)), lambda: cluster.register(2))
    seen = cluster.seen()
    cluster.run()
    assert seen.notices() == [("broker_failed", "broker 2")]
    assert seen.channels()[-1] == "open channel to 2"
