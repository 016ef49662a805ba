"""A broker of the 0.8 design as a process of the simulation: over all its runs, and one run.

It does what `Cluster08` does, over the network, the ensemble and the sessions of the simulation.
The disk takes no time. As with ZooKeeper's own client, a broker learns that its session is over
only from a server.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from controller.core.commands import (
    CancelTimer,
    CommandId,
    Notice,
    ReadZnodes,
    StartTimer,
)
from controller.core.error_codes import REQUEST_TIMED_OUT
from controller.core.events import Event, SessionExpired, TimerFired, ZnodesRead
from controller.core.operations import CONNECTION_LOSS
from controller.core.values import NO_LEADER
from controller.kafka_0_8 import rules
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
    run_of,
)
from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8.events import (
    BrokerEvent,
    FetchResponded,
    LogDeleted,
    LogOpened,
    LogTruncated,
    ProduceReceived,
    RecordsAppended,
)
from controller.kafka_0_8.state import NO_EPOCH, Partition
from controller.timers import Timers
from replay.names import broker_name, partition_named
from replay.world.broker.peer import Peer
from replay.world.broker.producer_ids import Route
from replay.world.broker.settings import BrokerSettings
from replay.world.kafka_0_8.broker_process import BrokerProcess
from replay.world.kafka_0_8.networked.messages import ReplicaFetch, ReplicaFetchResponse
from replay.world.kafka_0_8.networked.serving import Respond, ServedConnection
from replay.world.network import ConnectionSide, Message, Network
from replay.world.observer import Name, Observer
from replay.world.scheduler import MS, SECOND, ProcessClock, Scheduler
from replay.world.session_driver import SessionDriver, settings_of

_CLOSE_US_MAX: Final = 5 * SECOND
"""How long a broker that stops waits until its session is closed."""
_OF_CLIENTS: Final = 0
"""The event number in the ids of reads for clients; the fold's events begin with 1."""


class BrokerEnvironment(NamedTuple):
    """The shared parts of all simulated brokers. `members`: of the ensemble."""

    scheduler: Scheduler
    network: Network
    settings: BrokerSettings
    observer: Observer
    members: int


