"""What one request tells one broker, whoever says that it was sent: the fold, or a log of Kafka.

A field is None where the source does not tell it; then it is not compared. Topic ids are left out:
those of new topics are drawn. The order of partitions inside a request is that of Scala's hash
maps; here they are sorted.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from msgspec import Struct

from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)

LEADER_AND_ISR: Final = "LeaderAndIsr"
UPDATE_METADATA: Final = "UpdateMetadata"
STOP_REPLICA: Final = "StopReplica"
KINDS: Final = (LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA)

_KEY: Final = attrgetter("key")
_FIRST_WITH_RECOVERY_STATE: Final = 6
"""Of LeaderAndIsr; below, Kafka leaves the state out (KB 12.3.1)."""


class ToldPartition(Struct, frozen=True, gc=False):
    """One partition of a request. `controller_epoch` is that of the decision, `partition_epoch`
    the version of the state's znode, `recovery_state` Kafka's LeaderRecoveryState."""

    topic: str
    partition: int
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    partition_epoch: int | None = None
    controller_epoch: int | None = None
    recovery_state: int | None = None
    replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] | None = None
    is_new: bool | None = None
    delete: bool | None = None

    @property
    def name(self) -> str:
        """Topic and number, as Kafka writes them."""
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> tuple[str, int]:
        """Topic and number."""
        return self.topic, self.partition


class Told(Struct, frozen=True):
    """One request to one broker.

    `seq` is the number of the log's record, or of the fold's event, that it comes from; `kind` one
    of KINDS; `size` the number of its partitions, `leading` of those that the broker shall lead
    (None but for LeaderAndIsr). `live_brokers` are those that UpdateMetadata names, the live
    leaders for LeaderAndIsr, sorted. `connection` is the one that it came by. `lines` is how many
    lines state-change.log has of its partitions, where these are not all. `cause` is what the fold
    was at, since record `since`, when it sent this, or the log came to it.
    """

    seq: int
    kind: str
    controller: int
    controller_epoch: int
    broker: int
    size: int
    leading: int | None = None
    broker_epoch: int | None = None
    version: int | None = None
    partitions: tuple[ToldPartition, ...] | None = None
    live_brokers: tuple[int, ...] | None = None
    connection: str | None = None
    lines: int | None = None
    cause: str = ""
    since: int = 0

    @property
    def names(self) -> set[tuple[str, int]]:
        """Its partitions, as far as they are known: topic and number."""
        return {one.key for one in self.partitions or ()}


def in_order(partitions: Iterable[ToldPartition]) -> tuple[ToldPartition, ...]:
    """Partitions by topic and number."""
    return tuple(sorted(partitions, key=_KEY))


def leading(kind: str, broker: int, partitions: Iterable[ToldPartition]) -> int | None:
    """How many of a LeaderAndIsr's partitions the broker shall lead; None for the others."""
    if kind != LEADER_AND_ISR:
        return None
    return sum(one.leader == broker for one in partitions)


def told_of(request: BrokerRequest, seq: int) -> Told:
    """What a request of the fold tells, `seq` being the event that it comes from."""
    live: tuple[int, ...] | None = None
    match request:
        case LeaderAndIsrRequest():
            kind = LEADER_AND_ISR
            with_recovery = request.version >= _FIRST_WITH_RECOVERY_STATE
            partitions = in_order(_led(one, with_recovery) for one in request.partitions)
            live = tuple(sorted(broker for broker, _, _ in request.live_leaders))
        case UpdateMetadataRequest():
            kind = UPDATE_METADATA
            partitions = in_order(map(_known, request.partitions))
            live = tuple(sorted(one.id for one in request.live_brokers))
        case _:
            kind = STOP_REPLICA
            partitions = in_order(map(_stopped, request.partitions))
    return Told(
        seq,
        kind,
        request.controller_id,
        request.controller_epoch,
        request.broker,
        len(partitions),
        leading(kind, request.broker, partitions),
        request.broker_epoch,
        request.version,
        partitions,
        live,
    )


