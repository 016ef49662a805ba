"""The JSON documents of kafka-reassign-partitions: validated strictly, written in Kafka's key
order."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from controller.core.values import format_brokers
from controller.operator.reassignment.errors import BadInput

Partition = tuple[str, int]
"""Topic and partition number."""

Targets = Mapping[Partition, tuple[int, ...]]
"""The target or current replicas of each partition."""

_ANY_LOG_DIR: Final = "any"
_VERSION: Final = 1

_Number = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class _Entry(Struct, frozen=True):
    topic: str
    partition: _Number
    replicas: tuple[_Number, ...]
    log_dirs: tuple[str, ...] | None = None


class _Reassignment(Struct, frozen=True):
    version: int = _VERSION
    partitions: tuple[_Entry, ...] = ()


class _Topic(Struct, frozen=True):
    topic: str


class _Topics(Struct, frozen=True):
    version: int = _VERSION
    topics: tuple[_Topic, ...] = ()


T = TypeVar("T", _Reassignment, _Topics)


def format_partition(partition: Partition) -> str:
    """A partition in Kafka's notation, "topic-0"."""
    topic, number = partition
    return f"{topic}-{number}"


def format_partitions(partitions: Iterable[Partition]) -> str:
    """Partitions in one line, sorted."""
    return ",".join(map(format_partition, sorted(partitions)))


def read_targets(file: Path) -> dict[Partition, tuple[int, ...]]:
    """Read a --reassignment-json-file (ReassignPartitionsCommand.parseExecuteAssignmentArgs).

    Raises BadInput with all problems of the file.
    """
    entries = _read_document(file, _Reassignment).partitions
    problems = [] if entries else ["Partition reassignment list cannot be empty"]
    named = Counter((one.topic, one.partition) for one in entries)
    twice = [name for name, count in named.items() if count > 1]
    if twice:
        text = (
            "Partition reassignment contains duplicate topic partitions: "
            f"{format_partitions(twice)}"
        )
        problems.append(text)
    problems += [problem for one in entries for problem in _problems(one)]
    if problems:
        raise BadInput("\n".join(f"{file}: {one}" for one in problems))
    return {(one.topic, one.partition): one.replicas for one in entries}


def _problems(entry: _Entry) -> Iterable[str]:
    name = format_partition((entry.topic, entry.partition))
    if not entry.replicas:
        yield f"Partition replica list cannot be empty: {name}"
    repeated = [one for one, count in Counter(entry.replicas).items() if count > 1]
    if repeated:
        text = "Partition replica lists may not contain duplicate entries"
        yield f"{text}: {name} contains multiple entries for {format_brokers(repeated)}"
    log_dirs = entry.log_dirs or ()
    if entry.log_dirs is not None and len(log_dirs) != len(entry.replicas):
        yield f"{name} has {len(entry.replicas)} replicas and {len(log_dirs)} log_dirs"
    if any(one != _ANY_LOG_DIR for one in log_dirs):
        yield (
            f"{name} names log directories: refold does not move replicas between them; "
            'use kafka-reassign-partitions for that, or "any" here'
        )


def read_topics(file: Path) -> list[str]:
    """Read a --topics-to-move-json-file (parseGenerateAssignmentArgs). Raises BadInput."""
    topics = [one.topic for one in _read_document(file, _Topics).topics]
    if not topics:
        raise BadInput(f"{file}: List of topics to reassign cannot be empty")
    twice = [one for one, count in Counter(topics).items() if count > 1]
    if twice:
        text = "List of topics to reassign contains duplicate entries"
        raise BadInput(f"{file}: {text}: {','.join(twice)}")
    return topics


def read_brokers(text: str) -> list[int]:
    """Read a --broker-list such as "1,2,3". Raises BadInput."""
    parts = [one.strip() for one in text.split(",")]
    wrong = [one for one in parts if not (one.isascii() and one.isdecimal())]
    if wrong:
        raise BadInput(f"--broker-list {text!r}: {wrong[0]!r} is not a broker id")
    brokers = [int(one) for one in parts]
    twice = [one for one, count in Counter(brokers).items() if count > 1]
    if twice:
        raise BadInput(f"Broker list contains duplicate entries: {format_brokers(twice)}")
    return brokers


def as_document(targets: Targets) -> dict[str, Any]:
    """Assignments as the content of a --reassignment-json-file, sorted."""
    return {
        "version": _VERSION,
        "partitions": [
            {
                "topic": topic,
                "partition": number,
                "replicas": list(replicas),
                "log_dirs": [_ANY_LOG_DIR] * len(replicas),
            }
            for (topic, number), replicas in sorted(targets.items())
        ],
    }


def write_targets(targets: Targets) -> str:
    """The text of a --reassignment-json-file (formatAsReassignmentJson)."""
    return msgspec.json.encode(as_document(targets)).decode()


def _read_document(file: Path, kind: type[T]) -> T:
    try:
        document = msgspec.json.decode(file.read_bytes(), type=kind)
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} cannot be used: {error}") from error
    if document.version != _VERSION:
        raise BadInput(f"{file}: Not supported version field value {document.version}")
    return document