class NetworkedBroker:
    """The broker with one id. Its disk survives the end of a run. `client_reads`: how many znodes
    it has read for the metadata requests of clients."""

    broker_epoch: Final = 0
    """The design has no broker epochs."""

    def __init__(self, configuration: BrokerConfiguration, environment: BrokerEnvironment) -> None:
        self.store = BrokerProcess(configuration)
        self.process = broker_name(configuration.broker_id)
        self.client_reads = 0
        self._environment = environment
        self._run: _Run | None = None
        self._restart_after_us: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process exists, paused or not."""
        return self._run is not None

    def leads(self, name: Name) -> bool:
        """Whether it runs, and accepts records of a partition as its leader."""
        partition = self.partition(name)
        return partition is not None and partition.is_leader

    def records(self, name: Name) -> list[int]:
        """The records in its log of a partition, by id."""
        return [int(one) for one in self.store.logs.get(name, [])]

    def partition(self, name: Name) -> Partition | None:
        """A partition as the fold of the present run knows it."""
        return self._run.partition(name) if self._run is not None else None

    def append(self, name: Name, record: int) -> None:
        """A record arrives with acks 0, without a producer."""
        if self._run is not None:
            self._run.ask(lambda request: ProduceReceived(request, *name, 1, 0), (record,), _ignore)

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self._run is None:
            self._run = _Run(self, self._environment)

    def crash(self, *, loses_unflushed: bool) -> None:
        """The process ends without closing its session. Its machine does not fail."""
        assert not loses_unflushed, "this simulation does not model a failure of the machine"
        if self._run is not None:
            self._run.end("crash")
            self._run = None

    def shut_down(
        self, *, restart_after_us: int | None, closes_after_us: int = 0, lasts_us: int = 0
    ) -> None:
        """The broker closes its session, and ends. The design has no controlled shutdown."""
        if self._run is not None:
            self._restart_after_us = restart_after_us
            after_us = max(closes_after_us, lasts_us)
            if after_us:
                self._run.clock.after(after_us, self._run.shut_down)
            else:
                self._run.shut_down()

    def stopped(self) -> None:
        """The run has closed its session, and has ended."""
        self._run = None
        if self._restart_after_us is not None:
            self._environment.scheduler.after(self._restart_after_us, self.start)

    def pause(self) -> None:
        """The process does nothing until `resume`."""
        if self._run is not None:
            self._run.pause()

    def resume(self) -> None:
        """The process continues."""
        if self._run is not None:
            self._run.resume()

    def slow_disk(self, write_us: int) -> None:
        """Not modelled."""
        raise NotImplementedError("the disk takes no time in this simulation")

    def allocate_producer_ids(self, route: Route) -> None:
        """Not modelled."""
        raise NotImplementedError("the 0.8 design has no producer ids")

    def fail_log_directory(
        self, names: Iterable[Name] | None, *, survives_restart: bool = False
    ) -> None:
        """Not modelled."""
        raise NotImplementedError("the 0.8 design has one log directory")

    def repair_log_directories(self) -> None:
        """Not modelled."""


class _Run:
    """One run of a broker: its session, its timers, and the requests in flight."""

    def __init__(self, broker: NetworkedBroker, environment: BrokerEnvironment) -> None:
        self.clock = ProcessClock(environment.scheduler)
        self.fetch_wait_us = environment.settings.fetch_wait_us
        self._broker = broker
        self._store = broker.store
        self._process = broker.process
        self._environment = environment
        self._is_over = False
        self._inbox: list[tuple[str, BrokerEvent, list[str]]] = []
        self._is_busy = False
        self._expired = 0
        self._timers = Timers(
            self.clock.after_ms,
            lambda timer: self._queue_event(TimerFired(timer), f"timer:{timer}"),
        )
        self._requests = 0
        self._asked: dict[int, Respond] = {}
        self._reads: dict[CommandId, Callable[[ZnodesRead], None]] = {}
        self._appends: dict[CommandId, Name] = {}
        self._held: dict[Name, list[_HeldFetch]] = {}
        self._peers: dict[int, _Leader] = {}
        self._session = SessionDriver(
            self.clock,
            environment.network,
            broker.process,
            self._report,
            settings=replace(
                settings_of(environment.settings.session_timeout_ms, environment.members),
                presumes_expiration=False,
            ),
            members=environment.members,
            on_closed=self._closed,
        )
        broker.store.start(0)
        self.clock.after(environment.settings.start_us, self._begin)

    def _begin(self) -> None:
        self._environment.observer.started(self._process)
        self._environment.network.listen(self._process, self._accept)
        self._session.start()

    def _accept(self, process: str) -> ConnectionSide:
        return ServedConnection(self)

    # Events

    def _report(self, event: Event, channel: str) -> None:
        """The session reports an event."""
        assert isinstance(event, BrokerEvent), event
        if isinstance(event, ZnodesRead) and event.command in self._reads:
            self._broker.client_reads += sum(one != CONNECTION_LOSS for one in event.errors)
            self._reads.pop(event.command)(event)
            return
        if isinstance(event, SessionExpired):
            self._expired += 1
        self._queue_event(event, channel)

    def _queue_event(self, event: BrokerEvent, channel: str, records: Sequence[str] = ()) -> None:
        self._inbox.append((channel, event, list(records)))
        if not self._is_busy:
            self._is_busy = True
            self.clock.after(0, self._apply)

    def _apply(self) -> None:
        """Fold all that waits."""
        waiting, self._inbox = self._inbox, []
        for channel, event, records in waiting:
            now_ms = self.clock.now_us // MS
            decided = self._store.apply(event, channel, now_ms, records)
            self._environment.observer.broker_folded(self._process)
            for issued in decided:
                self._carry_out(issued)
            if isinstance(event, SessionExpired):
                self._expired -= 1
            elif isinstance(event, RecordsAppended):
                self._release(self._appends.pop(event.command))
        self._is_busy = bool(self._inbox)
        if self._is_busy:
            self.clock.after(0, self._apply)

    # What connections ask for

    def ask(
        self, make: Callable[[int], BrokerEvent], records: Sequence[int], respond: Respond
    ) -> None:
        """Put the event of a request, and call `respond` with the response of the fold."""
        self._requests += 1
        self._asked[self._requests] = respond
        self._queue_event(make(self._requests), "client", [str(one) for one in records])

    def read_znodes(self, paths: tuple[str, ...], found: Callable[[ZnodesRead], None]) -> None:
        """Read znodes for a client."""
        self._requests += 1
        id = CommandId(_OF_CLIENTS, self._requests)
        self._reads[id] = found
        self._session.submit(id, ReadZnodes(paths))

    def hold_fetch(self, name: Name, until_us: int, ask_again: Callable[[], None]) -> None:
        """Keep a fetch without records until there are some, at the latest until `until_us`."""
        held = _HeldFetch(ask_again)
        self._held.setdefault(name, []).append(held)
        self.clock.call_at(until_us, held.release)

    def _release(self, name: Name) -> None:
        for held in self._held.pop(name, ()):
            held.release()

    def partition(self, name: Name) -> Partition | None:
        """The partition as the fold knows it."""
        return self._store.fold.broker.partitions.get(name)

    # Commands

    def _carry_out(self, issued: IssuedByBroker) -> None:
        command = issued.command
        match command:
            case Notice(code="leader" | "stepped_down", subject=subject):
                self._leader_changed(partition_named(subject))
            case Notice():
                return
            case StartTimer(timer=timer, delay_ms=delay_ms):
                self._timers.start(timer, delay_ms)
            case CancelTimer(timer=timer):
                self._timers.cancel(timer)
            case SendFetch():
                self._fetch(issued.id, command)
            case RespondProduce() | RespondFetch():
                self._respond(command)
            case WriteCheckpoint(hws=hws):
                self._store.checkpoint |= {(topic, number): hw for topic, number, hw in hws}
            case OpenLog() | TruncateLog() | DeleteLog() | AppendRecords():
                self._use_log(issued, command)
            case zookeeper_command:
                # Writes for a session that has expired must not reach the next one.
                if not self._expired:
                    self._session.submit(issued.id, zookeeper_command)

    def _leader_changed(self, name: Name) -> None:
        partition = self.partition(name)
        is_leader = partition is not None and partition.is_leader
        epoch, isr = (partition.epoch, partition.isr) if partition else (0, ())
        leader = self._store.id if is_leader else NO_LEADER
        self._environment.observer.leader_changed(self._process, name, leader, epoch, isr)
        self._release(name)

    def _respond(self, command: RespondProduce | RespondFetch) -> None:
        respond = self._asked.pop(command.request, None)
        if respond is None:
            return
        records: Sequence[int] = ()
        if isinstance(command, RespondFetch) and command.end > command.start:
            log = self._store.logs.get((command.topic, command.partition), [])
            records = [int(one) for one in log[command.start : command.end]]
        respond(command, records)

    def _use_log(
        self,
        issued: IssuedByBroker,
        command: OpenLog | TruncateLog | DeleteLog | AppendRecords,
    ) -> None:
        store, id, name = self._store, issued.id, (command.topic, command.partition)
        observer = self._environment.observer
        before = len(store.logs.get(name, ()))
        match command:
            case OpenLog(czxid=czxid):
                was_there = name in store.logs
                is_earlier = was_there and store.czxids.get(name) != czxid
                if is_earlier:
                    observer.log_deleted(self._process, name)
                if is_earlier or not was_there:
                    observer.log_created(self._process, name, None)
                self._queue_event(LogOpened(id, *store.open_log(name, czxid)), "log")
            case TruncateLog(offset=offset):
                end = store.truncate(name, offset)
                if end < before:
                    cause = "high watermark" if issued.reason.rule == rules.FOLLOW else "leader"
                    observer.truncated(self._process, name, end, cause)
                self._queue_event(LogTruncated(id, end), "log")
            case DeleteLog():
                if name in store.logs:
                    observer.log_deleted(self._process, name)
                store.delete_log(name)
                self._queue_event(LogDeleted(id), "log")
            case AppendRecords(source=source):
                self._appends[id] = name
                event = RecordsAppended(id, store.append(name, source))
                partition = self.partition(name)
                epoch = partition.epoch if partition is not None else NO_EPOCH
                added = [int(one) for one in store.logs[name][before:]]
                observer.appended(self._process, name, before, epoch, added)
                self._queue_event(event, "log")

    # Fetches of this broker

    def _fetch(self, id: CommandId, command: SendFetch) -> None:
        leader = self._peers.get(command.leader)
        if leader is None:
            leader = self._peers[command.leader] = _Leader()
            leader.peer = Peer(
                self.clock,
                self._environment.network,
                self._process,
                broker_name(command.leader),
                lambda message: self._receive_fetch(leader, message),
                lambda: self._fail_fetches(command.leader, leader),
                self._environment.settings.socket_timeout_us,
            )
        name = (command.topic, command.partition)
        number = leader.peer.send(
            lambda number: ReplicaFetch(
                number,
                self._store.id,
                name,
                command.offset,
                command.epoch,
                command.replicas_version,
                run_of(command),
            )
        )
        leader.sent[number] = id

    def _receive_fetch(self, leader: "_Leader", message: Message) -> None:
        assert isinstance(message, ReplicaFetchResponse), message
        id = leader.sent.pop(message.number)
        records = [str(one) for one in message.records]
        event = FetchResponded(id, message.error, len(records), message.hw, message.leo)
        self._queue_event(event, "fetch", records)

    def _fail_fetches(self, broker: int, leader: "_Leader") -> None:
        del self._peers[broker]
        for id in leader.sent.values():
            self._queue_event(FetchResponded(id, REQUEST_TIMED_OUT, 0, 0, 0), "fetch")

    # Faults and the end

    def pause(self) -> None:
        """The process does nothing; what arrives waits."""
        self.clock.pause()
        self._environment.network.pause(self._process)
        self._environment.observer.paused(self._process)

    def resume(self) -> None:
        """The process continues."""
        self._environment.observer.resumed(self._process)
        self._environment.network.resume(self._process)
        self.clock.resume()

    def shut_down(self) -> None:
        """Close the session; the process ends once that is done."""
        self._session.close()
        self.clock.after(_CLOSE_US_MAX, self._closed)

    def _closed(self) -> None:
        if not self._is_over:
            self.end("shutdown")
            self._broker.stopped()

    def end(self, cause: str) -> None:
        """The process ends. Its session stays, unless it was closed."""
        self._is_over = True
        self._session.crash()
        self.clock.end()
        self._store.is_running = False
        for leader in self._peers.values():
            leader.peer.close()
        self._environment.network.end_process(self._process)
        self._environment.observer.ended(self._process, cause)


def _ignore(response: RespondProduce | RespondFetch, records: Sequence[int]) -> None:
    """No client waits for the response."""


class _Leader:
    """The connection to the leader of some partitions, and the fetches without a response."""

    __slots__ = ("peer", "sent")

    def __init__(self) -> None:
        self.peer: Peer
        self.sent: dict[int, CommandId] = {}


class _HeldFetch:
    """A fetch that waits for records, until it is released once."""

    __slots__ = ("_ask_again",)

    def __init__(self, ask_again: Callable[[], None]) -> None:
        self._ask_again: Callable[[], None] | None = ask_again

    def release(self) -> None:
        """Ask for the records again, unless this was done before."""
        ask_again, self._ask_again = self._ask_again, None
        if ask_again is not None:
            ask_again()
