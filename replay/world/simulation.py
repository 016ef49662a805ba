"""A cluster in one process: the fold, a simulated ZooKeeper and simulated brokers.

It does with values what the daemon does with sockets: it carries out commands and delivers outcomes
as events. The caller moves the clock, which is a number. The same steps produce the same log.
"""

import struct
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from controller.core import znodes
from controller.core.commands import (
    BrokerRequest,
    DrawNumbers,
    DrawTopicIds,
    Issued,
    LeaderAndIsrRequest,
    ProbeBroker,
    Stop,
    StopReplicaRequest,
    UpdateMetadataRequest,
    ZooKeeperCommand,
)
from controller.core.configuration import Configuration
from controller.core.events import (
    REFUSES,
    BrokerProbed,
    BrokerResponded,
    Event,
    NumbersDrawn,
    Recorded,
    SessionConnected,
    SessionExpired,
    TimerFired,
    TopicIdsDrawn,
    WatchFired,
)
from controller.core.fold import Fold
from controller.core.operations import Create, Delete, SetData
from controller.core.values import ANY_VERSION
from replay.errors import ReplayError
from replay.world.broker.detached import DetachedBroker
from replay.world.messages import PartitionError
from replay.world.outcomes import ZooKeeperOutcome, carry_out
from replay.world.processes import ZOOKEEPER
from replay.world.requests import Exists, GetData, OperationResult, Request
from replay.world.scheduler import WALL_START_MS
from replay.world.zookeeper import ZooKeeper

_BROKER_REQUESTS = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)

_SESSION_TIMEOUT_MS: Final = 6000
_EVENTS_OF_A_RUN_MAX: Final = 20_000
"""More events than a cluster of this size needs: the controller is in an endless loop."""
PERSISTENT: Final = (
    znodes.BROKERS,
    znodes.BROKER_IDS,
    znodes.TOPICS,
    znodes.ADMIN,
    znodes.DELETE_TOPICS,
    znodes.CONFIGS,
    znodes.TOPIC_CONFIGS,
    znodes.BROKER_CONFIGS,
    znodes.CONFIG_CHANGES,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
)


