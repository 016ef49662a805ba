"""Schedules of conformance tests."""

from random import Random

from controller.core import error_codes as codes
from controller.core.error_codes import INCONSISTENT_TOPIC_ID
from replay.world.broker.messages import ALL
from tests.replay.world.broker.conformance_cluster import ConformanceCluster, Name

T, U = ("t", 0), ("u", 0)
BROKERS = (1, 2, 3)
LAG_SECONDS = 6
"""replica.lag.time.max.ms. The leader looks for followers that lag every half of it."""
FETCH_WAIT_SECONDS = 0.5
DELAY_SECONDS_MAX = 10
"""The additional time that a busy machine may take."""


async def diverging_tail(cluster: ConformanceCluster) -> None:
    """A leader has records that no follower has, and another broker becomes the leader."""
    await cluster.update_metadata()
    await cluster.lead(T, 1, 0, BROKERS)
    await cluster.produce("common", 1, T, ALL, (1, 2, 3))
    await cluster.observe()
    # The followers fetch no more, so the tail stays with broker 1.
    await cluster.stop_replica(2, T, -1)
    await cluster.stop_replica(3, T, -1)
    await cluster.produce("tail", 1, T, 1, (11, 12, 13))
    await cluster.produce("unacknowledged", 1, T, ALL, (14,))
    await cluster.lead(T, 2, 2, (2, 3), to=(2, 3))
    await cluster.produce("other", 2, T, ALL, (21, 22))
    await cluster.observe()
    await cluster.lead(T, 2, 3, (2, 3))
    await cluster.observe()


async def several_diverging_epochs(cluster: ConformanceCluster) -> None:
    """Two logs with alternating leader epochs after a common beginning (KIP-279)."""
    await cluster.update_metadata()
    await cluster.lead(T, 1, 0, (1, 2), replicas=(1, 2))
    await cluster.produce("common", 1, T, ALL, (1, 2))
    await cluster.observe()
    await cluster.stop_replica(2, T, -1)
    for epoch in range(1, 6):
        leader = 1 + epoch % 2
        await cluster.lead(T, leader, epoch, (leader,), to=(leader,))
        await cluster.produce(f"epoch {epoch}", leader, T, ALL, (10 * epoch, 10 * epoch + 1))
    await cluster.lead(T, 1, 6, (1,), to=(1,))
    await cluster.observe()
    await cluster.lead(T, 2, 7, (2,))
    await cluster.observe()
    await cluster.produce("last", 2, T, ALL, (99,))
    await cluster.observe()


async def unavailable_leader(cluster: ConformanceCluster) -> None:
    """The partition has no leader: its followers are sent leader -1."""
    await cluster.update_metadata()
    await cluster.lead(T, 1, 0, BROKERS)
    await cluster.produce("first", 1, T, ALL, (1,))
    await cluster.observe()
    await cluster.lead(T, -1, 1, BROKERS, to=(2, 3))
    await cluster.produce("second", 1, T, 1, (2,))
    await cluster.observe()
    await cluster.lead(T, 3, 2, (2, 3), to=(2, 3))
    await cluster.produce("third", 3, T, ALL, (3,))
    await cluster.observe()


async def paused_follower(cluster: ConformanceCluster) -> None:
    """A follower that is paused leaves the ISR, but only where it lags."""
    await cluster.update_metadata()
    for name in (T, U):
        await cluster.lead(name, 1, 0, BROKERS)
        await cluster.produce(f"first {name}", 1, name, ALL, (1, 2))
    await cluster.observe()
    cluster.pause(3)
    paused = cluster.now()
    await cluster.produce("second", 1, T, 1, (3,))
    await cluster.produce("third", 1, T, ALL, (4,))
    await cluster.observe()
    if cluster.protocol.has_alter_partition:
        seconds = cluster.proposed_at[T, 1, (1, 2)] - paused
        earliest, latest = LAG_SECONDS - FETCH_WAIT_SECONDS, 1.5 * LAG_SECONDS + DELAY_SECONDS_MAX
        cluster.note(earliest <= seconds <= latest or seconds)
    cluster.resume(3)
    await cluster.observe()


