"""A world with an ensemble and a few clients."""

from controller.core.commands import CommandId, ZooKeeperCommand
from controller.core.events import Event, WatchFired
from controller.core.operations import OK
from controller.zookeeper.session import SessionSettings
from replay.world.ensemble.ensemble import Ensemble
from replay.world.network import Delivery, Network
from replay.world.requests import OperationResult, Reply, Request
from replay.world.scheduler import MS, ProcessClock, Scheduler
from replay.world.session_driver import SessionDriver
from replay.world.zookeeper import ZooKeeper
from replay.world.zookeeper_client import ProcessSession


class Process:
    """A process that can be paused (SIGSTOP)."""

    def __init__(self, world: "SmallWorld", process: str) -> None:
        self.world = world
        self.process = process
        self.clock = ProcessClock(world.scheduler)

    def pause(self) -> None:
        self.world.network.pause(self.process)
        self.clock.pause()

    def resume(self) -> None:
        """The process reads everything that has arrived, and then looks at the clock."""
        self.world.network.resume(self.process)
        self.clock.resume()


class Broker(Process):
    """A client with one-shot watches that records what happens to it."""

    def __init__(self, world: "SmallWorld", process: str, timeout_ms: int) -> None:
        super().__init__(world, process)
        self.happened: list[object] = []
        self.replies: list[Reply | None] = []
        self.client = ProcessSession(self.clock, world.network, process, self, timeout_ms)

    def session_started(self, session: int) -> None:
        self.happened.append(("started", session))

    def session_resumed(self) -> None:
        self.happened.append("resumed")

    def connection_lost(self) -> None:
        self.happened.append("lost")

    def session_expired(self) -> None:
        self.happened.append("expired")

    def watch_fired(self, event: WatchFired) -> None:
        self.happened.append((event.change, event.path))

    def ask(self, request: Request, wait_ms: int = 10) -> OperationResult | None:
        """The last result of a request; None if there is no reply in that time, or none at all."""
        self.replies.clear()
        self.client.submit(request, self.replies.append)
        self.world.wait(wait_ms)
        reply = self.replies[0] if self.replies else None
        return reply.results[-1] if reply else None

    def take(self) -> list[object]:
        """The events since the last call."""
        happened, self.happened = self.happened, []
        return happened


class Daemon(Process):
    """A refold daemon's session that records its events."""

    def __init__(self, world: "SmallWorld", process: str, settings: SessionSettings | None) -> None:
        super().__init__(world, process)
        self.events: list[Event] = []
        self.is_closed = False
        self._commands = 0
        self.driver = SessionDriver(
            self.clock,
            world.network,
            process,
            lambda event, channel: self.received(event),
            settings=settings,
            on_closed=self.closed,
        )

    def received(self, event: Event) -> None:
        self.events.append(event)

    def closed(self) -> None:
        self.is_closed = True

    def submit(self, command: ZooKeeperCommand) -> CommandId:
        self._commands += 1
        self.driver.submit(CommandId(1, self._commands), command)
        return CommandId(1, self._commands)

    def carry_out(self, command: ZooKeeperCommand, wait_ms: int = 20) -> list[Event]:
        """The events after a command."""
        self.take()
        self.submit(command)
        self.world.wait(wait_ms)
        return self.take()

    def take(self) -> list[Event]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events


class SmallWorld:
    """Virtual time begins at 0; `wait` lets it pass."""

    def __init__(self, state: ZooKeeper | None = None, *, is_old: bool = False) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler)
        self.network.observe = self._observe
        self.ensemble = Ensemble(self.scheduler, self.network, state, is_old=is_old)
        self.delivered: list[Delivery] = []

    @property
    def now_ms(self) -> int:
        return self.scheduler.now_us // MS

    def wait(self, ms: int) -> None:
        self.scheduler.run_until(self.scheduler.now_us + ms * MS)

    def broker(self, number: int, timeout_ms: int = 18_000) -> Broker:
        """A connected client; "broker N" is served by member N modulo 3 at first."""
        broker = Broker(self, f"broker {number}", timeout_ms)
        broker.client.start()
        self.wait(10)
        return broker

    def daemon(self, number: int = 100, settings: SessionSettings | None = None) -> Daemon:
        """A connected daemon."""
        daemon = Daemon(self, f"refold {number}", settings)
        daemon.driver.start()
        self.wait(20)
        return daemon

    def exists(self, path: str) -> bool:
        """Whether the leader has the znode."""
        return self.ensemble.state.find(path) is not None

    def _observe(self, delivery: Delivery) -> None:
        self.delivered.append(delivery)


def succeeded(result: OperationResult | None) -> bool:
    """Whether a request was answered without an error."""
    return result is not None and result.error == OK
