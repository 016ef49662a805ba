"""One run of a procedure that is cut short at one crash point, up to its end by the successor.

A run has one topic for each situation of the procedure, with and without unclean elections: one
crash fills the cells of both columns of the table.
"""

import asyncio
import json
import shutil
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaProducer

from controller.core import znodes
from controller.core.znodes import REASSIGN_CANCEL, REPLICA_DELETIONS
from tests.controller.daemon.lab_cluster import timed
from tests.lab.interrupted.crash_procedures import (
    FIRST_TARGET,
    RECORD_BYTES,
    RECORDS,
    THROTTLED,
    Procedure,
    Successor,
    Topic,
)
from tests.lab.interrupted.crash_refusals import REFUSED, Refusals, accepted, refusals_of
from tests.lab.interrupted.failpoint import CommandLog, Counted
from tests.lab.interrupted.moving import Moving
from tests.lab.interrupted.partition_watch import PartitionWatch
from tools.lab.cluster_view import until
from tools.lab.ports import free_port
from tools.lab.refold import Refold
from tools.lab.traffic import Traffic

SUCCESSOR_ID = 1001
"""Not the id of the killed daemon, whose session would have to end first."""
MIN_INSYNC = 2
PAUSE_SECONDS = 0.05
STOCK_SESSION_MS = 2000
"""The session of a daemon with a stock successor; a short session shortens the test."""
QUIET_SECONDS = 1.0
"""A procedure has ended when its daemon has carried out no command for this time."""
SET_UP_SECONDS = 30.0
REACH_SECONDS = 10.0
END_SECONDS = 15.0
STOCK_SECONDS = 10.0
SECOND_READING_SECONDS = 5.0
STALL_SECONDS_MAX = 8.0
"""How much longer than without a controller a producer may wait. On a quiet machine it is 3 s."""

_FOLLOWER_RATE = "follower.replication.throttled.rate"
_FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
_MIN_INSYNC = "min.insync.replicas"
_READS_CONFIG = "Processing override for entityPath:"
"""A broker's line in its log when it has read a changed configuration."""
_UNCLEAN = "unclean.leader.election.enable"
_ENDS = ("reassignment_ended", "reassignment_not_cancelled")
_NEVER_REBALANCED = {"auto.leader.rebalance.enable": "false"}


@dataclass
class Outcome:
    """The result for the partition of one topic."""

    topic: Topic
    end: str = ""
    stall: float = 0.0
    lowest_isr: int = 0
    violations: list[str] = field(default_factory=list)


@dataclass
class Cell:
    """One crash point with one successor."""

    procedure: Procedure
    successor: Successor
    point: int
    counted: list[Counted]
    """All commands up to the crash, including the one that was not carried out."""
    is_last: bool
    """Whether the daemon died after its last command."""
    successor_seconds: float
    """From the death of the daemon until the next controller has the role."""
    outcomes: list[Outcome]
    longest_pause: float
    """Between two polls of the invariants."""

    @property
    def name(self) -> str:
        """The crash point's name."""
        if self.is_last:
            return "after the last"
        return f"before {self.counted[-1].name}"


async def throttle_brokers(moving: Moving) -> None:
    """Limits what these brokers fetch of topics that name them."""
    for broker in THROTTLED:
        await moving.view.configure(f"brokers/{broker}", {_FOLLOWER_RATE: "1"})


def _reports_end(daemon: Refold, topic: Topic) -> bool:
    """Whether refold reports that another controller completed the reassignment."""
    return any(
        one.get("code") in _ENDS and f"{topic.name}-0" in one.get("subject", "")
        for one in daemon.messages()
    )


