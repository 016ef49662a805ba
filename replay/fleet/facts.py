"""The broker, the znode, the partitions and the error of a record, as columns.

`EVENTS` and `COMMANDS` define for each kind which columns it fills, and how each is computed from a
decoded record. Paths are recognized by their ends, because the paths of an imported cluster begin
with its chroot.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from controller.core import commands, events, operations
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
    ProposedState,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AllocateProducerIdsResponse,
)
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from controller.core.errors import ZnodeError
from controller.core.znodes import read_state
from replay.stock_clusters.imported_log import events as imported_events
from replay.stock_clusters.zookeeper_log import transactions
from replay.subjects import ZnodeSubject, subject_in_any_chroot


class PartitionFact(Struct, frozen=True, gc=False):
    """A partition that a record is about.

    `leader`, `leader_epoch` and `isr` are the values in the record. `code` is the code of a
    decision's choice, or the error of a response.
    """

    topic: str
    partition: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    code: str | None = None


Partitions = tuple[PartitionFact, ...]


class Facts(NamedTuple):
    """How the columns of a kind are computed from its records; None if the kind does not fill a
    column. `ordinal` is the ordinal of the command that an event answers; `rule` is what an
    observed decision is."""

    path: Callable[[Any], str | None] | None = None
    broker: Callable[[Any], int | None] | None = None
    partitions: Callable[[Any], Partitions] | None = None
    error: Callable[[Any], int | None] | None = None
    ordinal: Callable[[Any], int] | None = None
    rule: Callable[[Any], str] | None = None


_TARGETS_REMEMBERED: Final = 1 << 12


@lru_cache(_TARGETS_REMEMBERED)
def path_of_target(target: str) -> str | None:
    """The path, if a command's target is a znode."""
    return target if target.startswith("/") else None


def with_choices(about: Partitions, choices: tuple[commands.Choice, ...]) -> Partitions:
    """Add the codes of leader choices to the partitions. If a command's body is not stored, the
    partitions come from the choices alone."""
    by_partition = {(one.topic, one.partition): one for one in about}
    for choice in choices:
        key = (choice.topic, choice.partition)
        known = by_partition.get(key) or PartitionFact(*key, leader=choice.chosen)
        by_partition[key] = replace(known, code=choice.code)
    return tuple(by_partition.values())


_broker: Final[Callable[[Any], int | None]] = attrgetter("broker")
_error: Final[Callable[[Any], int | None]] = attrgetter("error")
_ordinal: Final[Callable[[Any], int]] = attrgetter("command.ordinal")


def _first_error(errors: Iterable[int]) -> int:
    return next(filter(None, errors), 0)


def _error_of_broker(event: events.BrokerResponded) -> int:
    if event.error or not event.partition_errors:
        return event.error
    return _first_error(map(itemgetter(2), event.partition_errors))


_Operations = Iterable[operations.WriteOperation | transactions.Content]


def _only_path(parts: _Operations) -> str | None:
    """The path of operations on exactly one znode."""
    paths = [one.path for one in parts if hasattr(one, "path")]
    return paths[0] if len(paths) == 1 else None


def _only_broker(parts: _Operations) -> int | None:
    path = _only_path(parts)
    return None if path is None else subject_in_any_chroot(path).broker


def _written_partitions(parts: _Operations) -> Partitions:
    """The partitions that writes are about, with the states that the writes store."""
    found: list[PartitionFact] = []
    for part in parts:
        path: str | None = getattr(part, "path", None)
        name = None if path is None else subject_in_any_chroot(path)
        if path is not None and name is not None and name.topic is not None:
            found.append(_state(name, name.topic, path, getattr(part, "data", None)))
    return tuple(dict.fromkeys(found))


def _state(name: ZnodeSubject, topic: str, path: str, data: bytes | None) -> PartitionFact:
    state = None
    if data and name.kind == "state":
        with suppress(ZnodeError):
            state = read_state(path, data, 0)
    if state is None:
        return PartitionFact(topic, name.partition)
    return PartitionFact(topic, name.partition, state.leader, state.leader_epoch, state.isr)


def _of_znode(path: str) -> Partitions:
    name = subject_in_any_chroot(path)
    return () if name.topic is None else (PartitionFact(name.topic, name.partition),)


def _of_transaction(event: transactions.Transaction) -> _Operations:
    content = event.content
    return content.operations if isinstance(content, transactions.Multi) else (content,)


def _error_of_transaction(event: transactions.Transaction) -> int | None:
    content = event.content
    if isinstance(content, transactions.Multi):
        return content.error
    return getattr(content, "code", 0)


def _of_proposed(states: Iterable[ProposedState]) -> Partitions:
    return tuple(
        PartitionFact(one.topic, one.partition, None, one.leader_epoch, one.isr) for one in states
    )


def _of_targets(targets: Iterable[ReassignmentTarget]) -> Partitions:
    return tuple(PartitionFact(one.topic, one.partition) for one in targets)


def _of_pairs(pairs: Iterable[tuple[str, int]] | None) -> Partitions:
    return tuple(PartitionFact(*pair) for pair in pairs or ())


def _of_errors(errors: Iterable[tuple[str, int, int]]) -> Partitions:
    return tuple(
        [PartitionFact(topic, partition, code=str(error)) for topic, partition, error in errors]
    )


def _of_topics(names: Iterable[str | None]) -> Partitions:
    return tuple(PartitionFact(name) for name in names if name is not None)


