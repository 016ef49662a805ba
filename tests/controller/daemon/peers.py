"""The daemon's peers in memory: the simulated ZooKeeper, channels to brokers, a watched log.

`Trace` records stored events and carried out commands in one sequence, so that a test can compare
their order.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec

from controller.core.api_requests import ApiResponse
from controller.core.commands import (
    BrokerRequest,
    CloseChannel,
    CommandId,
    OpenChannel,
    ProbeBroker,
    ZooKeeperCommand,
)
from controller.core.configuration import Configuration
from controller.core.events import BrokerResponded, SessionConnected, SessionExpired
from controller.core.fold import Fold
from controller.core.values import Broker
from controller.daemon.daemon import Daemon, Inbox
from controller.daemon.errors import DaemonError
from controller.event_log.housekeeping import Housekeeping, Retention
from controller.fingerprint import code_version, core_fingerprint
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord, Header
from eventstore.writer import LogWriter
from replay.cli.run import snapshot_command
from replay.logs.decode import UPCASTERS
from replay.verify.verification import Verification, verify_decisions
from replay.world.outcomes import carry_out
from replay.world.zookeeper import ZooKeeper
from tests.controller.core.cluster import DAEMON, Cluster
from tests.waiting import until_found

WAIT_SECONDS = 10.0
QUIET_SECONDS = 0.03


class NoEndpoint:
    """The endpoint of a daemon without listeners."""

    def answer(self, answer: ApiResponse) -> None:
        """No request can have arrived."""

    def answer_later(self, request: int) -> None:
        """No request can have arrived."""

    def throttle(self, request: int, until_ms: int) -> None:
        """No request can have arrived."""

    def set_brokers(self, brokers: Sequence[Broker]) -> None:
        """Nothing is forwarded."""

    async def run(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """No client waits for a response."""


class Stored(NamedTuple):
    """Events up to `seq` are in the log."""

    seq: int
    kinds: list[str]


class Done(NamedTuple):
    """A command left the daemon."""

    id: CommandId
    kind: str


class Closed(NamedTuple):
    """The session or the channels were closed."""

    what: str


class Expired(NamedTuple):
    """The daemon was notified of the end of its session."""


Trace = list[Stored | Done | Closed | Expired]


class WatchedLog(LogWriter):
    """A log that records what it has stored in the trace. `before_append` and `before_roll` may
    raise or wait in place of the store."""

    trace: Trace
    before_append: Callable[[], object] = staticmethod(lambda: None)
    before_roll: Callable[[], object] = staticmethod(lambda: None)

    def append(self, events: Sequence[EventRecord], commands: Sequence[CommandRecord] = ()) -> None:
        """As the log."""
        self.before_append()
        super().append(events, commands)
        if events:
            self.trace.append(Stored(events[-1].seq, [one.kind for one in events]))

    def roll_if_due(self) -> Path | None:
        """As the log."""
        self.before_roll()
        return super().roll_if_due()


class WorldConnection:
    """The daemon's connection to the simulated ZooKeeper. Each command is answered in a later turn
    of the event loop.

    `before_answer` is called with each command just before it is carried out.
    """

    def __init__(self, world: ZooKeeper, inbox: Inbox, trace: Trace) -> None:
        self.session = 0
        self.silent_ms_at_end = 0
        self.before_answer: Callable[[ZooKeeperCommand], None] = lambda command: None
        self._world = world
        self._inbox = inbox
        self._trace = trace
        self._closed = anyio.Event()
        self._fault: Exception | None = None

    async def run(self) -> None:
        """Start a session and run until closed. Raises the argument of `fail`."""
        self._begin()
        await self._closed.wait()
        if self._fault is not None:
            raise self._fault

    def fail(self, fault: Exception) -> None:
        """Make `run` raise a fault."""
        self._fault = fault
        self._closed.set()

    async def close(self) -> None:
        """End the session."""
        self._trace.append(Closed("session"))
        if self._world.is_live(self.session):
            self._world.end_session(self.session)
        self._closed.set()

    def submit(self, command_id: CommandId, command: ZooKeeperCommand) -> None:
        """Carry out a command in a later turn."""
        self._trace.append(Done(command_id, type(command).__name__))
        asyncio.get_running_loop().call_soon(self._carry_out, self.session, command_id, command)

    def _carry_out(self, session: int, command_id: CommandId, command: ZooKeeperCommand) -> None:
        self.before_answer(command)
        outcomes = carry_out(self._world, session, command_id, command, _now_ms())
        self.report_changes()
        for one in outcomes:
            self._inbox.put(one, "zookeeper")

    def report_changes(self) -> None:
        """Report the fired watches."""
        if self._world.is_live(self.session):
            for fired in self._world.take_events(self.session):
                self._inbox.put(fired, "watches")

    def expire(self) -> None:
        """The session ends and another one starts."""
        self._world.end_session(self.session)
        self._trace.append(Expired())
        self._inbox.put(SessionExpired(self.session), "session")
        self._begin()

    def _begin(self) -> None:
        self.session = self._world.create_session()
        self._inbox.put(SessionConnected(self.session, 6000, "world", False), "session")


class SuccessfulChannels:
    """Channels to brokers that answer every request without an error."""

    def __init__(self, inbox: Inbox, trace: Trace) -> None:
        self.standing: set[int] = set()
        self._inbox = inbox
        self._trace = trace

    async def run(self) -> None:
        """Nothing is to be done."""
        await anyio.sleep_forever()

    def open(self, command: OpenChannel) -> None:
        """Open a channel."""
        self.standing.add(command.broker)

    def close(self, command: CloseChannel) -> None:
        """Close a channel."""
        self.standing.discard(command.broker)

    def probe(self, command: ProbeBroker) -> None:
        """No test probes a broker."""

    def close_all(self) -> None:
        """Close all channels."""
        self.standing.clear()
        self._trace.append(Closed("channels"))

    def send(self, command_id: CommandId, request: BrokerRequest) -> None:
        """Answer at once."""
        self._trace.append(Done(command_id, type(request).__name__))
        answered = BrokerResponded(command_id, request.broker, request.broker_epoch, 0, [])
        self._inbox.put(answered, f"broker:{request.broker}")


class DaemonHarness:
    """A daemon among these peers. `others` is the rest of the cluster. `report_changes` notifies
    the daemon of changes there."""

    def __init__(
        self,
        folder: Path,
        *brokers: int,
        session_timeout_ms: int = 6000,
        fold: Any = None,
        **settings: Any,
    ) -> None:
        settings = {"inter_broker_protocol_version": "2.6", **settings}
        configuration = Configuration(broker_id=DAEMON, **settings)
        self.trace: Trace = []
        self.others = Cluster(*brokers)
        inbox = Inbox()
        self.inbox = inbox
        self.zookeeper = WorldConnection(self.others.zookeeper, inbox, self.trace)
        self.channels = SuccessfulChannels(inbox, self.trace)
        self.log = WatchedLog.create(folder, _header(configuration))
        self.log.trace = self.trace
        self.fold = fold or Fold(configuration)
        self.daemon = Daemon(
            self.fold,
            self.log,
            inbox,
            self.zookeeper,
            self.channels,
            NoEndpoint(),
            Housekeeping(folder, Retention(), snapshot_command()),
            session_timeout_ms,
        )

    async def run(self) -> str:
        """Run the daemon with its log to the end. Returns the reason of its end. Raises as
        `daemon_alone`."""
        with self.log:
            return await self.daemon_alone()

    async def daemon_alone(self) -> str:
        """Run the daemon and leave its log open. Raises DaemonError; any other error is in an
        exception group."""
        try:
            return await self.daemon.run()
        except ExceptionGroup as group:
            (fault,) = group.exceptions
            raise fault if isinstance(fault, DaemonError) else group from None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The daemon runs during the block and is shut down at its end."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.run)
            yield
            self.daemon.shut_down("the test ends")

    async def until_controller(self) -> None:
        """Wait until the daemon has the role."""
        await self.until(lambda: self.others.controller() == DAEMON, "the daemon is controller")

    async def until_active(self) -> None:
        """Wait until the daemon has the role and its failover has ended."""
        fold = self.fold
        await self.until(lambda: fold.term > 0 and not fold.is_failing_over, "the daemon is active")

    async def until_led(self, topic: str, number: int, leader: int) -> None:
        """Wait until a partition has this leader in ZooKeeper."""

        def led() -> bool:
            with suppress(AssertionError):
                return bool(self.others.leadership(topic, number).leader == leader)
            return False

        await self.until(led, f"{topic}-{number} is led by {leader}")

    async def until(self, reached: Callable[[], bool], what: str) -> None:
        """Wait until `reached` returns true."""
        await until_found(reached, what, WAIT_SECONDS)

    async def until_quiet(self) -> None:
        """Wait until the daemon has carried out a command, and then none for QUIET_SECONDS."""
        await self.until(
            lambda: any(isinstance(one, Done) for one in self.trace), "a command is carried out"
        )
        seen = 0
        while len(self.trace) > seen:
            seen = len(self.trace)
            await anyio.sleep(QUIET_SECONDS)  # The next command would be carried out.

    def has_expired(self) -> bool:
        """Whether the end of a session is in the log."""
        return any(isinstance(one, Stored) and "session_expired" in one.kinds for one in self.trace)

    def closed(self) -> list[Closed]:
        """The closed sessions and channels, in order."""
        return [one for one in self.trace if isinstance(one, Closed)]

    def create_topic(self, topic: str, *replicas: int) -> None:
        """A tool creates a topic with one partition."""
        self.others.create_topic(topic, {0: replicas})
        self.zookeeper.report_changes()


def replayed(folder: Path) -> Verification:
    """The result of a replay of the log, which must agree."""
    with LogReader.open(folder, UPCASTERS) as reader:
        result = verify_decisions(reader)
    assert result.mismatched == 0, result.mismatches
    return result


def _header(configuration: Configuration) -> Header:
    return Header(
        kind="recorded",
        core_fingerprint=core_fingerprint(),
        code_version=code_version(),
        configuration=msgspec.to_builtins(configuration),
        cluster_id="world",
        created_ns=time.time_ns(),
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
