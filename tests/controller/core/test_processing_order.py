"""The processing order of items that Kafka keeps in hash maps."""

from collections.abc import Iterable

import pytest

from controller.core import znodes
from controller.core.operations import Delete
from controller.core.processing_order import ProcessingOrder
from controller.core.state import ControllerContext, Partition
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import alter_partition, proposal
from tests.controller.core.procedures.elections.electing import rebalance, restart
from tests.controller.core.procedures.reassignment.reassigning import ask, put_request
from tests.controller.core.procedures.topics.deleting import mark_quietly


class ReversedOrder(ProcessingOrder):
    """The reverse order."""

    def partitions(self, partitions: Iterable[Partition]) -> list[Partition]:
        return super().partitions(partitions)[::-1]

    def names(self, names: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        return super().names(names)[::-1]

    def topics(self, topics: Iterable[str]) -> list[str]:
        return super().topics(topics)[::-1]

    def brokers(self, brokers: Iterable[int]) -> list[int]:
        return super().brokers(brokers)[::-1]


in_both_orders = pytest.mark.parametrize("turns", [ProcessingOrder(), ReversedOrder()])


def cluster_of(turns: ProcessingOrder, *topics: str) -> Cluster:
    """Topics on [1,2] of five brokers."""
    cluster = Cluster(1, 2, 3, 4, 5).start()
    cluster.fold.controller.order = turns
    for topic in topics:
        cluster.create_topic(topic, {0: [1, 2]})
    return cluster


def in_turn(turns: ProcessingOrder, *expected: str) -> list[str]:
    return [*expected] if type(turns) is ProcessingOrder else [*reversed(expected)]


def test_default_order_is_by_name_and_new_topics_keep_the_order_of_the_request() -> None:
    context = ControllerContext("PLAINTEXT")
    partitions = [context.topic(topic).partition(number) for topic in "ba" for number in (10, 9)]
    names = [one.key for one in partitions]
    by_name = [("a", 9), ("a", 10), ("b", 9), ("b", 10)]
    assert [one.key for one in ProcessingOrder().partitions(partitions)] == by_name
    assert ProcessingOrder().names(names) == by_name
    assert ProcessingOrder().topics(["b", "a"]) == ["b", "a"]
    assert ProcessingOrder().brokers([10, 9]) == [9, 10]


@in_both_orders
def test_dead_brokers_leave_their_isrs_in_processing_order(turns: ProcessingOrder) -> None:
    cluster = cluster_of(turns, "t")
    cluster.create_topic("u", {0: [1, 4], 1: [1, 5]})
    seen = cluster.seen()
    cluster.unregister(4)
    cluster.stop_broker(5)
    written = [path for path in seen.written() if "/u/" in path]
    assert written == in_turn(turns, znodes.state_path("u", 0), znodes.state_path("u", 1))


@in_both_orders
def test_rebalance_elects_leaders_in_processing_order_of_brokers(turns: ProcessingOrder) -> None:
    cluster = cluster_of(turns)
    cluster.create_topic("u", {0: [4, 1], 1: [5, 1]})
    restart(cluster, 4, ("u", 0))
    restart(cluster, 5, ("u", 1))
    seen = cluster.seen()
    rebalance(cluster)
    states = (znodes.state_path("u", 0), znodes.state_path("u", 1))
    assert seen.written() == in_turn(turns, *states)


@in_both_orders
def test_reassignments_start_and_continue_in_processing_order(turns: ProcessingOrder) -> None:
    cluster = cluster_of(turns, "t", "u")
    seen = cluster.seen()
    put_request(cluster, {("t", 0): [3], ("u", 0): [3]})
    written = [path for path in seen.written() if path.count("/") == 3]
    assert written == in_turn(turns, znodes.topic_path("t"), znodes.topic_path("u"))
    cluster.stop_broker(3)
    seen = cluster.seen()
    cluster.expire()
    resumed = [path for path in seen.written() if path.endswith("/state")]
    assert resumed[-2:] == in_turn(turns, znodes.state_path("t", 0), znodes.state_path("u", 0))
    seen = cluster.seen()
    cluster.start_broker(3)
    resumed = [path for path in seen.written() if path.endswith("/state")]
    assert resumed == in_turn(turns, znodes.state_path("t", 0), znodes.state_path("u", 0))


@in_both_orders
def test_caught_up_partitions_of_one_request_complete_in_processing_order(
    turns: ProcessingOrder,
) -> None:
    cluster = cluster_of(turns, "t", "u")
    ask(cluster, (("t", 0), [1, 3]), (("u", 0), [1, 3]))
    seen = cluster.seen()
    proposals = [proposal(cluster, topic, 0, isr=(1, 2, 3)) for topic in ("t", "u")]
    alter_partition(cluster, 1, *proposals)
    ended = [path for path in seen.written() if path.count("/") == 3]
    assert ended == in_turn(turns, znodes.topic_path("t"), znodes.topic_path("u"))


@in_both_orders
def test_topics_are_deleted_in_processing_order(turns: ProcessingOrder) -> None:
    cluster = cluster_of(turns, "t", "u")
    cluster.unregister(5)
    for topic in ("t", "u"):
        mark_quietly(cluster, topic)
    seen = cluster.seen()
    cluster.run()
    markers = [znodes.delete_topic_path("t"), znodes.delete_topic_path("u")]
    deleted = [one.path for one in seen.writes() if isinstance(one, Delete)]
    assert [one for one in deleted if one in markers] == in_turn(turns, *markers)
