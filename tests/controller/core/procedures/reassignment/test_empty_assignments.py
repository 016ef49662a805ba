"""A partition with an empty list of replicas. A stock controller fails wherever it reads the
preferred replica (ControllerContext.hasPreferredLeader). The daemon skips the partition."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import Issued, ReadZnodes, StopReplicaRequest
from controller.core.snapshot import load_snapshot, take_snapshot
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.endpoint import alter_partition, proposal
from tests.controller.core.procedures.elections.electing import answered, rebalance, restart
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    assignment,
    cluster_of,
    put_request,
)
from tests.controller.core.procedures.topics.deleting import mark, marked, slow_to_delete

EMPTY = ("u", 1)
STOCK = {"rules": "kafka", "is_broker": True}
DAEMON = [{"rules": "kafka"}, {"rules": "refold"}]
ALL = [STOCK, {"rules": "refold", "is_broker": True}, *DAEMON]

Settings = dict[str, Any]


def moved(settings: Settings, *t1: int) -> tuple[Cluster, Seen]:
    """t-0 [1,2] and t-1 [2,3], after a request of a tool to move t-0 to no replica and t-1 to
    `target`."""
    cluster = Cluster(1, 2, 3, **settings).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 3]})
    seen = cluster.seen()
    put_request(cluster, {T0: [], T1: t1} if t1 else {T0: []})
    return cluster, seen


def led_by_2(settings: Settings) -> Cluster:
    """t-0 [1,2] is led by 2. u-1 has no replicas and never had a leader."""
    cluster = cluster_of(2, 1, 2, **settings)
    cluster.create_topic("u", {0: [2]})
    cluster.create_topic("u", {0: [2], 1: []})
    restart(cluster, 1, T0)
    assert cluster.leadership("t", 0).leader == 2
    return cluster


def failovers(cluster: Cluster) -> int:
    """The number of failovers when the role is free, at most three."""
    first = cluster.epoch()

    def stop(issued: object) -> None:
        cluster.is_stopped = cluster.epoch() == first + 3

    cluster.before = stop
    cluster.expire()
    return cluster.epoch() - first


@pytest.mark.parametrize("settings", ALL)
def test_next_write_of_the_topic_contains_the_empty_list(settings: Settings) -> None:
    """With the replicas being removed, as in the daemon's next write by Kafka's rules."""
    cluster, seen = moved(settings, 3, 2)
    by_daemon = "1,2 removing 1,2" if settings["rules"] == "kafka" else "1,2"
    assert assignment(cluster) == ("" if settings == STOCK else by_daemon)
    assert assignment(cluster, T1) == "3,2"
    failed = ("procedure_failed", "PartitionModifications") in seen.notices()
    assert failed is (settings == STOCK)


@pytest.mark.parametrize("settings", ALL)
def test_replicas_are_not_deleted(settings: Settings) -> None:
    cluster, seen = moved(settings, 3, 2)
    assert cluster.leadership("t", 0).isr == (1, 2)
    assert not any(isinstance(one, StopReplicaRequest) for one in seen.broker_requests())


@pytest.mark.parametrize("settings", ALL)
def test_assignment_is_read_from_the_znode_again_after_the_next_write(
    settings: Settings,
) -> None:
    """The controller reads its own write and takes the partition for a new one."""
    cluster, seen = moved(settings)
    is_kafka = settings["rules"] == "kafka"
    assert assignment(cluster) == ("1,2 removing 1,2" if is_kafka else "1,2")
    assert cluster.partition("t", 0).replicas == (1, 2)
    failed = ("procedure_failed", "PartitionModifications") in seen.notices()
    assert failed is (settings == STOCK)


@pytest.mark.parametrize("settings", ALL)
def test_every_failover_of_a_stock_controller_fails(settings: Settings) -> None:
    cluster, _ = moved(settings, 3, 2)
    cluster.change_topic_quietly("t", {0: [], 1: [2, 3]})
    assert failovers(cluster) == (3 if settings == STOCK else 1)
    assert settings == STOCK or cluster.is_active


def failovers_after(repair: Callable[[Cluster], object]) -> tuple[int, Cluster]:
    """The number of failovers if t-0 has no replicas until the first controller is about to
    resign."""
    cluster, _ = moved(STOCK, 3, 2)
    cluster.change_topic_quietly("t", {0: [], 1: [2, 3]})

    def resigns(issued: Issued) -> bool:
        command = issued.command
        looks = isinstance(command, ReadZnodes) and command.paths == (znodes.CONTROLLER,)
        return looks and cluster.is_active

    cluster.once(resigns, lambda: repair(cluster))
    first = cluster.epoch()
    cluster.expire()
    assert cluster.is_active
    return cluster.epoch() - first, cluster


def repair_topic(cluster: Cluster) -> None:
    cluster.change_topic_quietly("t", {0: [1, 2], 1: [2, 3]})


def repair_and_lose_role(cluster: Cluster) -> None:
    repair_topic(cluster)
    cluster.remove_quietly(znodes.CONTROLLER)


def lose_topic_and_role(cluster: Cluster) -> None:
    cluster.remove_quietly(znodes.topic_path("t"))
    cluster.remove_quietly(znodes.CONTROLLER)


def test_controller_that_lost_its_role_keeps_its_state() -> None:
    """The controller does not resign (KafkaController.triggerControllerMove). The partition without
    replicas fails the next failover as well."""
    assert failovers_after(repair_topic)[0] == 2
    times, cluster = failovers_after(repair_and_lose_role)
    assert times == 3
    assert cluster.partition("t", 0).replicas == (1, 2)


def test_controller_that_lost_its_role_forgets_a_deleted_topic() -> None:
    times, cluster = failovers_after(lose_topic_and_role)
    assert times == 2
    assert cluster.fold.controller.context.find("t", 1) is None


def test_partition_that_never_had_a_leader_fails_no_failover() -> None:
    cluster = Cluster(1, 2, **STOCK).start()
    cluster.create_topic("t", {0: [], 1: [1]})
    assert failovers(cluster) == 1
    assert cluster.state("t", 0) is None


@pytest.mark.parametrize("settings", [STOCK, *DAEMON])
def test_stock_controller_fails_to_rebalance(settings: Settings) -> None:
    cluster = led_by_2(settings)
    seen = cluster.seen()
    rebalance(cluster)
    assert cluster.leadership("t", 0).leader == (2 if settings == STOCK else 1)
    failed = ("procedure_failed", "AutoPreferredReplicaLeaderElection") in seen.notices()
    assert failed is (settings == STOCK)


@pytest.mark.parametrize("settings", [STOCK, *DAEMON])
def test_election_that_names_the_partition_fails_as_a_whole(settings: Settings) -> None:
    cluster = led_by_2(settings)
    elected = answered(cluster, "preferred", T0, EMPTY)
    if settings == STOCK:
        assert elected.error == codes.UNKNOWN_SERVER_ERROR
        assert cluster.leadership("t", 0).leader == 2
    else:
        errors = [one.error for one in elected.partitions]
        assert errors == [codes.NONE, codes.UNKNOWN_TOPIC_OR_PARTITION]


def test_alter_partition_of_its_leader_is_answered_with_an_error() -> None:
    """The ISR is written to ZooKeeper, and no broker is notified."""
    cluster, _ = moved(STOCK, 3, 2)
    seen = cluster.seen()
    asked = proposal(cluster, "t", 0, isr=[1])
    answer = alter_partition(cluster, 1, asked)
    assert answer.error == codes.UNKNOWN_SERVER_ERROR
    assert cluster.leadership("t", 0).isr == (1,)
    assert seen.broker_requests() == []


def test_deletion_of_its_topic_waits_for_the_next_deletion() -> None:
    """The topic is queued nevertheless."""
    cluster, seen = moved(STOCK, 3, 2)
    cluster.put(znodes.delete_topic_path("t"), b"")
    assert ("procedure_failed", "TopicDeletion") in seen.notices()
    assert list(cluster.fold.controller.context.queued_for_deletion) == ["t"]
    assert cluster.version(znodes.topic_path("t")) is not None


def test_topic_is_deleted_after_the_deletion_of_another_has_failed() -> None:
    cluster, _ = moved(STOCK, 3, 2)
    cluster.create_topic("u", {0: [1]})
    for topic in ("t", "u"):
        cluster.put(znodes.delete_topic_path(topic), b"")
    assert cluster.version(znodes.topic_path("u")) is None


def test_deletion_of_its_topic_waits_for_a_reassignment_that_cannot_be_resumed() -> None:
    """t-1 moves to broker 3. Its state is deleted, so that the move cannot be resumed when broker 3
    starts. The deletion of u ends after that."""
    cluster = Cluster(1, 2, 3, **STOCK).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1]})
    cluster.create_topic("u", {0: [2]})
    put_request(cluster, {T0: [], T1: [1, 3]})
    cluster.stop_broker(3)
    slow_to_delete(cluster, 2)
    mark(cluster, "u")
    seen = cluster.seen()
    mark(cluster, "t")
    assert ("procedure_failed", "TopicDeletion") in seen.notices()
    cluster.remove_quietly(znodes.state_path(*T1))
    cluster.start_broker(3)
    assert ("procedure_failed", "BrokerChange") in seen.notices()
    cluster.is_slow = lambda request: False
    cluster.answer_slow()
    assert marked(cluster) == ("t",)
    assert "StopReplica" not in seen.kinds(1)


def test_failover_completes_the_move_of_a_queued_topic_to_no_replica() -> None:
    cluster = Cluster(1, 2, **STOCK).start()
    cluster.create_topic("t", {0: [1]})
    moving = {"adding_replicas": {}, "removing_replicas": {"0": [1]}}
    cluster.change_topic_quietly("t", {0: [1]}, **moving)
    cluster.put_quietly(znodes.delete_topic_path("t"), b"")
    assert failovers(cluster) == 1
    assert cluster.data(znodes.topic_path("t")) is None


def test_alter_partition_is_accepted_after_its_topic_is_queued_for_deletion() -> None:
    cluster, _ = moved(STOCK, 3, 2)
    cluster.put(znodes.delete_topic_path("t"), b"")
    answer = alter_partition(cluster, 1, proposal(cluster, "t", 0, isr=[1]))
    assert [one.error for one in answer.partitions] == [codes.NONE]


def test_empty_assignment_is_in_the_snapshot() -> None:
    cluster, _ = moved(STOCK, 3, 2)
    cluster.fold = load_snapshot(take_snapshot(cluster.fold), cluster.fold.controller.configuration)
    put_request(cluster, {T1: [2, 3]})
    assert assignment(cluster) == ""
