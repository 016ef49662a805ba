"""Automatic preferred leader election (KB 10): rows CI-19 to CI-21 of KB 17."""

import pytest

from controller.core import znodes
from controller.core.commands import CancelTimer, LeaderAndIsrRequest, ReadZnodes, StartTimer
from controller.core.events import TimerFired
from tests.controller.core.cluster import Cluster, reads, writes_state
from tests.controller.core.endpoint import controlled_shutdown
from tests.controller.core.procedures.elections.electing import (
    delays,
    elect,
    leaders,
    rebalance,
    restart,
    timer,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    Name,
    ask_for_isr,
    assignment,
    catch_up,
    put_request,
    request,
)
from tests.controller.core.procedures.topics.deleting import mark

T0, R0 = ("t", 0), ("r", 0)
EVERY_MS = 300_000


def names(count: int, topic: str = "t") -> list[Name]:
    return [(topic, number) for number in range(count)]


def imbalanced(total: int, wrong: int, **settings: object) -> Cluster:
    """Partitions of t, all on [2,1]: `wrong` of them are led by 1, the others by 2."""
    cluster = Cluster(1, 2, **settings).start()
    cluster.create_topic("t", {number: [2, 1] for number in range(total)})
    restart(cluster, 2, *names(total))
    if wrong < total:
        elect(cluster, "preferred", *names(total)[wrong:])
    assert count_led_by(cluster, 1) == wrong
    return cluster


def count_led_by(cluster: Cluster, broker: int) -> int:
    return list(leaders(cluster, "t").values()).count(broker)


# Kafka's scenarios ------------------------------------------------------------------------------


def test_CI_19_preferred_replica_is_elected() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1]})
    cluster.stop_broker(2)
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    cluster.start_broker(2)
    rebalance(cluster)
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    catch_up(cluster, 2)
    rebalance(cluster)
    assert cluster.state("t", 0) == "leader 2 e 2 isr [1,2] v 3 ce 1"


