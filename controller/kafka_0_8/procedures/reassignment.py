"""Reassignment of partitions, by their leaders (A-01 to A-04).

Every step is one transaction of the leader (leader_writes.py) that checks the version of the ISR,
so that it fails if another leader was elected.
"""

from collections.abc import Sequence
from typing import Final

from controller.core.commands import Reason
from controller.core.errors import ZnodeError
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    NO_AUTH,
    NO_NODE,
    OK,
    RUNTIME_INCONSISTENCY,
    Check,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import (
    denied_text,
    fetch_stats,
    fetch_znodes,
    write_atomically,
)
from controller.kafka_0_8 import rules, znodes
from controller.kafka_0_8.broker import ELECTION, Broker, timer_of
from controller.kafka_0_8.configuration import FIRST_RULES, SECOND_RULES
from controller.kafka_0_8.procedures.leader_writes import write_as_leader
from controller.kafka_0_8.procedures.reading import children_of
from controller.kafka_0_8.records import commit, refuse_queued
from controller.kafka_0_8.state import Partition
from controller.kafka_0_8.triggers import LeaderChanged, PartitionsReassigned
from controller.kafka_0_8.znodes import Isr, StateChange

_UNUSABLE: Final = "unusable_reassignment"
"""The code of notices about reassignments that cannot begin or continue."""


async def read_reassignments(broker: Broker, rule: str) -> None:
    """The children of the reassigned partitions changed, or could not be read (S-12): read those
    that this broker leads. `rule`: the reason of the reads."""
    led = broker.led_partitions()
    if broker.configuration.rules <= SECOND_RULES:
        for partition in led:
            if broker.partitions.get(partition.name) is partition and partition.is_leader:
                await read_reassignment(broker, partition)
        return
    if not led:
        return
    topics = await _children(broker, znodes.REASSIGNED, rule)
    numbers = {topic: await _numbers(broker, topic, rule) for topic in _topics(led, topics)}
    for partition in led:
        if broker.partitions.get(partition.name) is partition and partition.is_leader:
            await _read_reassigned_znode(
                broker, partition, numbers.get(partition.name[0], []), rule
            )


async def read_reassignment(broker: Broker, partition: Partition) -> None:
    """Watch the reassigned partitions (L-03), and begin or continue the reassignment of one."""
    topic = partition.name[0]
    rule = rules.WATCH_REASSIGNED
    if topic in await _children(broker, znodes.REASSIGNED, rule):
        await _read_reassigned_znode(broker, partition, await _numbers(broker, topic, rule), rule)


def _topics(led: Sequence[Partition], reassigned: Sequence[str]) -> list[str]:
    """The topics of the partitions that have a path below the reassigned partitions."""
    topics = dict.fromkeys(one.name[0] for one in led)
    return [topic for topic in topics if topic in reassigned]


async def _children(broker: Broker, path: str, rule: str) -> list[str]:
    """The children of a path, which is watched. If they may not be read, they are read again later
    (S-12)."""
    children = await children_of(broker, path, rule, watch=True)
    if broker.is_denied(path):
        broker.read_again(path)
    return children


async def _numbers(broker: Broker, topic: str, rule: str) -> list[str]:
    parent = znodes.reassigned_topic_path(topic)
    partitions = await _children(broker, parent, rule)
    why = "is not named by a partition number"
    broker.report_children(parent, partitions, znodes.is_number, why)
    return partitions


async def _read_reassigned_znode(
    broker: Broker, partition: Partition, numbers: Sequence[str], rule: str
) -> None:
    """Read the reassignment of a partition. `numbers`: the children of its topic's path."""
    topic, number = partition.name
    path = znodes.reassigned_path(topic, number)
    if str(number) not in numbers:
        parents = (znodes.REASSIGNED, znodes.reassigned_topic_path(topic))
        if broker.configuration.rules > SECOND_RULES and not any(map(broker.is_denied, parents)):
            # An administrator has deleted the path of a reassignment that was not complete.
            partition.rar = ()
        return
    # An unusable reassignment is read again when its content changes.
    watches = broker.configuration.rules != FIRST_RULES
    found = await fetch_znodes(broker, [path], rule, watch=watches, may_be_denied=True)
    if found.errors[0] == NO_AUTH:
        _refuse(broker, path, denied_text(path), "correct the ACL")
        broker.read_again(path)
    if found.errors[0] != OK:
        return
    try:
        rar = znodes.read_brokers(path, found.data[0])
    except ZnodeError as error:
        _refuse(broker, path, str(error))
        return
    partition.rar_version = found.versions[0]
    await _begin(broker, partition, rar)


def _refuse(
    broker: Broker, path: str, why: str, what_to_do: str = "correct or delete the znode"
) -> None:
    if broker.configuration.rules <= SECOND_RULES:
        what_to_do = "correct or delete the znode"
    text = f"{why}; the partition is not reassigned: {what_to_do}"
    rule = rules.UNUSABLE_REASSIGNMENT
    broker.notice_once("error", _UNUSABLE, path, text, rule, why.encode())