def agrees(ours: Told, theirs: Told) -> bool:
    """Whether nothing differs of what both tell. Both go to the same broker."""
    if ours.kind != theirs.kind or ours.size != theirs.size:
        return False
    # Most that are compared are the same, or not even alike: then nothing has to be told.
    if ours.partitions is theirs.partitions or ours.partitions == theirs.partitions:
        return all(
            one == other or one is None or other is None
            for one, other in zip(_request_fields(ours), _request_fields(theirs), strict=True)
        )
    return next(differences(ours, theirs), None) is None


def differences(ours: Told, theirs: Told) -> Iterator[str]:
    """What differs of what both tell, a phrase each; `theirs` is what Kafka sent."""
    if ours.kind != theirs.kind:
        yield f"{ours.kind}, Kafka's {theirs.kind}"
        return
    for field in _REQUEST_FIELDS:
        yield from _difference(field, getattr(ours, field), getattr(theirs, field))
    if ours.partitions is None or theirs.partitions is None:
        yield from _difference("size", ours.size, theirs.size)
        yield from _difference("leading", ours.leading, theirs.leading)
    elif ours.partitions != theirs.partitions:
        yield from _partition_differences(ours.partitions, theirs.partitions)


_REQUEST_FIELDS: Final = (
    "controller",
    "controller_epoch",
    "broker_epoch",
    "version",
    "live_brokers",
)
_request_fields: Final = attrgetter(*_REQUEST_FIELDS, "leading")
_PARTITION_FIELDS: Final = ToldPartition.__struct_fields__[2:]
_WORDS: Final = {
    "size": "number of partitions",
    "leading": "number of partitions to lead",
    "isr": "ISR",
    "is_new": "isNew",
}


def _partition_differences(
    ours: tuple[ToldPartition, ...], theirs: tuple[ToldPartition, ...]
) -> Iterator[str]:
    kafka = {one.key: one for one in theirs}
    for mine in ours:
        its = kafka.pop(mine.key, None)
        if its is None:
            yield f"{mine.name}: not in Kafka's"
        else:
            for one in _field_differences(mine, its):
                yield f"{mine.name}: {one}"
    for its in kafka.values():
        yield f"{its.name}: only in Kafka's"


def is_told_alike(one: ToldPartition, other: ToldPartition) -> bool:
    """Whether nothing differs of what both tell of a partition."""
    return next(_field_differences(one, other), None) is None


def _field_differences(ours: ToldPartition, theirs: ToldPartition) -> Iterator[str]:
    for field in _PARTITION_FIELDS if ours != theirs else ():
        yield from _difference(field, getattr(ours, field), getattr(theirs, field))


def _difference(field: str, ours: object, theirs: object) -> Iterator[str]:
    if ours is not None and theirs is not None and ours != theirs:
        word = _WORDS.get(field, field.replace("_", " "))
        yield f"{word} {_spelt(ours)}, Kafka's {_spelt(theirs)}"


def _spelt(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower()


def _led(one: LeaderAndIsrPartition, with_recovery: bool) -> ToldPartition:
    state, assignment = one.leadership, one.assignment
    return ToldPartition(
        one.topic,
        one.partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
        controller_epoch=state.controller_epoch,
        recovery_state=state.recovery_state if with_recovery else None,
        replicas=assignment.replicas,
        adding_replicas=assignment.adding,
        removing_replicas=assignment.removing,
        is_new=one.is_new,
    )


def _known(one: UpdateMetadataPartition) -> ToldPartition:
    state = one.leadership
    return ToldPartition(
        one.topic,
        one.partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
        controller_epoch=state.controller_epoch,
        replicas=one.replicas,
        offline_replicas=one.offline_replicas,
    )


def _stopped(one: StopReplicaPartition) -> ToldPartition:
    return ToldPartition(one.topic, one.partition, leader_epoch=one.leader_epoch, delete=one.delete)