class Run:
    """The steps of one cell in order; `play` executes all of them."""

    def __init__(
        self, moving: Moving, procedure: Procedure, successor: Successor, at: int | None
    ) -> None:
        self.moving = moving
        self.procedure = procedure
        self.successor = successor
        self.at = at
        name = "last" if at is None else str(at)
        # The names differ from those of an earlier attempt at the same point.
        serial = len(moving.daemons)
        prefix = f"{procedure.key}-{name}-{successor.name.lower()}-{serial}-"
        self.topics = [
            Topic(f"{prefix}{number}-{'unclean' if unclean else 'clean'}", situation, unclean)
            for number, situation in enumerate(procedure.situations)
            for unclean in (False, True)
        ]
        self.outcomes = {one.name: Outcome(one) for one in self.topics}
        self._commands = CommandLog(moving.folder / prefix, prefix)
        # The daemon of the previous cell still listens.
        moving.listeners = {one: free_port() for one in moving.listeners}
        self._failing = moving.failing(self._commands.program(at), settings=self._settings)
        self._traffic: dict[str, Traffic] = {}
        self._counted: list[Counted] = []
        self._is_last = False
        self._rejected: set[str] = set()
        """The topics that keep their originals because refold rejected their requests."""
        self._died = 0.0
        self._successor_seconds = 0.0

    @property
    def _settings(self) -> dict[str, str | int]:
        if self.successor is Successor.REFOLD:
            return dict(_NEVER_REBALANCED)
        return {**_NEVER_REBALANCED, "zookeeper.session.timeout.ms": STOCK_SESSION_MS}

    async def play(self, before: Refold | None = None) -> tuple[Cell, Refold]:
        """Returns the cell and the daemon that is controller at its end; `before` is the daemon of
        the previous cell, which is stopped."""
        async with AsyncExitStack() as stack:
            await self._set_up(stack, before)
            originals = {one.name: one.situation.originals for one in self.topics}
            unclean = [one.name for one in self.topics if one.unclean]
            watch = PartitionWatch(
                self.moving.connect, originals, min_insync=MIN_INSYNC, unclean=unclean
            )
            await stack.enter_async_context(watch)
            for traffic in self._traffic.values():
                traffic.measure_stalls()
            await self._cut_short()
            if self.successor is Successor.STOCK:
                await self._stock(watch)
            daemon = await self._refold()
            await self._check_end(daemon)
            for topic in self.topics:
                outcome = self.outcomes[topic.name]
                outcome.stall = self._traffic[topic.name].longest_stall
                if outcome.stall > self._successor_seconds + STALL_SECONDS_MAX:
                    outcome.violations.append(
                        f"a producer waited {outcome.stall:.1f} s, the next controller had the "
                        f"role after {self._successor_seconds:.1f} s"
                    )
                outcome.lowest_isr = watch.partitions[topic.name].lowest_isr
                outcome.violations += watch.violations(topic.name)
            await asyncio.gather(*map(self._check_records, self.topics))
        await self._tidy()
        cell = Cell(
            self.procedure,
            self.successor,
            self.at or len(self._counted) + 1,
            self._counted,
            self._is_last,
            self._successor_seconds,
            list(self.outcomes.values()),
            watch.longest_pause,
        )
        return cell, daemon

    # Before the crash -----------------------------------------------------------------------------

    async def _set_up(self, stack: AsyncExitStack, before: Refold | None) -> None:
        """Brings every partition into its situation, with a producer; the daemon is controller."""
        moving = self.moving
        for topic in self.topics:
            await moving.view.create_topic(topic.name, {0: self._created(topic)})
            # Brokers read throttles when they change, not when a replica is created.
            await self._configure(topic, THROTTLED, min_insync=1)
        await self._until_states(lambda topic: 1, self._created)
        await self._until_throttled()
        await self._fill()
        for topic in self.topics:
            if topic.situation.lags:
                # The daemon finds another replica, out of sync, when it takes the role.
                content = await moving.view.topic(topic.name) or {}
                content["partitions"] = {"0": topic.situation.originals}
                path = znodes.topic_path(topic.name)
                await moving.view.overwrite(path, json.dumps(content))
        await self._failing.start()
        await moving.until_reported(self._failing, "failover_done")
        if before is not None:
            assert await before.stop() == 0, before.last_output()
        for topic in self.topics:
            traffic = Traffic(moving.lab.bootstrap, topic.name, pause_seconds=PAUSE_SECONDS)
            self._traffic[topic.name] = traffic
        await asyncio.gather(*map(stack.enter_async_context, self._traffic.values()))
        await self.procedure.begin(moving, self.topics)
        await self._until_states(lambda topic: 1, lambda topic: topic.situation.isr)
        for topic in self.topics:
            await self._configure(topic, THROTTLED)
        await self._elect()
        await self._until_states(
            lambda topic: topic.situation.leader, lambda topic: topic.situation.isr
        )
        await self._until_written()

    @staticmethod
    def _created(topic: Topic) -> list[int]:
        return [1] if topic.situation.lags else topic.situation.originals

    async def _until_throttled(self) -> None:
        """Waits until the brokers have read the throttles, before they get a replica."""
        logs = [one.folder / "server.log" for one in self.moving.lab.brokers]
        logs = [logs[broker - 1] for broker in THROTTLED]
        wanted = {f"{_READS_CONFIG} topics/{one.name} with config: " for one in self.topics}

        async def throttled() -> bool:
            found = [one.read_text(errors="replace") for one in logs]
            return all(line in text for text in found for line in wanted)

        await timed(throttled, "brokers read the throttles")

    async def _fill(self) -> None:
        """Writes records that all originals have when the method returns. Kafka does not throttle a
        replica that has reached the high watermark, even if the leader has more records."""
        value = b"-1".rjust(RECORD_BYTES)
        servers = self.moving.lab.bootstrap
        async with AIOKafkaProducer(bootstrap_servers=servers, acks="all") as producer:
            for topic in self.topics:
                for _ in range(RECORDS):
                    await producer.send_and_wait(topic.name, value)

    async def _elect(self) -> None:
        led_by_targets = [one.name for one in self.topics if one.situation.leader != 1]
        if led_by_targets:
            partitions = [{"topic": one, "partition": 0} for one in led_by_targets]
            content = json.dumps({"version": 1, "partitions": partitions})
            await self.moving.view.create(znodes.PREFERRED_ELECTION, content)

    async def _until_states(
        self, leader: Callable[[Topic], int], isr: Callable[[Topic], list[int]]
    ) -> None:
        required = {one.name: (leader(one), isr(one)) for one in self.topics}
        found: dict[str, tuple[object, object]] = {}

        async def reached() -> bool:
            for topic in self.topics:
                state = await self._state(topic) or {"leader": -1, "isr": []}
                found[topic.name] = (state["leader"], sorted(state["isr"]))
            return found == required

        try:
            await until(reached, SET_UP_SECONDS, "set up")
        except TimeoutError:
            raise TimeoutError(f"not in {SET_UP_SECONDS:g} s: {required}; found {found}") from None

    async def _state(self, topic: Topic) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self.moving.view.content(
            znodes.state_path(topic.name, 0)
        )
        return found

    async def _until_written(self, records: int = 5) -> None:
        before = {name: one.acknowledged for name, one in self._traffic.items()}

        async def more() -> bool:
            return all(
                one.acknowledged >= before[name] + records for name, one in self._traffic.items()
            )

        await timed(more, "all topics accept records")

    async def _configure(
        self, topic: Topic, throttled: Sequence[int], *, min_insync: int = MIN_INSYNC
    ) -> None:
        config = {_UNCLEAN: str(topic.unclean).lower(), _MIN_INSYNC: str(min_insync)}
        if throttled:
            config[_FOLLOWER_REPLICAS] = ",".join(f"0:{one}" for one in throttled)
        await self.moving.view.configure(f"topics/{topic.name}", config)

    # The crash ------------------------------------------------------------------------------------

    async def _cut_short(self) -> None:
        self._commands.arm()
        await self.procedure.interrupt(self.moving, self.topics)
        if self.at is None:
            await self._until_quiet()
            self._failing.kill()
        try:
            async with asyncio.timeout(REACH_SECONDS):
                assert await self._failing.ended() == -signal.SIGKILL, self._failing.last_output()
        except TimeoutError:
            # It had fewer commands than the run without a crash: it is killed after its last one.
            self._failing.kill()
            await self._failing.ended()
        self._died = time.monotonic()
        self._counted = self._commands.read()
        self._is_last = self.at is None or len(self._counted) < self.at

    async def _until_quiet(self) -> None:
        count, since = 0, time.monotonic()
        while not count or time.monotonic() - since < QUIET_SECONDS:
            await asyncio.sleep(0.1)  # The time without a command is measured.
            found = len(self._commands.read())
            if found != count:
                count, since = found, time.monotonic()
            assert self._failing.running, self._failing.last_output()

    # The successor --------------------------------------------------------------------------------

    async def _stock(self, watch: PartitionWatch) -> None:
        """A stock controller continues: some moves end, the others stay in progress."""
        await self.moving.until_stock_controller()
        self._successor_seconds = time.monotonic() - self._died
        watch.stock_epochs.add(await self.moving.view.controller_epoch())
        completing = [one for one in self.topics if one.situation.completes]
        for topic in completing:
            await self._configure(topic, ())

        async def nothing_moves() -> bool:
            found = [await self.moving.replicas(one.name) for one in completing]
            return not any(in_progress for _, in_progress in found)

        await self._within(STOCK_SECONDS, nothing_moves, completing, "the stock controller ends it")
        for topic in self.topics:
            replicas, in_progress = await self.moving.replicas(topic.name)
            self.outcomes[topic.name].end = (
                "" if in_progress or replicas != FIRST_TARGET else "completed by stock; "
            )
        watch.stock_epochs.add(await self.moving.view.controller_epoch())

    async def _refold(self) -> Refold:
        daemon = self.moving.daemon(
            "--take-over", broker_id=SUCCESSOR_ID, settings=_NEVER_REBALANCED
        )
        await daemon.start()
        await self.moving.until_reported(daemon, "elected")
        if self.successor is Successor.REFOLD:
            self._successor_seconds = time.monotonic() - self._died
        await self.moving.until_reported(daemon, "failover_done")
        return daemon

    # The end --------------------------------------------------------------------------------------

    async def _check_end(self, daemon: Refold) -> None:
        """Replicas that lag catch up, and partitions with a second target reach it."""
        for topic in self.topics:
            if self.procedure.second_target:
                await self._configure(topic, ())
            elif topic.situation.lags:
                await self._configure(topic, [one for one in THROTTLED if one in FIRST_TARGET])

        async def all_at_end() -> bool:
            self._note_refusals(daemon)
            return all([await self._is_at_end(one) for one in self.topics])

        await self._within(END_SECONDS, all_at_end, self.topics, "the procedure ends")
        await self._within(5.0, self._nothing_is_left, self.topics, "no znode is left in /admin")
        refusals = self._note_refusals(daemon)
        for topic in self.topics:
            outcome = self.outcomes[topic.name]
            if topic.name in self._rejected:
                outcome.end += f"request rejected ({REFUSED}); "
            else:
                outcome.violations += refusals.get(topic.name, ())
            outcome.end += await self._end_of(topic)
            replicas, _ = await self.moving.replicas(topic.name)
            if replicas == list(self.procedure.stock_end) and not _reports_end(daemon, topic):
                outcome.violations.append("refold does not report the end")

    def _note_refusals(self, daemon: Refold) -> Refusals:
        """Returns what the daemon rejected; notes the topics for which that is right."""
        found = refusals_of(daemon.messages(), self.topics)
        counted = [] if self._is_last else self._counted
        topics = len(self.topics)
        self._rejected = accepted(found, self.procedure, self.successor, counted, topics)
        return found

    async def _within(
        self, seconds: float, reached: Callable[[], Awaitable[bool]], topics: list[Topic], what: str
    ) -> None:
        try:
            await until(reached, seconds, what)
        except TimeoutError:
            for topic in topics:
                if what != "the procedure ends" or not await self._is_at_end(topic):
                    self.outcomes[topic.name].violations.append(f"{what}: not in {seconds:g} s")

    async def _is_at_end(self, topic: Topic) -> bool:
        """A complete assignment and ISR, a leader in the ISR, and files on exactly its brokers."""
        replicas, in_progress = await self.moving.replicas(topic.name)
        state = (await self.moving.view.states(topic.name))[0]
        is_rejected = topic.name in self._rejected
        originals = topic.situation.originals
        ends = [originals] if is_rejected else self.procedure.ends(topic, self.successor)
        return (
            not in_progress
            and replicas in ends
            and sorted(state["isr"]) == sorted(replicas)
            and state["leader"] in replicas
            and self.moving.with_files(topic.name) == sorted(replicas)
        )

    async def _nothing_is_left(self) -> bool:
        return await self.moving.is_nothing_left() and not await self.moving.view.children(
            REPLICA_DELETIONS
        )

    async def _end_of(self, topic: Topic) -> str:
        replicas, in_progress = await self.moving.replicas(topic.name)
        state = (await self.moving.view.states(topic.name))[0]
        files = self.moving.with_files(topic.name)
        moving = ", in progress" if in_progress else ""
        text = f"{replicas}{moving}, leader {state['leader']}, ISR {sorted(state['isr'])}"
        return text if files == sorted(replicas) else f"{text}, files on {files}"

    async def _check_records(self, topic: Topic) -> None:
        violations = self.outcomes[topic.name].violations
        traffic = self._traffic[topic.name]
        try:
            lost = await traffic.finish()
            if lost:
                self._keep(topic)
                await asyncio.sleep(SECOND_READING_SECONDS)  # Late records may arrive.
                again = await traffic.finish()
                text = f"{len(lost)} acknowledged records are lost, {min(lost)} to {max(lost)}"
                violations.append(f"{text}; {len(again)} at a second reading")
        except TimeoutError:
            violations.append("the records cannot be read in time")
        if traffic.refused:
            reasons = ", ".join(sorted(traffic.reasons))
            violations.append(f"{traffic.refused} records were refused: {reasons}")

    def _keep(self, topic: Topic) -> None:
        """Copy the partition's files, which are deleted with the topic, to the cluster's folder."""
        name = f"{topic.name}-0"
        for broker in self.moving.lab.brokers:
            files = broker.folder / "data" / name
            if files.exists():
                shutil.copytree(files, self.moving.folder / "lost" / name / broker.name)

    async def _tidy(self) -> None:
        if await self.moving.view.exists(REASSIGN_CANCEL):
            await self.moving.view.delete(REASSIGN_CANCEL)
        for topic in self.topics:
            await self.moving.view.create(f"{znodes.DELETE_TOPICS}/{topic.name}")
