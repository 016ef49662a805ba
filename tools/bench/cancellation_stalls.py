"""Compares refold with Kafka's controller: producers while the controller dies in a cancellation.

    python -m tools.bench.cancellation_stalls --runs 6

Each run moves partitions from two brokers to two others, of which one never catches up and the
other one leads every second partition. Then it cancels the moves, and kills the controller
(kill -9). `--kill` is the moment:

- state: as soon as ZooKeeper has the first state with a new leader epoch, which is step 2 of a
  rollback; reading it takes a few milliseconds
- random: up to 50 ms after the cancellation was sent

Measured is the longest time without an acknowledgement for a producer with acks=all, from the
cancellation until 3 s after the next controller has the role, and with refold until 3 s after the
rollback.

- Kafka: the cancellation is sent by its API (AlterPartitionReassignments). The controller is a
  broker without replicas of these topics, and another broker takes over.
- refold, restarted: the cancellation is /admin/reassign_cancel. A second refold with --take-over is
  started when the first one dies.
- refold, on standby: as before, but the second refold runs already, without --take-over. When the
  session of the first one expires, the second one and all brokers try to get the role. If a broker
  gets it, the second refold is restarted with --take-over at once.

ZooKeeper and the brokers are real, and one cluster serves both. The session timeout and the drawn
delays are the same for all. The runs of the three alternate.
"""

import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import anyio
import typer
from aiokafka import AIOKafkaProducer
from rich.table import Table

from controller.cli.output import print_table
from controller.core import znodes
from controller.core.znodes import CANCEL_CONTENT, REASSIGN_CANCEL, Entry, write_entries
from controller.fingerprint import code_version
from controller.operator.reassignment.kafka_admin import KafkaAdmin
from controller.operator.reassignment.kafka_client import KafkaClient
from tools.bench.contenders import SESSION_TIMEOUT_MS
from tools.bench.running import AsJson, report
from tools.lab import Lab, zookeeper
from tools.lab.cluster_view import ClusterReader, until
from tools.lab.refold import Refold
from tools.lab.traffic import Traffic

KAFKA: Final = "Kafka 3.9.1"
RESTARTED: Final = "refold, restarted"
STANDBY: Final = "refold, on standby"
BROKERS: Final = 5
DELAY_SECONDS_MAX: Final = 0.05
AFTER_SECONDS: Final = 3.0
REFOLD_IDS: Final = (1000, 1001)
_SET_UP_SECONDS: Final = 90.0
_PAUSE_SECONDS: Final = 0.02
_BROKER_CONFIG: Final = {
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": "2",
    "replica.fetch.max.bytes": "2000",
}
_RECORDS: Final = 10
_RECORD_BYTES: Final = 4_000
"""More data than one fetch returns: Kafka does not throttle a replica that has caught up once."""


class Kill(StrEnum):
    """When the controller is killed."""

    STATE = "state"
    RANDOM = "random"


@dataclass(frozen=True)
class StallConditions:
    """The common parameters of all runs. `seed`: of the drawn delays of `Kill.RANDOM`."""

    runs: int
    partitions: int
    session_ms: int
    kill: Kill
    seed: int = 1

    @property
    def text(self) -> str:
        """One line for the report."""
        when = "as soon as ZooKeeper has the first state of the rollback"
        if self.kill is Kill.RANDOM:
            limit = f"{DELAY_SECONDS_MAX * 1000:.0f} ms"
            when = f"0 to {limit} after the cancellation, seed {self.seed}"
        return (
            f"{self.runs} runs each, {self.partitions} partitions and producers in a run, "
            f"{BROKERS} brokers, session timeout {self.session_ms / 1000:g} s, kill -9 {when}"
        )


@dataclass(frozen=True)
class StallOutcome:
    """One run. `delay`: seconds from the cancellation to the kill. `stall`: the longest of all
    producers, in seconds. `takes_over`: seconds from the kill until the next controller,
    `successor`, has the role."""

    delay: float
    stall: float
    takes_over: float
    successor: int
    lost: int


@dataclass(frozen=True)
class MovedTopics:
    """The moves of one run: each topic has one partition."""

    topics: tuple[str, ...]
    originals: tuple[int, ...]
    target: tuple[int, ...]


