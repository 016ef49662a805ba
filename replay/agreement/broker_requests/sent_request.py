"""A request to one broker, sent by the fold or found in one of Kafka's logs.

A field is None if the source does not have it; then it is not compared. Topic ids are left out,
because ids of new topics are random. Partitions are sorted, because Kafka's requests have them in
the order of Scala's hash maps.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final, Protocol

from msgspec import Struct, structs

from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from replay import structural_diff
from replay.agreement.cause import NO_CAUSE, FoldCause
from replay.names import partition_name
from replay.structural_diff import NOTHING, Difference

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
        return partition_name(self.topic, self.partition)

    @property
    def key(self) -> tuple[str, int]:
        """Topic and number."""
        return self.topic, self.partition


class SentRequest(Struct, frozen=True, kw_only=True):
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
    broker_epoch: int | None = None
    version: int | None = None
    live_brokers: tuple[int, ...] | None = None
    size: int
    leading: int | None = None
    partitions: tuple[SentPartition, ...] | None = None
    connection: str | None = None
    lines: int | None = None
    cause: FoldCause = NO_CAUSE
    since: int = 0

    @property
    def names(self) -> set[tuple[str, int]]:
        """Topic and number of its partitions, as far as they are known."""
        return {one.key for one in self.partitions or ()}


def in_order(partitions: Iterable[SentPartition]) -> tuple[SentPartition, ...]:
    """Partitions by topic and number."""
    return tuple(sorted(partitions, key=_KEY))


class SenderFields(Protocol):
    """The fields by which a request identifies its sender and the run of its receiver."""

    @property
    def controller_id(self) -> int:
        """The broker that is controller."""

    @property
    def controller_epoch(self) -> int:
        """The epoch of the controller."""

    @property
    def broker_epoch(self) -> int | None:
        """The epoch of the receiver."""


def whole_request(
    sender: SenderFields,
    partitions: tuple[SentPartition, ...],
    *,
    seq: int,
    kind: str,
    broker: int,
    version: int,
    live_brokers: tuple[int, ...] | None,
    connection: str | None = None,
) -> SentRequest:
    """A request whose partitions are all known."""
    leads = sum(one.leader == broker for one in partitions) if kind == LEADER_AND_ISR else None
    return SentRequest(
        seq=seq,
        kind=kind,
        controller=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker=broker,
        broker_epoch=sender.broker_epoch,
        version=version,
        live_brokers=live_brokers,
        size=len(partitions),
        leading=leads,
        partitions=partitions,
        connection=connection,
    )


def sent_request_of(request: BrokerRequest, seq: int) -> SentRequest:
    """A request of the fold, sent at record `seq`."""
    live: tuple[int, ...] | None = None
    match request:
        case LeaderAndIsrRequest():
            kind = LEADER_AND_ISR
            with_recovery = request.version >= _FIRST_WITH_RECOVERY_STATE
            partitions = in_order(
                _partition_of_leader_and_isr(one, with_recovery) for one in request.partitions
            )
            live = tuple(sorted(broker for broker, _, _ in request.live_leaders))
        case UpdateMetadataRequest():
            kind = UPDATE_METADATA
            partitions = in_order(map(_partition_of_update_metadata, request.partitions))
            live = tuple(sorted(one.id for one in request.live_brokers))
        case _:
            kind = STOP_REPLICA
            partitions = in_order(map(_partition_of_stop_replica, request.partitions))
    return whole_request(
        request,
        partitions,
        seq=seq,
        kind=kind,
        broker=request.broker,
        version=request.version,
        live_brokers=live,
    )


def agrees(refold: SentRequest, stock: SentRequest) -> bool:
    """Whether all fields that both have are equal. Both go to the same broker."""
    if refold.kind != stock.kind or refold.size != stock.size:
        return False
    if not _fields_agree(_request_fields(refold), _request_fields(stock)):
        return False
    one, other = refold.partitions, stock.partitions
    if one is None or other is None or one is other or one == other:
        return refold.leading == stock.leading or None in (refold.leading, stock.leading)
    return len(one) == len(other) and all(map(partitions_agree, one, other))


def partitions_agree(one: SentPartition, other: SentPartition) -> bool:
    """Whether all fields that both have of a partition are equal."""
    return one == other or _fields_agree(_partition_fields(one), _partition_fields(other))


def _fields_agree(ones: Iterable[object], others: Iterable[object]) -> bool:
    return all(
        one == other or one is None or other is None
        for one, other in zip(ones, others, strict=True)
    )


def differences(refold: SentRequest, stock: SentRequest) -> Iterator[str]:
    """The differences, a phrase each; `stock` is what Kafka sent."""
    if refold.kind != stock.kind:
        yield f"{refold.kind}, Kafka's {stock.kind}"
        return
    are_listed = refold.partitions is not None and stock.partitions is not None
    not_compared = {*_ORIGIN_FIELDS, *(_COUNT_FIELDS if are_listed else ())}
    for one in _common_field_differences(refold, stock):
        if one.part[0] not in not_compared:
            yield _phrase(one)


_request_fields: Final = attrgetter(
    "controller", "controller_epoch", "broker_epoch", "version", "live_brokers"
)
_partition_fields: Final = attrgetter(*SentPartition.__struct_fields__)
_ORIGIN_FIELDS: Final = ("seq", "connection", "lines", "cause", "since")
_COUNT_FIELDS: Final = ("size", "leading")
"""Fields that follow from the partitions."""
_WORDS: Final = {
    "size": "number of partitions",
    "leading": "number of partitions to lead",
    "isr": "ISR",
    "is_new": "isNew",
}


def _common_field_differences(one: Struct, other: Struct) -> Iterator[Difference]:
    """The differences in fields that both sources have."""
    return (
        found
        for found in structural_diff.differences(one, other)
        if found.one is not None and found.other is not None
    )


def _phrase(one: Difference) -> str:
    field = one.part[-1]
    name = f"{one.part[1][1:-1]}: " if one.part[0] == "partitions" else ""
    if one.other is NOTHING:
        return f"{name}not in Kafka's"
    if one.one is NOTHING:
        return f"{name}only in Kafka's"
    word = _WORDS.get(field, field.replace("_", " "))
    return f"{name}{word} {_format(one.one)}, Kafka's {_format(one.other)}"


def _format(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower()


def _partition_of_leader_and_isr(one: LeaderAndIsrPartition, with_recovery: bool) -> SentPartition:
    assignment = one.assignment
    return structs.replace(
        _partition_with_leadership(one),
        recovery_state=one.leadership.recovery_state if with_recovery else None,
        replicas=assignment.replicas,
        adding_replicas=assignment.adding,
        removing_replicas=assignment.removing,
        is_new=one.is_new,
    )


def _partition_of_update_metadata(one: UpdateMetadataPartition) -> SentPartition:
    return structs.replace(
        _partition_with_leadership(one),
        replicas=one.replicas,
        offline_replicas=one.offline_replicas,
    )


def _partition_with_leadership(
    one: LeaderAndIsrPartition | UpdateMetadataPartition,
) -> SentPartition:
    state = one.leadership
    return SentPartition(
        one.topic,
        one.partition,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        partition_epoch=state.partition_epoch,
        controller_epoch=state.controller_epoch,
    )


def _partition_of_stop_replica(one: StopReplicaPartition) -> SentPartition:
    return SentPartition(one.topic, one.partition, leader_epoch=one.leader_epoch, delete=one.delete)
