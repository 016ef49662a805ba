"""The leader is the only in-sync replica when it dies, without and with unclean leader election.

Broker 3 is stopped, broker 2 continues alone: with min.insync.replicas=1 it acknowledges records
with acks=all. Then broker 2 dies, and broker 3 comes back.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from rich.table import Table

from tools.demo.acks.clients import PARTITION, brokers, create, producing, until_led, write
from tools.demo.stage import Stage
from tools.lab.topic_reader import read_all

CLEAN, UNCLEAN = "unclean-off", "unclean-on"
ONLY, OUTSIDE = 2, 3
REPLICAS = (ONLY, OUTSIDE)
SHARED = 5
"""Records that both replicas have."""
ALONE = 10
"""Records that only the in-sync replica has."""
LATER = 4
WRITE_SECONDS = 2.0
READ_SECONDS = 10.0

Log = dict[int, str]
"""Records by offset."""


@dataclass
class TopicOutcome:
    """The observations of a topic. `leader`: after the return of the replica that was not in sync;
    `refused`: why a record could not be written then; `logs`: before the death of the leader and at
    the end; `out_of_range`: the error of a consumer that continued at its position."""

    topic: str
    is_unclean: bool
    acknowledged: set[str] = field(default_factory=set)
    leader: int = -1
    refused: str = ""
    out_of_range: str = ""
    unavailable_seconds: float = 0.0
    before: Log = field(default_factory=dict)
    after: Log = field(default_factory=dict)

    @property
    def lost(self) -> set[str]:
        """Acknowledged records that are not in the log at the end."""
        return self.acknowledged - set(self.after.values())

    @property
    def differing(self) -> list[int]:
        """The offsets that had another record before the leader died."""
        return [one for one, value in self.before.items() if self.after.get(one) != value]


@dataclass
class OnlyReplicaResult:
    """Both topics."""

    outcomes: dict[str, TopicOutcome]

    def table(self) -> Table:
        """One row for each topic."""
        table = Table("topic", "new leader", "unavailable", "acknowledged", "lost", "differ")
        for one in self.outcomes.values():
            table.add_row(
                one.topic,
                f"broker {one.leader}" if one.leader >= 0 else "none",
                f"{one.unavailable_seconds:.0f} s",
                str(len(one.acknowledged)),
                str(len(one.lost)),
                str(len(one.differing)),
            )
        return table

    def offsets(self) -> Table:
        """The log of the topic with an unclean election, before and after."""
        one = self.outcomes[UNCLEAN]
        table = Table("offset", f"broker {ONLY} had", f"now, from broker {OUTSIDE}")
        for offset in sorted(one.before.keys() | one.after.keys()):
            if offset >= SHARED - 1:
                table.add_row(str(offset), one.before.get(offset, ""), one.after.get(offset, ""))
        return table

    def faults(self) -> Iterator[str]:
        """The expectations that the result does not meet, one sentence each."""
        clean, unclean = self.outcomes[CLEAN], self.outcomes[UNCLEAN]
        if clean.leader != -1 or not clean.refused:
            yield f"{CLEAN}: broker {clean.leader} was elected without an unclean election"
        if clean.lost or clean.differing:
            yield f"{CLEAN}: {len(clean.lost)} records are lost, offsets {clean.differing} differ"
        if unclean.leader != OUTSIDE or unclean.refused:
            yield f"{UNCLEAN}: the topic is not available: {unclean.refused}"
        if len(unclean.lost) != ALONE:
            yield f"{UNCLEAN}: {len(unclean.lost)} acknowledged records are lost, not {ALONE}"
        alone = list(range(SHARED, SHARED + ALONE))
        if unclean.differing != alone:
            yield f"{UNCLEAN}: offsets {unclean.differing} differ, not {alone}"
        if "OffsetOutOfRange" not in unclean.out_of_range:
            yield f"{UNCLEAN}: a consumer at the old end got {unclean.out_of_range or 'a record'}"


async def play(stage: Stage) -> OnlyReplicaResult:
    """Kill the only in-sync replica of both topics. Raises TimeoutError, LabError, KafkaError."""
    outcomes = {name: TopicOutcome(name, name == UNCLEAN) for name in (CLEAN, UNCLEAN)}
    only, outside = brokers(stage, ONLY, OUTSIDE)
    for one in outcomes.values():
        config = {
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": str(one.is_unclean).lower(),
        }
        await create(stage, {one.topic: REPLICAS}, **config)
        await _write(stage, one, "shared", SHARED)
    await outside.stop()
    for one in outcomes.values():
        await until_led(stage, one.topic, ONLY, isr=[ONLY])
        await _write(stage, one, "alone", ALONE)
        one.before = await _log(stage, one)
    stage.say(
        f"{outside.name} stopped; broker {ONLY}, the only in-sync replica, acknowledged "
        f"{ALONE} records with acks=all in each topic"
    )
    only.kill()
    died = time.monotonic()
    stage.say(f"{only.name} killed with -9")
    await outside.start()
    stage.say(f"{outside.name} is back")
    await asyncio.gather(
        _see_unavailable(stage, outcomes[CLEAN]), _see_elected(stage, outcomes[UNCLEAN], died)
    )
    await only.start()
    await until_led(stage, CLEAN, ONLY, isr=REPLICAS)
    await _write(stage, outcomes[CLEAN], "later", LATER)
    outcomes[CLEAN].unavailable_seconds = time.monotonic() - died
    await until_led(stage, UNCLEAN, OUTSIDE, isr=REPLICAS)
    stage.say(f"{only.name} is back; it leads {CLEAN} and follows in {UNCLEAN}")
    for one in outcomes.values():
        one.after = await _log(stage, one)
    return OnlyReplicaResult(outcomes)


async def _write(stage: Stage, one: TopicOutcome, kind: str, count: int) -> None:
    """Write records with acks=all."""
    values = [f"{kind} {number}" for number in range(count)]
    async with producing(stage.lab.bootstrap, "all") as producer:
        await write(producer, one.topic, values)
    one.acknowledged |= set(values)


async def _log(stage: Stage, one: TopicOutcome) -> Log:
    found = await read_all(stage.lab.bootstrap, one.topic)
    return {place.offset: value.decode() for place, value in found.items()}


async def _see_unavailable(stage: Stage, one: TopicOutcome) -> None:
    await until_led(stage, one.topic, -1)
    try:
        async with producing(stage.lab.bootstrap, "all", seconds=WRITE_SECONDS) as producer:
            await write(producer, one.topic, ["refused"])
    except KafkaError as error:
        one.refused = type(error).__name__
    state = (await stage.view.states(one.topic))[PARTITION]
    one.leader = state["leader"]
    stage.say(f"{one.topic}: leader {one.leader}, ISR {state['isr']}: not available")


async def _see_elected(stage: Stage, one: TopicOutcome, died: float) -> None:
    await until_led(stage, one.topic, OUTSIDE)
    one.leader = (await stage.view.states(one.topic))[PARTITION]["leader"]
    position = len(one.before)
    one.out_of_range = await _continue_at(stage, one, position)
    await _write(stage, one, "later", LATER)
    one.unavailable_seconds = time.monotonic() - died
    stage.say(
        f"{one.topic}: broker {one.leader} was elected; a consumer at offset {position} got "
        f"{one.out_of_range or 'a record'}"
    )


async def _continue_at(stage: Stage, one: TopicOutcome, position: int) -> str:
    """The error that a consumer gets which had read everything before the leader died; empty if it
    gets a record."""
    partition = TopicPartition(one.topic, PARTITION)
    consumer = AIOKafkaConsumer(bootstrap_servers=stage.lab.bootstrap, auto_offset_reset="none")
    await consumer.start()
    try:
        consumer.assign([partition])
        consumer.seek(partition, position)
        async with asyncio.timeout(READ_SECONDS):
            await consumer.getone(partition)
    except (KafkaError, TimeoutError) as error:
        return type(error).__name__
    finally:
        await consumer.stop()
    return ""
