"""The subject of a znode, an event or a command.

`subject_of` parses the path of a znode. The other functions return subjects as the options of
refold's commands name them: "t" for a topic, "t-0" for a partition, "broker 3", or a timer.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final, Literal, NamedTuple

from controller.core import commands, events, znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ListPartitionReassignmentsReceived,
)
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
)
from controller.kafka_0_8.commands import BrokerCommand
from controller.kafka_0_8.events import BrokerEvent
from controller.kafka_0_8.znodes import broker_of, partition_znode
from replay.names import broker_name, partition_name
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    Multi,
    Transaction,
)
from replay.znode_tree.paths import below

NameOf = Callable[[str], str]
"""Returns the name of a topic by its id in hex."""


def unchanged_name(topic: str) -> str:
    """The `NameOf` for requests that name topics: it returns the name itself."""
    return topic


# Znodes -----------------------------------------------------------------------------------------

Kind = Literal[
    "broker",
    "broker config",
    "topic",
    "topic config",
    "topic deletion",
    "partitions",
    "partition",
    "state",
    "reassignment",
    "entries",
    "extra entries",
    "requests",
    "cancellation",
    "other",
]
"""The last kinds are the znodes in which tools request and cancel reassignments; `requests` are
/admin/reassignment_requests and its children."""


class ZnodeSubject(NamedTuple):
    """The subject of a znode, by its path. The znodes of a partition have its topic as well."""

    kind: Kind = "other"
    broker: int | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def names(self) -> list[str]:
        """The subject as "broker 3", or as "t" and "t-0"."""
        if self.broker is not None:
            return [broker_name(self.broker)]
        if self.topic is None:
            return []
        return [
            self.topic,
            *([] if self.partition is None else [partition_name(self.topic, self.partition)]),
        ]


_KINDS: Final[dict[str, Kind]] = {
    znodes.BROKER_IDS: "broker",
    znodes.BROKER_CONFIGS: "broker config",
    znodes.TOPICS: "topic",
    znodes.TOPIC_CONFIGS: "topic config",
    znodes.DELETE_TOPICS: "topic deletion",
    REASSIGNMENTS: "reassignment",
}
_WITHOUT_NAMES: Final[Mapping[str, Kind]] = {
    REASSIGN_PARTITIONS: "entries",
    REASSIGN_PARTITIONS_EXTRA: "extra entries",
    rf"{REASSIGNMENT_REQUESTS}(?:/[^/]+)?": "requests",
    REASSIGN_CANCEL: "cancellation",
}
"""Kinds of znodes whose paths name no subject, by regular expressions."""
OF_TOPICS: Final = ("topic", "partitions", "partition", "state")
"""Kinds of the znodes below /brokers/topics."""
_OF_BROKERS: Final = ("broker", "broker config")
_PATH: Final = re.compile(rf"({'|'.join(_KINDS)})/([^/]+)(/.*)?")
_ANY_CHROOT: Final = "(?:/.*)?"
_PATH_IN_ANY_CHROOT: Final = re.compile(_ANY_CHROOT + _PATH.pattern)
_BELOW_TOPIC: Final = re.compile(r"/partitions(?:/([0-9]{1,10})(/state)?)?")
_NUMBER: Final = re.compile(r"/?([0-9]{1,10})")
PATTERNS: Final[Mapping[Kind, str]] = {
    "broker": f"{znodes.BROKER_IDS}/([0-9]+)$",
    "topic": f"{znodes.TOPICS}/([^/]+)$",
    "state": f"{znodes.TOPICS}/([^/]+)/partitions/([0-9]+)/state$",
    "topic deletion": f"{znodes.DELETE_TOPICS}/([^/]+)$",
    "reassignment": f"{REASSIGNMENTS}/([^/]+)/([0-9]+)$",
    **{kind: f"{path}$" for path, kind in _WITHOUT_NAMES.items()},
}
"""Regular expressions for paths in any chroot, for SQL, which cannot call a function of Python. The
groups are the broker, or the topic and the partition."""
_OTHER: Final = ZnodeSubject()
_PATHS_REMEMBERED: Final = 1 << 16


@lru_cache(_PATHS_REMEMBERED)
def subject_of(path: str) -> ZnodeSubject:
    """The subject of a znode. The path is Kafka's: without a chroot."""
    found = _PATH.fullmatch(path)
    return _subject_without_names(path, "") if found is None else _subject(found)


@lru_cache(_PATHS_REMEMBERED)
def subject_in_any_chroot(path: str) -> ZnodeSubject:
    """The subject of a znode whose path has an unknown chroot."""
    found = _PATH_IN_ANY_CHROOT.fullmatch(path)
    return _subject_without_names(path, _ANY_CHROOT) if found is None else _subject(found)


def _subject_without_names(path: str, chroot: str) -> ZnodeSubject:
    for pattern, kind in _WITHOUT_NAMES.items():
        if re.fullmatch(chroot + pattern, path):
            return ZnodeSubject(kind)
    return _OTHER


