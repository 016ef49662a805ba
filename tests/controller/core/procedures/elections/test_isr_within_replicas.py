"""A leader that gets new replicas never gets an ISR with other members (ISR_WITHIN_REPLICAS).

Kafka's leader does not wait for such a member of the ISR: it acknowledges records that the member
does not have, and a new controller may elect that member.
"""

import pytest

from controller.core import error_codes as codes
from controller.core.commands import LeaderAndIsrPartition, LeaderAndIsrRequest
from controller.core.configuration import Configuration
from controller.core.election import isr_within_replicas
from controller.core.state import Partition, Topic
from controller.core.values import Assignment
from tests.controller.core.cluster import Cluster, Seen, at_write
from tests.controller.core.procedures.reassignment.interrupting import cancel_all, half_way
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask,
    assignment,
    catch_up,
    cluster_of,
    elect_preferred,
    reassign,
)
from tests.controller.core.unreliable import Delivery

# isr-within-replicas ----------------------------------------------------------------------------

both_ways = pytest.mark.parametrize("has_kip_236", [True, False])


def sent(seen: Seen) -> list[LeaderAndIsrPartition]:
    """The partitions of all LeaderAndIsr requests."""
    requests = [one for one in seen.broker_requests() if isinstance(one, LeaderAndIsrRequest)]
    return [part for one in requests for part in one.partitions]


def assert_within(seen: Seen) -> None:
    """Every ISR that was sent contains only replicas."""
    announced = sent(seen)
    assert announced
    assert [
        one for one in announced if not set(one.leadership.isr) <= set(one.assignment.replicas)
    ] == []


@both_ways
@pytest.mark.deviates("isr-within-replicas")
def test_completed_move_sends_no_isr_with_removed_replicas(has_kip_236: bool) -> None:
    cluster = cluster_of(4, 1, 2, kip_236_enable=has_kip_236)
    reassign(cluster, 1, 3)
    seen = cluster.seen()
    catch_up(cluster, 3)
    assert assignment(cluster) == "1,3"
    assert_within(seen)


@both_ways
@pytest.mark.deviates("isr-within-replicas")
def test_move_of_the_leader_sends_no_isr_with_the_old_leader(has_kip_236: bool) -> None:
    cluster = cluster_of(4, 1, 2, kip_236_enable=has_kip_236)
    reassign(cluster, 3, 4)
    seen = cluster.seen()
    catch_up(cluster, 3, 4)
    assert assignment(cluster) == "3,4"
    assert_within(seen)


@both_ways
def test_dropped_leader_is_in_no_sent_isr(has_kip_236: bool) -> None:
    cluster = cluster_of(5, 1, 2, kip_236_enable=has_kip_236)
    assert reassign(cluster, 3, 5) == 0
    catch_up(cluster, 3)
    elect_preferred(cluster)
    seen = cluster.seen()
    assert reassign(cluster, 4, 5) == 0
    assert cluster.leadership("t", 0).leader in (1, 2)
    assert_within(seen)


@both_ways
def test_target_replaced_before_2_7_is_in_no_sent_isr(has_kip_236: bool) -> None:
    """Leaders before inter.broker.protocol.version 2.7 write the ISR themselves, and get a new
    leader epoch before the target is stopped."""
    cluster = cluster_of(4, 1, kip_236_enable=has_kip_236, inter_broker_protocol_version="2.4")
    reassign(cluster, 2, 3)
    cluster.set_isr("t", 0, [1, 2])
    seen = cluster.seen()
    assert reassign(cluster, 1, 4) == 0
    assert_within(seen)


@pytest.mark.parametrize("number", range(3))
@both_ways
def test_target_that_a_leader_does_not_wait_for_is_not_elected_after_a_failover(
    has_kip_236: bool, number: int
) -> None:
    """A leader that has the assignment without the target may have acknowledged records that the
    target does not have."""
    cluster = cluster_of(4, 1, kip_236_enable=has_kip_236, inter_broker_protocol_version="2.4")
    reassign(cluster, 2, 3)
    cluster.set_isr("t", 0, [1, 2])
    seen = cluster.seen()
    cluster.lose(at_write(number), Delivery.SESSION_OVER)
    assert ask(cluster, (T0, [1, 4])).error == codes.NOT_CONTROLLER
    is_ignored = any(2 not in one.assignment.replicas for one in sent(seen))
    cluster.stop_broker(1)
    assert not (is_ignored and cluster.leadership("t", 0).leader == 2)


def test_under_kafka_rules_the_isr_is_shrunk_afterwards() -> None:
    cluster = Cluster(1, 2, 3, 4, rules="kafka").start()
    cluster.create_topic("t", {0: [1, 2]})
    reassign(cluster, 1, 3)
    seen = cluster.seen()
    catch_up(cluster, 3)
    with pytest.raises(AssertionError):
        assert_within(seen)


def test_cancellation_sends_no_isr_with_targets() -> None:
    cluster = half_way(4, 5)
    seen = cluster.seen()
    cancel_all(cluster)
    assert_within(seen)


def test_isr_without_any_replica_is_kept() -> None:
    """A leader needs a member."""
    partition = Partition(Topic("t"), 0)
    partition.assignment = Assignment((1, 2))
    configuration = Configuration(broker_id=9)
    assert isr_within_replicas(configuration, partition, (3, 4)) == (3, 4)
    assert isr_within_replicas(configuration, partition, (3, 2)) == (2,)
