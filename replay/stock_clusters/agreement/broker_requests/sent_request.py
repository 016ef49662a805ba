"""A request to one broker, sent by the fold or found in one of Kafka's logs.

A field is None if the source does not have it; then it is not compared. Topic ids are left out,
because ids of new topics are random. Partitions are sorted, because Kafka's requests have them in
the order of Scala's hash maps.
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
"""The first version of LeaderAndIsr with the recovery state (KB 12.3.1)."""


class SentPartition(Struct, frozen=True, gc=False):
    """One partition of a request.

    `controller_epoch` is the epoch of the decision, `partition_epoch` the version of the state's
    znode, and `recovery_state` Kafka's LeaderRecoveryState.
    """

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


class SentRequest(Struct, frozen=True):
    """One request to one broker.

    `seq` is the log record or the fold event that it comes from, and `kind` is one of KINDS. `size`
    is the number of partitions; `leading` is the number of those that the broker becomes the leader
    of (LeaderAndIsr only). `live_brokers` are the brokers in UpdateMetadata or the live leaders in
    LeaderAndIsr, sorted. `connection` is the connection that it was received on. `lines` is the
    number of partition lines in state-change.log, if some are missing. `cause` is the event and
    rule that the fold was processing then, since record `since`.
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
    partitions: tuple[SentPartition, ...] | None = None
    live_brokers: tuple[int, ...] | None = None
    connection: str | None = None
    lines: int | None = None
    cause: str = ""
    since: int = 0

    @property
    def names(self) -> set[tuple[str, int]]:
        """Topic and number of its partitions, as far as they are known."""
        return {one.key for one in self.partitions or ()}


def in_order(partitions: Iterable[SentPartition]) -> tuple[SentPartition, ...]:
    """Partitions by topic and number."""
    return tuple(sorted(partitions, key=_KEY))


def leading(kind: str, broker: int, partitions: Iterable[SentPartition]) -> int | None:
    """How many partitions a LeaderAndIsr makes the broker lead; None for other requests."""
    if kind != LEADER_AND_ISR:
        return None
    return sum(one.leader == broker for one in partitions)


def sent_request_of(request: BrokerRequest, seq: int) -> SentRequest:
    """A request of the fold, sent at record `seq`."""
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
    return SentRequest(
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


def agrees(ours: SentRequest, theirs: SentRequest) -> bool:
    """Whether all fields that both have are equal. Both go to the same broker."""
    if ours.kind != theirs.kind or ours.size != theirs.size:
        return False
    # Most compared requests are equal or very different; both need no detailed comparison.
    if ours.partitions is theirs.partitions or ours.partitions == theirs.partitions:
        return all(
            one == other or one is None or other is None
            for one, other in zip(_request_fields(ours), _request_fields(theirs), strict=True)
        )
    return next(differences(ours, theirs), None) is None


def differences(ours: SentRequest, theirs: SentRequest) -> Iterator[str]:
    """The differences, a phrase each; `theirs` is what Kafka sent."""
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
_PARTITION_FIELDS: Final = SentPartition.__struct_fields__[2:]
_WORDS: Final = {
    "size": "number of partitions",
    "leading": "number of partitions to lead",
    "isr": "ISR",
    "is_new": "isNew",
}


def _partition_differences(
    ours: tuple[SentPartition, ...], theirs: tuple[SentPartition, ...]
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


def partitions_agree(one: SentPartition, other: SentPartition) -> bool:
    """Whether all fields that both have of a partition are equal."""
    return next(_field_differences(one, other), None) is None


def _field_differences(ours: SentPartition, theirs: SentPartition) -> Iterator[str]:
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


def _led(one: LeaderAndIsrPartition, with_recovery: bool) -> SentPartition:
    state, assignment = one.leadership, one.assignment
    return SentPartition(
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


def _known(one: UpdateMetadataPartition) -> SentPartition:
    state = one.leadership
    return SentPartition(
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


def _stopped(one: StopReplicaPartition) -> SentPartition:
    return SentPartition(one.topic, one.partition, leader_epoch=one.leader_epoch, delete=one.delete)
