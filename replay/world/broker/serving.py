"""The connections that a broker accepts, and its responses."""

from controller.core import error_codes as codes
from controller.core.values import NO_LEADER
from replay.world.broker.context import BrokerContext
from replay.world.broker.control_requests import Replicas
from replay.world.broker.fetch_session import FetchSession, epoch_error
from replay.world.broker.messages import (
    EpochEnd,
    EpochEnds,
    EpochEndsResponse,
    EpochPartition,
    Fetch,
    Metadata,
    MetadataResponse,
    PartitionLeader,
    Produce,
    ProduceResponse,
)
from replay.world.broker.partition import Partition, ProduceOutcome
from replay.world.messages import ControlRequest, ControlResponse
from replay.world.network import Connection, Message
from replay.world.observer import Name


class ServedConnection:
    """One connection to a broker."""

    __slots__ = ("_context", "_replicas", "_session")

    def __init__(self, context: BrokerContext, replicas: Replicas) -> None:
        self._context = context
        self._replicas = replicas
        self._session: FetchSession | None = None

    def connected(self, connection: Connection) -> None:
        """Not called: the other side connects."""

    def received(self, connection: Connection, message: Message) -> None:
        """Handle a request."""
        if isinstance(message, Fetch):
            self._fetch(connection, message)
        elif isinstance(message, Produce):
            self._produce(connection, message)
        elif isinstance(message, ControlRequest):
            error, errors = self._replicas.answer(message.request)
            connection.send(ControlResponse(message.number, error, tuple(errors)))
        elif isinstance(message, Metadata):
            connection.send(self._leaders(message))
        else:
            assert isinstance(message, EpochEnds), message
            ends = tuple(self._end_of(one) for one in message.partitions)
            connection.send(EpochEndsResponse(message.number, ends))

    def disconnected(self, connection: Connection | None) -> None:
        """The other side has closed the connection, or it broke."""
        if self._session is not None:
            self._session.end()

    def _find(self, name: Name) -> Partition | int:
        """Producers, consumers and followers get only partitions that are in the metadata cache
        (KafkaApis.handleProduceRequest and handleFetchRequest)."""
        if name not in self._context.metadata.partitions:
            return codes.UNKNOWN_TOPIC_OR_PARTITION
        return self._replicas.find(name)

    def _fetch(self, connection: Connection, request: Fetch) -> None:
        if self._session is None:
            self._session = FetchSession(
                self._context, request.replica, self._find, connection.send
            )
        self._session.fetch(request)

    def _produce(self, connection: Connection, request: Produce) -> None:
        if self._context.write_us:
            self._context.clock.after(
                self._context.write_us, lambda: self._append(connection, request)
            )
        else:
            self._append(connection, request)

    def _append(self, connection: Connection, request: Produce) -> None:
        def respond(produced: ProduceOutcome) -> None:
            if request.acks:
                connection.send(ProduceResponse(request.number, *produced))

        partition = self._find(request.name)
        if isinstance(partition, int):
            respond(ProduceOutcome(partition))
        else:
            partition.produce(request.records, request.acks, respond)

    def _leaders(self, request: Metadata) -> MetadataResponse:
        """A leader that is not live is not named (ZkMetadataCache.getPartitionMetadata)."""
        known = self._context.metadata.partitions
        found = [(name, known[name]) for name in request.names if name in known]
        live = self._context.metadata.live
        leaders = tuple(
            PartitionLeader(
                name,
                one.topic_id,
                one.leadership.leader if one.leadership.leader in live else NO_LEADER,
                one.leadership.leader_epoch,
            )
            for name, one in found
        )
        return MetadataResponse(request.number, leaders)

    def _end_of(self, requested: EpochPartition) -> EpochEnd:
        """Partition.lastOffsetForLeaderEpoch."""
        partition = self._replicas.find(requested.name)
        if isinstance(partition, int):
            return EpochEnd(requested.name, partition)
        error = epoch_error(requested.leader_epoch, partition)
        if error:
            return EpochEnd(requested.name, error)
        return EpochEnd(requested.name, codes.NONE, *partition.log.end_of(requested.epoch))
