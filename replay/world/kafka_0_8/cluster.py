"""A cluster of brokers without a controller: ZooKeeper, network, clients and administrators.

The caller starts, stops and separates brokers, and lets virtual time pass. The same calls produce
the same histories.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

from msgspec.structs import replace

from controller.core.commands import (
    CancelTimer,
    CommandId,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    StartTimer,
    SyncZnodes,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.error_codes import REQUEST_TIMED_OUT
from controller.core.events import SessionConnected, SessionDisconnected, SessionExpired, TimerFired
from controller.core.operations import CONNECTION_LOSS, OK, WriteOperation
from controller.core.znodes.schema import parse_natural
from controller.kafka_0_8 import admin, znodes
from controller.kafka_0_8.admin import (
    AdminError,
    Assignments,
    StoredEpoch,
    StoredPartition,
    replicas_or_none,
)
from controller.kafka_0_8.commands import (
    AppendRecords,
    BrokerCommand,
    DeleteLog,
    IssuedByBroker,
    OpenLog,
    RespondFetch,
    RespondProduce,
    SendFetch,
    TruncateLog,
    WriteCheckpoint,
    run_of,
)
from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8.events import (
    CONSUMER,
    BrokerEvent,
    FetchReceived,
    FetchResponded,
    LogDeleted,
    LogOpened,
    LogTruncated,
    ProduceReceived,
    RecordsAppended,
)
from controller.kafka_0_8.state import Name
from replay.world.kafka_0_8.broker_process import BrokerProcess, Record
from replay.world.outcomes import carry_out, without_reply
from replay.world.processes import ZOOKEEPER
from replay.world.requests import Exists, GetChildren, GetData, Multi
from replay.world.scheduler import WALL_START_MS
from replay.world.zookeeper import ZooKeeper

_ZOOKEEPER: Final = (
    ReadZnodes,
    ReadStats,
    ReadChildren,
    WriteZnodes,
    WriteAtomically,
    SyncZnodes,
    WatchSubtree,
)
_SESSION_TIMEOUT_MS: Final = 6000
_REQUEST_TIMEOUT_MS: Final = 1000
_LATENCY_MS: Final = 1

_Delivery = tuple[int, int, int, int, str, BrokerEvent, list[Record]]
"""Due time, order, broker, its run, channel, event, and the records that come with it."""


class Cluster08:
    """Brokers of the 0.8 design, by id.

    - `responses`: the last response to each request of a client, with the records of a fetch.
    - `cut`: pairs of brokers, the lower id first, that cannot reach each other.
    - `silent`: brokers that read nothing from ZooKeeper: they do not learn that their session is
      over.
    - `loses_reply`: whether ZooKeeper carries out a command, and the reply is lost with the
      connection, which is restored at once.
    """

    def __init__(self, *brokers: int, **settings: int) -> None:
        self.zookeeper = ZooKeeper()
        self.now_ms = WALL_START_MS
        self.brokers: dict[int, BrokerProcess] = {}
        self.responses: dict[int, tuple[RespondProduce | RespondFetch, list[Record]]] = {}
        self.cut: dict[tuple[int, int], None] = {}
        self.silent: dict[int, None] = {}
        self.loses_reply: Callable[[IssuedByBroker], bool] = lambda issued: False
        self._settings = settings
        self._admin = self.zookeeper.create_session()
        self._queue: list[_Delivery] = []
        self._order = 0
        self._requests = 0
        self._fetches: dict[int, tuple[int, int, CommandId]] = {}
        self._write(admin.add_brokers(brokers, ()))
        for broker in brokers:
            self.add(broker)

    def add(self, broker: int) -> BrokerProcess:
        """A broker that is not started yet."""
        configuration = BrokerConfiguration(broker_id=broker, host=f"host{broker}", port=9092)
        configuration = replace(configuration, **self._settings)
        process = self.brokers[broker] = BrokerProcess(configuration)
        return process

    # Brokers

    def start(self, *brokers: int) -> None:
        """Start brokers, each in a new session, and let them finish their start-up."""
        for broker in brokers:
            self.boot(broker)
        self.run(100)

    def boot(self, broker: int) -> None:
        """Begin to start a broker."""
        process = self.brokers[broker]
        process.start(self.zookeeper.create_session())
        self._deliver(process, "session", _session_connected(process.session))

    def stop(self, broker: int, *, session_ends: bool = True) -> None:
        """Kill a broker. Its session ends at once, or when `end_session` is called."""
        self.brokers[broker].is_running = False
        if session_ends:
            self.end_session(broker)

    def end_session(self, broker: int) -> None:
        """ZooKeeper ends the session of a broker. If the broker runs and is not `silent`, it learns
        of that, and begins a new session."""
        process = self.brokers[broker]
        if self.zookeeper.is_live(process.session):
            self.zookeeper.end_session(process.session)
        self._collect_watches()
        if process.is_running and broker not in self.silent:
            self.learn_of_expiry(broker)

    def learn_of_expiry(self, broker: int) -> None:
        """A broker learns that its session is over, and begins a new one."""
        process = self.brokers[broker]
        self.silent.pop(broker, None)
        self._deliver(process, "session", SessionExpired(process.session))
        process.session = self.zookeeper.create_session()
        self._deliver(process, "session", _session_connected(process.session))

    def lose_connection(self, broker: int) -> None:
        """A broker loses its connection to ZooKeeper, which is restored at once."""
        process = self.brokers[broker]
        self._deliver(process, "session", SessionDisconnected(process.session, "reset"))
        self._deliver(process, "session", _session_connected(process.session, renewed=True))

    # Clients

    def produce(
        self, broker: int, name: Name, records: list[Record], acks: int, *, wait_ms: int = 0
    ) -> int:
        """Send records to a broker; returns the number of the request."""
        self._requests += 1
        request = self._requests
        event = ProduceReceived(request, *name, len(records), acks)
        self._deliver(self.brokers[broker], "client", event, records)
        self.run(wait_ms)
        return request

    def consume(self, broker: int, name: Name, offset: int) -> tuple[int, list[Record]]:
        """The error code and the records of a consumer's fetch; no response: REQUEST_TIMED_OUT."""
        self._requests += 1
        request = self._requests
        event = FetchReceived(request, CONSUMER, *name, offset, 0)
        self._deliver(self.brokers[broker], "client", event)
        self.run(10)
        response, records = self.responses.get(request, (None, []))
        return (REQUEST_TIMED_OUT if response is None else response.error), records

    # Administrators

    def add_brokers(self, *brokers: int) -> None:
        """The command add-brokers."""
        known = [*znodes.PERSISTENT, znodes.EPOCH, *map(znodes.state_path, brokers)]
        self._write(admin.add_brokers(brokers, [one for one in known if self._exists(one)]))

    def remove_brokers(self, *brokers: int) -> None:
        """The command remove-brokers. Raises AdminError."""
        queues = {
            one: self.children(znodes.state_path(one)) for one in self._brokers_with_state_path()
        }
        assigned = Assignments()
        for topic in self.children(znodes.TOPICS):
            for number in self._numbers(znodes.topic_path(topic)):
                stored = self._content(znodes.replicas_path(topic, number))
                new = self._content(znodes.reassigned_path(topic, number))
                assigned.add((topic, number), stored, new)
        registered = self._numbers(znodes.BROKER_IDS)
        self._write(admin.remove_brokers(brokers, queues, assigned, registered))

    def create_topic(self, topic: str, assignment: dict[int, tuple[int, ...]]) -> None:
        """The command create. Raises AdminError."""
        self._write(admin.create_topic(topic, assignment, self._brokers_with_state_path()))

    def delete_topic(self, topic: str) -> None:
        """The command delete. Raises AdminError."""
        path = znodes.reassigned_topic_path(topic)
        moves = self.children(path) if self._exists(path) else None
        stored = self._stored_partitions(topic)
        read = self.zookeeper.apply(self._admin, GetData(znodes.EPOCH), self.now_ms).result
        epoch = StoredEpoch(read.data or b"", read.stat.version) if read.stat else None
        self._write(
            admin.delete_topic(
                topic, stored, self._brokers_with_state_path(), moves=moves, epoch=epoch
            )
        )

    def reassign(self, name: Name, replicas: tuple[int, ...], *, replaces: bool = False) -> None:
        """The command reassign. Raises AdminError."""
        paths = admin.paths_of_reassignment(*name)
        existing = [one for one in paths if self._exists(one)]
        found = self.zookeeper.find(znodes.reassigned_path(*name)) if replaces else None
        version = None if found is None else found.version
        known = self._brokers_with_state_path()
        self._write(admin.reassign(*name, replicas, known, existing, replaces=version))

    def _brokers_with_state_path(self) -> list[int]:
        return self._numbers(znodes.STATE)

    def _numbers(self, path: str) -> list[int]:
        numbers = map(parse_natural, self.children(path))
        return [one for one in numbers if one is not None]

    def _stored_partitions(self, topic: str) -> dict[int, StoredPartition]:
        found = {}
        for number in self._numbers(znodes.topic_path(topic)):
            name = (topic, number)
            path = znodes.replicas_path(*name)
            read = self.zookeeper.apply(self._admin, GetData(path), self.now_ms).result
            assert read.stat is not None
            found[number] = StoredPartition(
                replicas_or_none(name, read.data),
                read.stat.version,
                tuple(self.children(znodes.partition_path(*name))),
                self._exists(znodes.reassigned_path(*name)),
            )
        return found

    def _write(self, operations: list[WriteOperation]) -> None:
        results = self.zookeeper.apply(self._admin, Multi(tuple(operations)), self.now_ms).results
        for operation, result in zip(operations, results, strict=True):
            if result.error != OK:
                raise AdminError(f"{operation.path}: ZooKeeper code {result.error}")
        self._collect_watches()

    def write(self, *operations: WriteOperation) -> None:
        """Writes of any client, all or nothing."""
        self._write(list(operations))

    # ZooKeeper

    def data(self, path: str) -> str | None:
        """The content of a znode; None if it does not exist."""
        content = self._content(path)
        return None if content is None else content.decode("utf-8", "replace")

    def _content(self, path: str) -> bytes | None:
        found = self.zookeeper.apply(self._admin, GetData(path), self.now_ms).result
        return None if found.error else (found.data or b"")

    def children(self, path: str) -> list[str]:
        """The children of a znode."""
        listed = self.zookeeper.apply(self._admin, GetChildren(path), self.now_ms).result
        return list(listed.children or ())

    def _exists(self, path: str) -> bool:
        return self.zookeeper.apply(self._admin, Exists(path), self.now_ms).result.error == OK

    def _collect_watches(self) -> None:
        for broker, process in self.brokers.items():
            if process.is_running and self.zookeeper.is_live(process.session):
                for fired in self.zookeeper.take_events(process.session):
                    if broker not in self.silent:
                        self._deliver(process, "watches", fired)

    # Time

    def run(self, for_ms: int) -> None:
        """Let virtual time pass."""
        end = self.now_ms + for_ms
        while self._queue and self._queue[0][0] <= end:
            self._step()
        self.now_ms = end

    def _step(self) -> None:
        due, order, broker, run, channel, event, records = heappop(self._queue)
        self.now_ms = max(self.now_ms, due)
        process = self.brokers[broker]
        if not process.is_running or len(process.runs) != run:
            return
        if isinstance(event, TimerFired) and process.timers.get(event.timer) != order:
            return
        for issued in process.apply(event, channel, self.now_ms, records):
            self._carry_out(process, issued)
        self._collect_watches()

    def _deliver(
        self,
        process: BrokerProcess,
        channel: str,
        event: BrokerEvent,
        records: list[Record] | None = None,
        delay_ms: int = _LATENCY_MS,
    ) -> int:
        self._order += 1
        due = self.now_ms + delay_ms
        run = len(process.runs)
        delivery = (due, self._order, process.id, run, channel, event, records or [])
        heappush(self._queue, delivery)
        return self._order

    # Commands

    def _carry_out(self, process: BrokerProcess, issued: IssuedByBroker) -> None:
        command: BrokerCommand = issued.command
        if isinstance(command, _ZOOKEEPER):
            self._ask_zookeeper(process, issued, command)
            return
        match command:
            case StartTimer(timer=timer, delay_ms=delay_ms):
                fired = TimerFired(timer)
                order = self._deliver(process, f"timer:{timer}", fired, delay_ms=delay_ms)
                process.timers[timer] = order
            case CancelTimer(timer=timer):
                process.timers.pop(timer, None)
            case SendFetch():
                self._send_fetch(process, issued.id, command)
            case RespondProduce(request=request):
                self.responses[request] = (command, [])
            case RespondFetch():
                self._respond_fetch(process, command)
            case WriteCheckpoint(hws=hws):
                process.checkpoint |= {(topic, number): hw for topic, number, hw in hws}
            case OpenLog() | TruncateLog() | DeleteLog() | AppendRecords():
                outcome = _log_outcome(process, issued.id, command)
                self._deliver(process, "log", outcome)
            case _:
                # A notice.
                return

    def _ask_zookeeper(
        self, process: BrokerProcess, issued: IssuedByBroker, command: ZooKeeperCommand
    ) -> None:
        """A silent broker gets no reply."""
        if process.id in self.silent:
            return
        is_lost = self.loses_reply(issued)
        outcomes = carry_out(self.zookeeper, process.session, issued.id, command, self.now_ms)
        # Changes before the reply are reported before the reply.
        self._collect_watches()
        for outcome in outcomes:
            found = without_reply(outcome, CONNECTION_LOSS) if is_lost else outcome
            self._deliver(process, ZOOKEEPER, found)
        if is_lost:
            self.lose_connection(process.id)

    def _send_fetch(self, process: BrokerProcess, id: CommandId, command: SendFetch) -> None:
        self._requests += 1
        leader = self.brokers[command.leader]
        pair = tuple(sorted((process.id, leader.id)))
        if not leader.is_running or pair in self.cut:
            lost = FetchResponded(id, REQUEST_TIMED_OUT, 0, 0, 0)
            self._deliver(process, "fetch", lost, delay_ms=_REQUEST_TIMEOUT_MS)
            return
        self._fetches[self._requests] = (process.id, len(process.runs), id)
        event = FetchReceived(
            self._requests,
            process.id,
            command.topic,
            command.partition,
            command.offset,
            command.epoch,
            command.replicas_version,
            run_of(command),
        )
        self._deliver(leader, "replica", event)

    def _respond_fetch(self, process: BrokerProcess, response: RespondFetch) -> None:
        log = process.logs.get((response.topic, response.partition), [])
        records = log[response.start : response.end]
        asked = self._fetches.pop(response.request, None)
        if asked is None:
            self.responses[response.request] = (response, records)
            return
        follower, run, id = asked
        if len(self.brokers[follower].runs) == run:
            error, hw, leo = response.error, response.hw, response.leo
            event = FetchResponded(id, error, len(records), hw, leo)
            self._deliver(self.brokers[follower], "fetch", event, records)


def _session_connected(session: int, *, renewed: bool = False) -> SessionConnected:
    return SessionConnected(session, _SESSION_TIMEOUT_MS, "world:2181", renewed)


def _log_outcome(
    process: BrokerProcess,
    id: CommandId,
    command: OpenLog | TruncateLog | DeleteLog | AppendRecords,
) -> LogOpened | LogTruncated | LogDeleted | RecordsAppended:
    name = (command.topic, command.partition)
    match command:
        case OpenLog(czxid=czxid):
            return LogOpened(id, *process.open_log(name, czxid))
        case TruncateLog(offset=offset):
            return LogTruncated(id, process.truncate(name, offset))
        case AppendRecords(source=source):
            return RecordsAppended(id, process.append(name, source))
        case DeleteLog():
            process.delete_log(name)
            return LogDeleted(id)