class Stalls:
    """One cluster with the runs of both controllers."""

    def __init__(
        self, folder: Path, lab: Lab, view: ClusterReader, conditions: StallConditions
    ) -> None:
        self._folder = folder
        self._lab = lab
        self._view = view
        self._conditions = conditions
        self._serial = 0

    async def with_kafka(self, delay: float) -> StallOutcome:
        """A stock controller dies during a cancellation by its API."""
        controller = await self._controller_besides(None)
        others = [one.broker_id for one in self._lab.brokers if one.broker_id != controller]
        move = self._move("stock", others)
        broker = self._lab.brokers[controller - 1]
        addresses = ",".join(self._lab.brokers[one - 1].connect for one in others)
        async with AsyncExitStack() as stack:
            traffic = await self._set_up(stack, move)
            admin = KafkaAdmin(await stack.enter_async_context(KafkaClient(addresses, {})))
            await admin.alter({(one, 0): move.target for one in move.topics})
            await self._until_half_way(move)
            await self._lead_half_by_targets(move)
            assert await self._view.controller() == controller
            # The connection to the controller is open before the cancellation.
            await admin.reassignments()
            for one in traffic:
                one.measure_stalls()
            epochs = await self._leader_epochs(move)
            cancel = asyncio.create_task(admin.alter({(one, 0): None for one in move.topics}))
            delay = await self._until_kill(move, epochs, delay)
            broker.kill()
            died = time.monotonic()
            successor = await self._controller_besides(controller)
            seconds = time.monotonic() - died
            outcome = await self._outcome(delay, seconds, successor, traffic)
            cancel.cancel()
            await asyncio.gather(cancel, return_exceptions=True)
        await self._clean(move)
        await broker.start()
        return outcome

    async def with_restarted_refold(self, delay: float) -> StallOutcome:
        """refold dies, and another one is started at once."""
        return await self._with_refold(delay, stands_by=False)

    async def with_standby_refold(self, delay: float) -> StallOutcome:
        """refold dies, and another one waits for the role."""
        return await self._with_refold(delay, stands_by=True)

    async def _with_refold(self, delay: float, *, stands_by: bool) -> StallOutcome:
        first, second = REFOLD_IDS
        move = self._move("refold", [one.broker_id for one in self._lab.brokers])
        daemon, standby = self._refold(first, "--take-over"), self._refold(second)
        taking_over = self._refold(second, "--take-over")
        async with AsyncExitStack() as stack:
            for refold in (daemon, standby, taking_over):
                stack.push_async_callback(refold.kill_if_running)
            await daemon.start()
            await until(lambda: self._is_controller(first), _SET_UP_SECONDS, "refold")
            traffic = await self._set_up(stack, move)
            if stands_by:
                await standby.start()
            targets = {(one, 0): Entry(move.target) for one in move.topics}
            await self._view.create(znodes.REASSIGN_PARTITIONS, write_entries(targets).decode())
            await self._until_half_way(move)
            await self._lead_half_by_targets(move)
            for one in traffic:
                one.measure_stalls()
            epochs = await self._leader_epochs(move)
            cancel = self._view.create(REASSIGN_CANCEL, CANCEL_CONTENT.decode())
            cancelling = asyncio.create_task(cancel)
            delay = await self._until_kill(move, epochs, delay)
            daemon.kill()
            died = time.monotonic()
            if not stands_by:
                await taking_over.start()
            successor = await self._controller_besides(first)
            seconds = time.monotonic() - died
            if successor != second:
                await standby.kill_if_running()
                await taking_over.start()
            await cancelling
            await until(lambda: self._is_at_rest(move), _SET_UP_SECONDS, "the rollback ends")
            outcome = await self._outcome(delay, seconds, successor, traffic)
            await self._view.delete(REASSIGN_CANCEL)
            await (standby if successor == second and stands_by else taking_over).stop()
        await self._clean(move)
        return outcome

    # One run --------------------------------------------------------------------------------------

    async def _until_kill(self, move: MovedTopics, before: list[int], delay: float) -> float:
        """Wait from the cancellation until the moment of the kill. Returns the seconds."""
        began = time.monotonic()
        if self._conditions.kill is Kill.RANDOM:
            await asyncio.sleep(delay)
        else:
            async with asyncio.timeout(_SET_UP_SECONDS):
                while await self._leader_epochs(move) == before:
                    pass
        return time.monotonic() - began

    async def _leader_epochs(self, move: MovedTopics) -> list[int]:
        paths = [znodes.state_path(one, 0) for one in move.topics]
        states = await asyncio.gather(*map(self._view.content, paths))
        return [one["leader_epoch"] for one in states]

    def _move(self, prefix: str, brokers: Sequence[int]) -> MovedTopics:
        self._serial += 1
        topics = tuple(
            f"{prefix}-{self._serial}-{one}" for one in range(self._conditions.partitions)
        )
        return MovedTopics(topics, tuple(brokers[:2]), tuple(brokers[2:4]))

    def _refold(self, broker_id: int, *options: str) -> Refold:
        self._serial += 1
        folder = self._folder / f"refold-{self._serial}"
        folder.mkdir()
        settings = folder / "refold.properties"
        settings.write_text(
            f"zookeeper.session.timeout.ms={self._conditions.session_ms}\nauto.leader.rebalance.enable=false\n"
            "default.replication.factor=2\n"
        )
        connect = self._lab.zookeepers[0].connect
        options = ("--config", str(settings), "--log-format", "json", *options)
        return Refold(connect, broker_id, folder / "logs", *options)

    async def _set_up(self, stack: AsyncExitStack, move: MovedTopics) -> list[Traffic]:
        """Each topic has data and a producer; the last target is throttled."""
        for topic in move.topics:
            await self._view.create_topic(topic, {0: move.originals})
            config = {
                "min.insync.replicas": "2",
                "follower.replication.throttled.replicas": f"0:{move.target[-1]}",
            }
            await self._view.configure(f"topics/{topic}", config)
        await self._until_in_sync(move, move.originals)
        async with AIOKafkaProducer(bootstrap_servers=self._lab.bootstrap, acks="all") as producer:
            for topic in move.topics:
                for _ in range(_RECORDS):
                    await producer.send_and_wait(topic, b"-1".rjust(_RECORD_BYTES))
        return [
            await stack.enter_async_context(
                Traffic(self._lab.bootstrap, topic, pause_seconds=_PAUSE_SECONDS)
            )
            for topic in move.topics
        ]

    async def _outcome(
        self, delay: float, seconds: float, successor: int, traffic: list[Traffic]
    ) -> StallOutcome:
        await asyncio.sleep(AFTER_SECONDS)
        stall = max(one.longest_stall for one in traffic)
        lost = sum([len(await one.finish()) for one in traffic])
        return StallOutcome(delay, stall, seconds, successor, lost)

    async def _clean(self, move: MovedTopics) -> None:
        """Moves that are still in progress complete: their throttles are removed."""
        for topic in move.topics:
            await self._view.configure(f"topics/{topic}", {})

    # State of the cluster -------------------------------------------------------------------------

    async def _until_half_way(self, move: MovedTopics) -> None:
        await self._until_in_sync(move, (*move.originals, move.target[0]))

    async def _lead_half_by_targets(self, move: MovedTopics) -> None:
        """Every second partition: its leader leaves with the cancellation."""
        led = move.topics[::2]
        names = [{"topic": one, "partition": 0} for one in led]
        content = json.dumps({"version": 1, "partitions": names})
        await self._view.create(znodes.PREFERRED_ELECTION, content)

        async def reached() -> bool:
            states = [(await self._view.states(one)).get(0) for one in led]
            return all(one is not None and one["leader"] == move.target[0] for one in states)

        await until(reached, _SET_UP_SECONDS, f"{move.target[0]} leads {led}")

    async def _until_in_sync(self, move: MovedTopics, isr: Sequence[int]) -> None:
        async def reached() -> bool:
            states = [(await self._view.states(one)).get(0) for one in move.topics]
            return all(one is not None and sorted(one["isr"]) == sorted(isr) for one in states)

        await until(reached, _SET_UP_SECONDS, f"the ISR of {move.topics} is {isr}")

    async def _controller_besides(self, killed: int | None) -> int:
        found: list[int] = []

        async def exists() -> bool:
            one = await self._view.controller()
            if one is not None and one != killed:
                found.append(one)
            return bool(found)

        await until(exists, _SET_UP_SECONDS, "the next controller")
        return found[0]

    async def _is_controller(self, broker_id: int) -> bool:
        return await self._view.controller() == broker_id

    async def _is_at_rest(self, move: MovedTopics) -> bool:
        contents = [await self._view.topic(one) or {} for one in move.topics]
        return all(
            one["partitions"]["0"] == list(move.originals) and not one.get("adding_replicas")
            for one in contents
        )


