"""The requests between brokers, and of producers and consumers to brokers, with their responses.

They are values: the simulation does not encode Kafka's protocol. `number` pairs a response with its
request on one connection.
"""

from typing import Final, NamedTuple

from msgspec import Struct

from controller.core.values import NO_EPOCH
from replay.world.observer import Name

CONSUMER: Final = -1
"""The replica id in the fetch of a consumer."""
ALL: Final = -1
"""The acks of a producer that waits for all members of the ISR."""

OFFSET_OUT_OF_RANGE: Final = 1
NOT_LEADER_OR_FOLLOWER: Final = 6
NOT_ENOUGH_REPLICAS: Final = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
UNKNOWN_LEADER_EPOCH: Final = 75


class RecordBatch(NamedTuple):
    """Consecutive records of one leader epoch, from `offset` on, by id."""

    leader_epoch: int
    offset: int
    records: tuple[int, ...]


class FetchPartition(Struct, frozen=True):
    """Where to read one partition. `leader_epoch` is what the reader believes to be current (-1:
    it does not say), `last_epoch` that of the last record before `offset` (-1: it does not say).
    """

    name: Name
    topic_id: bytes | None
    offset: int
    leader_epoch: int
    last_epoch: int


class Fetch(Struct, frozen=True):
    """A fetch of a follower or a consumer in a fetch session (KIP-227).

    Each connection has one session. `partitions` are those that are new or whose position changed
    since the last fetch; `forgotten` are no longer fetched.
    """

    number: int
    replica: int
    partitions: tuple[FetchPartition, ...] = ()
    forgotten: tuple[Name, ...] = ()


class FetchedPartition(Struct, frozen=True):
    """The response for one partition.

    `diverging`: the largest epoch up to `FetchPartition.last_epoch` that the leader has, and where
    it ends there; the reader must truncate. `leader_end` is the end of the leader's log, for
    OFFSET_OUT_OF_RANGE: it replaces a ListOffsets request.
    """

    name: Name
    error: int
    high_watermark: int = -1
    batches: tuple[RecordBatch, ...] = ()
    diverging: tuple[int, int] | None = None
    leader_end: int = -1


class FetchResponse(Struct, frozen=True):
    """The response to a `Fetch`: partitions with records, errors, or a new high watermark."""

    number: int
    partitions: tuple[FetchedPartition, ...] = ()


class EpochPartition(NamedTuple):
    """A follower asks where `epoch`, the latest of its log, ends in the leader's log."""

    name: Name
    leader_epoch: int
    epoch: int


class EpochEnds(Struct, frozen=True):
    """OffsetForLeaderEpoch of a follower."""

    number: int
    partitions: tuple[EpochPartition, ...]


class EpochEnd(NamedTuple):
    """The largest epoch up to the one that was asked for, and where it ends (-1, -1: unknown)."""

    name: Name
    error: int
    epoch: int = NO_EPOCH
    end: int = -1


class EpochEndsResponse(Struct, frozen=True):
    """The response to an `EpochEnds`."""

    number: int
    partitions: tuple[EpochEnd, ...]


class Produce(Struct, frozen=True):
    """Records of a producer for one partition, by id. With acks 0 there is no response."""

    number: int
    name: Name
    acks: int
    records: tuple[int, ...]


class ProduceResponse(Struct, frozen=True):
    """The response to a `Produce`: the offset of the first record. `leader_epoch` and `isr` are not
    in Kafka's protocol: they are what the leader knows, for invariants."""

    number: int
    error: int
    offset: int = -1
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()


class Metadata(Struct, frozen=True):
    """A client asks for the leaders of partitions."""

    number: int
    names: tuple[Name, ...]


class PartitionLeader(NamedTuple):
    """The leader of one partition."""

    name: Name
    topic_id: bytes | None
    leader: int
    leader_epoch: int


class MetadataResponse(Struct, frozen=True):
    """The response to a `Metadata`: only the partitions that the broker knows."""

    number: int
    leaders: tuple[PartitionLeader, ...]
