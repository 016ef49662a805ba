"""Requests of the endpoint in words."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
)
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.features import UpdateFeaturesReceived
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
)
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ListPartitionReassignmentsReceived,
)
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
)
from controller.core.api_requests.topics import (
    NOT_GIVEN,
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    NewPartitions,
    NewTopic,
)
from controller.core.znodes import write_topic_id
from replay.description.phrases import listed
from replay.subjects import NameOf


def _unchanged(topic: str) -> str:
    return topic


def described_request(request: ApiRequest, name_of: NameOf = _unchanged) -> list[str]:
    """A request, then a line for each part. `name_of` returns the name of the topic that a request
    names by its id, in hex."""
    name = type(request).__name__.removesuffix("Received")
    head = f"{name}, request {request.request}"
    match request:
        case CreateTopicsReceived(validate_only=dry, timeout_ms=timeout_ms, topics=new):
            return [head + _how(dry, timeout_ms), *map(_new_topic, new)]
        case CreatePartitionsReceived(validate_only=dry, timeout_ms=timeout_ms, topics=grown):
            return [head + _how(dry, timeout_ms), *map(_new_partitions, grown)]
        case DeleteTopicsReceived(timeout_ms=timeout_ms, topics=doomed):
            return [
                head + _how(False, timeout_ms),
                *(topic_in_words(one.name, one.topic_id) for one in doomed),
            ]
        case UpdateFeaturesReceived(validate_only=dry, timeout_ms=timeout_ms, updates=updates):
            levels = [f"{one.feature} to {one.level}, type {one.upgrade_type}" for one in updates]
            return [head + _how(dry, timeout_ms), *levels]
        case AlterUserScramCredentialsReceived(deletions=deletions, upsertions=upsertions):
            gone = [f"{one.user} mechanism {one.mechanism} deleted" for one in deletions]
            given = [
                f"{one.user} mechanism {one.mechanism} of {one.iterations} iterations"
                for one in upsertions
            ]
            return [head, *gone, *given]
        case AlterPartitionReceived(version=version, broker=broker, partitions=proposed):
            named = name_of if version > 1 else _unchanged
            states = [
                f"{named(one.topic)}-{one.partition} ISR {listed(one.isr)} in leader epoch"
                f" {one.leader_epoch} at version {one.partition_epoch}"
                for one in proposed
            ]
            return [f"{name} v{version}, request {request.request} of broker {broker}", *states]
        case AlterPartitionReassignmentsReceived(partitions=targets):
            wanted = [
                f"{one.topic}-{one.partition} "
                + ("cancel" if one.replicas is None else f"to {listed(one.replicas)}")
                for one in targets
            ]
            return [head, *wanted]
        case ListPartitionReassignmentsReceived(partitions=named_ones):
            return [head, *_names(named_ones)]
        case ElectLeadersReceived(election=election, partitions=named_ones):
            return [f"{head}, {election}", *_names(named_ones)]
        case ControlledShutdownReceived(broker=broker) | AllocateProducerIdsReceived(broker=broker):
            return [f"{head} of broker {broker}"]
        case _:
            assert_never(request)


def _names(named: list[tuple[str, int]] | None) -> list[str]:
    if named is None:
        return ["all partitions"]
    return [f"{topic}-{number}" for topic, number in named]


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
    """A topic's name and id, as far as they are known."""
    return " ".join(
        one for one in (name, f"id {write_topic_id(topic_id)}" if topic_id else "") if one
    )