async def compare(folder: Path, conditions: StallConditions) -> dict[str, list[StallOutcome]]:
    """The runs of each contender, with the same delays."""
    draws = random.Random(conditions.seed)
    config = {**_BROKER_CONFIG, "zookeeper.session.timeout.ms": str(conditions.session_ms)}
    async with Lab(folder / "lab", report=report) as lab:
        await lab.start_zookeeper()
        await lab.start_brokers(BROKERS, config=config)
        async with ClusterReader(lab.zookeepers[0].connect) as view:
            for broker in lab.brokers:
                rate = {"follower.replication.throttled.rate": "1"}
                await view.configure(f"brokers/{broker.broker_id}", rate)
            stalls = Stalls(folder, lab, view, conditions)
            contenders = {
                KAFKA: stalls.with_kafka,
                RESTARTED: stalls.with_restarted_refold,
                STANDBY: stalls.with_standby_refold,
            }
            found: dict[str, list[StallOutcome]] = {title: [] for title in contenders}
            for number in range(1, conditions.runs + 1):
                delay = draws.uniform(0, DELAY_SECONDS_MAX)
                for title, measure in contenders.items():
                    found[title].append(await measure(delay))
                    report(f"{title}, run {number} of {conditions.runs}: {found[title][-1]}")
    return found


