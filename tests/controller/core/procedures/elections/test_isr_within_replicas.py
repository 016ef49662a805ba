"""A leader that gets new replicas never gets an ISR with other members (ISR_WITHIN_REPLICAS).

Kafka's leader does not wait for such a member of the ISR: it acknowledges records that the member
does not have, and a new controller may elect that member.
"""

import pytest

from controller.core.commands import LeaderAndIsrPartition, LeaderAndIsrRequest
from controller.core.configuration import Configuration
from controller.core.election import isr_within_replicas
from controller.core.state import Partition, Topic
from controller.core.values import Assignment
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    half_way,
    interruptible,
    request,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    assignment,
    catch_up,
    elect_preferred,
    reassign,
)

# isr-within-replicas ----------------------------------------------------------------------------


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


def test_completed_move_sends_no_isr_with_removed_replicas() -> None:
    cluster = interruptible(4, 1, 2)
    request(cluster, {T0: [1, 3]})
    seen = cluster.seen()
    catch_up(cluster, 3)
    assert assignment(cluster) == "1,3"
    assert_within(seen)


def test_move_of_the_leader_sends_no_isr_with_the_old_leader() -> None:
    cluster = interruptible(4, 1, 2)
    request(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    catch_up(cluster, 3, 4)
    assert assignment(cluster) == "3,4"
    assert_within(seen)


def test_dropped_leader_is_in_no_sent_isr() -> None:
    cluster = interruptible(5, 1, 2)
    assert reassign(cluster, 3, 5) == 0
    catch_up(cluster, 3)
    elect_preferred(cluster)
    seen = cluster.seen()
    assert reassign(cluster, 4, 5) == 0
    assert cluster.leadership("t", 0).leader in (1, 2)
    assert_within(seen)


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
    configuration = Configuration(broker_id=9, kip_236_enable=True)
    assert isr_within_replicas(configuration, partition, (3, 4)) == (3, 4)
    assert isr_within_replicas(configuration, partition, (3, 2)) == (2,)
