"""Becoming leader, becoming follower, and the end of a leadership."""

from typing import Final

from controller.core.commands import Reason
from controller.core.operations import NO_NODE, OK, CreateSequential, WriteOperation
from controller.core.outcomes import Wait, suspend
from controller.core.values import NO_LEADER, format_brokers
from controller.core.zookeeper_io import fetch_stats, write
from controller.kafka_0_8 import rules, znodes
from controller.kafka_0_8.broker import FOLLOW, ISR_TIMER, Broker, timer_of
from controller.kafka_0_8.commands import TruncateLog
from controller.kafka_0_8.events import LogOpened, LogTruncated
from controller.kafka_0_8.procedures.reading import read_znodes
from controller.kafka_0_8.procedures.reassignment import read_reassignment
from controller.kafka_0_8.records import commit, refuse_queued, send_fetch
from controller.kafka_0_8.state import Partition
from controller.kafka_0_8.znodes import LeaderZnode, StateChange

LEADER: Final = "leader"
"""The code of the notice that a leadership begins."""


class LogOutcome:
    """The awaited outcome of a command for a log."""

    def __init__(self) -> None:
        self.leo = 0
        self.hw = 0

    def add(self, event: LogOpened | LogTruncated) -> bool:
        """Store the outcome; it is complete."""
        self.leo = event.leo
        self.hw = event.hw if isinstance(event, LogOpened) else 0
        return True


def step_down(broker: Broker, partition: Partition, why: str, rule: str) -> None:
    """End the leadership of this broker (L-05, L-06)."""
    topic, number = partition.name
    text = f"no longer the leader (epoch {partition.epoch}): {why}"
    broker.notice("warning", "stepped_down", f"{topic}-{number}", text, rule)
    partition.forget_leader()
    refuse_queued(broker, partition)


async def become_leader(
    broker: Broker,
    partition: Partition,
    epoch: int,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    assigned_at: int,
) -> None:
    """This broker has created the leader znode (L-01 to L-04).

    `assigned_at`: the version of the replicas znode from which on fetches count (D-07).
    """
    topic, number = partition.name
    partition.forget_leader()
    partition.leader, partition.epoch = broker.id, epoch
    partition.assign(replicas, broker.now_ms, assigned_at)
    partition.isr = isr
    partition.start_leo = partition.local.leo
    sets = f"ISR [{format_brokers(isr)}], CUR [{format_brokers(partition.cur)}]"
    text = f"leader with epoch {epoch}, {sets}"
    broker.notice("info", LEADER, f"{topic}-{number}", text, rules.WRITE_LEADERSHIP)
    # With no other member in the ISR, the records that this replica has are committed.
    commit(broker, partition)
    interval_ms = max(1, broker.configuration.keep_in_sync_time_ms // 2)
    broker.start_periodic(ISR_TIMER, interval_ms, rules.KEEP_IN_SYNC)
    await _start_followers(broker, partition)
    await read_reassignment(broker, partition)


async def _start_followers(broker: Broker, partition: Partition) -> None:
    """Send start-replica to each assigned replica whose broker is registered (L-04). Reports
    brokers that were never added."""
    others = [one.broker_id for one in partition.ar.values() if not one.is_local]
    queues = list(map(znodes.state_path, others))
    paths = [*map(znodes.broker_path, others), *queues]
    errors = (await fetch_stats(broker, paths, rules.START_FOLLOWERS)).errors
    requests: list[WriteOperation] = []
    change = znodes.write_state_change(StateChange("start-replica", *partition.name))
    for one, path, registration, queue in zip(
        others, queues, errors[: len(others)], errors[len(others) :], strict=True
    ):
        if queue == NO_NODE:
            topic, number = partition.name
            text = (
                f"replica {one} of {topic}-{number} is on a broker that does not exist: add it "
                "with add-brokers, or correct the replicas"
            )
            broker.notice("error", "unknown_broker", path, text, rules.START_FOLLOWERS)
        elif registration == OK:
            requests.append(CreateSequential(znodes.request_prefix(one), change))
    if requests:
        await write(broker, requests, Reason(rules.START_FOLLOWERS))


async def become_follower(broker: Broker, partition: Partition, leader: LeaderZnode) -> None:
    """Follow a leader: truncate the log and fetch from its end (F-01)."""
    if (partition.leader, partition.epoch) == leader and partition.address:
        return
    if partition.is_leader or partition.commit_queue:
        step_down(broker, partition, f"broker {leader.broker} is the leader", rules.STEP_DOWN)
    partition.forget_leader()
    address = await _address_of(broker, partition, leader.broker)
    if not address:
        timer = timer_of(FOLLOW, partition.name)
        broker.start_timer(timer, broker.configuration.retry_ms, rules.LEADER_ADDRESS)
        return
    await truncate(broker, partition, partition.local.hw, rules.FOLLOW)
    partition.leader, partition.epoch = leader
    partition.address = address
    partition.leader_hw = 0
    send_fetch(broker, partition)


async def _address_of(broker: Broker, partition: Partition, leader: int) -> str:
    """The address of a leader; "" if it is not registered or its registration is unreadable."""
    path = znodes.broker_path(leader)
    found = await read_znodes(broker, [path], rules.LEADER_ADDRESS)
    if found.errors[0] == NO_NODE:
        broker.forget(path)
    if found.errors[0] != OK:
        return ""
    return broker.read(znodes.read_address, path, found.data[0]) or ""


async def truncate(broker: Broker, partition: Partition, offset: int, rule: str) -> None:
    """Remove the records of the local log from `offset` on."""
    id = broker.issue(TruncateLog(*partition.name, offset), Reason(rule))
    truncated: LogOutcome = await suspend(Wait(id, LogOutcome()))
    partition.local.leo = truncated.leo
    partition.local.hw = min(partition.local.hw, truncated.leo)


async def cut_diverged_log(broker: Broker, partition: Partition, offset: int) -> None:
    """The leader has fewer records than this follower has committed (F-05)."""
    if partition.leader == NO_LEADER or partition.is_leader or partition.local.leo <= offset:
        return
    topic, number = partition.name
    text = (
        f"the log ends at offset {partition.local.leo}, that of leader {partition.leader} at "
        f"{offset}: records {offset} to {partition.local.leo - 1} are removed"
    )
    broker.notice("error", "records_lost", f"{topic}-{number}", text, rules.DIVERGED)
    await truncate(broker, partition, offset, rules.DIVERGED)
    send_fetch(broker, partition)
