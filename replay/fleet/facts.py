"""What a record is about: the broker, the znode, the partitions, the error, in a query's terms.

Paths are told apart by their ends: those of an imported cluster begin with its chroot.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from controller.core import commands, events, operations
from controller.core.canonical import decode_command, decode_event, decode_reason
from controller.core.errors import ZnodeError
from controller.core.topic_requests import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from controller.core.znodes import read_state
from replay.fleet.naming import JSON_BYTES_MAX, json_of
from replay.world_log import encoding as world
from replay.world_log import events as worldly
from replay.zookeeper_log import transactions


class PartitionFact(NamedTuple):
    """A partition that a record is about. Of `leader`, `leader_epoch` and `isr` what the record
    says they shall be or are; `code` says why (a decision) or what went wrong (an answer)."""

    topic: str
    partition: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    code: str | None = None


class Facts(Struct, gc=False):
    """What a record is about. `ordinal`: which of its cause's commands an event answers. `rule`:
    the reason of a command, or what an observed decision is. `json`: its content."""

    json: bytes | None = None
    path: str | None = None
    broker: int | None = None
    partitions: tuple[PartitionFact, ...] = ()
    error: int | None = None
    ordinal: int | None = None
    rule: str | None = None
    reason: bytes | None = None


class ZnodeName(NamedTuple):
    """What the path of a znode names."""

    broker: int | None = None
    topic: str | None = None
    partition: int | None = None


_PATHS_REMEMBERED: Final = 1 << 16
_REASONS_REMEMBERED: Final = 1 << 12
_BROKER: Final = re.compile(r"(?:/.*)?/(?:brokers/ids|config/brokers)/([0-9]{1,10})")
_TOPIC: Final = re.compile(
    r"(?:/.*)?/(?:brokers/topics|config/topics|admin/delete_topics)/([^/]+)"
    r"(?:/partitions/([0-9]{1,10})(/state)?)?"
)
_UNREADABLE: Final = (msgspec.MsgspecError, ValueError)
_generic: Final = msgspec.msgpack.Decoder().decode


@lru_cache(_PATHS_REMEMBERED)
def znode_name(path: str) -> ZnodeName:
    """What a path names, whichever chroot it begins with."""
    if (of_topic := _TOPIC.fullmatch(path)) is not None:
        number = of_topic[2]
        return ZnodeName(None, of_topic[1], None if number is None else int(number))
    if (of_broker := _BROKER.fullmatch(path)) is not None:
        return ZnodeName(int(of_broker[1]))
    return ZnodeName()


def event_facts(kind: str, payload: bytes) -> Facts:
    """What an event is about. Of one that this version cannot read only its content, without
    names; of bytes that are nothing at all, nothing."""
    is_small = len(payload) <= JSON_BYTES_MAX
    try:
        event = world.decode_event(payload) if kind in world.SCHEMAS else decode_event(payload)
    except _UNREADABLE:
        return Facts(_plain(payload) if is_small else None)
    about = _EVENTS.get(type(event))
    facts = Facts() if about is None else about(event)
    answered: commands.CommandId | None = getattr(event, "command", None)
    if answered is not None:
        facts.ordinal = answered.ordinal
    if is_small:
        facts.json = json_of(event)
    return facts


def command_facts(kind: str, target: str, reason: bytes, body: bytes | None) -> Facts:
    """What a command is about. Where its body is not stored its reason still names partitions."""
    facts = _of_body(kind, target, body)
    facts.rule, facts.reason, choices = _why(reason)
    if choices:
        facts.partitions = _with_choices(facts.partitions, choices)
    return facts


@lru_cache(_REASONS_REMEMBERED)
def _why(reason: bytes) -> tuple[str | None, bytes | None, tuple[commands.Choice, ...]]:
    """The rule, all of it as JSON, and what was chosen; most commands have one of few reasons."""
    try:
        why = decode_reason(reason)
    except _UNREADABLE:
        return None, _plain(reason), ()
    return why.rule, json_of(why), why.choices


def _of_body(kind: str, target: str, body: bytes | None) -> Facts:
    # The same partitions go to every broker: what they say is in the decision that they follow.
    if body is None or kind == "update_metadata":
        return Facts(path=_path_of(target), broker=_broker_of(target))
    try:
        command = decode_command(body)
    except _UNREADABLE:
        return Facts(_plain(body))
    about = _COMMANDS.get(type(command))
    facts = Facts(path=_path_of(target)) if about is None else about(command)
    facts.json = json_of(command)
    return facts


def _plain(content: bytes) -> bytes | None:
    try:
        return json_of(_generic(content))
    except (*_UNREADABLE, TypeError, RecursionError):
        return None


def _path_of(target: str) -> str | None:
    return target if target.startswith("/") else None


def _broker_of(target: str) -> int | None:
    number = target.removeprefix("broker ")
    return int(number) if number != target and number.isdecimal() else None


def _first_error(errors: Iterable[int]) -> int:
    return next((one for one in errors if one), 0)


_Operations = Iterable[operations.WriteOperation | transactions.Content]


def _of_operations(parts: _Operations, error: int | None = None) -> Facts:
    """What writes are about; partitions, where they write their states, with what they shall be."""
    paths: list[str] = []
    found: list[PartitionFact] = []
    for part in parts:
        path: str | None = getattr(part, "path", None)
        if path is None:
            continue
        paths.append(path)
        name = znode_name(path)
        if name.topic is not None:
            found.append(_written(name, path, getattr(part, "data", None)))
    path = paths[0] if len(paths) == 1 else None
    broker = None if path is None else znode_name(path).broker
    return Facts(path=path, broker=broker, partitions=tuple(dict.fromkeys(found)), error=error)


def _written(name: ZnodeName, path: str, data: bytes | None) -> PartitionFact:
    topic = name.topic or ""
    if not data or name.partition is None or not path.endswith("/state"):
        return PartitionFact(topic, name.partition)
    try:
        state = read_state(path, data, 0)
    except ZnodeError:
        return PartitionFact(topic, name.partition)
    return PartitionFact(topic, name.partition, state.leader, state.leader_epoch, state.isr)


def _with_choices(
    facts: tuple[PartitionFact, ...], choices: tuple[commands.Choice, ...]
) -> tuple[PartitionFact, ...]:
    by_partition = {(one.topic, one.partition): one for one in facts}
    for choice in choices:
        key = (choice.topic, choice.partition)
        known = by_partition.get(key) or PartitionFact(*key, leader=choice.chosen)
        by_partition[key] = known._replace(code=choice.code)
    return tuple(by_partition.values())


def _of_watch(event: events.WatchFired) -> Facts:
    name = znode_name(event.path)
    about = () if name.topic is None else (PartitionFact(name.topic, name.partition),)
    return Facts(path=event.path, broker=name.broker, partitions=about)


def _of_transaction(event: transactions.Transaction) -> Facts:
    content = event.content
    if isinstance(content, transactions.Multi):
        return _of_operations(content.operations, content.error)
    return _of_operations((content,), getattr(content, "code", 0))


def _of_proposed(states: Iterable[events.ProposedState]) -> tuple[PartitionFact, ...]:
    return tuple(
        PartitionFact(one.topic, one.partition, None, one.leader_epoch, one.isr) for one in states
    )


def _of_targets(targets: Iterable[events.ReassignmentTarget]) -> tuple[PartitionFact, ...]:
    return tuple(PartitionFact(one.topic, one.partition) for one in targets)


def _of_pairs(pairs: Iterable[tuple[str, int]] | None) -> tuple[PartitionFact, ...]:
    return tuple(PartitionFact(*pair) for pair in pairs or ())


def _of_errors(errors: Iterable[tuple[str, int, int]]) -> tuple[PartitionFact, ...]:
    return tuple(
        PartitionFact(topic, partition, code=str(error)) for topic, partition, error in errors
    )


def _of_topics(names: Iterable[str | None]) -> Facts:
    return Facts(partitions=tuple(PartitionFact(name) for name in names if name is not None))


def _of_leader_and_isr(command: commands.LeaderAndIsrRequest) -> Facts:
    about = tuple(
        PartitionFact(
            one.topic,
            one.partition,
            one.leadership.leader,
            one.leadership.leader_epoch,
            one.leadership.isr,
        )
        for one in command.partitions
    )
    return Facts(broker=command.broker, partitions=about)


def _of_stop_replica(command: commands.StopReplicaRequest) -> Facts:
    about = tuple(
        PartitionFact(one.topic, one.partition, None, one.leader_epoch, None, code)
        for one in command.partitions
        for code in ("delete" if one.delete else None,)
    )
    return Facts(broker=command.broker, partitions=about)


def _of_altered(command: commands.AnswerAlterPartition) -> Facts:
    about = tuple(
        PartitionFact(one.topic, one.partition, code=str(one.error))
        if one.error
        else PartitionFact(one.topic, one.partition, one.leader, one.leader_epoch, one.isr)
        for one in command.partitions
    )
    error = command.error or _first_error(one.error for one in command.partitions)
    return Facts(partitions=about, error=error)


def _of_partition_answers(
    command: commands.AnswerAlterPartitionReassignments | commands.AnswerElectLeaders,
) -> Facts:
    answers = command.partitions
    about = _of_errors((one.topic, one.partition, one.error) for one in answers)
    error = command.error or _first_error(one.error for one in answers)
    return Facts(partitions=about, error=error)


def _of_broker(value: Any) -> Facts:
    return Facts(broker=value.broker, error=getattr(value, "error", None))


_EVENTS: Final[dict[type, Callable[[Any], Facts]]] = {
    events.WatchFired: _of_watch,
    events.ZnodesRead: lambda one: Facts(error=_first_error(one.errors)),
    events.ChildrenRead: lambda one: Facts(error=one.error),
    events.ZnodesWritten: lambda one: Facts(error=_first_error(one.errors)),
    events.BrokerAnswered: lambda one: Facts(
        broker=one.broker,
        partitions=_of_errors(one.partition_errors),
        error=one.error or _first_error(code for _, _, code in one.partition_errors),
    ),
    events.ChannelFault: _of_broker,
    events.VersionsOffered: _of_broker,
    events.AlterPartitionReceived: lambda one: Facts(
        broker=one.broker, partitions=_of_proposed(one.partitions)
    ),
    events.ControlledShutdownReceived: _of_broker,
    events.AllocateProducerIdsReceived: _of_broker,
    events.AlterPartitionReassignmentsReceived: lambda one: Facts(
        partitions=_of_targets(one.partitions)
    ),
    events.ListPartitionReassignmentsReceived: lambda one: Facts(
        partitions=_of_pairs(one.partitions)
    ),
    events.ElectLeadersReceived: lambda one: Facts(partitions=_of_pairs(one.partitions)),
    CreateTopicsReceived: lambda one: _of_topics(topic.name for topic in one.topics),
    CreatePartitionsReceived: lambda one: _of_topics(topic.topic for topic in one.topics),
    DeleteTopicsReceived: lambda one: _of_topics(topic.name for topic in one.topics),
    transactions.Transaction: _of_transaction,
    worldly.Observed: lambda one: Facts(broker=one.broker, error=one.error, rule=one.what),
    worldly.RequestInferred: lambda one: Facts(
        broker=one.broker,
        partitions=_of_proposed(one.alter_partition) + _of_targets(one.reassignments),
    ),
    worldly.ControllerLogged: _of_broker,
    worldly.StateChangeLogged: _of_broker,
    worldly.RequestServed: _of_broker,
}
_COMMANDS: Final[dict[type, Callable[[Any], Facts]]] = {
    commands.WriteZnodes: lambda one: _of_operations(one.operations),
    commands.WriteAtomically: lambda one: _of_operations(one.operations),
    commands.OpenChannel: _of_broker,
    commands.CloseChannel: _of_broker,
    commands.LeaderAndIsrRequest: _of_leader_and_isr,
    commands.StopReplicaRequest: _of_stop_replica,
    commands.AnswerAlterPartition: _of_altered,
    commands.AnswerControlledShutdown: lambda one: Facts(
        partitions=_of_pairs(one.remaining), error=one.error
    ),
    commands.AnswerAllocateProducerIds: lambda one: Facts(error=one.error),
    commands.AnswerAlterPartitionReassignments: _of_partition_answers,
    commands.AnswerElectLeaders: _of_partition_answers,
}