def _subject(found: re.Match[str]) -> ZnodeSubject:
    parent, name, rest = found.groups(default="")
    kind = _KINDS[parent]
    if kind in _OF_BROKERS:
        number = _NUMBER.fullmatch(name)
        return ZnodeSubject(kind, int(name)) if number and not rest else _OTHER
    if not rest:
        return ZnodeSubject(kind, topic=name) if kind != "reassignment" else _OTHER
    if kind == "reassignment":
        number = _NUMBER.fullmatch(rest)
        return ZnodeSubject(kind, topic=name, partition=int(number[1])) if number else _OTHER
    below_topic = _BELOW_TOPIC.fullmatch(rest) if kind == "topic" else None
    if below_topic is None:
        return _OTHER
    if below_topic[1] is None:
        return ZnodeSubject("partitions", topic=name)
    of_partition: Kind = "state" if below_topic[2] else "partition"
    return ZnodeSubject(of_partition, topic=name, partition=int(below_topic[1]))


# The 0.8 design ---------------------------------------------------------------------------------

_NAME_0_8: Final = re.compile(r"(.+)-([0-9]{1,10})")


def subjects_of_broker(value: BrokerEvent | BrokerCommand) -> list[str]:
    """The topics, partitions and brokers that an event or a command of the 0.8 design names."""
    topic, number = getattr(value, "topic", None), getattr(value, "partition", None)
    found = [] if topic is None else [topic, f"{topic}-{number}"]
    paths = [one.path for one in getattr(value, "operations", ())]
    paths += getattr(value, "paths", ())
    if isinstance(value, events.WatchFired):
        paths.append(value.path)
    if isinstance(value, commands.Notice):
        paths.append(value.subject)
        if name := _NAME_0_8.fullmatch(value.subject):
            found += [name[1], value.subject]
    for path in paths:
        if (partition := partition_znode(path)) is not None:
            topic, number = partition.name
            found += [topic, partition_name(topic, number)]
        elif (broker := broker_of(path)) is not None:
            found.append(broker_name(broker))
    return found


# Commands, events and transactions --------------------------------------------------------------


def paths_of_command(command: commands.Command) -> list[str]:
    """The znodes that a command reads or writes."""
    match command:
        case commands.UpdateMetadataRequest():
            # The most frequent command.
            return []
        case commands.ReadZnodes(paths=paths) | commands.ReadStats(paths=paths):
            return list(paths)
        case (
            commands.ReadChildren(path=path)
            | commands.SyncZnodes(path=path)
            | commands.WatchSubtree(path=path)
        ):
            return [path]
        case (
            commands.WriteZnodes(operations=operations)
            | commands.WriteAtomically(operations=operations)
        ):
            return [operation.path for operation in operations]
        case _:
            return []


def paths_of_transaction(transaction: Transaction, chroot: str) -> list[str]:
    """The znodes below `chroot` that a transaction changes, or would have changed if ZooKeeper had
    not rejected it."""
    content = transaction.content
    if isinstance(content, CloseSession):
        paths = list(content.paths or ())
    else:
        parts = content.operations if isinstance(content, Multi) else (content,)
        paths = [path for one in parts if (path := getattr(one, "path", None)) is not None]
    return [known for path in paths if (known := below(path, chroot)) is not None]


def subjects_of_transaction(transaction: Transaction, chroot: str) -> tuple[str, ...]:
    """The subjects of the znodes that a transaction changes."""
    return _of_paths(paths_of_transaction(transaction, chroot))


def _of_paths(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(subject_of(path).names for path in paths)))


def subjects_of_command(command: commands.Command) -> Iterator[str]:
    """The subjects of a command; some of them occur several times."""
    if paths := paths_of_command(command):
        yield from _of_paths(paths)
    broker = getattr(command, "broker", None)
    if broker is not None:
        yield broker_name(broker)
    yield from _partitions(getattr(command, "partitions", ()), str)
    match command:
        case commands.UpdateMetadataRequest():
            return
        case commands.StartTimer(timer=timer) | commands.CancelTimer(timer=timer):
            yield timer
        case commands.Notice(subject=subject):
            yield subject
            yield from subject_of(subject).names
            yield subject.rpartition("-")[0]
        case _:
            yield from _topics(getattr(command, "topics", ()))


def subjects_of_event(event: events.Event, name_of: NameOf) -> Iterator[str]:
    """The subjects of an event; some of them occur several times. The subjects of an outcome are
    also those of its command, which are not included here."""
    broker = getattr(event, "broker", None)
    if broker is not None:
        yield broker_name(broker)
    match event:
        case events.WatchFired(path=path):
            yield from subject_of(path).names
        case events.BrokerResponded(partition_errors=errors):
            for topic, number, _ in errors:
                yield partition_name(topic, number)
        case events.TimerFired(timer=timer):
            yield timer
        case AlterPartitionReceived(version=version, partitions=partitions):
            yield from _partitions(partitions, name_of if version > 1 else str)
        case CreateTopicsReceived() | CreatePartitionsReceived() | DeleteTopicsReceived():
            yield from _topics(event.topics)
        case ElectLeadersReceived() | ListPartitionReassignmentsReceived():
            for topic, number in event.partitions or ():
                yield from (topic, partition_name(topic, number))
        case AlterPartitionReassignmentsReceived(partitions=targets):
            yield from _partitions(targets, str)


def _partitions(partitions: Iterable[object], name_of: NameOf) -> Iterator[str]:
    for one in partitions:
        topic, number = getattr(one, "topic", ""), getattr(one, "partition", None)
        if topic and number is not None:
            name = name_of(topic)
            yield name
            yield partition_name(name, number)


def _topics(topics: Iterable[object]) -> Iterator[str]:
    for one in topics:
        name = getattr(one, "name", None) or getattr(one, "topic", None)
        if name:
            yield name
