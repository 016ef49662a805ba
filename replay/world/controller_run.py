"""One run of a controller in a simulation, from its start to its end.

It does what controller/daemon does: it appends the events that wait, folds them, and carries out
the commands. Only the log is a list.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from controller.core.api_requests import ApiResponse
from controller.core.commands import (
    BrokerRequest,
    CancelTimer,
    CloseChannel,
    DelayResponse,
    DrawNumbers,
    DrawTopicIds,
    Issued,
    Notice,
    OpenChannel,
    ProbeBroker,
    StartTimer,
    Stop,
    ThrottleClient,
)
from controller.core.configuration import Configuration
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
from controller.timers import Timers
from replay.world.broker_channels import ActGuard, BrokerChannels
from replay.world.controller_endpoint import ControllerEndpoint
from replay.world.draws import Draws
from replay.world.network import Network
from replay.world.observer import Observer
from replay.world.scheduler import (
    MS,
    SECOND,
    WALL_START_MS,
    ProcessClock,
    Scheduler,
)
from replay.world.session_driver import SessionDriver, settings_of

START_NS: Final = WALL_START_MS * 1_000_000
"""The wall clock at the beginning of a simulation, in nanoseconds."""

_CLOSE_US_MAX: Final = 5 * SECOND
"""How long the daemon waits until its session is closed."""

History = list[tuple[Recorded, list[Issued]]]


class RunSettings(msgspec.Struct, frozen=True):
    """The parameters of a run. `highest`: the API versions that brokers offer."""

    process: str
    configuration: Configuration
    session_timeout_ms: int
    members: int
    highest: tuple[tuple[int, int], ...]


class ControllerRun:
    """One run. `history` has each event with the commands that the fold issued for it.

    `append_us` is how long an append to the log takes.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        settings: RunSettings,
        draws: Draws,
        acts: ActGuard,
        observer: Observer,
        on_end: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self.clock = ProcessClock(scheduler)
        self.fold = Fold(settings.configuration)
        self.history: History = []
        self.append_us = MS
        self.is_over = False
        self._network = network
        self._draws = draws
        self._observer = observer
        self._on_end = on_end
        self._channels = BrokerChannels(
            self.clock, network, settings.process, acts, self.put, settings.highest
        )
        self.endpoint = ControllerEndpoint(self.put)
        self._session = SessionDriver(
            self.clock,
            network,
            settings.process,
            self.put,
            settings=settings_of(settings.session_timeout_ms, settings.members),
            members=settings.members,
            on_closed=self._closed,
        )
        self._timers = Timers(
            self.clock.after_ms, lambda timer: self.put(TimerFired(timer), f"timer:{timer}")
        )
        self._inbox: list[tuple[int, str, Event, int]] = []
        self._is_busy = False
        self._expired = 0
        self._stop: Stop | None = None

    def start(self) -> None:
        """Connect to ZooKeeper."""
        self._session.start()

    def shut_down(self) -> None:
        """The operator asks the daemon to exit (SIGTERM)."""
        self.put(ShutdownRequested("SIGTERM"), "operator")

    def kill(self) -> None:
        """The process ends at once."""
        self.is_over = True
        self.clock.end()
        self._session.crash()

    def pause(self) -> None:
        """The process does nothing (SIGSTOP)."""
        self.clock.pause()

    def resume(self) -> None:
        """The process runs again (SIGCONT)."""
        self.clock.resume()

    # Events

    def put(self, event: Event, channel: str) -> None:
        """An event arrives."""
        if self.is_over:
            return
        if isinstance(event, SessionExpired):
            self._expired += 1
        self._inbox.append((self.clock.now_us, channel, event, self._network.current))
        if not self._is_busy:
            self._is_busy = True
            self.clock.after(0, self._append)

    def _append(self) -> None:
        """Append all that waits at once."""
        waiting, self._inbox = self._inbox, []
        term, first = self.fold.term, len(self.history) + 1
        events = [
            (Recorded(seq, START_NS + at_us * 1000, at_us * 1000, term, channel, event), cause)
            for seq, (at_us, channel, event, cause) in enumerate(waiting, first)
        ]
        append_us_max = self.settings.session_timeout_ms * MS // 3
        if self.append_us > append_us_max:
            stop = Stop("one append to the log took too long")
            self.clock.after(append_us_max, lambda: self._end(stop))
        else:
            self.clock.after(self.append_us, lambda: self._apply(events))

    def _apply(self, events: list[tuple[Recorded, int]]) -> None:
        network = self._network
        before = network.current
        for recorded, cause in events:
            network.current = cause
            issued: list[Issued] = []
            for commands in self.fold.apply(recorded):
                issued += commands
            self.history.append((recorded, issued))
            self._observer.folded(self.settings.process, recorded, issued)
            for one in issued:
                self._carry_out(one)
                if self.is_over:
                    network.current = before
                    return
            if isinstance(recorded.event, SessionExpired):
                self._expired -= 1
        network.current = before
        if self._stop is not None:
            self._end(self._stop)
        elif self._inbox:
            self.clock.after(0, self._append)
        else:
            self._is_busy = False

    # Commands

    def _carry_out(self, issued: Issued) -> None:
        """Carry out a command, as `Daemon.carry_out` does."""
        match issued.command:
            case Notice():
                return
            case Stop() as stop:
                self._stop = stop
            case StartTimer(timer=timer, delay_ms=delay_ms):
                self._timers.start(timer, delay_ms)
            case CancelTimer(timer=timer):
                self._timers.cancel(timer)
            case CloseChannel() as close:
                self._channels.close(close)
            case answer if isinstance(answer, ApiResponse):
                self.endpoint.answer(answer)
            case ThrottleClient() | DelayResponse():
                return
            case _ if self._expired:
                return  # The session has expired: a term that has ended sends nothing.
            case OpenChannel() as opened:
                self._channels.open(opened)
            case ProbeBroker() as probe:
                self._channels.probe(probe)
            case request if isinstance(request, BrokerRequest):
                self._channels.send(issued.id, request)
            case DrawTopicIds(count=count):
                ids = [self._draws.topic_id() for _ in range(count)]
                self.put(TopicIdsDrawn(issued.id, ids), "draw")
            case DrawNumbers(bounds=bounds):
                numbers = [self._draws.below(bound) for bound in bounds]
                self.put(NumbersDrawn(issued.id, numbers), "draw")
            case zookeeper_command:
                self._session.submit(issued.id, zookeeper_command)
        self._observer.carried_out(self.settings.process, issued)

    # The end

    def _end(self, stop: Stop) -> None:
        """Stop sending requests, and release the role at once."""
        self._stop = stop
        self._channels.close_all()
        self._timers.cancel_all()
        self._session.close()
        self.clock.after(_CLOSE_US_MAX, self._closed)

    def _closed(self) -> None:
        if not self.is_over:
            assert self._stop is not None
            self.kill()
            self._on_end(self._stop.reason)
