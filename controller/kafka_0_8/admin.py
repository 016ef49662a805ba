"""The admin commands: pure functions from what a client read to the writes of one transaction.

Raises AdminError for a request that would harm the cluster; nothing is written then.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller.core.errors import CoreError, ZnodeError
from controller.core.operations import (
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.topic_names import problem_of
from controller.core.values import ANY_VERSION
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.state import Name
from controller.kafka_0_8.znodes import StateChange

TRANSACTION_BYTES_MAX: Final = 900_000
"""The longest transaction of a topic. ZooKeeper closes the connection if a request is longer than
jute.maxbuffer, by default 1,048,575 bytes. The rest is for replicas that a reassignment adds."""


class AdminError(CoreError):
    """An admin command that is refused; the text says why and what to do."""


class StoredPartition(Struct, frozen=True):
    """A partition in ZooKeeper. `replicas` is None if their znode cannot be read; `version` is that
    of the replicas znode, `children` are the names of the znodes below the partition;
    `is_reassigned`: it has a path below the reassigned partitions."""

    replicas: tuple[int, ...] | None
    version: int
    children: tuple[str, ...]
    is_reassigned: bool = False


class StoredEpoch(Struct, frozen=True):
    """/brokers/epoch in ZooKeeper: its content, readable or not, and its version."""

    data: bytes
    version: int


class Assignments:
    """The partitions as remove-brokers knows them. `replicas`: those of each, the new ones of a
    reassignment included; `new`: only those; `unreadable`: why the replicas of a partition are not
    known."""

    def __init__(self) -> None:
        self.replicas: dict[Name, tuple[int, ...]] = {}
        self.new: dict[Name, tuple[int, ...]] = {}
        self.unreadable: dict[Name, str] = {}

    def add(self, name: Name, stored: bytes | None, new: bytes | None) -> None:
        """Add a partition with the content of its replicas znode, and of that of its reassignment;
        None: there is none. A reassignment that cannot be read has no replicas: it cannot begin
        before its znode is corrected, and a broker without a queue cannot be a new replica
        (A-04)."""
        replicas: tuple[int, ...] = ()
        if stored is not None:
            try:
                replicas = znodes.read_brokers(znodes.replicas_path(*name), stored)
            except ZnodeError as error:
                self.unreadable[name] = str(error)
        self.new[name] = replicas_or_none(name, new) or ()
        self.replicas[name] = (*replicas, *self.new[name])


def replicas_or_none(name: Name, data: bytes | None) -> tuple[int, ...] | None:
    """A list of replicas; None if it cannot be read."""
    try:
        return znodes.read_brokers(znodes.replicas_path(*name), data)
    except ZnodeError:
        return None


def add_brokers(brokers: Sequence[int], existing: Collection[str]) -> list[WriteOperation]:
    """The state paths of new brokers (C-01), with the paths that every cluster needs. `existing`:
    the paths that exist."""
    paths: list[WriteOperation] = [Create(path) for path in znodes.PERSISTENT]
    # If the znode was deleted, the next leader takes the epoch from the partitions (E-09).
    is_new = znodes.TOPICS not in existing
    paths.append(Create(znodes.EPOCH, znodes.write_epoch(0) if is_new else znodes.NO_EPOCH_CONTENT))
    paths += [Create(znodes.state_path(one)) for one in brokers]
    return [one for one in paths if one.path not in existing]


def remove_brokers(
    brokers: Sequence[int],
    queues: Mapping[int, Sequence[str]],
    assigned: Assignments,
    registered: Collection[int],
) -> list[WriteOperation]:
    """Delete the state paths of brokers (C-02). `queues`: the children of each state path that
    exists; `assigned`: the replicas of each partition; `registered`: the registered brokers."""
    if not brokers:
        raise AdminError("no broker can be removed: the list of brokers is empty")
    operations: list[WriteOperation] = []
    for broker in brokers:
        if broker not in queues:
            raise AdminError(f"broker {broker} cannot be removed: it has no state path")
        for (topic, partition), replicas in assigned.replicas.items():
            if broker in replicas:
                what, option = f"it has a replica of {topic}-{partition}", ""
                if broker in assigned.new[topic, partition]:
                    what, option = f"{topic}-{partition} is being reassigned to it", " --replace"
                raise AdminError(
                    f"broker {broker} cannot be removed: {what}; move the partition to other "
                    f"brokers first (reassign {topic} {partition} IDS{option}), or delete the topic"
                )
        if broker in registered:
            raise AdminError(f"broker {broker} cannot be removed: it is registered; stop it first")
        if assigned.unreadable:
            (topic, partition), why = next(iter(assigned.unreadable.items()))
            raise AdminError(
                f"broker {broker} cannot be removed: it may have a replica of {topic}-{partition}, "
                f"because {why}; correct that znode, or delete topic {topic}"
            )
        # The transaction fails if the broker has registered since the znodes were read.
        operations += _none_at(znodes.broker_path(broker))
        path = znodes.state_path(broker)
        operations += [Delete(f"{path}/{child}", ANY_VERSION) for child in queues[broker]]
        operations.append(Delete(path, ANY_VERSION))
    return operations


def create_topic(
    topic: str, assignment: Mapping[int, tuple[int, ...]], brokers: Collection[int]
) -> list[WriteOperation]:
    """Store the replicas of a new topic's partitions, and start them (C-03). `brokers`: those with
    a state path."""
    if why := problem_of(topic):
        raise AdminError(f"topic {topic!r} cannot be created: {why}")
    if sorted(assignment) != list(range(len(assignment))) or not assignment:
        raise AdminError(f"topic {topic} cannot be created: its partitions are not 0, 1, 2, ...")
    operations: list[WriteOperation] = [Create(znodes.topic_path(topic))]
    for partition, replicas in sorted(assignment.items()):
        _require_usable(f"{topic}-{partition}", replicas, brokers)
        path = znodes.partition_path(topic, partition)
        content = znodes.write_brokers(replicas)
        operations += [Create(path), Create(znodes.replicas_path(topic, partition), content)]
        start = znodes.write_state_change(StateChange("start-replica", topic, partition))
        operations += [CreateSequential(znodes.request_prefix(one), start) for one in replicas]
    _require_deletable(topic, assignment)
    return operations


def _require_deletable(topic: str, assignment: Mapping[int, tuple[int, ...]]) -> None:
    """The deletion is one transaction, which is longer than the creation (C-04)."""
    children = ("ISR", "leader", "replicas")
    stored = {one: StoredPartition(found, 0, children) for one, found in assignment.items()}
    brokers = {one for replicas in assignment.values() for one in replicas}
    deletion = delete_topic(topic, stored, brokers, moves=(), epoch=None)
    length = transaction_bytes(deletion)
    if length > TRANSACTION_BYTES_MAX:
        raise AdminError(
            f"topic {topic} cannot be created: its deletion would be one transaction of about "
            f"{length:,} bytes, and ZooKeeper accepts 1 MB (jute.maxbuffer); create several topics "
            "with fewer partitions or replicas"
        )


def transaction_bytes(operations: Sequence[WriteOperation]) -> int:
    """About how many bytes a transaction has, in the request or in ZooKeeper's log: the path and
    data of each operation, and a header. The other bytes of a creation are flags, the ACL
    world:anyone and the number of a sequential znode."""
    length = 0
    for operation in operations:
        length += len(operation.path.encode()) + 21
        if isinstance(operation, Create | CreateSequential):
            length += len(operation.data) + 46
    return length


def delete_topic(
    topic: str,
    partitions: Mapping[int, StoredPartition],
    brokers: Collection[int],
    *,
    moves: Collection[str] | None,
    epoch: StoredEpoch | None,
) -> list[WriteOperation]:
    """Close the replicas of a topic and delete its znodes (C-04). If the replicas of a partition
    cannot be read, every broker has to close it. `brokers`: those with a state path; `moves`: the
    children of the topic's path below the reassigned partitions, None if there is no such path;
    `epoch`: /brokers/epoch, None if it does not exist."""
    # A candidate that has read the old partition cannot win the election of a new one: its write of
    # the epoch fails (E-06).
    operations: list[WriteOperation] = [
        Create(znodes.EPOCH, znodes.NO_EPOCH_CONTENT)
        if epoch is None
        else SetData(znodes.EPOCH, epoch.data, epoch.version)
    ]
    # The transaction fails if a reassignment was requested since the znodes were read.
    parent = znodes.reassigned_topic_path(topic)
    if moves is None:
        operations += _none_at(parent)
    for partition, stored in sorted(partitions.items()):
        if stored.is_reassigned:
            raise AdminError(
                f"topic {topic} cannot be deleted: {topic}-{partition} is being reassigned; wait "
                f"until its leader has deleted {znodes.reassigned_path(topic, partition)}. If a "
                "new replica does not come, delete that znode, or move the partition to replicas "
                f"of the ISR (reassign {topic} {partition} IDS --replace)"
            )
        path = znodes.partition_path(topic, partition)
        operations.append(Check(znodes.replicas_path(topic, partition), stored.version))
        if moves is not None:
            operations += _none_at(znodes.reassigned_path(topic, partition))
        close = znodes.write_state_change(StateChange("close-replica", topic, partition))
        closing = brokers if stored.replicas is None else stored.replicas
        operations += [
            CreateSequential(znodes.request_prefix(one), close) for one in closing if one in brokers
        ]
        operations += [Delete(f"{path}/{child}", ANY_VERSION) for child in stored.children]
        operations.append(Delete(path, ANY_VERSION))
    if moves is not None and not moves:
        operations.append(Delete(parent, ANY_VERSION))
    return [*operations, Delete(znodes.topic_path(topic), ANY_VERSION)]


def paths_of_reassignment(topic: str, partition: int) -> list[str]:
    """The paths whose existence `reassign` has to know."""
    return [
        znodes.replicas_path(topic, partition),
        znodes.reassigned_topic_path(topic),
        znodes.reassigned_path(topic, partition),
    ]


def reassign(
    topic: str,
    partition: int,
    replicas: tuple[int, ...],
    brokers: Collection[int],
    existing: Collection[str],
    *,
    replaces: int | None = None,
) -> list[WriteOperation]:
    """Store the new replicas of a partition (C-05). `existing`: those of `paths_of_reassignment`
    that exist; `replaces`: the version of the znode of a reassignment that is not complete, which
    this one replaces."""
    stored = znodes.replicas_path(topic, partition)
    if stored not in existing:
        raise AdminError(f"{topic}-{partition} cannot be reassigned: it does not exist")
    _require_usable(f"{topic}-{partition}", replicas, brokers)
    path = znodes.reassigned_path(topic, partition)
    content = znodes.write_brokers(replicas)
    operations: list[WriteOperation] = [Check(stored, ANY_VERSION)]
    if path in existing:
        if replaces is None:
            raise AdminError(
                f"{topic}-{partition} is being reassigned already: {path} exists. If a new replica "
                f"does not come, replace the reassignment: reassign {topic} {partition} IDS "
                "--replace. With replicas of the ISR as IDS, it ends at once"
            )
        return [*operations, SetData(path, content, replaces)]
    parent = znodes.reassigned_topic_path(topic)
    if parent not in existing:
        operations.append(Create(parent))
    return [*operations, Create(path, content)]


def _none_at(path: str) -> list[WriteOperation]:
    """Writes that fail if a znode exists, and change nothing."""
    return [Create(path), Delete(path, ANY_VERSION)]


def _require_usable(name: str, replicas: tuple[int, ...], brokers: Collection[int]) -> None:
    if not replicas:
        raise AdminError(f"{name} cannot be assigned: the list of replicas is empty")
    if len(dict.fromkeys(replicas)) < len(replicas):
        raise AdminError(f"{name} cannot be assigned: {replicas} names a broker twice")
    for one in replicas:
        if one not in brokers:
            raise AdminError(
                f"{name} cannot be assigned: broker {one} is unknown; add it with add-brokers"
            )