async def too_few_in_sync(cluster: ConformanceCluster) -> None:
    """With min.insync.replicas=2 only the leader is left in the ISR."""
    await cluster.update_metadata()
    await cluster.lead(T, 1, 0, BROKERS)
    await cluster.produce("first", 1, T, ALL, (1, 2))
    await cluster.observe()
    cluster.pause(2)
    cluster.pause(3)
    await cluster.produce("waits", 1, T, ALL, (3,))
    await cluster.observe()
    cluster.note(await cluster.consume(1, T))
    await cluster.produce("refused", 1, T, ALL, (4,))
    await cluster.produce("leader only", 1, T, 1, (5,))
    await cluster.observe()
    cluster.resume(2)
    await cluster.observe()
    await cluster.produce("accepted", 1, T, ALL, (6,))
    cluster.resume(3)
    await cluster.observe()


async def late_metadata(cluster: ConformanceCluster) -> None:
    """A leader is sent LeaderAndIsr, and UpdateMetadata only later."""
    cluster.keeps_proposals = False
    await cluster.update_metadata()
    await cluster.lead(T, 1, 0, BROKERS, to=(1,))
    await cluster.produce("first", 1, T, 1, (1, 2))
    await cluster.restart(1)
    await cluster.update_metadata(1, has_partitions=False)
    await cluster.lead(T, 1, 1, BROKERS, metadata=False)
    await cluster.update_metadata(2, 3)
    await cluster.produce("unknown", 1, T, ALL, (3,))
    await cluster.observe()
    await cluster.update_metadata(1)
    await cluster.produce("second", 1, T, ALL, (4,))
    await cluster.observe()


ALTER_ERRORS = {
    "refused-never-applied": codes.INELIGIBLE_REPLICA,
    "refused-not-attempted": codes.OPERATION_NOT_ATTEMPTED,
    "refused-version": codes.INVALID_UPDATE_VERSION,
    "refused-epoch": codes.FENCED_LEADER_EPOCH,
    "refused-unknown-id": codes.UNKNOWN_TOPIC_ID,
    "refused-unknown": codes.UNKNOWN_TOPIC_OR_PARTITION,
    "refused-request": codes.INVALID_REQUEST,
    "refused-inconsistent": INCONSISTENT_TOPIC_ID,
    "refused-server": codes.UNKNOWN_SERVER_ERROR,
}


async def refused_proposals(cluster: ConformanceCluster) -> None:
    """The controller refuses changes of ISRs, and accepts them later."""
    names: dict[str, Name] = {topic: (topic, 0) for topic in ALTER_ERRORS}
    await cluster.update_metadata()
    cluster.alter_errors = {names[topic]: error for topic, error in ALTER_ERRORS.items()}
    for name in names.values():
        await cluster.lead(name, 1, 0, BROKERS)
        await cluster.produce(f"first {name}", 1, name, ALL, (1,))
    await cluster.observe()
    cluster.pause(3)
    for name in names.values():
        await cluster.produce(f"second {name}", 1, name, ALL, (2,))
    await cluster.observe()
    cluster.alter_errors = {}
    await cluster.observe()
    for name in names.values():
        await cluster.lead(name, 1, 1, BROKERS, to=(1, 2))
    await cluster.observe()
    cluster.alter_errors = {names[topic]: error for topic, error in ALTER_ERRORS.items()}
    cluster.resume(3)
    for name in names.values():
        await cluster.lead(name, 1, 2, (1, 2))
    await cluster.observe()
    cluster.alter_errors = {}
    await cluster.observe()


