"""Producers and consumers."""

from replay.world.broker.messages import ALL
from tests.replay.world.broker.manual_cluster import T0, T1, ManualCluster


def running(acks: int = ALL) -> ManualCluster:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.lead(2, 0, name=T1)
    cluster.producer(acks=acks, names=(T0, T1))
    cluster.consumer((T0, T1))
    cluster.run(5)
    return cluster


def test_producer_sends_to_its_partitions_in_turn() -> None:
    cluster = running()
    assert cluster.records(1, T0)[:3] == [0, 2, 4]
    assert cluster.records(2, T1)[:3] == [1, 3, 5]


def test_acks_0_are_acknowledged_without_an_offset() -> None:
    cluster = running(acks=0)
    assert cluster.seen.acknowledged_records[:2] == [(0, -1, ()), (1, -1, ())]
    assert cluster.records(1, T0)[0] == 0


def test_acks_1_are_acknowledged_by_the_leader_alone() -> None:
    cluster = running(acks=1)
    for broker in (2, 3):
        cluster.brokers[broker].crash()
    before = len(cluster.seen.acknowledged_records)
    cluster.run(10)
    assert len(cluster.seen.acknowledged_records) >= before + 49


def test_consumer_reads_every_record_once() -> None:
    cluster = running()
    cluster.lead(3, 1)
    cluster.run(5)
    for name, leader in ((T0, 3), (T1, 2)):
        read = cluster.seen.records_read[name]
        assert len(read) >= 48
        assert read == cluster.records(leader, name)[: len(read)]
    assert cluster.seen.backs == []


def test_consumer_reads_no_further_than_the_high_watermark() -> None:
    cluster = running(acks=1)
    cluster.network.cut("broker 1", "broker 2")
    cluster.network.cut("broker 1", "broker 3")
    cluster.run(5)
    assert len(cluster.seen.records_read[T0]) <= cluster.partition(1).log.high_watermark
    assert cluster.partition(1).log.high_watermark < cluster.partition(1).log.end


def test_producer_sends_again_until_there_is_a_leader() -> None:
    cluster = running()
    cluster.brokers[1].crash()
    cluster.run(10)
    cluster.lead(3, 1, isr=(2, 3), to=(2, 3))
    cluster.lead(2, 1, isr=(2, 3), to=(2, 3), name=T1)
    cluster.run(3)
    acknowledged = {record for record, _, _ in cluster.seen.acknowledged_records}
    assert set(range(cluster.seen.produced_records - 1)) <= acknowledged


def test_records_without_an_acknowledgement_are_given_up_after_two_minutes() -> None:
    cluster = ManualCluster().start()
    given_up: list[int] = []
    cluster.seen.given_up = lambda process, partition, record: given_up.append(record)  # type: ignore[method-assign]
    cluster.producer()
    cluster.run(125)
    cluster.lead(1, 0)
    cluster.run(3)
    assert given_up[:3] == [0, 1, 2]
    assert len(given_up) >= 40
    assert cluster.seen.acknowledged_records[0][0] == given_up[-1] + 1


def test_metadata_with_an_older_leader_epoch_is_ignored() -> None:
    """KAFKA-9212: a client that knows a later epoch waits."""
    cluster = running()
    cluster.lead(3, 5)
    cluster.run(2)
    before = len(cluster.seen.acknowledged_records)
    state = cluster.states[T0]
    cluster.lead(2, 6, to=(1, 2, 3))
    cluster.states[T0] = state
    cluster.update_metadata()
    cluster.run(5)
    # Only the other partition continues.
    assert before + 20 < len(cluster.seen.acknowledged_records) <= before + 30


def test_consumer_goes_back_where_an_unclean_leader_diverges() -> None:
    cluster = running(acks=1)
    for broker in (1, 2):
        cluster.network.cut(f"broker {broker}", "broker 3")
    cluster.lead(1, 1, isr=(1, 2), to=(1, 2))
    cluster.run(5)
    position = len(cluster.seen.records_read[T0])
    cluster.brokers[1].crash()
    cluster.lead(3, 2, isr=(3,), to=(2, 3))
    cluster.run(3)
    ((_, before, after),) = cluster.seen.backs
    assert before >= position > after
    assert (
        cluster.seen.records_read[T0][before:]
        == cluster.records(3)[after:][: len(cluster.seen.records_read[T0]) - before]
    )


def test_topic_that_is_created_again_is_read_from_its_beginning() -> None:
    cluster = running()
    for broker in cluster.brokers:
        cluster.stop_replica(broker, -2, delete=True)
    cluster.topic_id = b"2" * 16
    cluster.lead(2, 0)
    cluster.run(2)
    records = cluster.records(2)
    assert cluster.seen.records_read[T0][-3:] == records[len(records) - 4 : -1] or (
        cluster.seen.records_read[T0][-3:] == records[-3:]
    )
    assert records[0] in cluster.seen.records_read[T0]


def test_partition_that_is_added_is_read_from_its_beginning() -> None:
    cluster = running()
    consumer = cluster.consumer((T0,), number=1)
    consumer.add_partition(T1)
    cluster.run(2)
    read = cluster.seen.records_read[T1]
    assert read.count(read[0]) == 2


def test_producer_can_be_stopped_and_extended() -> None:
    cluster = running()
    producer = cluster.producer(number=1, names=(T0,))
    producer.add_partition(T1)
    cluster.run(3)
    first = 1 << 32
    assert first + 1 in cluster.records(2, T1)
    producer.stop()
    cluster.run(1)
    end = max(cluster.records(1, T0))
    cluster.run(3)
    assert max(cluster.records(1, T0)) == end
