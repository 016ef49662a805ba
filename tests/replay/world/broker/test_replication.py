"""Leaders and followers: high watermark, ISR, truncation."""

import pytest

from controller.core import error_codes as codes
from replay.world.broker.messages import ALL
from replay.world.broker.settings import settings_of
from tests.replay.world.broker.manual_cluster import T0, T1, ManualCluster, refuse

PROTOCOLS = ("3.9", "2.6")
"""With AlterPartition and truncation by fetches, and without both."""


def replicated(protocol: str = "3.9", **more: int) -> ManualCluster:
    """Broker 1 leads, a producer waits for all replicas; ten seconds have passed."""
    cluster = ManualCluster(protocol=protocol, **more).start()
    cluster.lead(1, 0)
    cluster.producer()
    cluster.run(10)
    return cluster


def isr_of(cluster: ManualCluster, broker: int) -> tuple[int, ...]:
    return cluster.partition(broker).isr


def test_acknowledged_records_are_on_all_members_of_the_isr() -> None:
    cluster = replicated()
    assert len(cluster.seen.acknowledged_records) >= 95
    for record, offset, isr in cluster.seen.acknowledged_records:
        assert isr == (1, 2, 3)
        assert [cluster.records(broker)[offset] for broker in isr] == [record] * 3


def test_followers_learn_the_high_watermark_with_the_next_fetch() -> None:
    cluster = replicated()
    high_watermarks = [cluster.partition(broker).log.high_watermark for broker in (1, 2, 3)]
    assert max(high_watermarks) - min(high_watermarks) <= 1
    assert high_watermarks[0] == len(cluster.seen.acknowledged_records)


def test_partitions_of_one_leader_share_fetches() -> None:
    cluster = ManualCluster().start()
    names = [("t", number) for number in range(10)]
    for name in names:
        cluster.lead(1, 0, name=name)
    before = cluster.network.sent()["broker 2>broker 1"]
    cluster.run(10)
    assert cluster.network.sent()["broker 2>broker 1"] - before == pytest.approx(20, abs=1)


def test_follower_that_stops_leaves_the_isr_within_one_and_a_half_of_the_lag() -> None:
    cluster = replicated()
    cluster.brokers[3].crash()
    cluster.run(29)
    assert isr_of(cluster, 1) == (1, 2, 3)
    cluster.run(18)
    assert isr_of(cluster, 1) == (1, 2)
    assert cluster.seen.proposals == [("broker 1", (1, 2))]


def test_acks_all_waits_for_a_dead_member_of_the_isr_until_it_leaves() -> None:
    cluster = replicated()
    acknowledged = len(cluster.seen.acknowledged_records)
    cluster.brokers[3].crash()
    cluster.run(10)
    assert len(cluster.seen.acknowledged_records) <= acknowledged + 1
    cluster.run(40)
    assert len(cluster.seen.acknowledged_records) >= acknowledged + 490
    assert cluster.seen.acknowledged_records[-1][2] == (1, 2)


def test_idle_follower_that_stops_stays_in_the_isr() -> None:
    """The follower has everything that the leader has (isCaughtUp)."""
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.run(2)
    cluster.brokers[3].crash()
    cluster.run(100)
    assert isr_of(cluster, 1) == (1, 2, 3)


def test_follower_that_has_caught_up_is_added_to_the_isr() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0, isr=(1,))
    cluster.run(2)
    assert isr_of(cluster, 1) == (1, 2, 3)
    assert [isr for _, isr in cluster.seen.proposals] == [(1, 2), (1, 2, 3)]


def test_follower_that_is_not_in_the_metadata_is_not_added_to_the_isr() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0, isr=(1,))
    cluster.update_metadata(1, live=(1, 2))
    cluster.run(5)
    assert isr_of(cluster, 1) == (1, 2)
    cluster.update_metadata(1)
    cluster.run(1)
    assert isr_of(cluster, 1) == (1, 2, 3)


def test_replica_outside_of_the_assignment_is_not_added_to_the_isr() -> None:
    """KAFKA-1097: a late fetch of a replica that was removed."""
    cluster = replicated()
    cluster.lead(1, 1, isr=(1, 2), replicas=(1, 2), to=(1,))
    cluster.run(20)
    assert isr_of(cluster, 1) == (1, 2)