async def refused_requests(cluster: ConformanceCluster) -> None:
    """The controller refuses whole AlterPartition requests, and accepts them later."""
    await cluster.update_metadata()
    await cluster.lead(T, 1, 0, BROKERS)
    await cluster.produce("first", 1, T, ALL, (1,))
    await cluster.observe()
    for error, record in ((codes.STALE_BROKER_EPOCH, 2), (codes.NOT_CONTROLLER, 3)):
        cluster.alter_error = error
        cluster.pause(3)
        await cluster.produce(f"{record}", 1, T, ALL, (record,))
        await cluster.observe()
        cluster.alter_error = codes.NONE
        await cluster.observe()
        cluster.resume(3)
        await cluster.observe()


async def cached_version(cluster: ConformanceCluster) -> None:
    """Another client writes the state znode, so the leader's writes fail."""
    await cluster.update_metadata()
    await cluster.lead(T, 1, 0, BROKERS)
    await cluster.produce("first", 1, T, ALL, (1,))
    await cluster.observe()
    cluster.write_state(T, cluster.read_state(T))
    cluster.pause(3)
    await cluster.produce("second", 1, T, ALL, (2,))
    await cluster.observe()
    cluster.resume(3)
    await cluster.lead(T, 1, 1, BROKERS)
    await cluster.observe()
    cluster.pause(3)
    await cluster.produce("third", 1, T, ALL, (3,))
    await cluster.observe()
    cluster.write_state(T, cluster.read_state(T))
    cluster.resume(3)
    await cluster.observe()
    await cluster.lead(T, 2, 2, (1, 2))
    await cluster.observe()


async def restarts(cluster: ConformanceCluster) -> None:
    """A follower and the leader are killed and start again."""
    cluster.keeps_proposals = False
    await cluster.update_metadata()
    await cluster.lead(T, 1, 0, BROKERS)
    await cluster.produce("first", 1, T, ALL, (1, 2))
    await cluster.observe()
    await cluster.restart(3)
    await cluster.update_metadata(3)
    await cluster.produce("second", 1, T, 1, (3,))
    await cluster.lead(T, 1, 1, BROKERS)
    await cluster.observe()
    await cluster.stop_replica(2, T, -1)
    await cluster.stop_replica(3, T, -1)
    await cluster.produce("tail", 1, T, 1, (4, 5))
    await cluster.lead(T, 2, 2, (2, 3), to=(2, 3))
    await cluster.restart(1)
    await cluster.update_metadata(1)
    await cluster.produce("third", 2, T, ALL, (6,))
    await cluster.lead(T, 2, 3, (2, 3))
    await cluster.observe()
    await cluster.stop_replica(3, T, 4, delete=True)
    await cluster.lead(T, 2, 4, (1, 2), to=(1, 2), replicas=(1, 2))
    cluster.note(cluster.has_log(3, T))
    await cluster.observe()


async def random_leader_changes(
    cluster: ConformanceCluster, seed: int, steps: int = 8, restarts: float = 0
) -> None:
    """Leaders change at random. Each request is sent to some brokers only, so that logs diverge.
    `restarts`: how likely a broker is killed in each step."""
    random = Random(seed)
    cluster.keeps_proposals = False
    await cluster.update_metadata()
    await cluster.lead(T, 1, 0, BROKERS)
    await cluster.produce("first", 1, T, ALL, (1, 2))
    await cluster.observe()
    leader, record = 1, 100
    for epoch in range(1, steps + 1):
        for broker in BROKERS:
            if broker != leader and random.random() < 0.4:
                await cluster.stop_replica(broker, T, -1)
        for acks in random.choices((1, ALL), k=random.randint(0, 2)):
            record += 2
            await cluster.produce(f"{epoch} {record}", leader, T, acks, (record, record + 1))
        # Otherwise it is not determined how many records are replicated before the next leader.
        await cluster.observe()
        if random.random() < restarts:
            broker = random.choice(BROKERS)
            await cluster.restart(broker)
            await cluster.introduce(broker)
            await cluster.observe()
        leader = random.choice(BROKERS)
        others = [one for one in BROKERS if one != leader]
        informed = [one for one in others if random.random() < 0.7]
        isr = [leader, *(one for one in informed if random.random() < 0.5)]
        await cluster.lead(T, leader, epoch, isr, to=(leader, *informed))
        await cluster.observe()
