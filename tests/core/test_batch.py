"""One batch of broker requests, row by row of KB 17.7 (Kafka's ControllerChannelManagerTest)."""

import pytest

from controller.core.batch import RequestBatch
from controller.core.commands import (
    LeaderAndIsrRequest,
    Notice,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.events import BrokerAnswered
from controller.core.procedures.responses import process_broker_answer
from controller.core.state import Partition
from controller.core.triggers import TopicDeletionStopReplicaResponseReceived
from controller.core.values import RECOVERING, Assignment, LeaderAndIsr
from tests.core.driving import CONTROLLER_ID, EPOCH, Driven, broker

VERSIONS = [
    ("2.4-IV0", 3, 5, 1),
    ("2.4-IV1", 4, 6, 2),
    ("2.5-IV0", 4, 6, 2),
    ("2.6-IV0", 4, 6, 3),
    ("2.8-IV0", 4, 6, 3),
    ("2.8-IV1", 5, 7, 3),
    ("3.1-IV0", 5, 7, 3),
    ("3.2-IV0", 6, 7, 3),
    ("3.3-IV3", 6, 7, 3),
    ("3.4-IV0", 7, 8, 4),
    ("3.9-IV0", 7, 8, 4),
]
"""inter.broker.protocol.version and the versions of LeaderAndIsr, UpdateMetadata, StopReplica."""

each_version = pytest.mark.parametrize(
    ("protocol", "leader_and_isr", "update_metadata", "stop_replica"),
    VERSIONS,
    ids=[one[0] for one in VERSIONS],
)


class Cluster(Driven):
    """Brokers 1, 2, 3 and the partitions foo-0, foo-1 and bar-1, led by 1, 2 and 3."""

    def __init__(self, protocol: str = "3.9-IV0", *, led: bool = True) -> None:
        super().__init__(1, 2, 3, inter_broker_protocol_version=protocol)
        self.context.channels |= dict.fromkeys((1, 2, 3), 1)
        self.partitions: list[Partition] = []
        for topic, number in (("foo", 0), ("foo", 1), ("bar", 1)):
            partition = self.partition((1, 2, 3), topic=topic, number=number)
            partition.topic.id = topic.encode().ljust(16)
            if led:
                leader = len(self.partitions) + 1
                partition.leadership = LeaderAndIsr(leader, 4, (leader, 2), 9, EPOCH - 1)
            self.partitions.append(partition)
        self.batch: RequestBatch = self.controller.new_batch("test")

    def send(self) -> None:
        """Issue what the batch holds."""
        self.controller.send(self.batch)
        self.issued += self.controller.take_issued()

    def lose_one_and_shut_one_down(self) -> None:
        """Broker 2 is in controlled shutdown, 3 is gone."""
        self.context.shutting_down[2] = None
        del self.context.brokers[3]


def test_CC_01_leader_and_isr_and_update_metadata_go_out() -> None:
    cluster = Cluster()
    foo_0, foo_1, bar_1 = cluster.partitions
    for partition in cluster.partitions:
        cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    cluster.send()

    request = cluster.leader_and_isr()[2]
    assert list(cluster.leader_and_isr()) == [2]
    assert (request.controller_id, request.controller_epoch) == (CONTROLLER_ID, EPOCH)
    assert request.broker_epoch == 1
    assert [(one.topic, one.partition) for one in request.partitions] == [
        ("bar", 1),
        ("foo", 0),
        ("foo", 1),
    ]
    assert [one.leadership for one in request.partitions] == [
        bar_1.leadership,
        foo_0.leadership,
        foo_1.leadership,
    ]
    assert {one.topic: one.topic_id for one in request.partitions} == {
        "foo": foo_0.topic.id,
        "bar": bar_1.topic.id,
    }
    assert request.live_leaders == tuple((id, f"host{id}", 9092) for id in (1, 2, 3))
    assert list(cluster.update_metadata()) == [1, 2, 3]


def test_CC_02_is_new_sticks() -> None:
    cluster = Cluster()
    partition = cluster.partitions[0]
    cluster.batch.add_leader_and_isr((2,), partition, is_new=True)
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    cluster.send()
    (entry,) = cluster.leader_and_isr()[2].partitions
    assert entry.is_new


def test_CC_03_leader_and_isr_goes_to_live_and_shutting_down_brokers() -> None:
    cluster = Cluster()
    cluster.lose_one_and_shut_one_down()
    cluster.batch.add_leader_and_isr((1, 2, 3), cluster.partitions[0], is_new=False)
    cluster.send()
    assert list(cluster.leader_and_isr()) == list(cluster.update_metadata()) == [1, 2]


@each_version
def test_CC_04_leader_and_isr_version(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = Cluster(protocol)
    partition = cluster.partitions[0]
    partition.leadership = LeaderAndIsr(1, 4, (1,), 9, EPOCH, RECOVERING)
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    cluster.send()
    request = cluster.leader_and_isr()[2]
    assert request.version == leader_and_isr
    assert request.partitions[0].leadership.recovery_state == RECOVERING


def test_CC_05_update_metadata_goes_out() -> None:
    cluster = Cluster()
    cluster.batch.add_update_metadata((2,), cluster.partitions)
    cluster.send()

    assert cluster.requests() == [cluster.update_metadata()[2]]
    request = cluster.update_metadata()[2]
    assert (request.controller_id, request.controller_epoch) == (CONTROLLER_ID, EPOCH)
    told = {(one.topic, one.partition): one for one in request.partitions}
    for partition in cluster.partitions:
        assert told[partition.key].leadership == partition.leadership
        assert told[partition.key].topic_id == partition.topic.id
        assert told[partition.key].replicas == (1, 2, 3)
    assert [one.id for one in request.live_brokers] == [1, 2, 3]


def test_CC_05_stale_broker_epoch_in_an_answer_is_told_and_nothing_is_sent_again() -> None:
    cluster = Cluster()
    cluster.batch.add_update_metadata((2,), cluster.partitions)
    cluster.send()
    answered = BrokerAnswered(cluster.issued[0].id, 2, 1, 77, [])
    process_broker_answer(cluster.controller, answered)
    (issued,) = cluster.controller.take_issued()
    assert isinstance(issued.command, Notice)
    assert (issued.command.level, issued.command.code) == ("info", "broker_error")


def test_CC_06_update_metadata_leaves_out_partitions_without_leadership() -> None:
    cluster = Cluster(led=False)
    cluster.batch.add_update_metadata((2,), cluster.partitions)
    cluster.send()
    request = cluster.update_metadata()[2]
    assert request.partitions == ()
    assert [one.id for one in request.live_brokers] == [1, 2, 3]


def test_CC_07_update_metadata_of_a_topic_that_is_queued_for_deletion() -> None:
    cluster = Cluster()
    cluster.context.queued_for_deletion["foo"] = None
    cluster.batch.add_update_metadata((2,), cluster.partitions)
    cluster.send()
    told = {(one.topic, one.partition): one for one in cluster.update_metadata()[2].partitions}
    assert {key: one.leadership.leader for key, one in told.items()} == {
        ("foo", 0): -2,
        ("foo", 1): -2,
        ("bar", 1): 3,
    }
    assert told["foo", 0].leadership == LeaderAndIsr(-2, 0, (1, 2), 0, EPOCH - 1)


def test_CC_08_update_metadata_names_live_and_shutting_down_brokers() -> None:
    cluster = Cluster()
    cluster.lose_one_and_shut_one_down()
    cluster.batch.add_update_metadata((1, 2, 3), ())
    cluster.send()
    assert list(cluster.update_metadata()) == [1, 2]
    for request in cluster.update_metadata().values():
        assert [one.id for one in request.live_brokers] == [1, 2]


@each_version
def test_CC_09_update_metadata_version(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = Cluster(protocol)
    cluster.batch.add_update_metadata((2,), cluster.partitions)
    cluster.send()
    assert cluster.update_metadata()[2].version == update_metadata


def test_replicas_on_dead_and_shutting_down_brokers_are_offline_in_the_metadata() -> None:
    cluster = Cluster()
    cluster.lose_one_and_shut_one_down()
    cluster.batch.add_update_metadata((1,), cluster.partitions)
    cluster.send()
    (offline,) = {one.offline_replicas for one in cluster.update_metadata()[1].partitions}
    assert offline == (2, 3)


def test_replica_in_an_offline_log_directory_is_offline_in_the_metadata() -> None:
    cluster = Cluster()
    cluster.context.offline_dirs[1] = {cluster.partitions[0]: None}
    cluster.batch.add_update_metadata((1,), cluster.partitions)
    cluster.send()
    told = {(one.topic, one.partition): one for one in cluster.update_metadata()[1].partitions}
    assert told["foo", 0].offline_replicas == (1,)
    assert told["foo", 1].offline_replicas == ()


def test_every_addressed_broker_gets_every_partition_of_the_batch() -> None:
    cluster = Cluster()
    cluster.batch.add_update_metadata((1,), cluster.partitions[:1])
    cluster.batch.add_update_metadata((2,), cluster.partitions[1:])
    cluster.send()
    assert [len(one.partitions) for one in cluster.update_metadata().values()] == [3, 3]


def test_what_is_added_is_a_snapshot() -> None:
    cluster = Cluster()
    partition = cluster.partitions[0]
    before = partition.leadership
    cluster.batch.add_update_metadata((1,), [partition])
    partition.leadership = LeaderAndIsr(2, 5, (2,), 10, EPOCH)
    cluster.send()
    assert cluster.update_metadata()[1].partitions[0].leadership == before


def test_last_state_of_a_partition_wins() -> None:
    cluster = Cluster()
    partition = cluster.partitions[0]
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    partition.leadership = LeaderAndIsr(2, 5, (2,), 10, EPOCH)
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    cluster.send()
    (entry,) = cluster.leader_and_isr()[2].partitions
    (told,) = cluster.update_metadata()[2].partitions
    assert entry.leadership == told.leadership == partition.leadership


def test_last_assignment_of_a_partition_wins() -> None:
    cluster = Cluster()
    partition = cluster.partitions[0]
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    partition.assignment = Assignment((2, 1), (2,), (1,))
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    cluster.send()
    (entry,) = cluster.leader_and_isr()[2].partitions
    (told,) = cluster.update_metadata()[2].partitions
    assert (entry.assignment, told.replicas) == (partition.assignment, (2, 1))


def test_everybody_is_told_of_a_partition_without_recipients() -> None:
    cluster = Cluster()
    cluster.batch.add_leader_and_isr((), cluster.partitions[0], is_new=False)
    cluster.send()
    assert not cluster.leader_and_isr()
    assert [len(one.partitions) for one in cluster.update_metadata().values()] == [1, 1, 1]


def test_leader_and_isr_goes_first_and_stop_replica_last() -> None:
    cluster = Cluster()
    cluster.batch.add_stop_replica((1,), cluster.partitions[0], delete=False)
    cluster.batch.add_leader_and_isr((2, 1), cluster.partitions[0], is_new=False)
    cluster.send()
    assert [(type(one), one.broker) for one in cluster.requests()] == [
        (LeaderAndIsrRequest, 1),
        (LeaderAndIsrRequest, 2),
        (UpdateMetadataRequest, 1),
        (UpdateMetadataRequest, 2),
        (UpdateMetadataRequest, 3),
        (StopReplicaRequest, 1),
    ]


def test_requests_carry_the_epoch_of_the_broker_that_they_go_to() -> None:
    cluster = Cluster()
    cluster.context.brokers[2] = broker(2, epoch=17)
    cluster.batch.add_leader_and_isr((1, 2), cluster.partitions[0], is_new=False)
    cluster.batch.add_stop_replica((1, 2), cluster.partitions[0], delete=False)
    cluster.send()
    assert {(one.broker, one.broker_epoch) for one in cluster.requests()} == {
        (1, 1),
        (2, 17),
        (3, 1),
    }


def test_CC_10_stop_replica_goes_out() -> None:
    cluster = Cluster()
    for partition in cluster.partitions:
        cluster.batch.add_stop_replica((2,), partition, delete=False)
    cluster.send()
    assert cluster.requests() == [cluster.stop_replica()[2]]
    assert cluster.stop_replica()[2].partitions == (
        StopReplicaPartition("bar", 1, 4, False),
        StopReplicaPartition("foo", 0, 4, False),
        StopReplicaPartition("foo", 1, 4, False),
    )


def test_CC_11_delete_sticks() -> None:
    cluster = Cluster()
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=True)
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=False)
    cluster.send()
    assert cluster.stop_replica()[2].partitions == (StopReplicaPartition("foo", 0, 4, True),)


@each_version
def test_CC_12_stop_replica_of_a_topic_that_is_queued_for_deletion(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = Cluster(protocol)
    cluster.context.queued_for_deletion["foo"] = None
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
def test_CC_13_the_answer_is_an_event_for_topics_whose_deletion_has_started(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = Cluster(protocol)
    cluster.context.queued_for_deletion["foo"] = cluster.context.deletion_started["foo"] = None
    for partition in cluster.partitions:
        cluster.batch.add_stop_replica((2,), partition, delete=True)
    cluster.send()
    assert events_of_answers(cluster) == [[("foo", 0), ("foo", 1)]]


@each_version
def test_CC_14_the_answer_to_a_stop_replica_that_deletes_nothing_is_no_event(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = Cluster(protocol)
    cluster.context.queued_for_deletion["foo"] = cluster.context.deletion_started["foo"] = None
    for partition in cluster.partitions:
        cluster.batch.add_stop_replica((2,), partition, delete=False)
    cluster.send()
    assert events_of_answers(cluster) == []


@each_version
def test_the_answer_is_an_event_for_what_the_request_deletes_only(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = Cluster(protocol)
    foo_0, foo_1, _ = cluster.partitions
    cluster.context.queued_for_deletion["foo"] = cluster.context.deletion_started["foo"] = None
    cluster.batch.add_stop_replica((2,), foo_0, delete=True)
    cluster.batch.add_stop_replica((2,), foo_1, delete=False)
    cluster.send()
    assert events_of_answers(cluster) == [[("foo", 0)]]


def events_of_answers(cluster: Cluster, error: int = 0) -> list[list[tuple[str, int]]]:
    """The partitions of each controller event that broker 2's answers lead to."""
    for issued in cluster.issued:
        answered = BrokerAnswered(issued.id, 2, 1, error, [])
        process_broker_answer(cluster.controller, answered)
    events = cluster.controller.triggers
    assert all(isinstance(one, TopicDeletionStopReplicaResponseReceived) for one in events)
    return [one.asked for one in events]  # type: ignore[union-attr]


def test_no_answer_is_waited_for_where_a_broker_has_no_channel() -> None:
    """What it is sent is dropped, so that none can come."""
    cluster = Cluster()
    del cluster.context.channels[2]
    cluster.batch.add_leader_and_isr((2, 3), cluster.partitions[0], is_new=False)
    cluster.batch.add_stop_replica((1, 2), cluster.partitions[1], delete=True)
    cluster.send()
    assert sorted(one.broker for one in cluster.context.in_flight.values()) == [1, 3]


def test_an_answer_that_refuses_the_whole_request_is_an_event_for_what_it_lists() -> None:
    """KB 8.2.2, 8.6: a stale broker epoch lists nothing."""
    for error, listed in ((77, []), (-1, [("foo", 0, -1), ("foo", 1, -1), ("bar", 1, -1)])):
        cluster = Cluster()
        cluster.context.queued_for_deletion["foo"] = cluster.context.deletion_started["foo"] = None
        for partition in cluster.partitions:
            cluster.batch.add_stop_replica((2,), partition, delete=True)
        cluster.send()
        answered = BrokerAnswered(cluster.issued[0].id, 2, 1, error, listed)
        process_broker_answer(cluster.controller, answered)
        expected = [[(topic, number) for topic, number, _ in listed if topic == "foo"]]
        events = list(cluster.controller.triggers)
        assert [getattr(one, "asked", None) for one in events] == (expected if listed else [])


def test_answers_that_come_without_the_role_are_no_events() -> None:
    cluster = Cluster()
    cluster.context.queued_for_deletion["foo"] = cluster.context.deletion_started["foo"] = None
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=True)
    cluster.send()
    cluster.controller.is_active = False
    assert events_of_answers(cluster) == []


@each_version
def test_CC_15_delete_and_not_delete_are_mixed_from_version_3_on(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = Cluster(protocol)
    foo_0, foo_1, bar_1 = cluster.partitions
    cluster.batch.add_stop_replica((2,), bar_1, delete=False)
    for partition in (foo_0, foo_1):
        cluster.batch.add_stop_replica((2,), partition, delete=True)
    cluster.send()
    sent = [[one.delete for one in stop.partitions] for stop in cluster.of_kind(StopReplicaRequest)]
    mixed = stop_replica >= 3
    assert sent == ([[False, True, True]] if mixed else [[True, True], [False]])


def test_CC_16_stop_replica_groups_by_broker() -> None:
    cluster = Cluster()
    for partition in cluster.partitions:
        cluster.batch.add_stop_replica((2, 3), partition, delete=False)
    cluster.send()
    assert {id: len(one.partitions) for id, one in cluster.stop_replica().items()} == {2: 3, 3: 3}


def test_CC_17_stop_replica_goes_to_live_and_shutting_down_brokers() -> None:
    cluster = Cluster()
    cluster.lose_one_and_shut_one_down()
    cluster.batch.add_stop_replica((2, 3), cluster.partitions[0], delete=False)
    cluster.send()
    assert list(cluster.stop_replica()) == [2]


@each_version
def test_CC_18_stop_replica_version(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = Cluster(protocol)
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=False)
    cluster.send()
    assert cluster.stop_replica()[2].version == stop_replica


def test_partition_without_leadership_is_stopped_with_epoch_minus_one() -> None:
    cluster = Cluster(led=False)
    cluster.batch.add_stop_replica((2,), cluster.partitions[0], delete=False)
    cluster.send()
    assert cluster.stop_replica()[2].partitions[0].leader_epoch == -1
