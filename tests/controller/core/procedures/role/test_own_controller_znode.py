"""refold.own.controller.znode=wait: the daemon finds the /controller of its previous session (KB
16.5)."""

import pytest

from tests.controller.core.cluster import DAEMON, Cluster
from tests.controller.core.slow_sessions import (
    ZooKeeperWithSlowSessions,
    assert_elected,
    lose_the_session,
    owner,
)


@pytest.mark.parametrize("take_over", [True, False])
def test_daemon_with_the_setting_waits_until_its_old_controller_znode_is_deleted(
    take_over: bool,
) -> None:
    server = ZooKeeperWithSlowSessions.of_a_cluster()
    cluster = Cluster(1, 2, zookeeper=server, waits_for_own_znode=True, take_over=take_over)
    cluster.start()
    seen = cluster.seen()
    old = lose_the_session(cluster)
    assert (owner(cluster), cluster.is_active) == (old, False)
    assert seen.notices() == [("own_znode_left", "/controller")]
    assert f"previous session 0x{old:x}" in seen.texts_of("own_znode_left")[0]
    assert "/controller" not in seen.written()
    server.expire(old)
    cluster.run()
    assert_elected(cluster, 2)


@pytest.mark.parametrize("take_over", [True, False])
def test_broker_that_is_faster_after_the_wait_is_replaced_only_with_take_over(
    take_over: bool,
) -> None:
    server = ZooKeeperWithSlowSessions.of_a_cluster()
    cluster = Cluster(1, 2, zookeeper=server, waits_for_own_znode=True, take_over=take_over)
    cluster.start()
    old = lose_the_session(cluster)
    server.expire(old)
    cluster.take_role(1)
    cluster.run()
    assert cluster.controller() == (DAEMON if take_over else 1)
    # Once only: the next broker keeps the role.
    cluster.seize_role(2)
    cluster.run()
    assert cluster.controller() == 2


def test_waiting_daemon_replaces_the_controller_znode_of_another_with_take_over() -> None:
    cluster = Cluster(1, 2, waits_for_own_znode=True, take_over=True)
    cluster.take_role(1)
    cluster.start()
    assert_elected(cluster, 2)


def test_standby_that_has_waited_does_not_replace_its_successor() -> None:
    """Its `take_over` counts only at its start (docs/standby.md)."""
    server = ZooKeeperWithSlowSessions.of_a_cluster()
    cluster = Cluster(
        1, 2, zookeeper=server, waits_for_own_znode=True, take_over=True, standby=True
    )
    cluster.start()
    old = lose_the_session(cluster)
    server.expire(old)
    cluster.take_role(1)
    cluster.run()
    assert cluster.controller() == 1
