"""Counts what Kafka's controller counts, from the events of a log and the steps of the fold.

All times are the monotonic clock of the log's events, so that a replay counts the same numbers.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from controller.core.commands import (
    CloseChannel,
    CommandId,
    Issued,
    LeaderAndIsrRequest,
    OpenChannel,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.controller import Controller
from controller.core.distribution import QUANTILES, Distribution
from controller.core.election import Elected
from controller.core.events import (
    BrokerResponded,
    Recorded,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
)
from controller.core.fold_observer import FoldObserver
from controller.core.metric_table import (
    CHANNEL_QUEUE_SIZE,
    EVENTS,
    GAUGES,
    IDLE,
    LEADER_AND_ISR_TIMER,
    QUEUE_SIZE,
    QUEUE_TIME,
    REQUEST_TIME,
    SESSION_METERS,
    STANDBY_LAG,
    STANDBY_STALE,
    TIMERS,
    TOTAL_QUEUE_SIZE,
    UNCLEAN,
    ControllerState,
    controller_gauge,
    controller_state,
    session_name,
    timer_name,
)
from controller.core.metrics import gauges
from controller.core.state import Partition
from controller.core.triggers import LeaderAndIsrResponseReceived, Trigger
from controller.core.values import LeaderAndIsr

_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000

_IDLE_NS_MAX: Final = 300 * _NS_PER_S
"""After this time without a controller event, Kafka empties the histogram of the queue times
(ControllerEventManager.eventQueueTimeTimeoutMs)."""

_IN_ZOOKEEPER_MODE: Final = 4
"""The value of ZkMigrationState.ZK."""


class Sample(NamedTuple):
    """One value of a metric. `name` is the metric's, with the ending _count for the count of a
    summary."""

    metric: str
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def summary_samples(
    metric: str, found: Distribution, labels: tuple[tuple[str, str], ...] = ()
) -> Iterator[Sample]:
    """The quantiles of a summary, and its count."""
    for quantile, value in zip(QUANTILES, found.quantiles(), strict=True):
        yield Sample(metric, metric, (*labels, ("quantile", quantile)), value)
    yield Sample(metric, f"{metric}_count", labels, found.count)


class _Running:
    """A procedure that has begun. `since_ns`: since when it runs; None while it is paused."""

    def __init__(self, state: ControllerState, now_ns: int) -> None:
        self.state = state
        self.since_ns: int | None = now_ns
        self._spent_ns = 0

    def pause(self, now_ns: int) -> None:
        self._spent_ns, self.since_ns = self.spent_ns(now_ns), None

    def spent_ns(self, now_ns: int) -> int:
        """How long it has run, without pauses."""
        return self._spent_ns + (now_ns - self.since_ns if self.since_ns is not None else 0)


class _Channel:
    """The requests to one broker without a response, each with the time when it was issued; the
    first is in flight."""

    def __init__(self) -> None:
        self.waited = Distribution()
        self._requests = deque[tuple[CommandId, int, bool]]()

    @property
    def queued(self) -> int:
        """The number of requests that wait until the first one is answered."""
        return max(len(self._requests) - 1, 0)

    def add(self, id: CommandId, now_ns: int, *, is_leader_and_isr: bool) -> None:
        self._requests.append((id, now_ns, is_leader_and_isr))
        if len(self._requests) == 1:
            self.waited.add(0.0)

    def take_response(self, id: CommandId, now_ns: int) -> bool:
        """Remove the request of a response. Returns whether it was a LeaderAndIsr request."""
        is_leader_and_isr = False
        while self._requests and self._requests[0][0] <= id:
            _, _, is_leader_and_isr = self._requests.popleft()
            if self._requests:
                self.waited.add((now_ns - self._requests[0][1]) / _NS_PER_MS)
        return is_leader_and_isr


class MetricsObserver(FoldObserver):
    """Observes a fold and counts. It issues no command and changes nothing.

    Counts begin with the first event that is observed.
    """

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._now_ns = 0
        self._events = 0
        self._queued: dict[int, tuple[Trigger, int]] = {}
        self._running: _Running | None = None
        self._paused: _Running | None = None
        self._idle_since_ns = 0
        self._is_unhandled_response = False
        self._stale_since_ns: int | None = None
        self._unclean = 0
        self._queue_time = Distribution()
        self._timers = {timer: Distribution() for timer in TIMERS}
        self._channels = {broker: _Channel() for broker in controller.context.channels}
        self._session = dict.fromkeys(SESSION_METERS, 0)

    # Steps of the fold ---------------------------------------------------------------------------

    def folds(self, recorded: Recorded) -> None:
        if not self._events:
            # What a snapshot has counts from here on.
            self._now_ns = recorded.mono_ns
        self._end_response()
        self._note_stale()
        self._now_ns = recorded.mono_ns
        self._events += 1
        match recorded.event:
            case BrokerResponded(command=command, broker=broker):
                channel = self._channels.get(broker)
                if channel is not None:
                    self._is_unhandled_response = channel.take_response(command, self._now_ns)
            case SessionConnected():
                self._session["ZooKeeperSyncConnects"] += 1
            case SessionDisconnected():
                self._session["ZooKeeperDisconnects"] += 1
            case SessionExpired():
                self._session["ZooKeeperExpires"] += 1
            case _:
                pass

    def queues(self, trigger: Trigger) -> None:
        if isinstance(trigger, LeaderAndIsrResponseReceived):
            self._is_unhandled_response = False
        self._queued[id(trigger)] = (trigger, self._now_ns)

    def clears_queue(self) -> None:
        self._queued.clear()
        self._end(self._paused)
        self._end(self._running)
        self._paused = self._running = None

    def begins(self, trigger: Trigger) -> None:
        if self._paused is None and self._now_ns - self._idle_since_ns >= _IDLE_NS_MAX:
            self._queue_time.clear()
        queued = self._queued.pop(id(trigger), None)
        if queued is not None:
            self._add_queue_time(queued[1])
        else:
            self._waited_together()
        self._running = _Running(controller_state(trigger), self._now_ns)

    def ends(self) -> None:
        self._end(self._running)
        self._running = None

    def pauses(self) -> None:
        if self._running is not None:
            self._running.pause(self._now_ns)
        self._paused, self._running = self._running, None

    def breaks_off(self) -> None:
        self._end(self._paused)
        self._paused = None

    def resumes(self, trigger: Trigger) -> None:
        self._running, self._paused = self._paused, None
        if self._running is not None:
            self._running.since_ns = self._now_ns

    def elects(
        self, partition: Partition, rule: str, current: LeaderAndIsr, elected: Elected
    ) -> None:
        self._unclean += elected.unclean

    def issues(self, issued: Issued) -> None:
        match issued.command:
            case OpenChannel(broker=broker):
                self._channels[broker] = _Channel()
            case CloseChannel(broker=broker):
                del self._channels[broker]
            case (
                LeaderAndIsrRequest() | UpdateMetadataRequest() | StopReplicaRequest()
            ) as request:
                channel = self._channels.get(request.broker)
                if channel is not None:
                    is_leader_and_isr = isinstance(request, LeaderAndIsrRequest)
                    channel.add(issued.id, self._now_ns, is_leader_and_isr=is_leader_and_isr)
            case _:
                pass

    def _add_queue_time(self, since_ns: int) -> None:
        self._queue_time.add((self._now_ns - since_ns) / _NS_PER_MS)

    def _waited_together(self) -> None:
        """Several controller events are handled in one go: all that have left the queue."""
        left = {id(one) for one in self._controller.triggers}
        for key in [one for one in self._queued if one not in left]:
            self._add_queue_time(self._queued.pop(key)[1])

    def _end(self, running: _Running | None) -> None:
        if running is None:
            return
        self._idle_since_ns = self._now_ns
        if running.state.timer:
            spent_ns = running.spent_ns(self._now_ns)
            self._timers[running.state.timer].add(spent_ns / _NS_PER_MS)

    def _end_response(self) -> None:
        """Kafka queues an event for every LeaderAndIsr response. The daemon queues only
        responses about log directories."""
        if self._is_unhandled_response:
            self._is_unhandled_response = False
            self._timers[LEADER_AND_ISR_TIMER].add(0.0)

    def _note_stale(self) -> None:
        controller = self._controller
        if controller.is_active or not controller.standby.has_stale:
            self._stale_since_ns = None
        elif self._stale_since_ns is None:
            self._stale_since_ns = self._now_ns

    # Samples -------------------------------------------------------------------------------------

    def samples(self, now_ns: int | None = None) -> Iterator[Sample]:
        """The value of each metric at a time of the monotonic clock; None: that of the last
        event."""
        now_ns = self._now_ns if now_ns is None else now_ns
        self._end_response()
        self._note_stale()
        yield from self._gauges()
        yield _plain(UNCLEAN, self._unclean)
        for timer, found in self._timers.items():
            yield from summary_samples(timer_name(timer), found)
        yield _plain(QUEUE_SIZE, len(self._controller.triggers))
        is_old = self._running is None and now_ns - self._idle_since_ns >= _IDLE_NS_MAX
        yield from summary_samples(QUEUE_TIME, Distribution() if is_old else self._queue_time)
        yield from self._of_channels()
        for meter, count in self._session.items():
            yield _plain(session_name(meter), count)
        yield _plain(EVENTS, self._events)
        since_ns, standby = self._stale_since_ns, self._controller.standby
        yield _plain(STANDBY_LAG, (now_ns - since_ns) / _NS_PER_S if since_ns is not None else 0)
        yield _plain(STANDBY_STALE, 0 if self._controller.is_active else standby.count_stale())

    def _gauges(self) -> Iterator[Sample]:
        """While another is controller, every gauge is 0 (KafkaController.updateMetrics)."""
        controller, running = self._controller, self._running
        values = {
            **dict.fromkeys(GAUGES, 0),
            **(gauges(controller.context) if controller.is_active else {}),
            "ActiveControllerCount": int(controller.is_active),
            "ControllerState": (running.state if running is not None else IDLE).value,
            "ZkMigrationState": _IN_ZOOKEEPER_MODE,
        }
        for name in sorted(values):
            yield _plain(controller_gauge(name), values[name])

    def _of_channels(self) -> Iterator[Sample]:
        channels = sorted(self._channels.items())
        for broker, channel in channels:
            labels = (("broker_id", str(broker)),)
            yield Sample(CHANNEL_QUEUE_SIZE, CHANNEL_QUEUE_SIZE, labels, channel.queued)
        yield _plain(TOTAL_QUEUE_SIZE, sum(channel.queued for _, channel in channels))
        for broker, channel in channels:
            yield from summary_samples(REQUEST_TIME, channel.waited, (("broker_id", str(broker)),))


def _plain(name: str, value: float) -> Sample:
    return Sample(name, name, (), value)