def show_stalls(found: dict[str, list[StallOutcome]], lines: Sequence[str]) -> None:
    """Print one row for each contender, and then `lines`."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    columns = ("median s", "max s", "ratio of medians", "of maxima", "takes over after s")
    for name in ("controller", *columns, "by refold", "lost"):
        table.add_column(name, justify="left" if name == "controller" else "right")
    kafka = [one.stall for one in found[KAFKA]]
    for title, outcomes in found.items():
        stalls = [one.stall for one in outcomes]
        table.add_row(
            title,
            f"{statistics.median(stalls):.2f}",
            f"{max(stalls):.2f}",
            f"{statistics.median(stalls) / statistics.median(kafka):.2f}",
            f"{max(stalls) / max(kafka):.2f}",
            f"{statistics.median(one.takes_over for one in outcomes):.2f}",
            f"{sum(one.successor in REFOLD_IDS for one in outcomes)} of {len(outcomes)}",
            str(sum(one.lost for one in outcomes)),
        )
    print_table(table)
    for line in lines:
        typer.echo(f"- {line}")


def main(
    runs: Annotated[int, typer.Option(min=1, help="Runs of each controller.")] = 6,
    partitions: Annotated[int, typer.Option(min=1, help="Moves and producers of a run.")] = 4,
    session_timeout_ms: Annotated[
        int, typer.Option(min=2000, help="zookeeper.session.timeout.ms of all controllers.")
    ] = SESSION_TIMEOUT_MS,
    kill: Annotated[Kill, typer.Option(help="When the controller is killed.")] = Kill.STATE,
    seed: Annotated[int, typer.Option(help="Of the draws of the delays.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Print how long producers with acks=all wait if the controller dies in a cancellation."""
    conditions = StallConditions(runs, partitions, session_timeout_ms, kill, seed)
    with tempfile.TemporaryDirectory(prefix="refold-bench-") as folder:
        found = anyio.run(compare, Path(folder), conditions)
    one, five, _ = os.getloadavg()
    lines = [
        conditions.text,
        f"ZooKeeper {zookeeper.LATEST}, {os.cpu_count()} cores, "
        f"load average {one:.1f} (1 min) and {five:.1f} (5 min) at the end",
        f"refold {code_version()}",
    ]
    if as_json:
        content = {"conditions": lines, "results": found}
        typer.echo(json.dumps(content, default=vars, indent=2))
    else:
        show_stalls(found, lines)


if __name__ == "__main__":
    typer.run(main)