def test_CI_20_unrelated_waiting_reassignment_does_not_prevent_the_election() -> None:
    """c is 1, l is 2, o is 3."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [2, 1]})
    cluster.create_topic("r", {0: [1]})
    cluster.stop_broker(2)
    cluster.stop_broker(3)
    put_request(cluster, {R0: [3]})
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    assert cluster.state("r", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    cluster.start_broker(2)
    catch_up(cluster, 2)
    rebalance(cluster)
    assert cluster.state("t", 0) == "leader 2 e 2 isr [1,2] v 3 ce 1"
    assert cluster.state("r", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    cluster.start_broker(3)
    catch_up(cluster, 3, name=R0)
    assert cluster.state("r", 0) == "leader 3 e 3 isr [3] v 4 ce 1"
    assert assignment(cluster, R0) == "3"
    assert request(cluster) is None


def test_CI_21_partition_being_reassigned_elects_the_first_replica_of_its_new_order() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(3)
    put_request(cluster, {T0: [2, 1, 3]})
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1,2] v 1 ce 1"
    rebalance(cluster)
    assert cluster.state("t", 0) == "leader 2 e 2 isr [1,2] v 2 ce 1"
    assert assignment(cluster) == "2,1,3 adding 3"
    cluster.start_broker(3)
    assert cluster.state("t", 0) == "leader 2 e 3 isr [1,2] v 3 ce 1"
    catch_up(cluster, 3)
    assert cluster.state("t", 0) == "leader 2 e 4 isr [1,2,3] v 5 ce 1"
    assert assignment(cluster) == "2,1,3"
    assert request(cluster) is None


# Schedule ---------------------------------------------------------------------------------------


def test_rebalance_runs_five_seconds_after_the_failover_and_at_each_interval() -> None:
    cluster = Cluster(1)
    seen = cluster.seen()
    cluster.start()
    assert delays(seen) == [5_000]
    rebalance(cluster)
    rebalance(cluster)
    assert delays(seen) == [5_000, EVERY_MS, EVERY_MS]


def test_interval_is_a_setting() -> None:
    cluster = Cluster(1, leader_imbalance_check_interval_seconds=7).start()
    seen = cluster.seen()
    rebalance(cluster)
    assert delays(seen) == [7_000]


def test_disabled_rebalance_never_runs() -> None:
    cluster = Cluster(1, auto_leader_rebalance_enable=False)
    seen = cluster.seen()
    cluster.start()
    cluster.expire()
    timers = [one for one in seen.commands if isinstance(one, StartTimer | CancelTimer)]
    assert timers == []


def test_rebalance_runs_again_after_an_error() -> None:
    """A stock controller fails on a partition without replicas."""
    cluster = imbalanced(1, 1, rules="kafka", is_broker=True)
    cluster.create_topic("u", {0: [2]})
    cluster.create_topic("u", {0: [2], 1: []})
    seen = cluster.seen()
    rebalance(cluster)
    assert seen.notices() == [("procedure_failed", "AutoPreferredReplicaLeaderElection")]
    assert delays(seen) == [EVERY_MS]


def test_replaced_controller_does_not_rebalance() -> None:
    cluster = imbalanced(1, 1)
    own = timer(cluster)
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(1))
    seen = cluster.seen()
    rebalance(cluster)
    assert not cluster.is_active
    timers = [one for one in seen.commands if isinstance(one, StartTimer | CancelTimer)]
    assert timers[-1] == CancelTimer(own)
    cluster.fire(own)
    assert cluster.leadership("t", 0).leader == 1


def test_timer_of_an_earlier_term_is_ignored() -> None:
    """The timer fired when the session ended, and its event follows the start of the next
    failover."""
    cluster = imbalanced(1, 1)
    own = timer(cluster)
    late = TimerFired(own)
    cluster.once(reads(znodes.TOPICS), lambda: cluster.happen_next(late, f"timer:{own}"))
    seen = cluster.seen()
    cluster.expire()
    cluster.fire(own)
    assert delays(seen) == [5_000]
    assert cluster.leadership("t", 0).leader == 1
    rebalance(cluster)
    assert cluster.leadership("t", 0).leader == 2


# The imbalance percentage -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percentage", "wrong", "moves"),
    [
        (0, 1, True),
        (10, 1, False),
        (10, 2, True),
        (10, 10, True),
        (19, 2, True),
        (20, 2, False),
        (99, 10, True),
        (100, 10, False),
    ],
)
def test_imbalance_above_the_percentage_moves_all_partitions(
    percentage: int, wrong: int, moves: bool
) -> None:
    """Of ten partitions. A tenth is not more than 10 percent."""
    cluster = imbalanced(10, wrong, leader_imbalance_per_broker_percentage=percentage)
    seen = cluster.seen()
    rebalance(cluster)
    assert count_led_by(cluster, 1) == (0 if moves else wrong)
    assert len(seen.writes()) == (wrong if moves else 0)
    assert bool(seen.requested()) == moves


def test_no_imbalance_moves_nothing() -> None:
    cluster = imbalanced(2, 0, leader_imbalance_per_broker_percentage=0)
    seen = cluster.seen()
    rebalance(cluster)
    assert seen.writes() == []


def test_partitions_count_for_their_preferred_broker() -> None:
    """One of three that prefer broker 2 is more than 20 %. One of nine would not be."""
    cluster = Cluster(1, 2, leader_imbalance_per_broker_percentage=20).start()
    cluster.create_topic("t", {0: [2, 1], 1: [2, 1], 2: [2, 1]})
    cluster.create_topic("u", {number: [1, 2] for number in range(6)})
    restart(cluster, 2, *names(3), *names(6, "u"))
    elect(cluster, "preferred", *names(3)[1:])
    rebalance(cluster)
    assert leaders(cluster, "t") == {0: 2, 1: 2, 2: 2}


def test_partitions_of_each_broker_are_a_separate_batch() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [2, 1], 1: [3, 1], 2: [2, 1]})
    for broker in (3, 2):
        cluster.stop_broker(broker)
        cluster.start_broker(broker)
    catch_up(cluster, 2, name=T0)
    catch_up(cluster, 3, name=("t", 1))
    catch_up(cluster, 2, name=("t", 2))
    seen = cluster.seen()
    rebalance(cluster)
    assert leaders(cluster, "t") == {0: 2, 1: 3, 2: 2}
    asked = [one for one in seen.commands if isinstance(one, LeaderAndIsrRequest)]
    batches = [(one.broker, [it.partition for it in one.partitions]) for one in asked]
    assert batches == [(1, [0, 2]), (2, [0, 2]), (1, [1]), (3, [1])]


def test_partition_that_never_had_a_leader_counts_for_its_broker() -> None:
    """Its state cannot be read. One of two partitions is imbalanced, not one of one."""
    cluster = imbalanced(2, 1, leader_imbalance_per_broker_percentage=50)
    cluster.put_quietly(znodes.state_path("t", 1), b"{")
    cluster.expire()
    assert cluster.partition("t", 1).leadership is None
    rebalance(cluster)
    assert cluster.leadership("t", 0).leader == 1


@pytest.mark.parametrize(("percentage", "leader"), [(50, 1), (49, 2)])
def test_topics_being_deleted_do_not_count(percentage: int, leader: int) -> None:
    """One of two partitions of t is imbalanced. The three of d would change the ratio, and wait
    for 3."""
    cluster = Cluster(1, 2, 3, leader_imbalance_per_broker_percentage=percentage).start()
    cluster.create_topic("t", {0: [2, 1], 1: [2, 1]})
    cluster.create_topic("d", {0: [2, 1, 3], 1: [2, 1, 3], 2: [2, 1, 3]})
    restart(cluster, 2, *names(2), *names(3, "d"))
    elect(cluster, "preferred", ("t", 1))
    cluster.stop_broker(3)
    mark(cluster, "d")
    before = leaders(cluster, "d")
    rebalance(cluster)
    assert cluster.leadership("t", 0).leader == leader
    assert leaders(cluster, "d") == before


# Choice of partitions ---------------------------------------------------------------------------


def no_election_is_tried(cluster: Cluster) -> bool:
    """Partition states are not even read."""
    before = leaders(cluster, "t")
    seen = cluster.seen()
    rebalance(cluster)
    is_quiet = not any(isinstance(one, ReadZnodes) for one in seen.commands)
    return is_quiet and seen.notices() == [] and leaders(cluster, "t") == before


def test_dead_preferred_replica_is_not_elected() -> None:
    cluster = imbalanced(2, 2)
    cluster.stop_broker(2)
    assert no_election_is_tried(cluster)


def test_preferred_replica_out_of_sync_is_not_elected() -> None:
    cluster = imbalanced(2, 2)
    for name in names(2):
        ask_for_isr(cluster, 1, name=name)
    assert no_election_is_tried(cluster)


def test_preferred_replica_in_controlled_shutdown_is_not_elected() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1]})
    controlled_shutdown(cluster, 2)
    assert leaders(cluster, "t") == {0: 1}
    assert no_election_is_tried(cluster)


def test_partitions_that_cannot_move_do_not_delay_the_others() -> None:
    cluster = imbalanced(2, 2)
    ask_for_isr(cluster, 1, name=("t", 1))
    rebalance(cluster)
    assert leaders(cluster, "t") == {0: 2, 1: 1}


def test_isr_in_zookeeper_decides_whether_the_preferred_replica_is_in_sync() -> None:
    """The leader has shrunk the ISR, and the controller has not been notified yet."""
    cluster = imbalanced(1, 1)
    cluster.set_isr("t", 0, [1])
    seen = cluster.seen()
    rebalance(cluster)
    assert cluster.leadership("t", 0).leader == 1
    assert seen.notices() == [("no_leader_elected", "t-0")]
    assert delays(seen) == [EVERY_MS]


def test_partitions_that_never_had_a_leader_are_left_out() -> None:
    cluster = imbalanced(1, 1)
    cluster.create_topic("r", {0: [3], 1: [1, 3]})
    assert (cluster.state("r", 0), cluster.leadership("r", 1).leader) == (None, 1)
    seen = cluster.seen()
    rebalance(cluster)
    assert (seen.notices(), cluster.leadership("t", 0).leader) == ([], 2)
