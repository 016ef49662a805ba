"""The connections that a broker of the 0.8 design accepts, and its responses.

A client finds leaders as in Kafka's source of spring 2012: any broker reads the leader and ISR
znodes for a metadata request, because no broker has a metadata cache.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from controller.core import error_codes as codes
from controller.core.events import ZnodesRead
from controller.core.operations import OK
from controller.core.values import NO_LEADER
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.commands import RespondFetch, RespondProduce
from controller.kafka_0_8.events import CONSUMER, BrokerEvent, FetchReceived, ProduceReceived
from controller.kafka_0_8.state import Partition
from replay.world.broker.messages import (
    Fetch,
    FetchedPartition,
    FetchPartition,
    FetchResponse,
    Metadata,
    MetadataResponse,
    PartitionLeader,
    Produce,
    ProduceResponse,
    RecordBatch,
)
from replay.world.kafka_0_8.networked.messages import ReplicaFetch, ReplicaFetchResponse
from replay.world.network import Connection, Message
from replay.world.observer import Name
from replay.world.scheduler import MS, Clock

_POLL_US: Final = 100 * MS
"""How often the shell looks whether there is something for a consumer's fetch that waits."""

Response = RespondProduce | RespondFetch
Respond = Callable[[Response, Sequence[int]], None]
"""Takes the fold's response and the records of a fetch."""


class ServingBroker(Protocol):
    """The interface of the broker for its connections."""

    fetch_wait_us: int

    @property
    def clock(self) -> Clock:
        """The clock of its process."""

    def ask(
        self, make: Callable[[int], BrokerEvent], records: Sequence[int], respond: Respond
    ) -> None:
        """Put the event of a request, and call `respond` with the response of the fold."""

    def read_znodes(self, paths: tuple[str, ...], found: Callable[[ZnodesRead], None]) -> None:
        """Read znodes for a client."""

    def hold_fetch(self, name: Name, until_us: int, ask_again: Callable[[], None]) -> None:
        """A fetch found no records: ask again when there are some, at the latest at `until_us`."""

    def partition(self, name: Name) -> Partition | None:
        """A partition as the fold knows it."""


class ServedConnection:
    """One connection to a broker."""

    __slots__ = ("_consumer", "_host")

    def __init__(self, host: ServingBroker) -> None:
        self._host = host
        self._consumer: _ConsumerSession | None = None

    def connected(self, connection: Connection) -> None:
        """Not called: the other side connects."""

    def received(self, connection: Connection, message: Message) -> None:
        """Handle a request."""
        match message:
            case ReplicaFetch():
                self._replicate(connection, message, self._host.clock.now_us)
            case Produce():
                self._produce(connection, message)
            case Metadata():
                self._find_leaders(connection, message)
            case _:
                assert isinstance(message, Fetch), message
                if self._consumer is None:
                    self._consumer = _ConsumerSession(self._host, connection)
                self._consumer.fetch(message)

    def disconnected(self, connection: Connection | None) -> None:
        """The other side has closed the connection, or it broke."""

    def _produce(self, connection: Connection, message: Produce) -> None:
        count = len(message.records)

        def respond(response: Response, records: Sequence[int]) -> None:
            assert isinstance(response, RespondProduce)
            partition = self._host.partition(message.name)
            epoch, isr = (partition.epoch, partition.isr) if partition else (0, ())
            first = response.offset - count
            connection.send(ProduceResponse(message.number, response.error, first, epoch, isr))

        self._host.ask(
            lambda request: ProduceReceived(request, *message.name, count, message.acks),
            message.records,
            respond,
        )

    def _replicate(self, connection: Connection, message: ReplicaFetch, begun_us: int) -> None:
        """A fetch of a follower: without records, the leader holds it, as Kafka's leader does."""
        host, until_us = self._host, begun_us + self._host.fetch_wait_us

        def respond(response: Response, records: Sequence[int]) -> None:
            assert isinstance(response, RespondFetch)
            if response.error == codes.NONE and not records and host.clock.now_us < until_us:
                host.hold_fetch(message.name, until_us, ask_again)
                return
            found = tuple(records)
            answer = ReplicaFetchResponse(
                message.number, response.error, found, response.hw, response.leo
            )
            connection.send(answer)

        def ask_again() -> None:
            if connection.is_open:
                self._replicate(connection, message, begun_us)

        host.ask(
            lambda request: FetchReceived(
                request,
                message.replica,
                *message.name,
                message.offset,
                message.epoch,
                message.replicas_version,
                message.run,
            ),
            (),
            respond,
        )

    def _find_leaders(self, connection: Connection, message: Metadata) -> None:
        paths = [
            path
            for name in message.names
            for path in (znodes.leader_path(*name), znodes.isr_path(*name))
        ]

        def send_leaders(read: ZnodesRead) -> None:
            leaders = []
            for place, name in enumerate(message.names):
                leader, isr = 2 * place, 2 * place + 1
                if read.errors[leader] == OK:
                    known = znodes.read_leader(paths[leader], read.data[leader])
                    leaders.append(PartitionLeader(name, None, known.broker, known.epoch))
                elif read.errors[isr] == OK:
                    epoch = znodes.read_isr(paths[isr], read.data[isr]).epoch
                    leaders.append(PartitionLeader(name, None, NO_LEADER, epoch))
            connection.send(MetadataResponse(message.number, tuple(leaders)))

        self._host.read_znodes(tuple(paths), send_leaders)


class _ConsumerSession:
    """The fetches of a consumer on one connection (`Fetch`)."""

    def __init__(self, host: ServingBroker, connection: Connection) -> None:
        self._host = host
        self._connection = connection
        self._positions: dict[Name, FetchPartition] = {}

    def fetch(self, message: Fetch) -> None:
        """Handle a fetch."""
        for name in message.forgotten:
            self._positions.pop(name, None)
        self._positions |= {one.name: one for one in message.partitions}
        self._poll(message.number, self._host.clock.now_us + self._host.fetch_wait_us)

    def _poll(self, number: int, until_us: int) -> None:
        """Ask for all partitions, and again later if there is nothing."""
        host, connection = self._host, self._connection
        if not connection.is_open:
            return
        left = dict.fromkeys(self._positions)
        fetched: list[FetchedPartition] = []

        def finish() -> None:
            if fetched or host.clock.now_us >= until_us:
                connection.send(FetchResponse(number, tuple(fetched)))
            else:
                host.clock.after(_POLL_US, lambda: self._poll(number, until_us))

        def respond(response: Response, records: Sequence[int]) -> None:
            assert isinstance(response, RespondFetch)
            name = (response.topic, response.partition)
            del left[name]
            if response.error or records:
                fetched.append(self._fetched_partition(name, response, records))
            if not left:
                finish()

        for name, position in self._positions.items():
            self._ask(name, position.offset, respond)
        if not self._positions:
            finish()

    def _ask(self, name: Name, offset: int, respond: Respond) -> None:
        self._host.ask(
            lambda request: FetchReceived(request, CONSUMER, *name, offset, 0), (), respond
        )

    def _fetched_partition(
        self, name: Name, response: RespondFetch, records: Sequence[int]
    ) -> FetchedPartition:
        partition = self._host.partition(name)
        epoch = partition.epoch if partition else 0
        batches = (RecordBatch(epoch, response.start, tuple(records)),) if records else ()
        return FetchedPartition(name, response.error, response.hw, batches, leader_end=response.leo)
