"""Schedules of conformance tests."""

from random import Random

from controller.core import error_codes as codes
from controller.core.error_codes import INCONSISTENT_TOPIC_ID
from replay.world.broker.messages import ALL
from tests.replay.world.broker.stage import Name, Stage

T, U = ("t", 0), ("u", 0)
BROKERS = (1, 2, 3)
LAG_SECONDS = 6
"""replica.lag.time.max.ms. The leader looks for followers that lag every half of it."""
FETCH_WAIT_SECONDS = 0.5
DELAY_SECONDS_MAX = 10
"""What a busy machine may take longer."""


async def diverging_tail(stage: Stage) -> None:
    """A leader has records that no follower has, and another broker becomes the leader."""
    await stage.update_metadata()
    await stage.lead(T, 1, 0, BROKERS)
    await stage.produce("common", 1, T, ALL, (1, 2, 3))
    await stage.observe()
    # The followers fetch no more, so the tail stays with broker 1.
    await stage.stop_replica(2, T, -1)
    await stage.stop_replica(3, T, -1)
    await stage.produce("tail", 1, T, 1, (11, 12, 13))
    await stage.produce("unacknowledged", 1, T, ALL, (14,))
    await stage.lead(T, 2, 2, (2, 3), to=(2, 3))
    await stage.produce("other", 2, T, ALL, (21, 22))
    await stage.observe()
    await stage.lead(T, 2, 3, (2, 3))
    await stage.observe()


async def several_diverging_epochs(stage: Stage) -> None:
    """Two logs with alternating leader epochs after a common beginning (KIP-279)."""
    await stage.update_metadata()
    await stage.lead(T, 1, 0, (1, 2), replicas=(1, 2))
    await stage.produce("common", 1, T, ALL, (1, 2))
    await stage.observe()
    await stage.stop_replica(2, T, -1)
    for epoch in range(1, 6):
        leader = 1 + epoch % 2
        await stage.lead(T, leader, epoch, (leader,), to=(leader,))
        await stage.produce(f"epoch {epoch}", leader, T, ALL, (10 * epoch, 10 * epoch + 1))
    await stage.lead(T, 1, 6, (1,), to=(1,))
    await stage.observe()
    await stage.lead(T, 2, 7, (2,))
    await stage.observe()
    await stage.produce("last", 2, T, ALL, (99,))
    await stage.observe()


async def unavailable_leader(stage: Stage) -> None:
    """The partition has no leader: its followers are sent leader -1."""
    await stage.update_metadata()
    await stage.lead(T, 1, 0, BROKERS)
    await stage.produce("first", 1, T, ALL, (1,))
    await stage.observe()
    await stage.lead(T, -1, 1, BROKERS, to=(2, 3))
    await stage.produce("second", 1, T, 1, (2,))
    await stage.observe()
    await stage.lead(T, 3, 2, (2, 3), to=(2, 3))
    await stage.produce("third", 3, T, ALL, (3,))
    await stage.observe()


async def paused_follower(stage: Stage) -> None:
    """A follower that is paused leaves the ISR, but only where it lags."""
    await stage.update_metadata()
    for name in (T, U):
        await stage.lead(name, 1, 0, BROKERS)
        await stage.produce(f"first {name}", 1, name, ALL, (1, 2))
    await stage.observe()
    stage.pause(3)
    paused = stage.now()
    await stage.produce("second", 1, T, 1, (3,))
    await stage.produce("third", 1, T, ALL, (4,))
    await stage.observe()
    if stage.protocol.has_alter_partition:
        seconds = stage.proposed_at[T, 1, (1, 2)] - paused
        earliest, latest = LAG_SECONDS - FETCH_WAIT_SECONDS, 1.5 * LAG_SECONDS + DELAY_SECONDS_MAX
        stage.note(earliest <= seconds <= latest or seconds)
    stage.resume(3)
    await stage.observe()


async def too_few_in_sync(stage: Stage) -> None:
    """With min.insync.replicas=2 only the leader is left in the ISR."""
    await stage.update_metadata()
    await stage.lead(T, 1, 0, BROKERS)
    await stage.produce("first", 1, T, ALL, (1, 2))
    await stage.observe()
    stage.pause(2)
    stage.pause(3)
    await stage.produce("waits", 1, T, ALL, (3,))
    await stage.observe()
    stage.note(await stage.consume(1, T))
    await stage.produce("refused", 1, T, ALL, (4,))
    await stage.produce("leader only", 1, T, 1, (5,))
    await stage.observe()
    stage.resume(2)
    await stage.observe()
    await stage.produce("accepted", 1, T, ALL, (6,))
    stage.resume(3)
    await stage.observe()


async def late_metadata(stage: Stage) -> None:
    """A leader is sent LeaderAndIsr, and UpdateMetadata only later."""
    stage.keeps_proposals = False
    await stage.update_metadata()
    await stage.lead(T, 1, 0, BROKERS, to=(1,))
    await stage.produce("first", 1, T, 1, (1, 2))
    await stage.restart(1)
    await stage.update_metadata(1, has_partitions=False)
    await stage.lead(T, 1, 1, BROKERS, metadata=False)
    await stage.update_metadata(2, 3)
    await stage.produce("unknown", 1, T, ALL, (3,))
    await stage.observe()
    await stage.update_metadata(1)
    await stage.produce("second", 1, T, ALL, (4,))
    await stage.observe()


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


