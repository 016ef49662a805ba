"""The states of replicas in a deletion, row by row of KB 17.6 (Kafka's
TopicDeletionManagerTest)."""

from collections.abc import Iterable
from typing import Any

import pytest

from controller.core import znodes
from controller.core.commands import CommandId
from controller.core.events import BrokerResponded
from controller.core.procedures.topics.deletion import (
    fail_deletion,
    process_stop_replica_response,
    process_topic_deletion,
    queue_deletions,
    resume_deletion_for,
)
from controller.core.state import Partition
from controller.core.state_machines import PartitionState, ReplicaState
from tests.controller.core.driving import ControllerHarness

STARTED = ReplicaState.DELETION_STARTED
SUCCESSFUL = ReplicaState.DELETION_SUCCESSFUL
INELIGIBLE = ReplicaState.DELETION_INELIGIBLE
OFFLINE = ReplicaState.OFFLINE
ONLINE = ReplicaState.ONLINE


class DeletingController(ControllerHarness):
    """Brokers 1, 2, 3 and topics of two partitions, online on all of them."""

    def __init__(self, *topics: str, **settings: Any) -> None:
        super().__init__(1, 2, 3, **settings)
        for topic in topics:
            for number in (0, 1):
                replicas = ((1, 2, 3), (2, 3, 1))[number]
                partition = self.partition(
                    replicas, PartitionState.ONLINE, topic=topic, number=number
                )
                partition.replica_states = dict.fromkeys(replicas, ONLINE)
                self.lead(partition, replicas[0], replicas)
            self.put(znodes.topic_path(topic), b"")

    def enqueue(self, *topics: str) -> None:
        """The topics are marked, and the markers processed."""
        for topic in topics:
            self.put(znodes.delete_topic_path(topic), b"")
        self.run(process_topic_deletion(self.controller))

    def answer(self, id: int, *topics: str) -> None:
        """A broker has deleted all its replicas of these topics."""
        asked = [(topic, number) for topic in topics for number in (0, 1)]
        answered = BrokerResponded(CommandId(1, 0), id, 1, 0, [])
        self.run(process_stop_replica_response(self.controller, answered, asked))

    def of(self, *topics: str) -> list[Partition]:
        """The partitions of topics."""
        return [one for one in self.context.partitions() if one.topic.name in topics]

    def states(self, topic: str) -> dict[int, ReplicaState]:
        """The states of a topic's replicas by broker, the same for both partitions."""
        first, second = (one.replica_states for one in self.of(topic))
        assert first == second
        return dict(sorted(first.items()))

    def sets(self) -> tuple[Iterable[str], ...]:
        """The queued topics, the started ones, and those that wait."""
        context = self.context
        return (
            list(context.queued_for_deletion),
            list(context.deletion_started),
            list(context.ineligible_for_deletion),
        )


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_TD_01_only_queued_topics_wait(rules: str) -> None:
    driven = DeletingController("foo", "bar", "baz", rules=rules)
    for topic in ("bar", "baz"):
        driven.fail_log_dir(3, driven.of(topic)[0])
    driven.put(znodes.delete_topic_path("foo"), b"")
    driven.put(znodes.delete_topic_path("bar"), b"")
    driven.run(queue_deletions(driven.controller))
    assert [sorted(one) for one in driven.sets()] == [["bar", "foo"], [], ["bar"]]
    assert driven.requests() == []


def test_TD_01_under_kafka_rules_a_reassignment_makes_a_topic_wait() -> None:
    for rules in ("refold", "kafka"):
        driven = DeletingController("foo", "bar", rules=rules)
        driven.reassign(*driven.of("foo", "bar")[::2])
        driven.put(znodes.delete_topic_path("foo"), b"")
        driven.run(queue_deletions(driven.controller))
        assert driven.sets() == (["foo"], [], ["foo"] if rules == "kafka" else [])


