"""The daemon: appends events to the log, folds them, and carries out the resulting commands.

One loop: take all events from the inbox, append them in one transaction, fold them, carry out the
commands (docs/design.md#the-path-of-an-event). The daemon itself decides nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from controller.core.api_requests import ApiResponse
from controller.core.commands import (
    CancelTimer,
    CloseChannel,
    CommandId,
    DelayResponse,
    DrawNumbers,
    DrawTopicIds,
    Issued,
    LeaderAndIsrRequest,
    Notice,
    OpenChannel,
    ProbeBroker,
    StartTimer,
    Stop,
    StopReplicaRequest,
    UpdateMetadataRequest,
    ZooKeeperCommand,
)
from controller.core.events import (
    Event,
    NumbersDrawn,
    Recorded,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    ShutdownRequested,
    TimerFired,
    TopicIdsDrawn,
)
from controller.core.fold import Fold
from controller.core.values import Broker
from controller.daemon.draws import draw_numbers, draw_topic_ids
from controller.daemon.encoding_ahead import EncodingAhead
from controller.daemon.errors import DaemonError
from controller.daemon.garbage import GarbageCollection
from controller.daemon.progress import Progress
from controller.event_log.housekeeping import Housekeeping
from controller.event_log.records import command_record, event_record
from controller.event_log.secret_digests import SecretDigests
from controller.event_log.writer_thread import WriterThread
from eventstore.errors import LogError
from eventstore.writer import LogWriter

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_QUIET_SECONDS: Final = 0.2
"""Commands without a following event are appended to the log after this time."""


class ZooKeeper(Protocol):
    """The interface of the ZooKeeper connection."""

    def submit(self, command_id: CommandId, command: ZooKeeperCommand, /) -> None: ...
    async def run(self) -> None: ...
    async def close(self) -> None: ...


class Channels(Protocol):
    """The interface of the broker channels."""

    def open(self, command: OpenChannel, /) -> None: ...
    def close(self, command: CloseChannel, /) -> None: ...
    def probe(self, command: ProbeBroker, /) -> None: ...
    def send(
        self,
        command_id: CommandId,
        request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest,
        /,
    ) -> None: ...
    def close_all(self) -> None: ...
    async def run(self) -> None: ...


class Endpoint(Protocol):
    """The interface of the Kafka protocol endpoint."""

    def answer(self, answer: ApiResponse, /) -> None: ...
    def answer_later(self, request: int, /) -> None: ...
    def set_brokers(self, brokers: Sequence[Broker], /) -> None: ...
    async def close(self) -> None: ...
    async def run(self) -> None: ...


class Inbox:
    """Events that wait to be appended to the log, with their arrival times.

    The inbox is bounded: each command has one outcome, and ZooKeeper and the operator add few
    events.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, str, Event]] = []
        self._arrived = anyio.Event()
        self.secret_digests = SecretDigests()
        """Replaces the secrets of incoming events, so that none reaches the log."""
        self.expired = 0
        """How many session expirations the fold has not seen yet. While there is one, no command
        is sent."""

    def put(self, event: Event, channel: str) -> None:
        """Add an event that has arrived."""
        if isinstance(event, SessionExpired):
            self.expired += 1
        without_secrets = self.secret_digests.replace_secrets(event)
        self._waiting.append((time.time_ns(), time.monotonic_ns(), channel, without_secrets))
        self._arrived.set()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def oldest_arrived_ns(self) -> int | None:
        """When the oldest event arrived, by the monotonic clock; None if there is none."""
        return self._waiting[0][1] if self._waiting else None

    async def wait(self, seconds: float) -> None:
        """Wait for an event, for at most `seconds`."""
        with anyio.move_on_after(seconds):
            await self._arrived.wait()

    def take(self, seq: int, term: int) -> list[Recorded]:
        """Remove and return all events, numbered from `seq` + 1."""
        waiting, self._waiting = self._waiting, []
        self._arrived = anyio.Event()
        return [
            Recorded(number, wall_ns, mono_ns, term, channel, event)
            for number, (wall_ns, mono_ns, channel, event) in enumerate(waiting, seq + 1)
        ]


