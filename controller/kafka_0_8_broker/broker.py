"""A running broker: appends events to the log, folds them, and carries out the commands.

One loop, as in the daemon of the controller (docs/design.md#the-path-of-an-event). The broker
itself decides nothing.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
import anyio.lowlevel

from controller.core.commands import CancelTimer, CommandId, Notice, StartTimer
from controller.core.events import SessionExpired, TimerFired
from controller.daemon.appending import LogAppender
from controller.daemon.event_loop import after_ms
from controller.daemon.notices import log_notice, log_session
from controller.daemon.peers import ZooKeeperInterface
from controller.event_log.writer_thread import WriterThread
from controller.kafka_0_8.commands import (
    AppendRecords,
    DeleteLog,
    IssuedByBroker,
    OpenLog,
    RespondFetch,
    RespondProduce,
    SendFetch,
    TruncateLog,
    WriteCheckpoint,
)
from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8.events import (
    BrokerEvent,
    LogDeleted,
    LogOpened,
    LogTruncated,
    RecordedBrokerEvent,
    RecordsAppended,
)
from controller.kafka_0_8.fold import BrokerFold
from controller.kafka_0_8_broker.disk import Disk
from controller.kafka_0_8_broker.fetching import Fetching
from controller.kafka_0_8_broker.inbox import BrokerInbox
from controller.kafka_0_8_broker.messages import FetchResponse, ProduceResponse
from controller.kafka_0_8_broker.server import BrokerServer
from controller.timers import Timers
from eventstore.writer import LogWriter

_QUIET_SECONDS: Final = 0.2
"""Commands without a following event are appended to the log after this time."""
_CLOSE_SECONDS_MAX: Final = 5.0
MEANWHILE: Final = "the broker elects no leader and changes no ISR meanwhile"
"""Without a connection to ZooKeeper, a broker remains leader until its session is over."""


class RunningBroker:
    """One run of a broker."""

    def __init__(
        self,
        configuration: BrokerConfiguration,
        inbox: BrokerInbox,
        zookeeper: ZooKeeperInterface,
        log: LogWriter,
        disk: Disk,
        session_timeout_ms: int,
    ) -> None:
        """`zookeeper` puts its events into `inbox`."""
        self._fold = BrokerFold(configuration)
        self._log = log
        self._disk = disk
        self._inbox = inbox
        self._zookeeper = zookeeper
        # Otherwise, a leader whose disk hangs would keep its session, and remain leader.
        seconds_max = session_timeout_ms / 1000
        self._appender = LogAppender(log, seconds_max, "the broker ended its session")
        self._disk_thread = WriterThread("records")
        self._disk_fault: BaseException | None = None
        self._timers = Timers(
            after_ms, lambda timer: inbox.put(TimerFired(timer), f"timer:{timer}")
        )
        self._server = BrokerServer(configuration.host, configuration.port, inbox.put)
        self._fetching = Fetching(configuration.broker_id, inbox.put)
        self._stop = anyio.Event()

    def stop(self) -> None:
        """Ask for the end of the run."""
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop`. Raises DaemonError, DiskError or Broker08Error if the broker cannot go
        on."""
        await self._server.start()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._zookeeper.run)
                try:
                    await self._fold_until_stopped()
                finally:
                    await self._close()
                tasks.cancel_scope.cancel()
            await self._appender.append([])
        finally:
            self._timers.cancel_all()
            self._appender.shutdown()
            self._disk_thread.submit(self._disk.close)
            self._disk_thread.shutdown()

    async def _close(self) -> None:
        """End the session first: the leader znodes of this broker are deleted at once."""
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLOSE_SECONDS_MAX):
                await self._zookeeper.close()
            await self._server.close()
            await self._fetching.close()

    async def _fold_until_stopped(self) -> None:
        while not self._stop.is_set():
            await self._inbox.wait(_QUIET_SECONDS)
            if self._disk_fault is not None:
                raise self._disk_fault
            taken = self._inbox.take(self._log.tip.last_seq)
            if taken or self._appender.has_commands:
                await self._appender.append([recorded for recorded, _ in taken])
            for recorded, records in taken:
                self._apply(recorded, records)
                await anyio.lowlevel.checkpoint()

    def _apply(self, recorded: RecordedBrokerEvent, records: list[bytes]) -> None:
        for commands in self._fold.apply(recorded):
            for issued in commands:
                self._carry_out(issued, records)
            self._appender.add(commands)
        if isinstance(recorded.event, SessionExpired):
            self._inbox.expired -= 1
        log_session(recorded.event, MEANWHILE)

    # Commands

    def _carry_out(self, issued: IssuedByBroker, records: list[bytes]) -> None:
        """Carry out a command, or start to. `records` came with its cause."""
        match issued.command:
            case Notice() as notice:
                log_notice(notice, issued)
            case StartTimer(timer=timer, delay_ms=delay_ms):
                self._timers.start(timer, delay_ms)
            case CancelTimer(timer=timer):
                self._timers.cancel(timer)
            case SendFetch() as fetch:
                self._fetching.send(issued.id, fetch)
            case RespondProduce(request=request, error=error, offset=offset, leader=leader):
                self._server.respond(request, ProduceResponse(0, error, offset, leader))
            case RespondFetch() as response:
                self._respond_fetch(response)
            case WriteCheckpoint(hws=hws):
                self._on_disk(partial(self._disk.write_checkpoint, hws), lambda _: None)
            case OpenLog() | TruncateLog() | DeleteLog() | AppendRecords() as command:
                self._for_log(issued.id, command, records)
            case command:
                if not self._inbox.expired:
                    self._zookeeper.submit(issued.id, command)

    def _for_log(
        self,
        id: CommandId,
        command: OpenLog | TruncateLog | DeleteLog | AppendRecords,
        records: list[bytes],
    ) -> None:
        name, disk = (command.topic, command.partition), self._disk

        def put(event: BrokerEvent) -> None:
            self._inbox.put(event, f"log:{command.topic}-{command.partition}")

        match command:
            case OpenLog(czxid=czxid):
                opening = partial(disk.open_log, name, czxid)
                self._on_disk(opening, lambda done: put(LogOpened(id, *done)))
            case TruncateLog(offset=offset):
                work = partial(disk.truncate, name, offset)
                self._on_disk(work, lambda leo: put(LogTruncated(id, leo)))
            case DeleteLog():
                self._on_disk(partial(disk.delete_log, name), lambda _: put(LogDeleted(id)))
            case AppendRecords(source=source):
                assert source == id.cause, "records are appended when they arrive"
                work = partial(disk.append, name, records)
                self._on_disk(work, lambda leo: put(RecordsAppended(id, leo)))

    def _on_disk(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Do work in the thread of the disk, in order, and call `then` with its result."""

        def done(future: asyncio.Future[Any]) -> None:
            if future.cancelled():
                return
            if (fault := future.exception()) is not None:
                self._disk_fault = self._disk_fault or fault
                return
            then(future.result())

        running = asyncio.get_running_loop().run_in_executor(self._disk_thread, work)
        running.add_done_callback(done)

    def _respond_fetch(self, response: RespondFetch) -> None:
        """Send the first of the records; the other side asks again for the others."""

        def respond(records: list[bytes]) -> None:
            found = response.error, records, response.hw, response.leo
            self._server.respond(response.request, FetchResponse(0, *found))

        name = (response.topic, response.partition)
        self._on_disk(partial(self._disk.read, name, response.start, response.end), respond)
