"""What a command, an event or a path is about: "t" and "t-0" for a topic and its partition,
"broker 3", or a timer."""

from collections.abc import Iterable, Iterator
from itertools import chain

from controller.core import commands, events
from controller.core.topic_requests import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from controller.core.znodes import BROKER_IDS, TOPIC_CONFIGS, TOPICS
from replay.stock_clusters.zookeeper_log.transactions import CloseSession, Multi, Transaction
from replay.wording.events_in_words import NameOf


def subjects_of_path(path: str) -> list[str]:
    """Those of a znode, as Kafka names it."""
    if path.startswith(f"{BROKER_IDS}/"):
        return [f"broker {path.removeprefix(f'{BROKER_IDS}/')}"]
    for parent in (TOPICS, TOPIC_CONFIGS):
        if path.startswith(f"{parent}/"):
            topic, *rest = path.removeprefix(f"{parent}/").split("/")
            partition = [f"{topic}-{rest[1]}"] if len(rest) > 1 else []
            return [topic, *partition]
    return []


def paths_of_command(command: commands.Command) -> list[str]:
    """The znodes that a command reads or writes."""
    match command:
        case commands.ReadZnodes(paths=paths) | commands.ReadStats(paths=paths):
            return list(paths)
        case commands.ReadChildren(path=path) | commands.SyncZnodes(path=path):
            return [path]
        case (
            commands.WriteZnodes(operations=operations)
            | commands.WriteAtomically(operations=operations)
        ):
            return [operation.path for operation in operations]
        case _:
            return []


def paths_of_transaction(transaction: Transaction) -> list[str]:
    """The znodes that a transaction changes or asks for."""
    content = transaction.content
    if isinstance(content, CloseSession):
        return list(content.paths or ())
    parts = content.operations if isinstance(content, Multi) else (content,)
    return [path for one in parts if (path := getattr(one, "path", None)) is not None]


def subjects_of_command(command: commands.Command) -> Iterator[str]:
    """Those of a command."""
    yield from chain.from_iterable(map(subjects_of_path, paths_of_command(command)))
    broker = getattr(command, "broker", None)
    if broker is not None:
        yield f"broker {broker}"
    yield from _partitions(getattr(command, "partitions", ()), str)
    match command:
        case commands.StartTimer(timer=timer) | commands.CancelTimer(timer=timer):
            yield timer
        case commands.Notice(subject=subject):
            yield subject
            yield from subjects_of_path(subject)
            yield subject.rpartition("-")[0]
        case _:
            yield from _topics(getattr(command, "topics", ()))


def subjects_of_event(event: events.Event, name_of: NameOf) -> Iterator[str]:
    """Those of an event itself; an outcome is also about what its command is about."""
    broker = getattr(event, "broker", None)
    if broker is not None:
        yield f"broker {broker}"
    match event:
        case events.WatchFired(path=path):
            yield from subjects_of_path(path)
        case events.BrokerAnswered(partition_errors=errors):
            for topic, number, _ in errors:
                yield f"{topic}-{number}"
        case events.TimerFired(timer=timer):
            yield timer
        case events.AlterPartitionReceived(version=version, partitions=partitions):
            yield from _partitions(partitions, name_of if version > 1 else str)
        case CreateTopicsReceived() | CreatePartitionsReceived() | DeleteTopicsReceived():
            yield from _topics(event.topics)
        case events.ElectLeadersReceived() | events.ListPartitionReassignmentsReceived():
            for topic, number in event.partitions or ():
                yield from (topic, f"{topic}-{number}")
        case events.AlterPartitionReassignmentsReceived(partitions=targets):
            yield from _partitions(targets, str)


def _partitions(partitions: Iterable[object], name_of: NameOf) -> Iterator[str]:
    for one in partitions:
        topic, number = getattr(one, "topic", ""), getattr(one, "partition", None)
        if topic and number is not None:
            name = name_of(topic)
            yield from (name, f"{name}-{number}")


def _topics(topics: Iterable[object]) -> Iterator[str]:
    for one in topics:
        name = getattr(one, "name", None) or getattr(one, "topic", None)
        if name:
            yield name