def _of_leader_and_isr(command: commands.LeaderAndIsrRequest) -> Partitions:
    return tuple(
        PartitionFact(one.topic, one.partition, state.leader, state.leader_epoch, state.isr)
        for one in command.partitions
        for state in (one.leadership,)
    )


def _of_stop_replica(command: commands.StopReplicaRequest) -> Partitions:
    return tuple(
        PartitionFact(one.topic, one.partition, None, one.leader_epoch, None, code)
        for one in command.partitions
        for code in ("delete" if one.delete else None,)
    )


def _of_altered(command: AlterPartitionResponse) -> Partitions:
    return tuple(
        PartitionFact(one.topic, one.partition, code=str(one.error))
        if one.error
        else PartitionFact(one.topic, one.partition, one.leader, one.leader_epoch, one.isr)
        for one in command.partitions
    )


_Response = AlterPartitionResponse | AlterPartitionReassignmentsResponse | ElectLeadersResponse


def _error_of_response(command: _Response) -> int:
    return command.error or _first_error(one.error for one in command.partitions)


def _of_partition_responses(
    command: AlterPartitionReassignmentsResponse | ElectLeadersResponse,
) -> Partitions:
    return _of_errors((one.topic, one.partition, one.error) for one in command.partitions)


EVENTS: Final[dict[type, Facts]] = {
    events.WatchFired: Facts(
        path=attrgetter("path"),
        broker=lambda one: subject_in_any_chroot(one.path).broker,
        partitions=lambda one: _of_znode(one.path),
    ),
    events.ZnodesRead: Facts(error=lambda one: _first_error(one.errors), ordinal=_ordinal),
    events.ChildrenRead: Facts(error=_error, ordinal=_ordinal),
    events.ZnodesWritten: Facts(error=lambda one: _first_error(one.errors), ordinal=_ordinal),
    events.BrokerResponded: Facts(
        broker=_broker,
        partitions=lambda one: _of_errors(one.partition_errors),
        error=_error_of_broker,
        ordinal=_ordinal,
    ),
    events.ChannelFault: Facts(broker=_broker),
    events.VersionsOffered: Facts(broker=_broker),
    events.BrokerProbed: Facts(broker=_broker),
    AlterPartitionReceived: Facts(
        broker=_broker, partitions=lambda one: _of_proposed(one.partitions)
    ),
    ControlledShutdownReceived: Facts(broker=_broker),
    AllocateProducerIdsReceived: Facts(broker=_broker),
    AlterPartitionReassignmentsReceived: Facts(partitions=lambda one: _of_targets(one.partitions)),
    ListPartitionReassignmentsReceived: Facts(partitions=lambda one: _of_pairs(one.partitions)),
    ElectLeadersReceived: Facts(partitions=lambda one: _of_pairs(one.partitions)),
    CreateTopicsReceived: Facts(
        partitions=lambda one: _of_topics(topic.name for topic in one.topics)
    ),
    CreatePartitionsReceived: Facts(
        partitions=lambda one: _of_topics(topic.topic for topic in one.topics)
    ),
    DeleteTopicsReceived: Facts(
        partitions=lambda one: _of_topics(topic.name for topic in one.topics)
    ),
    events.TopicIdsDrawn: Facts(ordinal=_ordinal),
    events.NumbersDrawn: Facts(ordinal=_ordinal),
    transactions.Transaction: Facts(
        path=lambda one: _only_path(_of_transaction(one)),
        broker=lambda one: _only_broker(_of_transaction(one)),
        partitions=lambda one: _written_partitions(_of_transaction(one)),
        error=_error_of_transaction,
    ),
    imported_events.DecisionObserved: Facts(broker=_broker, error=_error, rule=attrgetter("what")),
    imported_events.RequestInferred: Facts(
        broker=_broker,
        partitions=lambda one: _of_proposed(one.alter_partition) + _of_targets(one.reassignments),
    ),
    imported_events.ControllerLogged: Facts(broker=_broker),
    imported_events.StateChangeLogged: Facts(broker=_broker),
    imported_events.RequestServed: Facts(broker=_broker),
}
_WRITE: Final = Facts(
    path=lambda one: _only_path(one.operations),
    broker=lambda one: _only_broker(one.operations),
    partitions=lambda one: _written_partitions(one.operations),
)
COMMANDS: Final[dict[type, Facts]] = {
    commands.WriteZnodes: _WRITE,
    commands.WriteAtomically: _WRITE,
    commands.OpenChannel: Facts(broker=_broker),
    commands.CloseChannel: Facts(broker=_broker),
    commands.ProbeBroker: Facts(broker=_broker),
    commands.LeaderAndIsrRequest: Facts(broker=_broker, partitions=_of_leader_and_isr),
    commands.StopReplicaRequest: Facts(broker=_broker, partitions=_of_stop_replica),
    AlterPartitionResponse: Facts(partitions=_of_altered, error=_error_of_response),
    ControlledShutdownResponse: Facts(
        partitions=lambda one: _of_pairs(one.remaining), error=_error
    ),
    AllocateProducerIdsResponse: Facts(error=_error),
    AlterPartitionReassignmentsResponse: Facts(
        partitions=_of_partition_responses, error=_error_of_response
    ),
    ElectLeadersResponse: Facts(partitions=_of_partition_responses, error=_error_of_response),
}
"""A command of a kind without an entry has the path of its target, if the target is a znode."""
