"""Producers and consumers."""

from replay.world.broker.messages import ALL
from tests.replay.world.broker.hand import T0, T1, Hand


def running(acks: int = ALL) -> Hand:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.lead(2, 0, name=T1)
    hand.producer(acks=acks, names=(T0, T1))
    hand.consumer((T0, T1))
    hand.run(5)
    return hand


def test_producer_sends_to_its_partitions_in_turn() -> None:
    hand = running()
    assert hand.records(1, T0)[:3] == [0, 2, 4]
    assert hand.records(2, T1)[:3] == [1, 3, 5]


def test_acks_0_are_acknowledged_without_an_offset() -> None:
    hand = running(acks=0)
    assert hand.seen.acknowledged_records[:2] == [(0, -1, ()), (1, -1, ())]
    assert hand.records(1, T0)[0] == 0


def test_acks_1_are_acknowledged_by_the_leader_alone() -> None:
    hand = running(acks=1)
    for broker in (2, 3):
        hand.brokers[broker].crash()
    before = len(hand.seen.acknowledged_records)
    hand.run(10)
    assert len(hand.seen.acknowledged_records) >= before + 49


def test_consumer_reads_every_record_once() -> None:
    hand = running()
    hand.lead(3, 1)
    hand.run(5)
    for name, leader in ((T0, 3), (T1, 2)):
        read = hand.seen.records_read[name]
        assert len(read) >= 48
        assert read == hand.records(leader, name)[: len(read)]
    assert hand.seen.backs == []


def test_consumer_reads_no_further_than_the_high_watermark() -> None:
    hand = running(acks=1)
    hand.network.cut("broker 1", "broker 2")
    hand.network.cut("broker 1", "broker 3")
    hand.run(5)
    assert len(hand.seen.records_read[T0]) <= hand.partition(1).log.high_watermark
    assert hand.partition(1).log.high_watermark < hand.partition(1).log.end


def test_producer_sends_again_until_there_is_a_leader() -> None:
    hand = running()
    hand.brokers[1].crash()
    hand.run(10)
    hand.lead(3, 1, isr=(2, 3), to=(2, 3))
    hand.lead(2, 1, isr=(2, 3), to=(2, 3), name=T1)
    hand.run(3)
    acknowledged = {record for record, _, _ in hand.seen.acknowledged_records}
    assert set(range(hand.seen.produced_records - 1)) <= acknowledged


def test_records_without_an_acknowledgement_are_given_up_after_two_minutes() -> None:
    hand = Hand().start()
    given_up: list[int] = []
    hand.seen.given_up = lambda process, partition, record: given_up.append(record)  # type: ignore[method-assign]
    hand.producer()
    hand.run(125)
    hand.lead(1, 0)
    hand.run(3)
    assert given_up[:3] == [0, 1, 2]
    assert len(given_up) >= 40
    assert hand.seen.acknowledged_records[0][0] == given_up[-1] + 1


def test_metadata_with_an_older_leader_epoch_is_ignored() -> None:
    """KAFKA-9212: a client that knows a later epoch waits."""
    hand = running()
    hand.lead(3, 5)
    hand.run(2)
    before = len(hand.seen.acknowledged_records)
    state = hand.states[T0]
    hand.lead(2, 6, to=(1, 2, 3))
    hand.states[T0] = state
    hand.update_metadata()
    hand.run(5)
    # Only the other partition goes on.
    assert before + 20 < len(hand.seen.acknowledged_records) <= before + 30


def test_consumer_goes_back_where_an_unclean_leader_diverges() -> None:
    hand = running(acks=1)
    for broker in (1, 2):
        hand.network.cut(f"broker {broker}", "broker 3")
    hand.lead(1, 1, isr=(1, 2), to=(1, 2))
    hand.run(5)
    position = len(hand.seen.records_read[T0])
    hand.brokers[1].crash()
    hand.lead(3, 2, isr=(3,), to=(2, 3))
    hand.run(3)
    ((_, before, after),) = hand.seen.backs
    assert before >= position > after
    assert (
        hand.seen.records_read[T0][before:]
        == hand.records(3)[after:][: len(hand.seen.records_read[T0]) - before]
    )


def test_topic_that_is_created_again_is_read_from_its_beginning() -> None:
    hand = running()
    for broker in hand.brokers:
        hand.stop_replica(broker, -2, delete=True)
    hand.topic_id = b"2" * 16
    hand.lead(2, 0)
    hand.run(2)
    records = hand.records(2)
    assert hand.seen.records_read[T0][-3:] == records[len(records) - 4 : -1] or (
        hand.seen.records_read[T0][-3:] == records[-3:]
    )
    assert records[0] in hand.seen.records_read[T0]


def test_partition_that_is_added_is_read_from_its_beginning() -> None:
    hand = running()
    consumer = hand.consumer((T0,), number=1)
    consumer.add_partition(T1)
    hand.run(2)
    read = hand.seen.records_read[T1]
    assert read.count(read[0]) == 2


def test_producer_can_be_stopped_and_extended() -> None:
    hand = running()
    producer = hand.producer(number=1, names=(T0,))
    producer.add_partition(T1)
    hand.run(3)
    first = 1 << 32
    assert first + 1 in hand.records(2, T1)
    producer.stop()
    hand.run(1)
    end = max(hand.records(1, T0))
    hand.run(3)
    assert max(hand.records(1, T0)) == end