def test_fetch_at_an_earlier_leader_epoch_brings_no_follower_into_the_isr() -> None:
    """The fetch fails (FENCED_LEADER_EPOCH). The leader's log end offset of the follower is from
    before the crash in which the follower lost its records."""
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    producer = cluster.producer()
    cluster.run(2)
    producer.stop()
    cluster.run(2)
    cluster.brokers[3].crash(loses_unflushed=True, restart_after_us=20_000_000)
    cluster.lead(1, 1, isr=(1, 2), to=(1, 2))
    cluster.run(30)
    cluster.update_metadata(3)
    cluster.lead(1, 0, to=(3,), version=1)
    assert cluster.partition(3).leader == 1
    cluster.run(1)
    assert (isr_of(cluster, 1), cluster.seen.proposals) == ((1, 2), [])


def test_min_insync_replicas_refuses_acks_all_only() -> None:
    cluster = ManualCluster(min_isr=2).start()
    cluster.lead(1, 0, isr=(1,), replicas=(1, 2, 3))
    for broker in (2, 3):
        cluster.brokers[broker].crash()
    cluster.lead(1, 1, isr=(1,), to=(1,))
    cluster.producer()
    cluster.run(5)
    assert cluster.seen.acknowledged_records == []
    cluster.producer(acks=1, number=1)
    cluster.run(5)
    assert len(cluster.seen.acknowledged_records) >= 40
    # The high watermark waits for the ISR to grow.
    assert cluster.partition(1).log.high_watermark == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_new_leader_has_all_acknowledged_records(protocol: str) -> None:
    cluster = replicated(protocol)
    cluster.lead(2, 1)
    cluster.run(5)
    cluster.lead(3, 2)
    cluster.run(5)
    cluster.brokers[3].crash()
    cluster.lead(1, 3, isr=(1, 2), to=(1, 2))
    cluster.run(5)
    assert len(cluster.seen.acknowledged_records) > 200
    for record, offset, _ in cluster.seen.acknowledged_records:
        assert cluster.records(1)[offset] == record


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_follower_removes_what_the_new_leader_lacks(protocol: str) -> None:
    """Broker 1 is cut off with records that it did not replicate."""
    cluster = replicated(protocol)
    for other in (2, 3):
        cluster.network.cut("broker 1", f"broker {other}")
    cluster.producer(acks=1, number=1)
    cluster.run(2)
    alone = cluster.partition(1).log.end
    cluster.lead(2, 1, isr=(2, 3), to=(2, 3))
    cluster.run(2)
    for other in (2, 3):
        cluster.network.heal("broker 1", f"broker {other}")
    cluster.lead(2, 1, isr=(2, 3), to=(1,), version=cluster.versions[T0])
    cluster.run(5)
    (cut,) = [end for process, end, _ in cluster.seen.truncations if process == "broker 1"]
    assert cut < alone
    assert cluster.records(1)[:200] == cluster.records(2)[:200]
    assert cluster.partition(1).log.epochs == cluster.partition(2).log.epochs == [0, 1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_follower_joins_an_epoch_that_it_missed(protocol: str) -> None:
    """Several leader epochs diverge: the follower asks more than once (KIP-279)."""
    cluster = replicated(protocol)
    cluster.producer(acks=1, number=1)
    for epoch in range(1, 7):
        leader = 1 + epoch % 2
        cluster.network.cut("broker 1", "broker 2")
        cluster.lead(leader, epoch, to=(leader,))
        cluster.run(1)
    cluster.network.heal("broker 1", "broker 2")
    cluster.lead(3, 7)
    cluster.run(10)
    records = cluster.records(3)
    for broker in (1, 2):
        assert cluster.records(broker)[: len(records) - 5] == records[:-5]
        assert cluster.partition(broker).log.epochs == cluster.partition(3).log.epochs


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
    cluster = replicated()
    cluster.run(3)
    cluster.brokers[1].crash(loses_unflushed=True)
    kept = len(cluster.records(1))
    assert kept < len(cluster.records(2))
    assert ("broker 1", kept, "crash") in cluster.seen.truncations
    cluster.brokers[1].start()
    cluster.run(20)
    cluster.update_metadata()
    cluster.lead(1, 1)
    cluster.run(5)
    assert [process for process, _, cause in cluster.seen.truncations if cause == "leader"] == [
        "broker 2",
        "broker 3",
    ]
    assert cluster.records(2)[:kept] == cluster.records(1)[:kept]


def test_follower_that_lost_records_copies_them_again() -> None:
    cluster = replicated()
    cluster.run(3)
    cluster.brokers[2].crash(loses_unflushed=True)
    assert len(cluster.records(2)) < len(cluster.records(1)) - 20
    cluster.brokers[2].start()
    cluster.run(40)
    cluster.update_metadata()
    cluster.lead(1, 1, isr=(1, 3))
    cluster.run(5)
    assert cluster.records(2)[:120] == cluster.records(1)[:120]
    assert sorted(isr_of(cluster, 1)) == [1, 2, 3]


def test_zombie_leader_cannot_commit_after_its_successor_began() -> None:
    cluster = replicated()
    cluster.brokers[1].pause()
    cluster.lead(2, 1, to=(2, 3))
    cluster.run(10)
    acknowledged = len(cluster.seen.acknowledged_records)
    cluster.answer = refuse(codes.FENCED_LEADER_EPOCH)
    cluster.brokers[1].resume()
    cluster.run(60)
    # Followers do not fetch from it any more: it stays the leader that it was, alone.
    zombie = cluster.partition(1)
    assert zombie.is_leader
    assert zombie.leader_epoch == 0
    assert zombie.pending is not None
    assert zombie.log.high_watermark <= acknowledged
    offsets = [offset for _, offset, _ in cluster.seen.acknowledged_records[-300:]]
    assert [cluster.records(2)[offset] for offset in offsets] == [
        record for record, _, _ in cluster.seen.acknowledged_records[-300:]
    ]


def test_fetch_with_an_older_leader_epoch_ends_the_fetching() -> None:
    """Broker 3 does not hear of the leader epoch: it waits for a LeaderAndIsr request."""
    cluster = replicated()
    cluster.lead(1, 1, to=(1, 2))
    end = len(cluster.records(3))
    cluster.run(5)
    assert len(cluster.records(3)) == end
    cluster.lead(1, 2)
    cluster.run(2)
    assert len(cluster.records(3)) > end + 50


def test_fetch_before_the_leader_knows_its_epoch_is_repeated() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0, to=(2, 3))
    cluster.run(3)
    cluster.lead(1, 0, to=(1,))
    cluster.producer()
    cluster.run(3)
    assert len(cluster.seen.acknowledged_records) > 20


