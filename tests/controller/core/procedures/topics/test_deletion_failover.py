"""Interrupted deletions: lost replies, lost sessions, lost roles (KB 6.2, 8, 13)."""

from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.commands import (
    Issued,
    Notice,
    ReadChildren,
    ReadZnodes,
    StopReplicaRequest,
    WriteZnodes,
)
from controller.core.events import BrokerResponded
from controller.core.operations import Delete
from controller.core.values import ANY_VERSION
from replay.world.requests import GetChildren
from tests.controller.core.cluster import Cluster, reads
from tests.controller.core.procedures.topics.deleting import (
    cluster_with_topic,
    deletes_znode,
    left_of,
    logs,
    mark,
    mark_quietly,
    marked,
    slow_to_delete,
)
from tests.controller.core.unreliable import Delivery

ZOOKEEPER = ReadChildren | ReadZnodes | WriteZnodes
CONFIG = b'{"version":1,"config":{}}'


def two_topics() -> Cluster:
    """t and u are to be deleted, u with a configuration. v is kept."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3], 1: [3, 1]})
    cluster.create_topic("u", {0: [2, 3]})
    cluster.create_topic("v", {0: [3, 2, 1]})
    cluster.put(znodes.topic_config_path("u"), CONFIG)
    return cluster


def check(cluster: Cluster) -> None:
    """Everything of t and u is deleted, and nothing of v."""
    assert left_of(cluster, "t") + left_of(cluster, "u") == []
    assert marked(cluster) == ()
    assert cluster.is_active
    assert logs(cluster, "v") == {1: [0], 2: [0], 3: [0]}
    assert cluster.leadership("v", 0).leader in (1, 2, 3)
    announced = [one.command.code for one in cluster.commands() if isinstance(one.command, Notice)]
    assert "procedure_failed" not in announced
    assert "failover_failed" not in announced


def nth(number: int) -> Callable[[Issued], bool]:
    """A predicate that matches the nth ZooKeeper command, counted from 0."""
    met = -1

    def matches(issued: Issued) -> bool:
        nonlocal met
        met += isinstance(issued.command, ZOOKEEPER)
        return isinstance(issued.command, ZOOKEEPER) and met == number

    return matches


def commands_of_a_deletion() -> int:
    cluster = two_topics()
    seen = cluster.seen()
    mark(cluster, "t", "u")
    return sum(isinstance(one, ZOOKEEPER) for one in seen.commands)


STEPS = commands_of_a_deletion()
each_step = pytest.mark.parametrize("step", range(STEPS))


@pytest.mark.parametrize("delivery", [one for one in Delivery if one is not Delivery.ANSWERED])
@each_step
def test_deletion_completes_after_a_loss_at_any_command(step: int, delivery: Delivery) -> None:
    """Each ZooKeeper command in turn, or its reply, or the session."""
    cluster = two_topics()
    cluster.lose(nth(step), delivery)
    mark(cluster, "t", "u")
    check(cluster)


def tree(cluster: Cluster, root: str) -> dict[str, tuple[bytes | None, int | None]]:
    """The znodes below a znode: data and version."""
    found = {root: (cluster.data(root), cluster.version(root))}
    for child in cluster.ask(GetChildren(root)).children or ():
        found |= tree(cluster, f"{root}/{child}")
    return found


@each_step
def test_deletion_stops_when_the_role_is_taken_and_continues_when_it_returns(step: int) -> None:
    cluster = two_topics()
    sessions: list[int] = []
    stood: list[object] = []

    def lose_role() -> None:
        sessions.append(cluster.seize_role(9))
        stood.append([tree(cluster, one) for one in (znodes.TOPICS, "/admin", "/config")])

    cluster.once(nth(step), lose_role)
    mark(cluster, "t", "u")
    assert not cluster.is_active
    assert [tree(cluster, one) for one in (znodes.TOPICS, "/admin", "/config")] == stood[0]
    cluster.leave_role(sessions[0])
    check(cluster)


@each_step
def test_deletion_completes_after_a_dead_broker_returns(step: int) -> None:
    cluster = two_topics()
    cluster.once(nth(step), lambda: cluster.unregister(3))
    mark(cluster, "t", "u")
    assert logs(cluster, "v") == {1: [0], 2: [0], 3: [0]}
    cluster.start_broker(3)
    check(cluster)


@each_step
def test_deletion_completes_after_a_restart_of_a_broker(step: int) -> None:
    cluster = two_topics()

    def bounce_quietly() -> None:
        cluster.unregister(3)
        cluster.register(3)

    cluster.once(nth(step), bounce_quietly)
    mark(cluster, "t", "u")
    check(cluster)


def test_CI_27_replaced_controller_deletes_nothing() -> None:
    cluster = cluster_with_topic()
    cluster.once(reads(znodes.DELETE_TOPICS), lambda: cluster.seize_role(1))
    mark(cluster, "t")
    assert not cluster.is_active
    assert marked(cluster) == ("t",)
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1,2,3] v 0 ce 1"
    assert logs(cluster, "t") == {1: [0], 2: [0], 3: [0]}


ZNODES = (
    znodes.state_path("t", 0),
    znodes.state_path("t", 1),
    znodes.partition_path("t", 0),
    znodes.partition_path("t", 1),
    znodes.partitions_path("t"),
    znodes.topic_path("t"),
    znodes.topic_config_path("t"),
)
"""In the order in which they are deleted. The marker is last."""


@pytest.mark.parametrize("others", [(), (3,)], ids=["all alive", "one dead"])
@pytest.mark.parametrize("gone", range(len(ZNODES) + 1))
def test_new_controller_deletes_the_remaining_znodes(gone: int, others: tuple[int, ...]) -> None:
    """The session ends after some are deleted, and a broker dies at the same time."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3], 1: [3, 1]})
    cluster.put(znodes.topic_config_path("t"), CONFIG)

    def some_are_deleted() -> None:
        for path in ZNODES[:gone]:
            cluster.ask(Delete(path, ANY_VERSION))
        for broker in others:
            cluster.unregister(broker)

    removal = deletes_znode(znodes.topic_path("t"))
    cluster.once(removal, some_are_deleted)
    cluster.lose(removal, Delivery.SESSION_OVER)
    mark(cluster, "t")
    for broker in others:
        cluster.start_broker(broker)
    assert left_of(cluster, "t") == []
    assert cluster.epoch() == 2