def test_TD_02_two_topics_are_deleted() -> None:
    driven = DeletingController("foo", "bar")
    driven.enqueue("foo", "bar")
    partitions = driven.of("foo", "bar")
    assert {one.state for one in partitions} == {PartitionState.NON_EXISTENT}
    assert driven.states("foo") == driven.states("bar") == dict.fromkeys((1, 2, 3), STARTED)
    assert [sorted(one) for one in driven.sets()] == [["bar", "foo"], ["bar", "foo"], []]
    assert {id: len(one.partitions) for id, one in driven.update_metadata().items()} == {
        1: 4,
        2: 4,
        3: 4,
    }
    for id in (1, 2, 3):
        driven.answer(id, "foo", "bar")
    assert driven.context.topics == {}
    assert driven.sets() == ([], [], [])
    assert driven.notices() == [*["topic_deletion_started"] * 2, *["topic_deleted"] * 2]


def without_broker_2() -> DeletingController:
    """Broker 2 is dead, its replicas of foo are offline, and foo is queued."""
    driven = DeletingController("foo", "bar")
    driven.unregister(2)
    for partition in driven.of("foo"):
        partition.replica_states[2] = OFFLINE
    driven.enqueue("foo")
    return driven


def test_TD_03_replicas_of_an_offline_broker_are_deleted_after_its_return() -> None:
    driven = without_broker_2()
    assert {one.state for one in driven.of("foo")} == {PartitionState.NON_EXISTENT}
    assert driven.states("foo") == {1: STARTED, 2: INELIGIBLE, 3: STARTED}
    assert driven.sets() == (["foo"], ["foo"], ["foo"])
    driven.answer(1, "foo")
    driven.answer(3, "foo")
    assert driven.states("foo") == {1: SUCCESSFUL, 2: OFFLINE, 3: SUCCESSFUL}
    assert driven.sets() == (["foo"], ["foo"], ["foo"])
    driven.register(2, epoch=2)
    driven.run(resume_deletion_for(driven.controller, ["foo"]))
    assert driven.states("foo") == {1: SUCCESSFUL, 2: STARTED, 3: SUCCESSFUL}
    driven.answer(2, "foo")
    assert list(driven.context.topics) == ["bar"]
    assert driven.sets() == ([], [], [])


def test_TD_04_broker_that_fails_during_the_deletion_gets_its_request_after_the_others() -> None:
    driven = DeletingController("foo", "bar")
    driven.enqueue("foo")
    driven.unregister(2)
    driven.run(fail_deletion(driven.controller, {2: driven.of("foo")}))
    assert driven.states("foo") == {1: STARTED, 2: INELIGIBLE, 3: STARTED}
    assert driven.sets() == (["foo"], ["foo"], ["foo"])
    driven.register(2, epoch=2)
    driven.run(resume_deletion_for(driven.controller, ["foo"]))
    assert driven.states("foo") == {1: STARTED, 2: INELIGIBLE, 3: STARTED}
    assert driven.sets() == (["foo"], ["foo"], [])
    driven.answer(1, "foo")
    driven.answer(3, "foo")
    assert driven.states("foo") == {1: SUCCESSFUL, 2: STARTED, 3: SUCCESSFUL}
    assert driven.sets() == (["foo"], ["foo"], [])


def test_failure_in_a_topic_that_is_not_queued_is_ignored() -> None:
    driven = DeletingController("foo", "bar")
    driven.enqueue("foo")
    driven.run(fail_deletion(driven.controller, {2: driven.of("bar")}))
    assert driven.states("bar") == dict.fromkeys((1, 2, 3), ONLINE)
    assert driven.sets() == (["foo"], ["foo"], [])
    assert driven.notices() == ["topic_deletion_started"]


def test_answer_for_a_deleted_topic_changes_nothing() -> None:
    driven = DeletingController("foo", "bar")
    driven.answer(1, "foo", "gone")
    assert driven.states("foo") == dict.fromkeys((1, 2, 3), ONLINE)
    assert driven.notices() == []
