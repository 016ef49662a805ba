"""The daemon: appends events to the log, folds them, and carries out the resulting commands.

One loop: take all events from the inbox, append them in one transaction, fold them, carry out the
commands (docs/design.md#the-path-of-an-event). The daemon itself decides nothing.
"""

import time
from collections.abc import Iterable
from typing import Final

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from controller.core.api_requests import ApiResponse
from controller.core.commands import (
    CancelTimer,
    CloseChannel,
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
    ThrottleClient,
    UpdateMetadataRequest,
)
from controller.core.controller import Controller
from controller.core.events import (
    Event,
    NumbersDrawn,
    Recorded,
    SessionExpired,
    ShutdownRequested,
    TimerFired,
    TopicIdsDrawn,
)
from controller.core.fold import Fold
from controller.core.metrics_observer import MetricsObserver
from controller.core.state import Topic
from controller.daemon.appending import LogAppender
from controller.daemon.draws import draw_numbers, draw_topic_ids
from controller.daemon.encoding_ahead import EncodingAhead
from controller.daemon.event_loop import after_ms
from controller.daemon.event_queue import EventQueue
from controller.daemon.garbage import DroppedTopics, GarbageCollection
from controller.daemon.notices import NoticeLog, log_session
from controller.daemon.peers import ChannelsInterface, EndpointInterface, ZooKeeperInterface
from controller.daemon.progress import LoopProgress
from controller.event_log.housekeeping import Housekeeping
from controller.event_log.secret_digests import SecretDigests
from controller.timers import Timers
from eventstore.writer import LogWriter

_QUIET_SECONDS: Final = 0.2
"""Commands without a following event are appended to the log after this time."""


class Inbox(EventQueue[Event]):
    """Events that wait to be appended to the log, with their arrival times.

    The inbox is bounded: each command has one outcome, and ZooKeeper and the operator add few
    events.
    """

    def __init__(self) -> None:
        super().__init__()
        self.secret_digests = SecretDigests()
        """Replaces the secrets of incoming events, so that none reaches the log."""
        self.expired = 0
        """How many session expirations the fold has not seen yet. While there is one, no command
        is sent."""

    def put(self, event: Event, channel: str) -> None:
        """Add an event that has arrived."""
        if isinstance(event, SessionExpired):
            self.expired += 1
        self.add(self.secret_digests.replace_secrets(event), channel)

    def take(self, seq: int, term: int) -> list[Recorded]:
        """Remove and return all events, numbered from `seq` + 1."""
        return [
            Recorded(number, one.wall_ns, one.mono_ns, term, one.channel, one.event)
            for number, one in enumerate(self.take_all(), seq + 1)
        ]


class _Observer(MetricsObserver):
    """Counts the metrics, and passes the dropped topics on."""

    def __init__(self, controller: Controller, dropped: DroppedTopics) -> None:
        super().__init__(controller)
        self._dropped = dropped

    def drops_topics(self, topics: Iterable[Topic]) -> None:
        self._dropped.drops_topics(topics)


class Daemon:
    """One run of the controller, from its first session to its exit."""

    def __init__(
        self,
        fold: Fold,
        log: LogWriter,
        inbox: Inbox,
        zookeeper: ZooKeeperInterface,
        channels: ChannelsInterface,
        endpoint: EndpointInterface,
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
        consequence = "the controller role was given up"
        self._appender = LogAppender(log, session_timeout_ms / 1000 / 3, consequence)
        self._timers = Timers(
            after_ms, lambda timer: inbox.put(TimerFired(timer), f"timer:{timer}")
        )
        self._stop: Stop | None = None
        self._encoding_ahead = EncodingAhead(fold)
        self._garbage = GarbageCollection()
        self.progress = LoopProgress()
        self.notices = NoticeLog()
        self.append_times = self._appender.times
        self.metrics: MetricsObserver = _Observer(fold.controller, self._garbage.dropped)

    def shut_down(self, reason: str) -> None:
        """Ask for an orderly shutdown, which resigns the controller role first."""
        self._inbox.put(ShutdownRequested(reason), "operator")

    async def run(self) -> str:
        """Run until the fold returns Stop. Return the reason why the controller gave up, empty
        after an orderly shutdown.

        Raises DaemonError, alone or in a group, if the daemon cannot continue.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._zookeeper.run)
                tasks.start_soon(self._channels.run)
                tasks.start_soon(self._endpoint.run)
                if not self._fold.controller.configuration.keeps_state_without_role:
                    tasks.start_soon(self._encoding_ahead.run)
                try:
                    await self._fold_until_stopped(tasks)
                finally:
                    # In any case: stop sending requests and release the role at once.
                    self._channels.close_all()
                    with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                        await self._zookeeper.close()
                    with anyio.CancelScope(shield=True):
                        await self._endpoint.close()
                tasks.cancel_scope.cancel()
        finally:
            self._timers.cancel_all()
            self._appender.shutdown()
        return self._stop.reason if self._stop is not None else ""

    async def _fold_until_stopped(self, tasks: TaskGroup) -> None:
        with self._garbage as garbage:
            self._fold.controller.observer = self.metrics
            while self._stop is None:
                await self._inbox.wait(_QUIET_SECONDS)
                events = self._inbox.take(self._log.tip.last_seq, self._fold.term)
                self.progress.events_taken(events)
                if events or self._appender.has_commands:
                    await self._appender.append(events)
                garbage.dropped.free_some()
                if events:
                    garbage.work_begins()
                    for event in events:
                        await self._apply(event)
                    garbage.events_folded(is_idle=self._fold.is_idle)
                if self._fold.is_idle and not self._appender.has_commands:
                    rolled = await self._appender.roll_if_due()
                    if rolled is not None:
                        tasks.start_soon(self._housekeeping.after_roll)
        await self._appender.append([])

    async def _apply(self, event: Recorded) -> None:
        for slice_of_commands in self._fold.apply(event):
            for issued in slice_of_commands:
                self.carry_out(issued)
            self._appender.add(slice_of_commands)
            self.progress.issued(event, slice_of_commands)
            await anyio.lowlevel.checkpoint()
        if isinstance(event.event, SessionExpired):
            self._inbox.expired -= 1
        self._encoding_ahead.folded()
        silent_ms = self._zookeeper.silent_ms_at_end
        self.progress.folded(event, self._fold.term, time.monotonic_ns(), silent_ms)
        log_session(event.event)

    def carry_out(self, issued: Issued) -> None:
        """Carry out a command of the fold, or start to."""
        match issued.command:
            case Notice() as notice:
                self.notices.log(notice, issued)
                self.progress.notice_issued(notice)
            case Stop() as stop:
                self._stop = stop
            case StartTimer(timer=timer, delay_ms=delay_ms):
                self._timers.start(timer, delay_ms)
            case CancelTimer(timer=timer):
                self._timers.cancel(timer)
            case CloseChannel() as close:
                self._channels.close(close)
            case answer if isinstance(answer, ApiResponse):
                self._inbox.secret_digests.forget(answer)
                self._endpoint.answer(answer)
            case ThrottleClient(request=request, until_ms=until_ms):
                self._endpoint.throttle(request, until_ms)
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
