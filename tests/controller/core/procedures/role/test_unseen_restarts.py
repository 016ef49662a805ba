"""Brokers that register again while there is no controller (deviation restarts-seen-at-failover).

In most scenarios t-0 is on brokers 1, 2 and 3, which are in sync, and 1 leads.
"""

import pytest

from controller.core.values import LeaderAndIsr
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.procedures.reassignment.interrupting import OtherControllersTerm


def three_in_sync(rules: str = "refold") -> Cluster:
    cluster = Cluster(1, 2, 3, rules=rules).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    return cluster


def restart(cluster: Cluster, *brokers: int) -> None:
    """While a controller has the role that does nothing, and then dies."""
    with OtherControllersTerm(cluster):
        for broker in brokers:
            cluster.stop_broker(broker)
            cluster.start_broker(broker)


def state(cluster: Cluster) -> tuple[int, int, tuple[int, ...]]:
    """Leader, leader epoch and ISR of t-0."""
    stored: LeaderAndIsr = cluster.leadership("t", 0)
    return stored.leader, stored.leader_epoch, stored.isr


def leaders_sent(seen: Seen, broker: int) -> set[tuple[int, int]]:
    """Leader and leader epoch of t-0 in each LeaderAndIsr request to a broker."""
    return {
        (one.leadership.leader, one.leadership.leader_epoch)
        for request in seen.leader_and_isr(broker)
        for one in request.partitions
    }


# restarts-seen-at-failover -----------------------------------------------------------------------


@pytest.mark.deviates("restarts-seen-at-failover")
def test_restarted_leader_loses_the_lead_and_leaves_the_isr() -> None:
    cluster = three_in_sync()
    seen = cluster.seen()
    restart(cluster, 1)
    assert state(cluster) == (2, 1, (2, 3))
    assert [leaders_sent(seen, one) for one in (1, 2, 3)] == [{(2, 1)}] * 3
    assert seen.notices() == []


@pytest.mark.deviates("restarts-seen-at-failover")
def test_restarted_follower_leaves_the_isr() -> None:
    cluster = three_in_sync()
    restart(cluster, 3)
    assert state(cluster) == (1, 1, (1, 2))


@pytest.mark.deviates("restarts-seen-at-failover")
def test_leader_continues_with_a_new_epoch_if_all_have_restarted() -> None:
    """Its followers compare their logs with a new leader epoch only."""
    cluster = three_in_sync()
    seen = cluster.seen()
    restart(cluster, 1, 2, 3)
    assert state(cluster) == (1, 1, (1, 2, 3))
    assert [leaders_sent(seen, one) for one in (1, 2, 3)] == [{(1, 1)}] * 3


def test_replica_that_has_not_restarted_is_elected_before_one_that_has() -> None:
    cluster = three_in_sync()
    with OtherControllersTerm(cluster):
        cluster.stop_broker(2)
        cluster.start_broker(2)
        cluster.stop_broker(1)
    leader, _, isr = state(cluster)
    assert (leader, isr) == (3, (3,))


def test_restarted_replica_is_elected_if_no_other_is_alive() -> None:
    cluster = three_in_sync()
    with OtherControllersTerm(cluster):
        cluster.stop_broker(1)
        cluster.stop_broker(3)
        cluster.stop_broker(2)
        cluster.start_broker(2)
    leader, _, isr = state(cluster)
    assert (leader, isr) == (2, (2,))


def test_restart_before_an_election_whose_failover_did_not_end_is_seen() -> None:
    """Two controllers come and go without doing anything, one before and one after a restart."""
    cluster = three_in_sync()
    first = cluster.seize_role(9)
    cluster.run()
    cluster.stop_broker(1)
    cluster.start_broker(1)
    second = cluster.seize_role(8)
    cluster.run()
    cluster.leave_role(second)
    cluster.zookeeper.end_session(first)
    assert cluster.is_active
    assert state(cluster) == (2, 1, (2, 3))


def test_state_that_was_written_after_the_restart_stays() -> None:
    cluster = three_in_sync()
    cluster.stop_broker(3)
    cluster.start_broker(3)
    before = state(cluster)
    with OtherControllersTerm(cluster):
        pass
    assert state(cluster) == before


def test_under_kafka_rules_a_failover_does_not_notice_restarts() -> None:
    cluster = three_in_sync(rules="kafka")
    restart(cluster, 1, 3)
    assert state(cluster) == (1, 0, (1, 2, 3))
