"""A consumer reads no record that is not on all in-sync replicas.

Three records are on all three brokers, a fourth one, at offset 3, only on the leader: it is not
committed, and it is lost with the leader.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiokafka import AIOKafkaProducer
from rich.table import Table

from tools.demo.acks.clients import brokers, create, producing, until_end, until_led, write
from tools.demo.stage import Stage
from tools.lab.broker_view import committed_offset, log_end_offset
from tools.lab.topic_reader import TopicReader, read_all

TOPIC = "committed"
FIRST = ("record 0", "record 1", "record 2")
UNCOMMITTED = "record 3"
LATER = "record 4"
LEADER, SUCCESSOR, THIRD = 1, 2, 3

FETCH_SECONDS = 0.8
"""More than replica.fetch.wait.max.ms (500): a fetch request that a paused broker has sent before
is answered, without records, before a record is written."""
READ_SECONDS = 0.5

Read = list[tuple[int, str]]
"""Offsets with their records."""


@dataclass
class CommittedOffsetResult:
    """The observations of the demonstration. `ends`: the log end offset of each broker, before the
    leader died; `committed`: the last offset that consumers may read; `log`: the records at the
    end, by offset."""

    acknowledged_at: int = -1
    committed: int = -1
    ends: dict[int, int] = field(default_factory=dict)
    read_before: Read = field(default_factory=list)
    later_at: int = -1
    read: Read = field(default_factory=list)
    log: Read = field(default_factory=list)
    ends_after: dict[int, int] = field(default_factory=dict)
    committed_after: int = -1

    def table(self) -> Table:
        """The replicas before and after."""
        table = Table("replica", "log end offset", "after the leader's death")
        for broker, end in sorted(self.ends.items()):
            name = f"broker {broker}" + (", leader" if broker == LEADER else "")
            table.add_row(name, str(end), str(self.ends_after[broker]))
        offset = self.acknowledged_at
        table.add_row(f"record at offset {offset}", UNCOMMITTED, dict(self.log).get(offset, "none"))
        table.add_row("committed offset", str(self.committed), str(self.committed_after))
        table.add_row(
            "consumer read up to", str(_last_offset(self.read_before)), str(_last_offset(self.read))
        )
        return table

    def faults(self) -> Iterator[str]:
        """The expectations that the result does not meet, one sentence each."""
        first = list(enumerate(FIRST))
        uncommitted = len(FIRST)
        if self.acknowledged_at != uncommitted:
            yield f"the fourth record was written at offset {self.acknowledged_at}"
        if self.ends != {LEADER: uncommitted + 1, SUCCESSOR: uncommitted, THIRD: uncommitted}:
            yield f"offset {uncommitted} is not on the leader alone: log end offsets {self.ends}"
        if self.committed != uncommitted - 1:
            yield f"the committed offset is {self.committed}"
        if self.read_before != first:
            yield f"the consumer did not stop at the committed offset: it read {self.read_before}"
        if self.later_at != uncommitted:
            yield f"the new leader wrote the next record at offset {self.later_at}"
        expected = [*first, (uncommitted, LATER)]
        if self.read != expected:
            yield f"the consumer did not continue at offset {uncommitted}: it read {self.read}"
        if self.log != expected:
            yield f"the log is not what the consumer read: {self.log}"
        if self.committed_after != uncommitted:
            yield f"the committed offset at the end is {self.committed_after}"
        if set(self.ends_after.values()) != {len(expected)}:
            yield f"the replicas differ at the end: log end offsets {self.ends_after}"


def _last_offset(read: Read) -> int:
    return read[-1][0] if read else -1


async def play(stage: Stage) -> CommittedOffsetResult:
    """Kill the leader while both followers lag. Raises TimeoutError, LabError, KafkaError."""
    result = CommittedOffsetResult()
    replicas = brokers(stage, LEADER, SUCCESSOR, THIRD)
    leader = replicas[0]
    await create(stage, {TOPIC: (LEADER, SUCCESSOR, THIRD)}, **{"min.insync.replicas": "2"})
    async with TopicReader(stage.lab.bootstrap, [TOPIC]) as reader:
        async with producing(stage.lab.bootstrap, 1) as producer:
            await write(producer, TOPIC, FIRST)
            await _until_read(stage, reader, len(FIRST))
            stage.say("offsets 0 to 2 are on all three brokers; the consumer has read them")
            await _write_on_leader_alone(stage, producer, result, reader)
        leader.kill()
        for follower in replicas[1:]:
            follower.resume()
            result.ends[follower.broker_id] = await log_end_offset(follower, TOPIC)
        stage.say(f"{leader.name} killed with -9, brokers {SUCCESSOR} and {THIRD} resumed")
        await until_led(stage, TOPIC, SUCCESSOR)
        async with producing(stage.lab.bootstrap, "all") as producer:
            (result.later_at,) = await write(producer, TOPIC, [LATER])
        await _until_read(stage, reader, len(FIRST) + 1)
        stage.say(f"broker {SUCCESSOR} leads; it wrote the next record at {result.later_at}")
        await leader.start()
        await until_led(stage, TOPIC, SUCCESSOR, isr=(LEADER, SUCCESSOR, THIRD))
        result.read = _records_read_by(reader)
    for broker in replicas:
        await until_end(stage, broker, TOPIC, len(FIRST) + 1)
        result.ends_after[broker.broker_id] = await log_end_offset(broker, TOPIC)
    result.committed_after = await committed_offset(replicas[1], TOPIC) - 1
    found = await read_all(stage.lab.bootstrap, TOPIC)
    result.log = [(place.offset, value.decode()) for place, value in found.items()]
    return result


async def _write_on_leader_alone(
    stage: Stage, producer: AIOKafkaProducer, result: CommittedOffsetResult, reader: TopicReader
) -> None:
    """Pause the followers and write a record with acks=1."""
    leader, *followers = brokers(stage, LEADER, SUCCESSOR, THIRD)
    for follower in followers:
        follower.pause()
    await asyncio.sleep(FETCH_SECONDS)
    (result.acknowledged_at,) = await write(producer, TOPIC, [UNCOMMITTED])
    await asyncio.sleep(READ_SECONDS)
    result.ends[LEADER] = await log_end_offset(leader, TOPIC)
    result.committed = await committed_offset(leader, TOPIC) - 1
    result.read_before = _records_read_by(reader)
    stage.say(
        f"brokers {SUCCESSOR} and {THIRD} paused: the leader alone has offset "
        f"{result.acknowledged_at}, acknowledged with acks=1"
    )


async def _until_read(stage: Stage, reader: TopicReader, count: int) -> None:
    async def has_read() -> bool:
        return len(reader.read) >= count

    await stage.until(has_read, f"the consumer reads {count} records")


def _records_read_by(reader: TopicReader) -> Read:
    return [(place.offset, value.decode()) for place, value in reader.read]