def test_partition_that_moves_to_another_leader_is_fetched_there() -> None:
    cluster = ManualCluster().start()
    cluster.lead(1, 0)
    cluster.lead(2, 0, name=T1)
    cluster.producer(names=(T0, T1))
    cluster.run(5)
    cluster.lead(2, 1)
    cluster.run(5)
    assert len(cluster.records(3, T0)) == pytest.approx(len(cluster.records(2, T0)), abs=1)
    assert len(cluster.records(1, T1)) == pytest.approx(len(cluster.records(2, T1)), abs=1)


def test_follower_on_a_slow_disk_holds_acknowledgements_back() -> None:
    fast, slow = replicated(), replicated()
    slow.brokers[3].slow_disk(400_000)
    counts = []
    for cluster in (fast, slow):
        before = len(cluster.seen.acknowledged_records)
        cluster.run(5)
        waiting = cluster.partition(1).log.end - cluster.seen.acknowledged_records[-1][1]
        counts.append((len(cluster.seen.acknowledged_records) - before, waiting))
    assert counts[1][1] > counts[0][1]


def test_settings_by_their_names_in_kafka() -> None:
    settings = settings_of("2.8", {"replica.lag.time.max.ms": "1000", "min.insync.replicas": "2"})
    assert (settings.lag_us, settings.min_isr) == (1_000_000, 2)
    cluster = ManualCluster(settings=settings).start()
    cluster.lead(1, 0)
    cluster.producer(acks=ALL)
    cluster.run(1)
    cluster.brokers[2].crash()
    cluster.run(3)
    assert isr_of(cluster, 1) == (1, 3)
