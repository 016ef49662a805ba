"""Answers of the simulated brokers (KB 12.4)."""

import msgspec
import pytest

from controller.core import error_codes as codes
from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.values import Assignment, LeaderAndIsr
from replay.world.broker.control_requests import RequestErrors
from replay.world.broker.detached import DetachedBroker
from replay.world.broker.messages import NOT_LEADER_OR_FOLLOWER
from tests.replay.world.broker.manual_cluster import T1, ManualCluster

ID, OTHER_ID = b"1" * 16, b"2" * 16
RUN = 10
"""The broker epoch of broker 1."""
T0 = ("t", 0)


def running() -> DetachedBroker:
    broker = DetachedBroker(1)
    broker.run(RUN)
    return broker


def leader_and_isr(
    epoch: int,
    *,
    topic_id: bytes | None = ID,
    replicas: tuple[int, ...] = (1, 2),
    controller_epoch: int = 5,
    broker_epoch: int = RUN,
) -> LeaderAndIsrRequest:
    leadership = LeaderAndIsr(1, epoch, (1,), 0, 5)
    partition = LeaderAndIsrPartition("t", topic_id, 0, leadership, Assignment(replicas), False)
    return LeaderAndIsrRequest(1, broker_epoch, 7, 1000, controller_epoch, (partition,), ())


def stop_replica(
    epoch: int, *, delete: bool = False, version: int = 4, controller_epoch: int = 5
) -> StopReplicaRequest:
    partition = StopReplicaPartition("t", 0, epoch, delete)
    return StopReplicaRequest(1, RUN, version, 1000, controller_epoch, (partition,))


def update_metadata(leader: int, controller_epoch: int = 5) -> UpdateMetadataRequest:
    leadership = LeaderAndIsr(leader, 0, (1,), 0, 5)
    partition = UpdateMetadataPartition("t", ID, 0, leadership, (1,), ())
    return UpdateMetadataRequest(1, RUN, 8, 1000, controller_epoch, (partition,), ())


def code(broker: DetachedBroker, request: BrokerRequest) -> int:
    """The error of the only partition; the request itself is accepted."""
    error, errors = broker.answer(request, ())
    assert error == codes.NONE
    return errors[0][2] if errors else codes.NONE


def test_partition_is_accepted_only_with_a_higher_leader_epoch() -> None:
    broker = running()
    errors = [code(broker, leader_and_isr(epoch)) for epoch in (3, 3, 2, 4)]
    stale = codes.STALE_CONTROLLER_EPOCH
    assert errors == [codes.NONE, stale, stale, codes.NONE]
    assert broker.logs == {T0: ID}


def test_errors_of_leader_and_isr_have_the_topic_id() -> None:
    broker = running()
    broker.answer(leader_and_isr(3), ())
    again = broker.answer(leader_and_isr(3), ())
    assert again == RequestErrors(codes.NONE, [(ID.hex(), 0, codes.STALE_CONTROLLER_EPOCH)])


def test_broker_that_is_not_a_replica_refuses_the_partition() -> None:
    broker = running()
    assert code(broker, leader_and_isr(0, replicas=(2,))) == codes.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.logs == {}


def test_log_of_another_topic_with_the_same_name_is_an_error() -> None:
    broker = running()
    broker.answer(leader_and_isr(3), ())
    broker.run(RUN + 1)
    request = leader_and_isr(9, topic_id=OTHER_ID, broker_epoch=RUN + 1)
    assert code(broker, request) == 103
    assert broker.logs == {T0: ID}


def test_log_without_a_topic_id_gets_one_at_the_same_epoch() -> None:
    broker = running()
    broker.answer(leader_and_isr(3, topic_id=None), ())
    assert broker.logs == {T0: None}
    assert code(broker, leader_and_isr(3)) == codes.NONE
    assert broker.logs == {T0: ID}


