"""Leaders and followers: high watermark, ISR, truncation."""

import pytest

from controller.core import error_codes as codes
from replay.world.broker.messages import ALL
from replay.world.broker.settings import settings_of
from tests.replay.world.broker.hand import T0, T1, Hand, refuse

PROTOCOLS = ("3.9", "2.6")
"""With AlterPartition and truncation by fetches, and without both."""


def replicated(protocol: str = "3.9", **more: int) -> Hand:
    """Broker 1 leads, a producer waits for all replicas; ten seconds have passed."""
    hand = Hand(protocol=protocol, **more).start()
    hand.lead(1, 0)
    hand.producer()
    hand.run(10)
    return hand


def isr_of(hand: Hand, broker: int) -> tuple[int, ...]:
    return hand.partition(broker).isr


def test_acknowledged_records_are_on_all_members_of_the_isr() -> None:
    hand = replicated()
    assert len(hand.seen.acknowledged_records) >= 95
    for record, offset, isr in hand.seen.acknowledged_records:
        assert isr == (1, 2, 3)
        assert [hand.records(broker)[offset] for broker in isr] == [record] * 3


def test_followers_learn_the_high_watermark_with_the_next_fetch() -> None:
    hand = replicated()
    high_watermarks = [hand.partition(broker).log.high_watermark for broker in (1, 2, 3)]
    assert max(high_watermarks) - min(high_watermarks) <= 1
    assert high_watermarks[0] == len(hand.seen.acknowledged_records)


def test_partitions_of_one_leader_share_fetches() -> None:
    hand = Hand().start()
    names = [("t", number) for number in range(10)]
    for name in names:
        hand.lead(1, 0, name=name)
    before = hand.network.sent()["broker 2>broker 1"]
    hand.run(10)
    assert hand.network.sent()["broker 2>broker 1"] - before == pytest.approx(20, abs=1)


def test_follower_that_stops_leaves_the_isr_within_one_and_a_half_of_the_lag() -> None:
    hand = replicated()
    hand.brokers[3].crash()
    hand.run(29)
    assert isr_of(hand, 1) == (1, 2, 3)
    hand.run(18)
    assert isr_of(hand, 1) == (1, 2)
    assert hand.seen.proposals == [("broker 1", (1, 2))]


def test_acks_all_waits_for_a_dead_member_of_the_isr_until_it_leaves() -> None:
    hand = replicated()
    acknowledged = len(hand.seen.acknowledged_records)
    hand.brokers[3].crash()
    hand.run(10)
    assert len(hand.seen.acknowledged_records) <= acknowledged + 1
    hand.run(40)
    assert len(hand.seen.acknowledged_records) >= acknowledged + 490
    assert hand.seen.acknowledged_records[-1][2] == (1, 2)


def test_idle_follower_that_stops_stays_in_the_isr() -> None:
    """It has everything that the leader has (isCaughtUp)."""
    hand = Hand().start()
    hand.lead(1, 0)
    hand.run(2)
    hand.brokers[3].crash()
    hand.run(100)
    assert isr_of(hand, 1) == (1, 2, 3)


def test_follower_that_has_caught_up_is_added_to_the_isr() -> None:
    hand = Hand().start()
    hand.lead(1, 0, isr=(1,))
    hand.run(2)
    assert isr_of(hand, 1) == (1, 2, 3)
    assert [isr for _, isr in hand.seen.proposals] == [(1, 2), (1, 2, 3)]


def test_follower_that_is_not_in_the_metadata_is_not_added_to_the_isr() -> None:
    hand = Hand().start()
    hand.lead(1, 0, isr=(1,))
    hand.update_metadata(1, live=(1, 2))
    hand.run(5)
    assert isr_of(hand, 1) == (1, 2)
    hand.update_metadata(1)
    hand.run(1)
    assert isr_of(hand, 1) == (1, 2, 3)


def test_replica_outside_of_the_assignment_is_not_added_to_the_isr() -> None:
    """KAFKA-1097: a late fetch of a replica that was removed."""
    hand = replicated()
    hand.lead(1, 1, isr=(1, 2), replicas=(1, 2), to=(1,))
    hand.run(20)
    assert isr_of(hand, 1) == (1, 2)


