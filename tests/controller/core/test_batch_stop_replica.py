"""StopReplica of a batch and its responses, rows CC-10 to CC-18 of KB 17.7."""

from controller.core.commands import StopReplicaPartition, StopReplicaRequest
from controller.core.events import BrokerResponded
from controller.core.procedures.brokers.responses import process_broker_response
from controller.core.triggers import TopicDeletionStopReplicaResponseReceived
from tests.controller.core.batches import ThreeBrokers, each_version


def test_CC_10_stop_replica_is_sent() -> None:
    cluster = ThreeBrokers()
    for partition in cluster.partitions:
        cluster.batch.add_stop_replica((2,), partition, delete=False)
    cluster.send()
    assert cluster.requests() == [cluster.stop_replica()[2]]
    assert cluster.stop_replica()[2].partitions == (
        StopReplicaPartition("bar", 1, 4, False),
        StopReplicaPartition("foo", 0, 4, False),
        StopReplicaPartition("foo", 1, 4, False),
    )
    assert events_of_answers(cluster) == []


def test_CC_11_delete_is_kept_when_the_replica_is_added_again() -> None:
    cluster = ThreeBrokers()
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=True)
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=False)
    cluster.send()
    assert cluster.stop_replica()[2].partitions == (StopReplicaPartition("foo", 0, 4, True),)


def test_replica_stopped_twice_is_kept_if_neither_request_deletes_it() -> None:
    cluster = ThreeBrokers()
    for _ in range(2):
        cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=False)
    cluster.send()
    assert cluster.stop_replica()[2].partitions == (StopReplicaPartition("foo", 0, 4, False),)


def test_stop_replica_carries_the_leader_epoch_that_is_given_for_it() -> None:
    cluster = ThreeBrokers()
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=True, leader_epoch=-1)
    cluster.send()
    assert cluster.stop_replica()[2].partitions == (StopReplicaPartition("foo", 0, -1, True),)


@each_version
def test_CC_12_stop_replica_of_a_topic_queued_for_deletion_deletes(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = ThreeBrokers(protocol)
    cluster.queue_deletion("foo")
    for partition in cluster.partitions:
        cluster.batch.add_stop_replica((2,), partition, delete=True)
    cluster.send()
    assert cluster.stop_replica()[2].partitions == (
        StopReplicaPartition("bar", 1, 4, True),
        StopReplicaPartition("foo", 0, -2, True),
        StopReplicaPartition("foo", 1, -2, True),
    )
    assert events_of_answers(cluster) == []


@each_version
def test_CC_13_answer_is_an_event_for_topics_whose_deletion_has_started(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = ThreeBrokers(protocol)
    cluster.start_deletion("foo")
    for partition in cluster.partitions:
        cluster.batch.add_stop_replica((2,), partition, delete=True)
    cluster.send()
    assert events_of_answers(cluster) == [[("foo", 0), ("foo", 1)]]


@each_version
def test_CC_14_answer_to_a_stop_replica_that_deletes_nothing_is_no_event(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = ThreeBrokers(protocol)
    cluster.start_deletion("foo")
    for partition in cluster.partitions:
        cluster.batch.add_stop_replica((2,), partition, delete=False)
    cluster.send()
    assert events_of_answers(cluster) == []


@each_version
def test_answer_is_an_event_only_for_the_replicas_that_the_request_deletes(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = ThreeBrokers(protocol)
    foo_0, foo_1, _ = cluster.partitions
    cluster.start_deletion("foo")
    cluster.batch.add_stop_replica((2,), foo_0, delete=True)
    cluster.batch.add_stop_replica((2,), foo_1, delete=False)
    cluster.send()
    assert events_of_answers(cluster) == [[("foo", 0)]]


def events_of_answers(cluster: ThreeBrokers, error: int = 0) -> list[list[tuple[str, int]]]:
    """The partitions of each controller event that broker 2's answers cause."""
    for issued in cluster.issued:
        answered = BrokerResponded(issued.id, 2, 1, error, [])
        process_broker_response(cluster.controller, answered)
    events = cluster.controller.triggers
    assert all(isinstance(one, TopicDeletionStopReplicaResponseReceived) for one in events)
    return [one.asked for one in events]  # type: ignore[union-attr]


def test_no_answer_is_expected_from_a_broker_without_a_channel() -> None:
    """The requests for this broker are dropped."""
    cluster = ThreeBrokers()
    cluster.close_channel(2)
    cluster.batch.add_leader_and_isr((2, 3), cluster.partitions[0], is_new=False)
    cluster.batch.add_stop_replica((1, 2), cluster.partitions[1], delete=True)
    cluster.send()
    assert sorted(one.broker for one in cluster.context.in_flight.values()) == [1, 3]


def test_answer_that_rejects_the_whole_request_is_an_event_for_its_listed_partitions() -> None:
    """KB 8.2.2, 8.6: with a stale broker epoch, no partition is listed."""
    for error, listed in ((77, []), (-1, [("foo", 0, -1), ("foo", 1, -1), ("bar", 1, -1)])):
        cluster = ThreeBrokers()
        cluster.start_deletion("foo")
        for partition in cluster.partitions:
            cluster.batch.add_stop_replica((2,), partition, delete=True)
        cluster.send()
        answered = BrokerResponded(cluster.issued[0].id, 2, 1, error, listed)
        process_broker_response(cluster.controller, answered)
        expected = [[(topic, number) for topic, number, _ in listed if topic == "foo"]]
        events = list(cluster.controller.triggers)
        assert [getattr(one, "asked", None) for one in events] == (expected if listed else [])


def test_answers_received_without_the_role_are_no_events() -> None:
    cluster = ThreeBrokers()
    cluster.start_deletion("foo")
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=True)
    cluster.send()
    cluster.lose_role()
    assert events_of_answers(cluster) == []


@each_version
def test_CC_15_deleting_and_stopping_share_a_request_from_version_3_on(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = ThreeBrokers(protocol)
    foo_0, foo_1, bar_1 = cluster.partitions
    cluster.batch.add_stop_replica((2,), bar_1, delete=False)
    for partition in (foo_0, foo_1):
        cluster.batch.add_stop_replica((2,), partition, delete=True)
    cluster.send()
    sent = [[one.delete for one in stop.partitions] for stop in cluster.of_kind(StopReplicaRequest)]
    mixed = stop_replica >= 3
    assert sent == ([[False, True, True]] if mixed else [[True, True], [False]])


def test_CC_16_stop_replica_is_grouped_by_broker() -> None:
    cluster = ThreeBrokers()
    for partition in cluster.partitions:
        cluster.batch.add_stop_replica((2, 3), partition, delete=False)
    cluster.send()
    assert {id: len(one.partitions) for id, one in cluster.stop_replica().items()} == {2: 3, 3: 3}
    assert events_of_answers(cluster) == []


def test_CC_17_stop_replica_is_sent_to_live_and_shutting_down_brokers() -> None:
    cluster = ThreeBrokers()
    cluster.lose_one_and_shut_one_down()
    cluster.batch.add_stop_replica((2, 3), cluster.partitions[0], delete=False)
    cluster.send()
    assert list(cluster.stop_replica()) == [2]


@each_version
def test_CC_18_stop_replica_version_follows_the_protocol(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = ThreeBrokers(protocol)
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=False)
    cluster.send()
    assert cluster.stop_replica()[2].version == stop_replica


def test_partition_without_leadership_is_stopped_with_leader_epoch_minus_one() -> None:
    cluster = ThreeBrokers(led=False)
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=False)
    cluster.send()
    assert cluster.stop_replica()[2].partitions[0].leader_epoch == -1