def test_same_epoch_without_a_topic_id_is_accepted_by_a_follower_only() -> None:
    """The controller was downgraded to a version without topic ids."""
    broker = running()
    broker.answer(leader_and_isr(3), ())
    assert code(broker, leader_and_isr(3, topic_id=None)) == codes.STALE_CONTROLLER_EPOCH
    request = leader_and_isr(3, topic_id=None)
    (partition,) = request.partitions
    followed = msgspec.structs.replace(
        partition, leadership=msgspec.structs.replace(partition.leadership, leader=2)
    )
    assert code(broker, msgspec.structs.replace(request, partitions=(followed,))) == codes.NONE


def test_restart_keeps_only_the_logs() -> None:
    broker = running()
    broker.answer(leader_and_isr(3, controller_epoch=9), ())
    broker.answer(update_metadata(1, controller_epoch=9), ())
    broker.run(RUN)
    assert broker.metadata == {T0: 1}
    broker.run(RUN + 1)
    assert (broker.logs, broker.metadata) == ({T0: ID}, {})
    assert code(broker, leader_and_isr(3, broker_epoch=RUN + 1)) == codes.NONE


@pytest.mark.parametrize(
    ("epoch", "version", "expected"),
    [
        (-2, 4, codes.NONE),
        (-1, 4, codes.NONE),
        (2, 4, codes.FENCED_LEADER_EPOCH),
        (3, 4, codes.NONE),
        (2, 2, codes.NONE),
    ],
)
def test_replica_is_deleted_unless_its_leader_epoch_is_higher(
    epoch: int, version: int, expected: int
) -> None:
    broker = running()
    broker.answer(leader_and_isr(3), ())
    assert code(broker, stop_replica(epoch, delete=True, version=version)) == expected
    assert broker.logs == ({T0: ID} if expected else {})


def test_stopped_replica_stays_on_disk_with_its_epoch() -> None:
    broker = running()
    broker.answer(leader_and_isr(3), ())
    assert code(broker, stop_replica(3)) == codes.NONE
    assert broker.logs == {T0: ID}
    assert code(broker, leader_and_isr(3)) == codes.STALE_CONTROLLER_EPOCH


def test_unknown_partition_is_deleted_without_an_error() -> None:
    broker = running()
    assert code(broker, stop_replica(-2, delete=True)) == codes.NONE
    broker.answer(leader_and_isr(0), ())
    broker.run(RUN + 1)
    assert broker.logs == {T0: ID}
    after = StopReplicaRequest(1, RUN + 1, 4, 1000, 5, stop_replica(-2, delete=True).partitions)
    assert code(broker, after) == codes.NONE
    assert broker.logs == {}


def test_partition_that_fails_is_not_changed() -> None:
    broker = running()
    failing = [(ID.hex(), 0, codes.KAFKA_STORAGE_ERROR)]
    assert broker.answer(leader_and_isr(3), failing) == RequestErrors(codes.NONE, failing)
    assert broker.logs == {}
    broker.answer(leader_and_isr(3), ())
    named = [("t", 0, codes.KAFKA_STORAGE_ERROR)]
    assert broker.answer(stop_replica(-2, delete=True), named) == RequestErrors(codes.NONE, named)
    assert broker.logs == {T0: ID}


def test_leader_minus_two_removes_a_partition_from_the_metadata() -> None:
    broker = running()
    broker.answer(update_metadata(1), ())
    assert broker.metadata == {T0: 1}
    broker.answer(update_metadata(-1), ())
    assert broker.metadata == {T0: -1}
    broker.answer(update_metadata(-2), ())
    assert broker.metadata == {}


def test_request_of_an_older_controller_is_refused() -> None:
    broker = running()
    broker.answer(leader_and_isr(3, controller_epoch=6), ())
    stale = codes.STALE_CONTROLLER_EPOCH
    refused = broker.answer(leader_and_isr(4, controller_epoch=5), ())
    assert refused == RequestErrors(stale, [(ID.hex(), 0, stale)])
    assert broker.answer(stop_replica(-2, delete=True), ()) == RequestErrors(stale, [])
    assert broker.answer(update_metadata(1), ()) == RequestErrors(stale, [])
    assert (broker.logs, broker.metadata) == ({T0: ID}, {})


