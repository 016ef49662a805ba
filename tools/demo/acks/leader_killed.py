"""Producers with each level of acks while the leader is killed.

Each level has two topics with the same leader. Before the leader dies, broker 3 is paused: it stays
in the ISR, and its log falls behind. Broker 2, which has the records, becomes the leader of one
topic, broker 3 that of the other.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from rich.table import Table

from tools.demo.acks.clients import brokers, create, until_end, until_led
from tools.demo.stage import Stage
from tools.lab.broker_view import log_end_offset
from tools.lab.topic_reader import RecordPosition, TopicReader, read_all
from tools.lab.traffic import Acks, Traffic

LEADER, CAUGHT_UP, LAGGING = 1, 2, 3
MORE = 30
"""At least this many records of each producer must follow."""
PAUSE_SECONDS = 0.02


class Level(NamedTuple):
    """How a producer is configured."""

    acks: Acks
    idempotent: bool = False

    def __str__(self) -> str:
        return f"{self.acks}, idempotent" if self.idempotent else str(self.acks)


LEVELS = (Level(0), Level(1), Level("all"), Level("all", idempotent=True))
SUCCESSORS = (CAUGHT_UP, LAGGING)


class ProducerRow(NamedTuple):
    """The outcome for the records of one producer. `acknowledged` is None with acks=0."""

    level: Level
    successor: int
    sent: int
    acknowledged: int | None
    refused: int
    lost: int
    duplicated: int


class LeaderKilledResult(NamedTuple):
    """All producers, and the consumer: the number of records that it read, and those whose offset
    has another record in the log at the end, or that it read twice."""

    rows: list[ProducerRow]
    read: int
    unread: int
    inconsistent: list[RecordPosition]

    def table(self) -> Table:
        """One row for each producer."""
        table = Table("acks", "new leader")
        for column in ("sent", "acknowledged", "lost", "duplicated"):
            table.add_column(column, justify="right")
        for row in self.rows:
            leader = f"broker {row.successor}" + (", lags" if row.successor == LAGGING else "")
            acknowledged = "never" if row.acknowledged is None else str(row.acknowledged)
            counts = (row.sent, acknowledged, row.lost, row.duplicated)
            table.add_row(str(row.level), leader, *(str(one) for one in counts))
        return table

    def row(self, level: Level, successor: int) -> ProducerRow:
        """The row of a producer."""
        return next(one for one in self.rows if one[:2] == (level, successor))

    def faults(self) -> Iterator[str]:
        """The expectations that the result does not meet, one sentence each."""
        for row in self.rows:
            name = f"acks={row.level}, broker {row.successor} elected"
            if row.level.acks == "all" and row.lost:
                yield f"{name}: {row.lost} acknowledged records are lost"
            if row.level.idempotent and row.duplicated:
                yield f"{name}: {row.duplicated} records are duplicated"
            if row.level.acks != 0 and not row.acknowledged:
                yield f"{name}: no record was acknowledged"
            if row.refused:
                yield f"{name}: the producer gave up {row.refused} records"
        for acks in (0, 1):
            if not self.row(Level(acks), LAGGING).lost:
                yield f"acks={acks}, broker {LAGGING} elected: no record is lost"
        if not self.row(Level("all"), CAUGHT_UP).duplicated:
            yield f"acks=all, broker {CAUGHT_UP} elected: no record is duplicated"
        if self.inconsistent:
            yield f"the consumer read records that are not in the log: {self.inconsistent[:5]}"
        if self.unread or not self.read:
            yield f"the consumer read {self.read} records and missed {self.unread}"


def topic(level: Level, successor: int) -> str:
    """The topic of a producer."""
    kind = "-idempotent" if level.idempotent else ""
    return f"acks-{level.acks}{kind}-{successor}"


async def play(stage: Stage) -> LeaderKilledResult:
    """Kill the leader of all topics. Raises TimeoutError, LabError."""
    topics = {
        topic(level, successor): (LEADER, successor, CAUGHT_UP + LAGGING - successor)
        for level in LEVELS
        for successor in SUCCESSORS
    }
    await create(stage, topics, **{"min.insync.replicas": "2"})
    async with AsyncExitStack() as exits:
        producers = {
            (level, successor): await exits.enter_async_context(
                Traffic(
                    stage.lab.bootstrap,
                    topic(level, successor),
                    acks=level.acks,
                    idempotent=level.idempotent,
                    pause_seconds=PAUSE_SECONDS,
                )
            )
            for level in LEVELS
            for successor in SUCCESSORS
        }
        reader = await exits.enter_async_context(TopicReader(stage.lab.bootstrap, list(topics)))
        await _until_more(stage, list(producers.values()))
        stage.say(f"{len(producers)} producers write; broker {LEADER} leads all topics")
        await _kill_leader(stage, producers)
        for name, replicas in topics.items():
            await until_led(stage, name, replicas[1])
        stage.say(
            f"brokers {CAUGHT_UP} and {LAGGING} lead four topics each; the producers continue"
        )
        await _until_more(stage, list(producers.values()))
        await asyncio.gather(*(one.stop() for one in producers.values()))
        (leader,) = brokers(stage, LEADER)
        await leader.start()
        for name, replicas in topics.items():
            await until_led(stage, name, replicas[1], isr=replicas)
        stage.say(f"{leader.name} is back and in sync")
        rows = [
            await _count(level, successor, one) for (level, successor), one in producers.items()
        ]
        return await _compare(stage, rows, reader, list(topics))


async def _until_more(stage: Stage, producers: Sequence[Traffic]) -> None:
    before = [one.acknowledged for one in producers]

    async def more() -> bool:
        return all(
            one.acknowledged >= count + MORE for one, count in zip(producers, before, strict=True)
        )

    await stage.until(more, f"every producer writes {MORE} more records")


async def _kill_leader(stage: Stage, producers: dict[tuple[Level, int], Traffic]) -> None:
    leader, caught_up, lagging = brokers(stage, LEADER, CAUGHT_UP, LAGGING)
    lagging.pause()
    await _until_more(stage, [one for key, one in producers.items() if key[0].acks != "all"])
    # Records with acks=all wait for the paused broker; the other follower has them.
    for level, successor in producers:
        if level.acks == "all":
            name = topic(level, successor)
            await until_end(stage, caught_up, name, await log_end_offset(leader, name))
    leader.kill()
    lagging.resume()
    stage.say(
        f"{lagging.name} paused, {MORE} records later {leader.name} killed with -9, "
        f"{lagging.name} resumed"
    )


async def _count(level: Level, successor: int, producer: Traffic) -> ProducerRow:
    lost = len(await producer.finish())
    acknowledged = producer.acknowledged if level.acks != 0 else None
    return ProducerRow(
        level,
        successor,
        producer.sent,
        acknowledged,
        producer.refused,
        lost,
        producer.duplicated,
    )


async def _compare(
    stage: Stage, rows: list[ProducerRow], reader: TopicReader, topics: list[str]
) -> LeaderKilledResult:
    """Compare what the consumer read with the logs at the end."""
    log = await read_all(stage.lab.bootstrap, *topics)

    async def has_read_all() -> bool:
        return log.keys() <= {place for place, _ in reader.read}

    await stage.until(has_read_all, "the consumer reads all records")
    read = dict(reader.read)
    twice = {place for place in read if [one for one, _ in reader.read].count(place) > 1}
    other = {place for place, value in read.items() if log.get(place) != value}
    return LeaderKilledResult(
        rows, len(reader.read), len(log.keys() - read.keys()), sorted(twice | other)
    )