class Daemon:
    """One run of the controller, from its first session to its exit."""

    def __init__(
        self,
        fold: Fold,
        log: LogWriter,
        inbox: Inbox,
        zookeeper: ZooKeeper,
        channels: Channels,
        endpoint: Endpoint,
        housekeeping: Housekeeping,
        session_timeout_ms: int,
    ) -> None:
        self._fold = fold
        self._log = log
        self._inbox = inbox
        self._zookeeper = zookeeper
        self._channels = channels
        self._endpoint = endpoint
        self._housekeeping = housekeeping
        self._append_seconds_max = session_timeout_ms / 1000 / 3
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._unwritten: list[Issued] = []
        self._writing_since: float | None = None
        self._stop: Stop | None = None
        self._encoding_ahead = EncodingAhead(fold)
        self.progress = Progress()

    def shut_down(self, reason: str) -> None:
        """Ask for an orderly shutdown, which resigns the controller role first."""
        self._inbox.put(ShutdownRequested(reason), "operator")

    async def run(self) -> str:
        """Run until the fold returns Stop. Return the reason why the controller gave up, empty
        after an orderly shutdown.

        Raises DaemonError, alone or in a group, if the daemon cannot continue.
        """
        writer = WriterThread()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._zookeeper.run)
                tasks.start_soon(self._channels.run)
                tasks.start_soon(self._endpoint.run)
                if self._fold.controller.configuration.standby:
                    tasks.start_soon(self._encoding_ahead.run)
                try:
                    await self._fold_until_stopped(writer, tasks)
                finally:
                    # In any case: stop sending requests and release the role at once.
                    self._channels.close_all()
                    with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                        await self._zookeeper.close()
                    with anyio.CancelScope(shield=True):
                        await self._endpoint.close()
                tasks.cancel_scope.cancel()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            writer.shutdown()
        return self._stop.reason if self._stop is not None else ""

    async def _fold_until_stopped(self, writer: Executor, tasks: TaskGroup) -> None:
        with GarbageCollection() as garbage:
            self._fold.controller.observer = garbage.dropped
            while self._stop is None:
                await self._inbox.wait(_QUIET_SECONDS)
                events = self._inbox.take(self._log.tip.last_seq, self._fold.term)
                self.progress.took(events)
                if events or self._unwritten:
                    await self._append(writer, events)
                garbage.dropped.free_some()
                if events:
                    garbage.work_begins()
                    for event in events:
                        await self._apply(event)
                    garbage.events_folded(is_idle=self._fold.is_idle)
                if self._fold.is_idle and not self._unwritten:
                    rolled = await self._on_disk(writer, self._roll)
                    if rolled is not None:
                        tasks.start_soon(self._housekeeping.after_roll)
        await self._append(writer, [])

    async def _append(self, writer: Executor, events: Sequence[Recorded]) -> None:
        """Append everything or fail: nothing is carried out that is not stored."""
        commands, self._unwritten = self._unwritten, []

        def append() -> None:
            event_records = [event_record(one) for one in events]
            command_records = [command_record(one) for one in commands]
            # Encoding the requests of a large failover takes long, and says nothing about the disk.
            self._writing_since = time.monotonic()
            self._log.append(event_records, command_records)

        await self._on_disk(writer, append)

    def _roll(self) -> Path | None:
        self._writing_since = time.monotonic()
        return self._log.roll_if_due()

    async def _on_disk(self, writer: Executor, write: Callable[[], T]) -> T:
        """Return the result of `write`, which notes when it begins to write. Raises DaemonError if
        it takes too long from then on."""
        self._writing_since = None
        written = asyncio.get_running_loop().run_in_executor(writer, write)
        try:
            while not await self._is_in_time(written):
                pass
            return written.result()
        except LogError as error:
            raise DaemonError(
                f"cannot append to the log, the controller role was given up: {error}"
            ) from error
        finally:
            written.cancel()

    async def _is_in_time(self, written: asyncio.Future[T]) -> bool:
        """Whether the write has finished. A timeout is ignored if the whole process was
        suspended meanwhile, which says nothing about the disk. Raises DaemonError."""
        seconds_max, begun = self._append_seconds_max, time.monotonic()
        since = begun if self._writing_since is None else self._writing_since
        timeout = max(since + seconds_max - begun, 0)
        done, _ = await asyncio.wait({written}, timeout=timeout)
        now, since_now = time.monotonic(), self._writing_since
        if done or since_now is None or now - since_now < seconds_max:
            return bool(done)
        if now - begun < timeout + seconds_max:
            raise DaemonError(
                f"one append to the log in {self._log.folder} took more than "
                f"{seconds_max:.1f} s, so the controller role was given up; check the "
                "disk"
            )
        self._writing_since = now
        return False

    async def _apply(self, event: Recorded) -> None:
        for slice_of_commands in self._fold.apply(event):
            for issued in slice_of_commands:
                self.carry_out(issued)
            self._unwritten += slice_of_commands
            self.progress.issued(event, slice_of_commands)
            await anyio.lowlevel.checkpoint()
        if isinstance(event.event, SessionExpired):
            self._inbox.expired -= 1
        self._encoding_ahead.folded()
        self.progress.folded(event, self._fold.term, time.monotonic_ns())
        _log_session(event.event)

    def carry_out(self, issued: Issued) -> None:
        """Carry out a command of the fold, or start to."""
        match issued.command:
            case Notice() as notice:
                self._log_notice(notice, issued)
            case Stop() as stop:
                self._stop = stop
            case StartTimer(timer=timer, delay_ms=delay_ms):
                self._start_timer(timer, delay_ms / 1000)
            case CancelTimer(timer=timer):
                self._cancel_timer(timer)
            case CloseChannel() as close:
                self._channels.close(close)
            case answer if isinstance(answer, ApiResponse):
                self._inbox.secret_digests.forget(answer)
                self._endpoint.answer(answer)
            case DelayResponse(request=request):
                self._endpoint.answer_later(request)
            case _ if self._inbox.expired:
                pass  # The session has expired: a term that has ended sends nothing.
            case OpenChannel() as opened:
                self._channels.open(opened)
            case ProbeBroker() as probe:
                self._channels.probe(probe)
            case (
                LeaderAndIsrRequest() | UpdateMetadataRequest() | StopReplicaRequest()
            ) as request:
                self._channels.send(issued.id, request)
                if isinstance(request, UpdateMetadataRequest):
                    own = request.controller_id
                    others = [one for one in request.live_brokers if one.id != own]
                    self._endpoint.set_brokers(others)
            case DrawTopicIds(count=count):
                self._inbox.put(TopicIdsDrawn(issued.id, draw_topic_ids(count)), "draw")
            case DrawNumbers(bounds=bounds):
                self._inbox.put(NumbersDrawn(issued.id, draw_numbers(bounds)), "draw")
            case zookeeper_command:
                digests = self._inbox.secret_digests
                with_secrets = digests.restore_secrets(issued.id, zookeeper_command)
                self._zookeeper.submit(issued.id, with_secrets)

    def _log_notice(self, notice: Notice, issued: Issued) -> None:
        fields = {
            "code": notice.code,
            "subject": notice.subject,
            "event": issued.id.cause,
            "term": issued.term,
        }
        logger.log(_LEVELS[notice.level], "%s", notice.text, extra={"fields": fields})

    def _start_timer(self, timer: str, seconds: float) -> None:
        self._cancel_timer(timer)

        def fire() -> None:
            del self._timers[timer]
            self._inbox.put(TimerFired(timer), f"timer:{timer}")

        self._timers[timer] = asyncio.get_running_loop().call_later(seconds, fire)

    def _cancel_timer(self, timer: str) -> None:
        handle = self._timers.pop(timer, None)
        if handle is not None:
            handle.cancel()


def _log_session(event: Event) -> None:
    match event:
        case SessionConnected(server=server, renewed=renewed):
            what = "session resumed" if renewed else "new session"
            logger.info("ZooKeeper %s: %s", server, what)
        case SessionDisconnected(cause=cause):
            text = "lost the connection to ZooKeeper, the daemon acts on nothing meanwhile: %s"
            logger.warning(text, cause)
        case SessionExpired():
            logger.warning("the ZooKeeper session expired")