def test_request_to_an_earlier_registration_is_refused() -> None:
    broker = running()
    broker.answer(leader_and_isr(3), ())
    broker.run(RUN + 1)
    stale = codes.STALE_BROKER_EPOCH
    refused = broker.answer(leader_and_isr(4, controller_epoch=9), ())
    assert refused == RequestErrors(stale, [(ID.hex(), 0, stale)])
    assert broker.answer(stop_replica(-2, delete=True), ()) == RequestErrors(stale, [])
    assert broker.answer(update_metadata(1), ()) == RequestErrors(stale, [])
    assert broker.logs == {T0: ID}
    # The controller epoch of a refused request is not adopted.
    request = leader_and_isr(4, controller_epoch=5, broker_epoch=RUN + 1)
    assert code(broker, request) == codes.NONE


# Brokers with a network ---------------------------------------------------------------------------


def test_request_without_a_broker_epoch_is_accepted() -> None:
    broker = running()
    assert broker.answer(leader_and_isr(3, broker_epoch=-1), ()).error == codes.NONE


def test_partition_in_a_failed_log_directory_is_refused() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.brokers[2].fail_log_directory([T0])
    responses = cluster.lead(1, 1)
    refused = ((ID.hex(), 0, codes.KAFKA_STORAGE_ERROR),)
    assert [one.partition_errors for one in responses] == [(), refused, ()]
    stopped = cluster.stop_replica(2, 1, delete=True)
    assert stopped.partition_errors == (("t", 0, codes.KAFKA_STORAGE_ERROR),)


def test_broker_with_a_failed_log_directory_creates_new_partitions_only() -> None:
    """Another partition may have a log in the directory that failed."""
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.brokers[2].fail_log_directory()
    assert [one.partition_errors for one in cluster.lead(1, 0, name=T1)] == [()] * 3
    responses = cluster.lead(1, 3, name=("t", 2))
    assert responses[1].partition_errors == ((ID.hex(), 2, codes.KAFKA_STORAGE_ERROR),)


def test_follower_ignores_a_leader_that_is_not_live() -> None:
    cluster = ManualCluster().start()
    cluster.update_metadata(2, live=(2, 3))
    cluster.lead(1, 0, to=(2,))
    assert cluster.partition(2).leader_epoch == -1
    # So the same leader epoch is not too old afterwards.
    assert cluster.lead(1, 0, to=(2,))[0].partition_errors == ()
    assert cluster.partition(2).leader_epoch == 0


def test_older_partition_epoch_is_skipped_without_an_error() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0, version=5)
    responses = cluster.lead(1, 1, version=4)
    assert [one.partition_errors for one in responses] == [()] * 3
    assert [cluster.partition(broker).leader_epoch for broker in (1, 2)] == [0, 0]


def test_stopped_leader_leads_until_its_replica_is_deleted() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    assert cluster.stop_replica(1, 0).partition_errors == ()
    assert cluster.partition(1).is_leader
    cluster.stop_replica(1, 0, delete=True)
    assert cluster.replicas(1).find(T0) == NOT_LEADER_OR_FOLLOWER
    assert T0 not in cluster.brokers[1].disk.logs


def test_stopped_follower_fetches_no_more() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.producer(acks=1)
    cluster.run(2)
    cluster.stop_replica(2, 0)
    cluster.run(1)
    end = len(cluster.records(2))
    cluster.run(5)
    assert len(cluster.records(2)) == end
    assert len(cluster.records(3)) > end


def test_partition_that_the_broker_does_not_host_is_an_error_of_the_request() -> None:
    cluster = ManualCluster().start()
    assert cluster.replicas(1).find(T0) == codes.UNKNOWN_TOPIC_OR_PARTITION
    cluster.lead(2, 0, to=(2, 3), replicas=(2, 3))
    cluster.update_metadata(1)
    assert cluster.replicas(1).find(T0) == NOT_LEADER_OR_FOLLOWER
