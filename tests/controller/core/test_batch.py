"""LeaderAndIsr and UpdateMetadata of a batch, row by row of KB 17.7 (ControllerChannelManagerTest).

The rows of StopReplica are in test_batch_stop_replica.py.
"""

from controller.core.commands import (
    LeaderAndIsrRequest,
    Notice,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.error_codes import KAFKA_STORAGE_ERROR, STALE_CONTROLLER_EPOCH
from controller.core.events import BrokerResponded
from controller.core.prepared_topics import prepare
from controller.core.procedures.brokers.responses import process_broker_response
from controller.core.protocol_versions import ProtocolVersion
from controller.core.triggers import LeaderAndIsrResponseReceived, Trigger
from controller.core.values import RECOVERED, RECOVERING, Assignment, LeaderAndIsr
from controller.wire.encoding import BatchEncoder
from tests.controller.core.batches import ThreeBrokers, each_version
from tests.controller.core.driving import CONTROLLER_ID, EPOCH


def test_CC_01_leader_and_isr_and_update_metadata_are_sent() -> None:
    cluster = ThreeBrokers()
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


def answer_leader_and_isr(cluster: ThreeBrokers, *errors: tuple[str, int, int]) -> list[Trigger]:
    """Broker 2 answers a LeaderAndIsr for all three partitions. Returns the controller events."""
    for partition in cluster.partitions:
        cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    cluster.send()
    answered = BrokerResponded(cluster.issued[0].id, 2, 1, 0, list(errors))
    process_broker_response(cluster.controller, answered)
    return list(cluster.controller.triggers)


def test_CC_01_answer_with_a_failed_directory_is_a_controller_event() -> None:
    (event,) = answer_leader_and_isr(ThreeBrokers(), ("foo", 0, KAFKA_STORAGE_ERROR))
    assert isinstance(event, LeaderAndIsrResponseReceived)
    assert event.asked == [("bar", 1), ("foo", 0), ("foo", 1)]


def test_CC_01_every_answer_is_an_event_while_a_failed_directory_is_known() -> None:
    cluster = ThreeBrokers()
    cluster.fail_log_dir(2, cluster.partitions[0])
    (event,) = answer_leader_and_isr(cluster)
    assert isinstance(event, LeaderAndIsrResponseReceived)
    assert event.asked == [("bar", 1), ("foo", 0), ("foo", 1)]


def test_answer_without_failed_directories_is_no_event() -> None:
    """Kafka makes an event of each response, which then changes nothing."""
    assert answer_leader_and_isr(ThreeBrokers(), ("foo", 0, STALE_CONTROLLER_EPOCH)) == []


def test_CC_02_is_new_is_kept_when_the_partition_is_added_again() -> None:
    cluster = ThreeBrokers()
    partition = cluster.partitions[0]
    cluster.batch.add_leader_and_isr((2,), partition, is_new=True)
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    cluster.send()
    (entry,) = cluster.leader_and_isr()[2].partitions
    assert entry.is_new


def test_partition_added_twice_is_not_new_if_neither_addition_says_so() -> None:
    cluster = ThreeBrokers()
    for _ in range(2):
        cluster.batch.add_leader_and_isr((2,), cluster.partitions[0], is_new=False)
    cluster.send()
    (entry,) = cluster.leader_and_isr()[2].partitions
    assert not entry.is_new


def test_partition_is_new_only_for_the_brokers_that_it_is_new_for() -> None:
    cluster = ThreeBrokers()
    cluster.batch.add_leader_and_isr((1, 2), cluster.partitions[0], is_new=False)
    cluster.batch.add_leader_and_isr((3,), cluster.partitions[0], is_new=True)
    cluster.send()
    sent = cluster.leader_and_isr()
    assert {id: one.partitions[0].is_new for id, one in sent.items()} == {
        1: False,
        2: False,
        3: True,
    }


def test_leader_and_isr_of_a_prepared_topic_has_its_partitions_and_live_leaders() -> None:
    cluster = ThreeBrokers()
    prepared = prepare(cluster.context.topics["foo"], {1, 2, 3})
    assert prepared is not None
    cluster.batch.add_prepared({"foo": prepared})
    cluster.batch.add_leader_and_isr((3,), cluster.partitions[2], is_new=False)
    cluster.send()
    sent = cluster.leader_and_isr()
    foo = [("foo", 0), ("foo", 1)]
    assert {id: [(e.topic, e.partition) for e in one.partitions] for id, one in sent.items()} == {
        1: foo,
        2: foo,
        3: [("bar", 1), *foo],
    }
    leaders = {id: [leader for leader, _, _ in one.live_leaders] for id, one in sent.items()}
    assert leaders == {1: [1, 2], 2: [1, 2], 3: [1, 2, 3]}


def test_CC_03_leader_and_isr_is_sent_to_live_and_shutting_down_brokers() -> None:
    cluster = ThreeBrokers()
    cluster.lose_one_and_shut_one_down()
    cluster.batch.add_leader_and_isr((1, 2, 3), cluster.partitions[0], is_new=False)
    cluster.send()
    assert list(cluster.leader_and_isr()) == list(cluster.update_metadata()) == [1, 2]


@each_version
def test_CC_04_leader_and_isr_version_follows_the_protocol(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = ThreeBrokers(protocol)
    partition = cluster.partitions[0]
    partition.leadership = LeaderAndIsr(1, 4, (1,), 9, EPOCH, RECOVERING)
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    cluster.send()
    request = cluster.leader_and_isr()[2]
    assert request.version == leader_and_isr
    assert request.partitions[0].leadership.recovery_state == RECOVERING


@each_version
def test_CC_04_older_versions_are_encoded_without_newer_fields(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    def sent(recovery_state: int) -> bytes:
        cluster = ThreeBrokers(protocol)
        partition = cluster.partitions[0]
        partition.topic.id = b"the id of foo..."
        partition.leadership = LeaderAndIsr(1, 4, (1,), 9, EPOCH, recovery_state)
        cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
        cluster.send()
        request = cluster.leader_and_isr()[2]
        (encoded,) = BatchEncoder().encode(request, request.version)
        return encoded.head + encoded.rest

    has_recovery_state = ProtocolVersion(protocol).at_least("3.2-IV0")
    assert (sent(RECOVERING) != sent(RECOVERED)) == has_recovery_state
    has_topic_id = ProtocolVersion(protocol).at_least("2.8-IV1")
    assert (b"the id of foo..." in sent(RECOVERED)) == has_topic_id


def test_CC_05_update_metadata_is_sent() -> None:
    cluster = ThreeBrokers()
    cluster.batch.add_update_metadata((2,), cluster.partitions)
    cluster.send()

    assert cluster.requests() == [cluster.update_metadata()[2]]
    request = cluster.update_metadata()[2]
    assert (request.controller_id, request.controller_epoch) == (CONTROLLER_ID, EPOCH)
    announced = {(one.topic, one.partition): one for one in request.partitions}
    for partition in cluster.partitions:
        assert announced[partition.key].leadership == partition.leadership
        assert announced[partition.key].topic_id == partition.topic.id
        assert announced[partition.key].replicas == (1, 2, 3)
    assert [one.id for one in request.live_brokers] == [1, 2, 3]


def test_CC_05_stale_broker_epoch_in_an_answer_is_reported_and_not_retried() -> None:
    cluster = ThreeBrokers()
    cluster.batch.add_update_metadata((2,), cluster.partitions)
    cluster.send()
    answered = BrokerResponded(cluster.issued[0].id, 2, 1, 77, [])
    process_broker_response(cluster.controller, answered)
    (issued,) = cluster.controller.take_issued()
    assert isinstance(issued.command, Notice)
    assert (issued.command.level, issued.command.code) == ("info", "broker_error")


def test_CC_06_update_metadata_omits_partitions_without_leadership() -> None:
    cluster = ThreeBrokers(led=False)
    cluster.batch.add_update_metadata((2,), cluster.partitions)
    cluster.send()
    request = cluster.update_metadata()[2]
    assert request.partitions == ()
    assert [one.id for one in request.live_brokers] == [1, 2, 3]


def test_CC_07_update_metadata_of_a_topic_queued_for_deletion_says_leader_during_delete() -> None:
    cluster = ThreeBrokers()
    cluster.queue_deletion("foo")
    cluster.batch.add_update_metadata((2,), cluster.partitions)
    cluster.send()
    announced = {(one.topic, one.partition): one for one in cluster.update_metadata()[2].partitions}
    assert {key: one.leadership.leader for key, one in announced.items()} == {
        ("foo", 0): -2,
        ("foo", 1): -2,
        ("bar", 1): 3,
    }
    assert announced["foo", 0].leadership == LeaderAndIsr(-2, 0, (1, 2), 0, EPOCH - 1)
    isrs = {(one.topic.name, one.number): one.leadership.isr for one in cluster.partitions}  # type: ignore[union-attr]
    assert {key: one.leadership.isr for key, one in announced.items()} == isrs


def test_CC_08_update_metadata_names_live_and_shutting_down_brokers() -> None:
    cluster = ThreeBrokers()
    cluster.lose_one_and_shut_one_down()
    cluster.batch.add_update_metadata((1, 2, 3), ())
    cluster.send()
    assert list(cluster.update_metadata()) == [1, 2]
    for request in cluster.update_metadata().values():
        assert [one.id for one in request.live_brokers] == [1, 2]


@each_version
def test_CC_09_update_metadata_version_follows_the_protocol(
    protocol: str, leader_and_isr: int, update_metadata: int, stop_replica: int
) -> None:
    cluster = ThreeBrokers(protocol)
    cluster.batch.add_update_metadata((2,), cluster.partitions)
    cluster.send()
    assert cluster.update_metadata()[2].version == update_metadata


def test_replicas_on_dead_and_shutting_down_brokers_are_offline_in_the_metadata() -> None:
    cluster = ThreeBrokers()
    cluster.lose_one_and_shut_one_down()
    cluster.batch.add_update_metadata((1,), cluster.partitions)
    cluster.send()
    (offline,) = {one.offline_replicas for one in cluster.update_metadata()[1].partitions}
    assert offline == (2, 3)


def test_replica_in_an_offline_log_directory_is_offline_in_the_metadata() -> None:
    cluster = ThreeBrokers()
    cluster.fail_log_dir(1, cluster.partitions[0])
    cluster.batch.add_update_metadata((1,), cluster.partitions)
    cluster.send()
    announced = {(one.topic, one.partition): one for one in cluster.update_metadata()[1].partitions}
    assert announced["foo", 0].offline_replicas == (1,)
    assert announced["foo", 1].offline_replicas == ()


def test_every_addressed_broker_gets_every_partition_of_the_batch() -> None:
    cluster = ThreeBrokers()
    cluster.batch.add_update_metadata((1,), cluster.partitions[:1])
    cluster.batch.add_update_metadata((2,), cluster.partitions[1:])
    cluster.send()
    assert [len(one.partitions) for one in cluster.update_metadata().values()] == [3, 3]


def test_batch_keeps_the_state_of_the_moment_it_was_added() -> None:
    cluster = ThreeBrokers()
    partition = cluster.partitions[0]
    before = partition.leadership
    cluster.batch.add_update_metadata((1,), [partition])
    partition.leadership = LeaderAndIsr(2, 5, (2,), 10, EPOCH)
    cluster.send()
    assert cluster.update_metadata()[1].partitions[0].leadership == before


def test_last_state_of_a_partition_is_sent() -> None:
    cluster = ThreeBrokers()
    partition = cluster.partitions[0]
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    partition.leadership = LeaderAndIsr(2, 5, (2,), 10, EPOCH)
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    cluster.send()
    (entry,) = cluster.leader_and_isr()[2].partitions
    (announced,) = cluster.update_metadata()[2].partitions
    assert entry.leadership == announced.leadership == partition.leadership


def test_last_assignment_of_a_partition_is_sent() -> None:
    cluster = ThreeBrokers()
    partition = cluster.partitions[0]
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    partition.assignment = Assignment((2, 1), (2,), (1,))
    cluster.batch.add_leader_and_isr((2,), partition, is_new=False)
    cluster.send()
    (entry,) = cluster.leader_and_isr()[2].partitions
    (announced,) = cluster.update_metadata()[2].partitions
    assert (entry.assignment, announced.replicas) == (partition.assignment, (2, 1))


def test_partition_without_recipients_is_in_the_metadata_of_every_broker() -> None:
    cluster = ThreeBrokers()
    cluster.batch.add_leader_and_isr((), cluster.partitions[0], is_new=False)
    cluster.send()
    assert not cluster.leader_and_isr()
    assert [len(one.partitions) for one in cluster.update_metadata().values()] == [1, 1, 1]


def test_leader_and_isr_is_sent_first_and_stop_replica_last() -> None:
    cluster = ThreeBrokers()
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


def test_requests_carry_the_epoch_of_the_broker_they_are_sent_to() -> None:
    cluster = ThreeBrokers()
    cluster.register(2, epoch=17)
    cluster.batch.add_leader_and_isr((1, 2), cluster.partitions[0], is_new=False)
    cluster.batch.add_stop_replica((1, 2), cluster.partitions[0], delete=False)
    cluster.send()
    assert {(one.broker, one.broker_epoch) for one in cluster.requests()} == {
        (1, 1),
        (2, 17),
        (3, 1),
    }