class Simulation:
    """One controller in one small cluster.

    `history` has every event with the commands that it caused, `brokers` those that were sent a
    request. The caller can set:

    - `before`, called with each command just before it is carried out, to change the cluster in
      between (with `ask` and methods that do not run the controller)
    - `broker_errors`: the partitions for which a broker returns an error
    - `probed`: what a probe of a broker finds
    """

    def __init__(self, configuration: Configuration, zookeeper: ZooKeeper | None = None) -> None:
        self.fold = Fold(configuration)
        self.zookeeper = zookeeper or _empty_cluster()
        self.brokers: dict[int, DetachedBroker] = {}
        self.history: list[tuple[Recorded, list[Issued]]] = []
        self.before: Callable[[Issued], None] = lambda issued: None
        self.broker_errors: Callable[[BrokerRequest], list[PartitionError]] = lambda request: []
        self.probed: Callable[[int], str] = lambda broker: REFUSES
        self.now_ms = WALL_START_MS
        self.session = 0
        self.is_stopped = False
        self._inbox: deque[tuple[str, Event]] = deque()
        self._admin = self.zookeeper.create_session()
        self.broker_sessions: dict[int, int] = {}
        self._drawn = 0

    # The controller

    def connect(self) -> None:
        """The daemon's session begins; run until no event is left."""
        self.session = self.zookeeper.create_session()
        self.happen(self.session_connected(renewed=False), "session")

    def expire(self) -> None:
        """The daemon's session ends and a new one begins."""
        self.end_session()
        self.run()

    def reconnect(self) -> None:
        """The connection of the session is restored."""
        self.happen(self.session_connected(renewed=True), "session")

    def end_session(self) -> None:
        """End the daemon's session and begin another one, without running the controller."""
        if self.zookeeper.is_live(self.session):
            self.zookeeper.end_session(self.session)
        self.deliver(SessionExpired(self.session), "session")
        self.session = self.zookeeper.create_session()
        self.deliver(self.session_connected(renewed=False), "session")

    def session_connected(self, *, renewed: bool) -> SessionConnected:
        """The event of a session that begins, or whose connection is restored."""
        return SessionConnected(self.session, _SESSION_TIMEOUT_MS, "world:2181", renewed)

    def fire(self, timer: str) -> None:
        """A timer that was started fires."""
        self.happen(TimerFired(timer), f"timer:{timer}")

    def happen_next(self, event: Event, channel: str) -> None:
        """Deliver an event to the fold, without running the controller."""
        self._collect_watches()
        self.deliver(event, channel)

    def deliver(self, event: Event, channel: str) -> None:
        """The event follows those that wait; watch events that are not sent yet follow it."""
        self._inbox.append((channel, event))

    def happen(self, event: Event, channel: str) -> None:
        """Deliver an event to the fold; run until no event is left."""
        self.happen_next(event, channel)
        self.run()

    def run(self) -> None:
        """Fold the waiting events and carry out their commands until no event is left.

        Raises ReplayError after too many events.
        """
        begun = len(self.history)
        self._collect_watches()
        while self._inbox and not self.is_stopped:
            if len(self.history) - begun > _EVENTS_OF_A_RUN_MAX:
                raise ReplayError(f"the controller still works after {_EVENTS_OF_A_RUN_MAX} events")
            channel, event = self._inbox.popleft()
            self.now_ms += 1
            recorded = Recorded(
                len(self.history) + 1,
                self.now_ms * 1_000_000,
                self.now_ms * 1_000_000,
                self.fold.controller.context.epoch,
                channel,
                event,
            )
            issued: list[Issued] = []
            self.history.append((recorded, issued))
            for commands in self.fold.apply(recorded):
                issued += commands
            for command in issued:
                if not self.is_stopped:
                    self._carry_out(command)
            self._collect_watches()

    def _collect_watches(self) -> None:
        for fired in self.take_watch_events():
            self.deliver(fired, "watches")

    def take_watch_events(self) -> list[WatchFired]:
        """The watch events that ZooKeeper sends now. A subclass can change them."""
        is_live = self.session and self.zookeeper.is_live(self.session)
        return self.zookeeper.take_events(self.session) if is_live else []

    def _carry_out(self, issued: Issued) -> None:
        self.before(issued)
        command = issued.command
        if isinstance(command, ZooKeeperCommand):
            outcomes = self.ask_zookeeper(issued, command)
            # Changes before the reply are reported before the reply.
            self._collect_watches()
            for outcome in outcomes:
                self.deliver(outcome, ZOOKEEPER)
        elif isinstance(command, _BROKER_REQUESTS):
            self._ask_broker(issued, command)
        elif isinstance(command, ProbeBroker):
            broker, epoch = command.broker, command.broker_epoch
            probed = BrokerProbed(broker, epoch, self.probed(broker), "")
            self.deliver(probed, f"probe:{broker}:{epoch}")
        elif isinstance(command, DrawTopicIds):
            ids = [self._draw() for _ in range(command.count)]
            self.deliver(TopicIdsDrawn(issued.id, ids), "draw")
        elif isinstance(command, DrawNumbers):
            numbers = [self._draw_below(bound) for bound in command.bounds]
            self.deliver(NumbersDrawn(issued.id, numbers), "draw")
        elif isinstance(command, Stop):
            self.is_stopped = True
            if self.zookeeper.is_live(self.session):
                self.zookeeper.end_session(self.session)

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        """Carry out a command for ZooKeeper. Returns the replies, which a subclass can change."""
        return carry_out(self.zookeeper, self.session, issued.id, command, self.now_ms)

    def _ask_broker(self, issued: Issued, command: BrokerRequest) -> None:
        """Send a request to a broker; a stopped broker does not answer."""
        if self.find_broker_epoch(command.broker) is None:
            return
        errors = self.broker_errors(command)
        answer = self.broker(command.broker).answer(command, errors)
        answered = BrokerResponded(issued.id, command.broker, command.broker_epoch, *answer)
        self.deliver_response(command, answered)

    def deliver_response(self, request: BrokerRequest, response: BrokerResponded) -> None:
        """A broker has carried out a request. A subclass can delay the response."""
        self.deliver(response, f"broker:{request.broker}")

    def find_broker_epoch(self, broker: int) -> int | None:
        """The broker epoch of a registered broker; None if it is not registered."""
        stat = self.ask(GetData(znodes.broker_path(broker))).stat
        return stat.czxid if stat else None

    def _draw(self) -> bytes:
        """A new topic id, unique among all controllers of the cluster."""
        self._drawn += 1
        return struct.pack(">QQ", self._admin, self._drawn)

    def _draw_below(self, bound: int) -> int:
        self._drawn += 1
        return self._drawn % bound

    # The rest of the cluster

    def broker(self, broker: int) -> DetachedBroker:
        """A broker, running or not."""
        found = self.brokers.setdefault(broker, DetachedBroker(broker))
        run = self.find_broker_epoch(broker)
        if run is not None:
            found.run(run)
        return found

    def start_broker(self, broker: int, rack: str | None = None) -> None:
        """A broker registers, in a new session."""
        self.register(broker, rack)
        self.run()

    def register(self, broker: int, rack: str | None = None) -> None:
        """Register a broker in ZooKeeper, without running the controller."""
        session = self.broker_sessions[broker] = self.zookeeper.create_session()
        data = {
            "version": 5,
            "host": f"host{broker}",
            "port": 9092,
            "endpoints": [f"PLAINTEXT://host{broker}:9092"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        }
        if rack:
            data["rack"] = rack
        create = Create(znodes.broker_path(broker), msgspec.json.encode(data), ephemeral=True)
        self.zookeeper.apply(session, create, self.now_ms)

    def stop_broker(self, broker: int) -> None:
        """A broker's session ends: the broker died."""
        self.unregister(broker)
        self.run()

    def unregister(self, broker: int) -> None:
        """End the session of a broker, without running the controller."""
        self.zookeeper.end_session(self.broker_sessions.pop(broker))

    def put(self, path: str, data: bytes) -> None:
        """A client creates a znode or sets its data."""
        exists = self.ask(Exists(path)).error == 0
        self.ask(SetData(path, data, ANY_VERSION) if exists else Create(path, data))
        self.run()

    def remove(self, path: str) -> None:
        """A client deletes a znode."""
        self.ask(Delete(path, ANY_VERSION))
        self.run()

    def ask(self, request: Request) -> OperationResult:
        """A request in the session of a client."""
        return self.zookeeper.apply(self._admin, request, self.now_ms).result

    def data(self, path: str) -> bytes | None:
        """The data of a znode; None if it does not exist."""
        return self.ask(GetData(path)).data

    # The decisions

    def commands(self) -> list[Issued]:
        """Every command so far."""
        return [issued for _, commands in self.history for issued in commands]


def _empty_cluster() -> ZooKeeper:
    """A ZooKeeper with the znodes that brokers create before the first controller (KB 1.1)."""
    zookeeper = ZooKeeper()
    session = zookeeper.create_session()
    for path in PERSISTENT:
        zookeeper.apply(session, Create(path), WALL_START_MS)
    return zookeeper