async def refused_proposals(stage: Stage) -> None:
    """The controller refuses changes of ISRs, and accepts them later."""
    names: dict[str, Name] = {topic: (topic, 0) for topic in ALTER_ERRORS}
    await stage.update_metadata()
    stage.alter_errors = {names[topic]: error for topic, error in ALTER_ERRORS.items()}
    for name in names.values():
        await stage.lead(name, 1, 0, BROKERS)
        await stage.produce(f"first {name}", 1, name, ALL, (1,))
    await stage.observe()
    stage.pause(3)
    for name in names.values():
        await stage.produce(f"second {name}", 1, name, ALL, (2,))
    await stage.observe()
    stage.alter_errors = {}
    await stage.observe()
    for name in names.values():
        await stage.lead(name, 1, 1, BROKERS, to=(1, 2))
    await stage.observe()
    stage.alter_errors = {names[topic]: error for topic, error in ALTER_ERRORS.items()}
    stage.resume(3)
    for name in names.values():
        await stage.lead(name, 1, 2, (1, 2))
    await stage.observe()
    stage.alter_errors = {}
    await stage.observe()


async def refused_requests(stage: Stage) -> None:
    """The controller refuses whole AlterPartition requests, and accepts them later."""
    await stage.update_metadata()
    await stage.lead(T, 1, 0, BROKERS)
    await stage.produce("first", 1, T, ALL, (1,))
    await stage.observe()
    for error, record in ((codes.STALE_BROKER_EPOCH, 2), (codes.NOT_CONTROLLER, 3)):
        stage.alter_error = error
        stage.pause(3)
        await stage.produce(f"{record}", 1, T, ALL, (record,))
        await stage.observe()
        stage.alter_error = codes.NONE
        await stage.observe()
        stage.resume(3)
        await stage.observe()


async def cached_version(stage: Stage) -> None:
    """Another client writes the state znode, so the leader's writes fail."""
    await stage.update_metadata()
    await stage.lead(T, 1, 0, BROKERS)
    await stage.produce("first", 1, T, ALL, (1,))
    await stage.observe()
    stage.write_state(T, stage.read_state(T))
    stage.pause(3)
    await stage.produce("second", 1, T, ALL, (2,))
    await stage.observe()
    stage.resume(3)
    await stage.lead(T, 1, 1, BROKERS)
    await stage.observe()
    stage.pause(3)
    await stage.produce("third", 1, T, ALL, (3,))
    await stage.observe()
    stage.write_state(T, stage.read_state(T))
    stage.resume(3)
    await stage.observe()
    await stage.lead(T, 2, 2, (1, 2))
    await stage.observe()


async def restarts(stage: Stage) -> None:
    """A follower and the leader are killed and start again."""
    stage.keeps_proposals = False
    await stage.update_metadata()
    await stage.lead(T, 1, 0, BROKERS)
    await stage.produce("first", 1, T, ALL, (1, 2))
    await stage.observe()
    await stage.restart(3)
    await stage.update_metadata(3)
    await stage.produce("second", 1, T, 1, (3,))
    await stage.lead(T, 1, 1, BROKERS)
    await stage.observe()
    await stage.stop_replica(2, T, -1)
    await stage.stop_replica(3, T, -1)
    await stage.produce("tail", 1, T, 1, (4, 5))
    await stage.lead(T, 2, 2, (2, 3), to=(2, 3))
    await stage.restart(1)
    await stage.update_metadata(1)
    await stage.produce("third", 2, T, ALL, (6,))
    await stage.lead(T, 2, 3, (2, 3))
    await stage.observe()
    await stage.stop_replica(3, T, 4, delete=True)
    await stage.lead(T, 2, 4, (1, 2), to=(1, 2), replicas=(1, 2))
    stage.note(stage.has_log(3, T))
    await stage.observe()


async def random_leader_changes(
    stage: Stage, seed: int, steps: int = 8, restarts: float = 0
) -> None:
    """Leaders change at random. Each request is sent to some brokers only, so that logs diverge.
    `restarts`: how likely a broker is killed in each step."""
    random = Random(seed)
    stage.keeps_proposals = False
    await stage.update_metadata()
    await stage.lead(T, 1, 0, BROKERS)
    await stage.produce("first", 1, T, ALL, (1, 2))
    await stage.observe()
    leader, record = 1, 100
    for epoch in range(1, steps + 1):
        for broker in BROKERS:
            if broker != leader and random.random() < 0.4:
                await stage.stop_replica(broker, T, -1)
        for acks in random.choices((1, ALL), k=random.randint(0, 2)):
            record += 2
            await stage.produce(f"{epoch} {record}", leader, T, acks, (record, record + 1))
        # Otherwise it is not determined how many records are replicated before the next leader.
        await stage.observe()
        if random.random() < restarts:
            broker = random.choice(BROKERS)
            await stage.restart(broker)
            await stage.introduce(broker)
            await stage.observe()
        leader = random.choice(BROKERS)
        others = [one for one in BROKERS if one != leader]
        informed = [one for one in others if random.random() < 0.7]
        isr = [leader, *(one for one in informed if random.random() < 0.5)]
        await stage.lead(T, leader, epoch, isr, to=(leader, *informed))
        await stage.observe()
