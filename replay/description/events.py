"""An event of a recorded log in words: a line that says what was observed, then its parts.

`name_of` returns the name of the topic that a request names by its id, in hex.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from controller.core import events
from controller.core.releases import release_of
from controller.core.scram_requests import AlterUserScramCredentialsReceived
from controller.core.topic_requests import (
    NOT_GIVEN,
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    NewPartitions,
    NewTopic,
    TopicRequest,
    UpdateFeaturesReceived,
)
from controller.core.znodes import write_topic_id
from replay.description.error_names import error_name
from replay.description.phrases import listed, some
from replay.subjects import NameOf

_ID: Final = re.compile(r"[0-9a-f]{32}")
"""Answers to later versions of LeaderAndIsr name topics by their ids."""


def _unchanged(topic: str) -> str:
    return topic


def event_in_words(event: events.Event, name_of: NameOf = _unchanged) -> str:
    """What was observed, in one line, without the fields of the record."""
    match event:
        case events.SessionConnected(server=server, renewed=renewed):
            return f"the ZooKeeper session {'goes on' if renewed else 'begins'} (server {server})"
        case events.SessionDisconnected(cause=cause):
            return f"the connection to ZooKeeper is lost: {cause}"
        case events.SessionExpired():
            return "the ZooKeeper session is over"
        case events.WatchFired(path=path, change=change):
            what = "the children changed" if change == "children" else f"{change}"
            return f"watch of {path}: {what}"
        case events.ZnodesRead() | events.ChildrenRead() | events.ZnodesWritten():
            return _outcome(event)
        case _ if isinstance(event, events.ApiRequest):
            return request_in_words(event, name_of)
        case _:
            return _in_one_line(described(event, name_of))


def request_in_words(request: events.ApiRequest, name_of: NameOf = _unchanged) -> str:
    """A request to the endpoint, in one line."""
    return _in_one_line(described_request(request, name_of))


def _in_one_line(lines: list[str]) -> str:
    head, *parts = lines
    return f"{head}: {some(parts)}" if parts else head


def _outcome(event: events.ZnodesRead | events.ChildrenRead | events.ZnodesWritten) -> str:
    of = f"of command {event.command.cause}.{event.command.ordinal}"
    match event:
        case events.ChildrenRead(children=children, error=error):
            failure = f", ZooKeeper code {error}" if error else ""
            return f"{len(children)} children read, outcome {of}{failure}"
        case events.ZnodesRead(errors=errors):
            failed = sum(1 for one in errors if one)
            return f"{len(errors) - failed} znodes read, {failed} errors, outcome {of}"
        case events.ZnodesWritten(errors=errors):
            failed = sum(1 for one in errors if one)
            return f"{len(errors) - failed} writes done, {failed} refused, outcome {of}"


def described(event: events.Event, name_of: NameOf = _unchanged) -> list[str]:
    """An event of brokers, timers, draws or the operator, then a line for each part."""
    match event:
        case events.BrokerAnswered(broker=broker, error=error, partition_errors=errors):
            head = f"broker {broker} answered{f', {error_name(error)}' if error else ''}"
            named = [name_of(topic) if _ID.fullmatch(topic) else topic for topic, _, _ in errors]
            of_partitions = (
                f"{topic}-{number} {error_name(code)}"
                for topic, (_, number, code) in zip(named, errors, strict=True)
            )
            return [head, *of_partitions]
        case events.ChannelFault(broker=broker, kind=kind, text=text):
            return [f"the channel to broker {broker}: {kind}" + (f", {text}" if text else "")]
        case events.VersionsOffered(broker=broker, highest=highest):
            release = ".".join(map(str, release_of(highest)))
            return [f"broker {broker} offers the API versions of Kafka {release}"]
        case events.TimerFired(timer=timer):
            return [f"timer {timer} fired"]
        case events.TopicIdsDrawn(topic_ids=ids):
            return ["topic ids drawn", *map(write_topic_id, ids)]
        case events.NumbersDrawn(numbers=numbers):
            return ["numbers drawn", *map(str, numbers)]
        case events.ShutdownRequested(reason=reason):
            return [f"shutdown requested: {reason}"]
        case _:
            raise AssertionError(f"an event without a description: {event}")


def described_request(request: events.ApiRequest, name_of: NameOf = _unchanged) -> list[str]:
    """A request to the endpoint, then a line for each part."""
    name = type(request).__name__.removesuffix("Received")
    head = f"{name}, request {request.request}"
    match request:
        case _ if isinstance(request, TopicRequest):
            how, *parts = _topic_request(request)
            return [f"{head}{how}", *parts]
        case AlterUserScramCredentialsReceived(deletions=deletions, upsertions=upsertions):
            deleted = [f"{one.user} mechanism {one.mechanism} deleted" for one in deletions]
            written = [
                f"{one.user} mechanism {one.mechanism} of {one.iterations} iterations"
                for one in upsertions
            ]
            return [head, *deleted, *written]
        case events.AlterPartitionReceived(version=version, broker=broker, partitions=proposed):
            named = name_of if version > 1 else _unchanged
            states = [
                f"{named(one.topic)}-{one.partition} ISR {listed(one.isr)} in leader epoch"
                f" {one.leader_epoch} at version {one.partition_epoch}"
                for one in proposed
            ]
            return [f"{name} v{version}, request {request.request} of broker {broker}", *states]
        case events.AlterPartitionReassignmentsReceived(partitions=targets):
            wanted = [
                f"{one.topic}-{one.partition} "
                + ("cancel" if one.replicas is None else f"to {listed(one.replicas)}")
                for one in targets
            ]
            return [head, *wanted]
        case events.ListPartitionReassignmentsReceived(partitions=named_ones):
            return [head, *_names(named_ones)]
        case events.ElectLeadersReceived(election=election, partitions=named_ones):
            return [f"{head}, {election}", *_names(named_ones)]
        case (
            events.ControlledShutdownReceived(broker=broker)
            | events.AllocateProducerIdsReceived(broker=broker)
        ):
            return [f"{head} of broker {broker}"]


def _names(named: list[tuple[str, int]] | None) -> list[str]:
    if named is None:
        return ["all partitions"]
    return [f"{topic}-{number}" for topic, number in named]


def _topic_request(request: TopicRequest) -> list[str]:
    """The options of a request for topics or features, then a line for each of them."""
    match request:
        case CreateTopicsReceived(validate_only=dry, timeout_ms=timeout_ms, topics=new):
            return [_how(dry, timeout_ms), *map(_new_topic, new)]
        case CreatePartitionsReceived(validate_only=dry, timeout_ms=timeout_ms, topics=grown):
            return [_how(dry, timeout_ms), *map(_new_partitions, grown)]
        case DeleteTopicsReceived(timeout_ms=timeout_ms, topics=doomed):
            names = (topic_in_words(one.name, one.topic_id) for one in doomed)
            return [_how(False, timeout_ms), *names]
        case UpdateFeaturesReceived(validate_only=dry, timeout_ms=timeout_ms, updates=updates):
            return [
                _how(dry, timeout_ms),
                *(f"{one.feature} to {one.level}, type {one.upgrade_type}" for one in updates),
            ]


def _how(dry: bool, timeout_ms: int) -> str:
    return f"{', validate only' if dry else ''}, within {timeout_ms} ms"


def _new_topic(topic: NewTopic) -> str:
    if topic.assignments:
        wanted = _assigned(topic.assignments)
    else:
        wanted = f"partitions {_count(topic.partitions)} of {_count(topic.replication_factor)}"
    configs = "".join(f" {key}={value}" for key, value in topic.configs)
    return f"{topic.name} {wanted}{configs}"


def _count(count: int) -> str:
    return "by default" if count == NOT_GIVEN else str(count)


def _new_partitions(asked: NewPartitions) -> str:
    given = "" if asked.assignments is None else f" {_assigned(enumerate(asked.assignments))}"
    return f"{asked.topic} to {asked.count}{given}"


def _assigned(assignments: Iterable[tuple[int, Sequence[int]]]) -> str:
    return " ".join(f"{number}:[{','.join(map(str, ids))}]" for number, ids in assignments)


def topic_in_words(name: str | None, topic_id: bytes | None) -> str:
    return " ".join(
        one for one in (name, f"id {write_topic_id(topic_id)}" if topic_id else "") if one
    )