def test_fetch_at_an_earlier_leader_epoch_brings_no_follower_into_the_isr() -> None:
    """It fails (FENCED_LEADER_EPOCH). The leader's log end offset of the follower is from before
    the crash in which the follower lost its records."""
    hand = Hand().start()
    hand.lead(1, 0)
    producer = hand.producer()
    hand.run(2)
    producer.stop()
    hand.run(2)
    hand.brokers[3].crash(loses_unflushed=True, restart_after_us=20_000_000)
    hand.lead(1, 1, isr=(1, 2), to=(1, 2))
    hand.run(30)
    hand.update_metadata(3)
    hand.lead(1, 0, to=(3,), version=1)
    assert hand.partition(3).leader == 1
    hand.run(1)
    assert (isr_of(hand, 1), hand.seen.proposals) == ((1, 2), [])


def test_min_insync_replicas_refuses_acks_all_only() -> None:
    hand = Hand(min_isr=2).start()
    hand.lead(1, 0, isr=(1,), replicas=(1, 2, 3))
    for broker in (2, 3):
        hand.brokers[broker].crash()
    hand.lead(1, 1, isr=(1,), to=(1,))
    hand.producer()
    hand.run(5)
    assert hand.seen.acknowledged_records == []
    hand.producer(acks=1, number=1)
    hand.run(5)
    assert len(hand.seen.acknowledged_records) >= 40
    # The high watermark waits for the ISR to grow.
    assert hand.partition(1).log.high_watermark == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_new_leader_has_all_acknowledged_records(protocol: str) -> None:
    hand = replicated(protocol)
    hand.lead(2, 1)
    hand.run(5)
    hand.lead(3, 2)
    hand.run(5)
    hand.brokers[3].crash()
    hand.lead(1, 3, isr=(1, 2), to=(1, 2))
    hand.run(5)
    assert len(hand.seen.acknowledged_records) > 200
    for record, offset, _ in hand.seen.acknowledged_records:
        assert hand.records(1)[offset] == record


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_follower_removes_what_the_new_leader_lacks(protocol: str) -> None:
    """Broker 1 is cut off with records that it did not replicate."""
    hand = replicated(protocol)
    for other in (2, 3):
        hand.network.cut("broker 1", f"broker {other}")
    hand.producer(acks=1, number=1)
    hand.run(2)
    alone = hand.partition(1).log.end
    hand.lead(2, 1, isr=(2, 3), to=(2, 3))
    hand.run(2)
    for other in (2, 3):
        hand.network.heal("broker 1", f"broker {other}")
    hand.lead(2, 1, isr=(2, 3), to=(1,), version=hand.versions[T0])
    hand.run(5)
    (cut,) = [end for process, end, _ in hand.seen.truncations if process == "broker 1"]
    assert cut < alone
    assert hand.records(1)[:200] == hand.records(2)[:200]
    assert hand.partition(1).log.epochs == hand.partition(2).log.epochs == [0, 1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_follower_joins_an_epoch_that_it_missed(protocol: str) -> None:
    """Several leader epochs diverge: the follower asks more than once (KIP-279)."""
    hand = replicated(protocol)
    hand.producer(acks=1, number=1)
    for epoch in range(1, 7):
        leader = 1 + epoch % 2
        hand.network.cut("broker 1", "broker 2")
        hand.lead(leader, epoch, to=(leader,))
        hand.run(1)
    hand.network.heal("broker 1", "broker 2")
    hand.lead(3, 7)
    hand.run(10)
    records = hand.records(3)
    for broker in (1, 2):
        assert hand.records(broker)[: len(records) - 5] == records[:-5]
        assert hand.partition(broker).log.epochs == hand.partition(3).log.epochs


def test_truncation_removes_an_epoch_without_records_also_at_the_end_of_the_log() -> None:
    """The broker has led in it without a record (UnifiedLog.truncateTo). If the epoch stayed, the
    follower would ask for its end for ever. Found by refold explore."""
    partition = replicated().partition(2)
    before = (partition.log.epochs.copy(), partition.log.end)
    partition.log.start_epoch(3, partition.log.end)
    partition.truncate(partition.log.end)
    assert (partition.log.epochs, partition.log.end) == before


def test_leader_that_lost_its_records_is_followed_by_the_others() -> None:
    """The only member of the ISR crashes with its machine, and leads again."""
    hand = replicated()
    hand.run(3)
    hand.brokers[1].crash(loses_unflushed=True)
    kept = len(hand.records(1))
    assert kept < len(hand.records(2))
    assert ("broker 1", kept, "crash") in hand.seen.truncations
    hand.brokers[1].start()
    hand.run(20)
    hand.update_metadata()
    hand.lead(1, 1)
    hand.run(5)
    assert [process for process, _, cause in hand.seen.truncations if cause == "leader"] == [
        "broker 2",
        "broker 3",
    ]
    assert hand.records(2)[:kept] == hand.records(1)[:kept]


def test_follower_that_lost_records_copies_them_again() -> None:
    hand = replicated()
    hand.run(3)
    hand.brokers[2].crash(loses_unflushed=True)
    assert len(hand.records(2)) < len(hand.records(1)) - 20
    hand.brokers[2].start()
    hand.run(40)
    hand.update_metadata()
    hand.lead(1, 1, isr=(1, 3))
    hand.run(5)
    assert hand.records(2)[:120] == hand.records(1)[:120]
    assert sorted(isr_of(hand, 1)) == [1, 2, 3]


def test_zombie_leader_cannot_commit_after_its_successor_began() -> None:
    hand = replicated()
    hand.brokers[1].pause()
    hand.lead(2, 1, to=(2, 3))
    hand.run(10)
    acknowledged = len(hand.seen.acknowledged_records)
    hand.answer = refuse(codes.FENCED_LEADER_EPOCH)
    hand.brokers[1].resume()
    hand.run(60)
    # Followers do not fetch from it any more: it stays the leader that it was, alone.
    zombie = hand.partition(1)
    assert zombie.is_leader
    assert zombie.leader_epoch == 0
    assert zombie.pending is not None
    assert zombie.log.high_watermark <= acknowledged
    offsets = [offset for _, offset, _ in hand.seen.acknowledged_records[-300:]]
    assert [hand.records(2)[offset] for offset in offsets] == [
        record for record, _, _ in hand.seen.acknowledged_records[-300:]
    ]


def test_fetch_with_an_older_leader_epoch_ends_the_fetching() -> None:
    """Broker 3 does not hear of the leader epoch: it waits for a LeaderAndIsr request."""
    hand = replicated()
    hand.lead(1, 1, to=(1, 2))
    end = len(hand.records(3))
    hand.run(5)
    assert len(hand.records(3)) == end
    hand.lead(1, 2)
    hand.run(2)
    assert len(hand.records(3)) > end + 50


def test_fetch_before_the_leader_knows_its_epoch_is_repeated() -> None:
    hand = Hand().start()
    hand.lead(1, 0, to=(2, 3))
    hand.run(3)
    hand.lead(1, 0, to=(1,))
    hand.producer()
    hand.run(3)
    assert len(hand.seen.acknowledged_records) > 20


def test_partition_that_moves_to_another_leader_is_fetched_there() -> None:
    hand = Hand().start()
    hand.lead(1, 0)
    hand.lead(2, 0, name=T1)
    hand.producer(names=(T0, T1))
    hand.run(5)
    hand.lead(2, 1)
    hand.run(5)
    assert len(hand.records(3, T0)) == pytest.approx(len(hand.records(2, T0)), abs=1)
    assert len(hand.records(1, T1)) == pytest.approx(len(hand.records(2, T1)), abs=1)


def test_follower_on_a_slow_disk_holds_acknowledgements_back() -> None:
    fast, slow = replicated(), replicated()
    slow.brokers[3].slow_disk(400_000)
    counts = []
    for hand in (fast, slow):
        before = len(hand.seen.acknowledged_records)
        hand.run(5)
        waiting = hand.partition(1).log.end - hand.seen.acknowledged_records[-1][1]
        counts.append((len(hand.seen.acknowledged_records) - before, waiting))
    assert counts[1][1] > counts[0][1]


def test_settings_by_their_names_in_kafka() -> None:
    settings = settings_of("2.8", {"replica.lag.time.max.ms": "1000", "min.insync.replicas": "2"})
    assert (settings.lag_us, settings.min_isr) == (1_000_000, 2)
    hand = Hand(settings=settings).start()
    hand.lead(1, 0)
    hand.producer(acks=ALL)
    hand.run(1)
    hand.brokers[2].crash()
    hand.run(3)
    assert isr_of(hand, 1) == (1, 3)
