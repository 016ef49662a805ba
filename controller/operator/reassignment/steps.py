"""What a command would change, one step after the other: --dry-run tells them, else they are done.
Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from controller.core.operations import (
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)
from controller.operator.reassignment.documents import Partition, Targets, listed, spelt
from controller.operator.reassignment.throttles import (
    BROKER_KEYS_CLEARED,
    TOPIC_KEYS,
    Move,
    rates,
    throttled_brokers,
    topic_throttles,
)


class Configure(Struct, frozen=True):
    """Set configurations of an entity such as "topics/t" or "brokers/1", and remove some."""

    entity: str
    given: Mapping[str, str] = {}
    removed: tuple[str, ...] = ()


class Write(Struct, frozen=True):
    """Write to ZooKeeper, all or nothing."""

    operations: tuple[WriteOperation, ...]


class Alter(Struct, frozen=True):
    """AlterPartitionReassignments; None cancels."""

    targets: Mapping[Partition, tuple[int, ...] | None]


Step = Configure | Write | Alter

_LINE_CHARACTERS_MAX: Final = 2000
"""Of a znode's content in a line: a large request is not read by anybody."""


def throttle_steps(moving: Mapping[Partition, Move], bytes_per_second: int) -> list[Configure]:
    """Topics first, then brokers, as Kafka's tool does (modifyReassignmentThrottle)."""
    topics = topic_throttles(moving).items()
    limits = rates(bytes_per_second)
    return [
        *(Configure(f"topics/{topic}", given) for topic, given in topics),
        *(Configure(f"brokers/{one}", limits) for one in throttled_brokers(moving.values())),
    ]


def clearing_steps(brokers: Iterable[int], targets: Targets) -> list[Configure]:
    """Brokers first, then topics (clearAllThrottles)."""
    topics = sorted({topic for topic, _ in targets})
    return [
        *(Configure(f"brokers/{one}", removed=BROKER_KEYS_CLEARED) for one in brokers),
        *(Configure(f"topics/{topic}", removed=TOPIC_KEYS) for topic in topics),
    ]


def described(step: Step) -> Iterator[str]:
    """A step in lines for people."""
    match step:
        case Configure(entity=entity, given=given, removed=removed):
            changes = [f"set {key}={value}" for key, value in given.items()]
            changes += [f"remove {key}" for key in removed]
            yield f"configuration of {entity}: {', '.join(changes)}"
        case Write(operations=operations):
            yield from map(_described, operations)
        case Alter(targets=targets):
            for partition, replicas in sorted(targets.items()):
                what = "cancel" if replicas is None else listed(replicas)
                yield f"AlterPartitionReassignments of {spelt(partition)}: {what}"


def _described(operation: WriteOperation) -> str:
    match operation:
        case Create(path=path, data=data):
            return f"create {path}: {_shown(data)}"
        case CreateSequential(path=path, data=data):
            return f"create {path}NNNNNNNNNN: {_shown(data)}"
        case SetData(path=path, data=data, version=version):
            return f"set {path}, if its version is {version}: {_shown(data)}"
        case Delete(path=path):
            return f"delete {path}"
        case Check(path=path, version=version):
            return f"check that the version of {path} is {version}"


def _shown(data: bytes) -> str:
    text = data.decode(errors="replace")
    if len(text) <= _LINE_CHARACTERS_MAX:
        return text
    return f"{text[:_LINE_CHARACTERS_MAX]}... ({len(data)} bytes)"