def test_failover_starts_with_all_existing_markers() -> None:
    cluster = two_topics()
    mark_quietly(cluster, "t", "u")
    seen = cluster.seen()
    cluster.expire()
    check(cluster)
    assert [one for one in seen.requests(2) if "delete" in one] == [
        "StopReplica v4; t-0 e -2 delete; u-0 e -2 delete"
    ]


def test_failover_announces_queued_topics_before_it_deletes_them() -> None:
    """KB 6.2 step 9, 18 point 13: live replicas get LeaderAndIsr, while the metadata has leader
    -2."""
    cluster = cluster_with_topic()
    mark_quietly(cluster, "t")
    seen = cluster.seen()
    cluster.expire()
    announced = "t-0 leader 1 e 0 isr [1,2,3] v 0 ce 1 replicas [1,2,3]"
    gone = "t-0 leader -2 e 0 isr [1,2,3] v 0 ce 1 replicas [1,2,3] offline []"
    assert seen.requests(1) == [
        "UpdateMetadata v8; live [1,2,3]",
        f"LeaderAndIsr v7; {announced}",
        f"UpdateMetadata v8; live [1,2,3]; {gone}",
        f"UpdateMetadata v8; live [1,2,3]; {gone}",
        "StopReplica v4; t-0 e -2",
        "StopReplica v4; t-0 e -2 delete",
    ]
    assert left_of(cluster, "t") == []


def test_answers_to_an_earlier_term_are_ignored() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 1, 2, 3)
    mark(cluster, "t")
    asked = {
        one.id: one.command.broker
        for one in cluster.commands()
        if isinstance(one.command, StopReplicaRequest)
    }
    cluster.expire()
    for id, broker in asked.items():
        answered = BrokerResponded(id, broker, cluster.broker_epoch(broker), 0, [])
        cluster.happen(answered, f"broker:{answered.broker}")
    assert marked(cluster) == ("t",)
    cluster.answer_slow()
    assert left_of(cluster, "t") == []
