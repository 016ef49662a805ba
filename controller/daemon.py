"""The daemon: events into the log, through the fold, and its commands out. Decides nothing.

One loop: take the whole inbox, append it in one transaction, fold it, carry the commands out
(docs/design.md#the-path-of-an-event).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from secrets import randbelow, token_bytes
from typing import Final, Protocol, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from controller.core.commands import (
    AnswerLater,
    ApiAnswer,
    CancelTimer,
    CloseChannel,
    CommandId,
    DrawNumbers,
    DrawTopicIds,
    Issued,
    LeaderAndIsrRequest,
    Notice,
    OpenChannel,
    StartTimer,
    Stop,
    StopReplicaRequest,
    UpdateMetadataRequest,
    ZooKeeperCommand,
)
from controller.core.configuration import Configuration
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
from controller.errors import DaemonError
from controller.housekeeping import Housekeeping
from controller.log_records import command_record, event_record
from controller.log_thread import LogThread
from controller.seals import Seals
from controller.topic_ids import is_reserved
from eventstore.errors import LogError
from eventstore.writer import LogWriter

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_HELD_UP: Final = 2
"""A wait that ends after so many times its length: nothing of the process went on meanwhile."""
_QUIET_SECONDS: Final = 0.2
"""Commands that no further event takes along are written down after this time."""


class ZooKeeper(Protocol):
    """What the daemon needs of a ZooKeeper connection."""

    def submit(self, command_id: CommandId, command: ZooKeeperCommand, /) -> None: ...
    async def run(self) -> None: ...
    async def close(self) -> None: ...


class Channels(Protocol):
    """What the daemon needs of the channels to brokers."""

    def open(self, command: OpenChannel, /) -> None: ...
    def close(self, command: CloseChannel, /) -> None: ...
    def send(
        self,
        command_id: CommandId,
        request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest,
        /,
    ) -> None: ...
    def close_all(self) -> None: ...
    async def run(self) -> None: ...


class Endpoint(Protocol):
    """What the daemon needs of its Kafka-protocol endpoint."""

    def answer(self, answer: ApiAnswer, /) -> None: ...
    def answer_later(self, request: int, /) -> None: ...
    def set_brokers(self, brokers: Sequence[Broker], /) -> None: ...
    async def close(self) -> None: ...
    async def run(self) -> None: ...


class Inbox:
    """Events on their way to the log, with the times at which they came. Bounded by what was
    asked for: one outcome a command, and what ZooKeeper and the operator do meanwhile."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, str, Event]] = []
        self._arrived = anyio.Event()
        self.seals = Seals()
        """For the secrets of what comes: the log gets them sealed."""
        self.expired = 0
        """Ends of a session that the fold has not seen yet: the gate is shut while there is one."""

    def put(self, event: Event, channel: str) -> None:
        """An event has come."""
        if isinstance(event, SessionExpired):
            self.expired += 1
        sealed = self.seals.seal(event)
        self._waiting.append((time.time_ns(), time.monotonic_ns(), channel, sealed))
        self._arrived.set()

    async def wait(self, seconds: float) -> None:
        """Until there is an event, at most so long."""
        with anyio.move_on_after(seconds):
            await self._arrived.wait()

    def take(self, seq: int, term: int) -> list[Recorded]:
        """All that came, numbered after `seq`."""
        waiting, self._waiting = self._waiting, []
        self._arrived = anyio.Event()
        return [
            Recorded(number, wall_ns, mono_ns, term, channel, event)
            for number, (wall_ns, mono_ns, channel, event) in enumerate(waiting, seq + 1)
        ]