async def _begin(broker: Broker, partition: Partition, rar: tuple[int, ...]) -> None:
    """Add the new replicas to the assigned ones, and start them (A-01)."""
    added = tuple(one for one in rar if one not in partition.ar)
    known = await _with_queue(broker, added, rules.ADD_REPLICAS)
    unknown = [one for one in added if one not in known]
    if unknown and broker.configuration.rules != FIRST_RULES:
        # When add-brokers adds such a broker, the reassignment begins.
        known += await _with_queue(broker, unknown, rules.UNUSABLE_REASSIGNMENT, watch=True)
    for one in added:
        if one not in known:
            path = znodes.reassigned_path(*partition.name)
            _refuse(broker, path, f"broker {one} is unknown: it has no queue")
            return
    if added:
        replicas = (*partition.ar, *added)
        path = znodes.replicas_path(*partition.name)
        version = partition.replicas_version
        operations: list[WriteOperation] = [
            Check(znodes.isr_path(*partition.name), partition.isr_version),
            SetData(path, znodes.write_brokers(replicas), version),
            *_requests(StateChange("start-replica", *partition.name), added),
        ]
        if not await _write(broker, partition, operations, rules.ADD_REPLICAS):
            return
        partition.replicas_version += 1
        partition.assign(replicas, broker.now_ms, partition.replicas_version)
    partition.rar = rar
    await complete_if_caught_up(broker, partition)


async def complete_if_caught_up(broker: Broker, partition: Partition) -> None:
    """If all new replicas are in the ISR, make them the assigned ones (A-02, A-03)."""
    rar = partition.rar
    if not rar or any(one not in partition.isr for one in rar):
        return
    name = partition.name
    gives_up = broker.id not in rar
    rule = rules.GIVE_UP if gives_up else rules.COMPLETE
    removed = await _with_queue(broker, [one for one in partition.ar if one not in rar], rule)
    isr = znodes.write_isr(Isr(rar, partition.epoch))
    replicas = znodes.write_brokers(rar)
    # An administrator may have replaced the reassignment.
    is_earlier = broker.configuration.rules <= SECOND_RULES
    version = ANY_VERSION if is_earlier else partition.rar_version
    operations: list[WriteOperation] = [
        SetData(znodes.isr_path(*name), isr, partition.isr_version),
        SetData(znodes.replicas_path(*name), replicas, partition.replicas_version),
        Delete(znodes.reassigned_path(*name), version),
        *_requests(StateChange("close-replica", *name), removed),
    ]
    if gives_up:
        operations.append(Delete(znodes.leader_path(*name), ANY_VERSION))
    if not await _write(broker, partition, operations, rule):
        return
    if gives_up:
        partition.forget_leader()
        refuse_queued(broker, partition)
        return
    partition.isr_version += 1
    partition.replicas_version += 1
    partition.assign(rar, broker.now_ms, partition.replicas_version)
    partition.isr, partition.rar = rar, ()
    commit(broker, partition)


async def _with_queue(
    broker: Broker, brokers: Sequence[int], rule: str, *, watch: bool = False
) -> list[int]:
    """Select the brokers that have a state path: add-brokers has added them."""
    paths = list(map(znodes.state_path, brokers))
    found = await fetch_stats(broker, paths, rule, watch=watch)
    return [one for one, error in zip(brokers, found.errors, strict=True) if error == OK]


def _requests(change: StateChange, brokers: Sequence[int]) -> list[WriteOperation]:
    content = znodes.write_state_change(change)
    return [CreateSequential(znodes.request_prefix(one), content) for one in brokers]


async def _write(
    broker: Broker, partition: Partition, operations: list[WriteOperation], rule: str
) -> bool:
    """One transaction of this leadership. If it was refused or its reply was lost, the result is
    False, and ZooKeeper is read again as at the beginning of the leadership. If only the
    reassignment was replaced or deleted, the leadership continues, and that is read again."""
    if broker.configuration.rules == FIRST_RULES:
        errors = await write_atomically(broker, operations, Reason(rule))
    else:
        errors = await write_as_leader(broker, partition, operations, Reason(rule))
    path = znodes.reassigned_path(*partition.name)
    if all(error == OK for error in errors):
        broker.forget(path, _UNUSABLE)
        return True
    if _is_replaced(broker, operations, errors):
        partition.rar = ()
        broker.enqueue(PartitionsReassigned())
        return False
    partition.forget_leader()
    if CONNECTION_LOSS in errors:
        broker.enqueue(LeaderChanged(*partition.name))
        return False
    _refuse(broker, path, f"ZooKeeper refused a step (codes {errors}), it is tried again")
    retry_ms = broker.configuration.retry_ms
    broker.start_timer(timer_of(ELECTION, partition.name), retry_ms, rules.ELECTION_RETRY)
    return False


def _is_replaced(
    broker: Broker, operations: Sequence[WriteOperation], errors: Sequence[int]
) -> bool:
    """Whether the reassignment that a transaction completes has changed since it was read."""
    others = (OK, RUNTIME_INCONSISTENCY)
    failed = next((place for place, error in enumerate(errors) if error not in others), 0)
    operation = operations[failed]
    return (
        broker.configuration.rules > SECOND_RULES
        and isinstance(operation, Delete)
        and operation.path.startswith(f"{znodes.REASSIGNED}/")
        and errors[failed] in (BAD_VERSION, NO_NODE)
    )
