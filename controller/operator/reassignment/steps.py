"""The changes that a command makes, step by step. --dry-run prints them, otherwise they are
carried out. Pure."""

from collections.abc import Iterator, Mapping
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
from controller.core.values import format_brokers
from controller.operator.reassignment.documents import Partition, format_partition


class Configure(Struct, frozen=True):
    """Set some configurations of an entity such as "topics/t" or "brokers/1", and remove others."""

    entity: str
    given: Mapping[str, str] = {}
    removed: tuple[str, ...] = ()


class Write(Struct, frozen=True):
    """An atomic write to ZooKeeper."""

    operations: tuple[WriteOperation, ...]


class Alter(Struct, frozen=True):
    """AlterPartitionReassignments; None cancels."""

    targets: Mapping[Partition, tuple[int, ...] | None]


Step = Configure | Write | Alter

_LINE_CHARACTERS_MAX: Final = 2000
"""Limits the printed content of a znode: a large request is not readable anyway."""


def describe_step(step: Step) -> Iterator[str]:
    """A step as lines for people."""
    match step:
        case Configure(entity=entity, given=given, removed=removed):
            changes = [f"set {key}={value}" for key, value in given.items()]
            changes += [f"remove {key}" for key in removed]
            yield f"configuration of {entity}: {', '.join(changes)}"
        case Write(operations=operations):
            yield from map(_describe_operation, operations)
        case Alter(targets=targets):
            for partition, replicas in sorted(targets.items()):
                what = "cancel" if replicas is None else format_brokers(replicas)
                yield f"AlterPartitionReassignments of {format_partition(partition)}: {what}"


def _describe_operation(operation: WriteOperation) -> str:
    match operation:
        case Create(path=path, data=data):
            return f"create {path}: {_shortened_text(data)}"
        case CreateSequential(path=path, data=data):
            return f"create {path}NNNNNNNNNN: {_shortened_text(data)}"
        case SetData(path=path, data=data, version=version):
            return f"set {path}, if its version is {version}: {_shortened_text(data)}"
        case Delete(path=path):
            return f"delete {path}"
        case Check(path=path, version=version):
            return f"check that the version of {path} is {version}"


def _shortened_text(data: bytes) -> str:
    text = data.decode(errors="replace")
    if len(text) <= _LINE_CHARACTERS_MAX:
        return text
    return f"{text[:_LINE_CHARACTERS_MAX]}... ({len(data)} bytes)"