class Daemon:
    """One run of the controller: from its first session to its end."""

    def __init__(
        self,
        configuration: Configuration,
        log: LogWriter,
        inbox: Inbox,
        zookeeper: ZooKeeper,
        channels: Channels,
        endpoint: Endpoint,
        housekeeping: Housekeeping,
        session_timeout_ms: int,
    ) -> None:
        self._fold = Fold(configuration)
        self._log = log
        self._inbox = inbox
        self._zookeeper = zookeeper
        self._channels = channels
        self._endpoint = endpoint
        self._housekeeping = housekeeping
        self._append_seconds_max = session_timeout_ms / 1000 / 3
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._unwritten: list[Issued] = []
        self._stop: Stop | None = None

    def shut_down(self, reason: str) -> None:
        """Ask for the orderly end: the role is handed back first."""
        self._inbox.put(ShutdownRequested(reason), "operator")

    async def run(self) -> str:
        """Run until the fold says stop; the reason that it gave up for, empty if it was asked to.

        Raises DaemonError when it could not go on, alone or in a group.
        """
        writer = LogThread()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._zookeeper.run)
                tasks.start_soon(self._channels.run)
                tasks.start_soon(self._endpoint.run)
                try:
                    await self._fold_until_stopped(writer, tasks)
                finally:
                    # Whatever happened: nothing is sent any more, and the role is free at once.
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
        while self._stop is None:
            await self._inbox.wait(_QUIET_SECONDS)
            events = self._inbox.take(self._log.tip.last_seq, self._fold.term)
            if events or self._unwritten:
                await self._append(writer, events)
            for event in events:
                await self._apply(event)
            if self._fold.is_idle and not self._unwritten:
                rolled = await self._on_disk(writer, self._log.roll_if_due)
                if rolled is not None:
                    tasks.start_soon(self._housekeeping.after_roll)
        await self._append(writer, [])

    async def _append(self, writer: Executor, events: Sequence[Recorded]) -> None:
        """Everything into the log, or the end: nothing is acted on that is not stored."""
        commands, self._unwritten = self._unwritten, []

        def append() -> None:
            self._log.append(
                [event_record(one) for one in events], [command_record(one) for one in commands]
            )

        await self._on_disk(writer, append)

    async def _on_disk(self, writer: Executor, write: Callable[[], T]) -> T:
        """What `write` gives, in good time. Raises DaemonError."""
        written = asyncio.get_running_loop().run_in_executor(writer, write)
        try:
            while not await self._is_in_time(written):
                pass
            return written.result()
        except LogError as error:
            raise DaemonError(f"cannot append to the log, gave the role up: {error}") from error
        finally:
            written.cancel()

    async def _is_in_time(self, written: asyncio.Future[T]) -> bool:
        """Whether it is done; not if the process was held up meanwhile, which says nothing of
        the disk. Raises DaemonError."""
        seconds_max, begun = self._append_seconds_max, time.monotonic()
        done, _ = await asyncio.wait({written}, timeout=seconds_max)
        if not done and time.monotonic() - begun < _HELD_UP * seconds_max:
            raise DaemonError(
                f"the log in {self._log.folder} took more than {seconds_max:.1f} s for one append:"
                " gave the role up; look at the disk"
            )
        return bool(done)

    async def _apply(self, event: Recorded) -> None:
        for slice_of_commands in self._fold.apply(event):
            for issued in slice_of_commands:
                self.carry_out(issued)
            self._unwritten += slice_of_commands
            await anyio.lowlevel.checkpoint()
        if isinstance(event.event, SessionExpired):
            self._inbox.expired -= 1
        _tell_of_session(event.event)

    def carry_out(self, issued: Issued) -> None:
        """Do what the controller has decided, or begin to."""
        match issued.command:
            case Notice() as notice:
                self._tell(notice, issued)
            case Stop() as stop:
                self._stop = stop
            case StartTimer(timer=timer, delay_ms=delay_ms):
                self._start_timer(timer, delay_ms / 1000)
            case CancelTimer(timer=timer):
                self._cancel_timer(timer)
            case CloseChannel() as close:
                self._channels.close(close)
            case answer if isinstance(answer, ApiAnswer):
                self._inbox.seals.forget(answer)
                self._endpoint.answer(answer)
            case AnswerLater(request=request):
                self._endpoint.answer_later(request)
            case _ if self._inbox.expired:
                pass  # The gate is shut: a term that is over sends nothing.
            case OpenChannel() as opened:
                self._channels.open(opened)
            case (
                LeaderAndIsrRequest() | UpdateMetadataRequest() | StopReplicaRequest()
            ) as request:
                self._channels.send(issued.id, request)
                if isinstance(request, UpdateMetadataRequest):
                    own = request.controller_id
                    others = [one for one in request.live_brokers if one.id != own]
                    self._endpoint.set_brokers(others)
            case DrawTopicIds(count=count):
                self._inbox.put(TopicIdsDrawn(issued.id, _draw_topic_ids(count)), "draw")
            case DrawNumbers(bounds=bounds):
                numbers = [randbelow(bound) for bound in bounds]
                self._inbox.put(NumbersDrawn(issued.id, numbers), "draw")
            case zookeeper_command:
                for_zookeeper = self._inbox.seals.open(issued.id, zookeeper_command)
                self._zookeeper.submit(issued.id, for_zookeeper)

    def _tell(self, notice: Notice, issued: Issued) -> None:
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


def _tell_of_session(event: Event) -> None:
    match event:
        case SessionConnected(server=server, renewed=renewed):
            what = "the session goes on" if renewed else "a new session"
            logger.info("ZooKeeper %s: %s", server, what)
        case SessionDisconnected(cause=cause):
            logger.warning("the connection to ZooKeeper is lost: %s", cause)
        case SessionExpired():
            logger.warning("the ZooKeeper session is over")


def _draw_topic_ids(count: int) -> list[bytes]:
    drawn: list[bytes] = []
    while len(drawn) < count:
        candidate = token_bytes(16)
        if not is_reserved(candidate):
            drawn.append(candidate)
    return drawn
