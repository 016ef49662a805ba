"""Requests to the endpoint and their responses in words: a line, then a line for each part."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.alter_partition import (
    AlteredPartition,
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.features import UpdateFeaturesReceived, UpdateFeaturesResponse
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AllocateProducerIdsResponse,
)
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsReceived,
    ListPartitionReassignmentsResponse,
)
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    AlterUserScramCredentialsResponse,
)
from controller.core.api_requests.topics import (
    NOT_GIVEN,
    CreatedTopic,
    CreatePartitionsReceived,
    CreatePartitionsResponse,
    CreateTopicsReceived,
    CreateTopicsResponse,
    DeleteTopicsReceived,
    DeleteTopicsResponse,
    MutatingRequest,
    NewPartitions,
    NewTopic,
)
from controller.core.error_codes import NONE
from controller.core.znodes import write_topic_id
from replay.description.error_names import error_name
from replay.description.phrases import assignment_in_words, broker_list, leader_in_words
from replay.names import partition_name
from replay.subjects import NameOf, unchanged_name


def request_lines(request: ApiRequest, name_of: NameOf = unchanged_name) -> list[str]:
    """A request with its client, if the log has one, then a line for each part. `name_of` returns a
    topic's name by its id in hex."""
    head, *parts = _head_and_parts(request, name_of)
    if request.client is not None:
        head += f" by {request.client.principal} at {request.client.host}"
    if isinstance(request, MutatingRequest) and request.client_id:
        head += f", client id {request.client_id}"
    return [head, *parts]


def _head_and_parts(request: ApiRequest, name_of: NameOf) -> list[str]:
    name = type(request).__name__.removesuffix("Received")
    head = f"{name}, request {request.request}"
    match request:
        case CreateTopicsReceived(validate_only=dry, timeout_ms=timeout_ms, topics=new):
            return [head + _options_text(dry, timeout_ms), *map(_new_topic, new)]
        case CreatePartitionsReceived(validate_only=dry, timeout_ms=timeout_ms, topics=grown):
            return [head + _options_text(dry, timeout_ms), *map(_new_partitions, grown)]
        case DeleteTopicsReceived(timeout_ms=timeout_ms, topics=removed):
            return [
                head + _options_text(False, timeout_ms),
                *(_topic(one.name, one.topic_id) for one in removed),
            ]
        case UpdateFeaturesReceived(validate_only=dry, timeout_ms=timeout_ms, updates=updates):
            levels = [f"{one.feature} to {one.level}, type {one.upgrade_type}" for one in updates]
            return [head + _options_text(dry, timeout_ms), *levels]
        case AlterUserScramCredentialsReceived(deletions=deletions, upsertions=upsertions):
            deleted = [f"{one.user} mechanism {one.mechanism} deleted" for one in deletions]
            written = [
                f"{one.user} mechanism {one.mechanism} of {one.iterations} iterations"
                for one in upsertions
            ]
            return [head, *deleted, *written]
        case AlterPartitionReceived(version=version, broker=broker, partitions=proposed):
            named = name_of if version > 1 else unchanged_name
            states = [
                f"{named(one.topic)}-{one.partition} ISR {broker_list(one.isr)} in leader epoch"
                f" {one.leader_epoch} at version {one.partition_epoch}"
                for one in proposed
            ]
            return [f"{name} v{version}, request {request.request} of broker {broker}", *states]
        case AlterPartitionReassignmentsReceived(partitions=targets):
            wanted = [
                f"{one.topic}-{one.partition} "
                + ("cancel" if one.replicas is None else f"to {broker_list(one.replicas)}")
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


def response_lines(response: ApiResponse, *, only_errors: bool = False) -> list[str]:
    """A response with the error of the whole request, then a line for each part, or for each part
    with an error."""
    head = f"response to request {response.request}: {error_name(getattr(response, 'error', NONE))}"
    match response:
        case ControlledShutdownResponse(remaining=remaining):
            leading = ", ".join(partition_name(topic, number) for topic, number in remaining)
            return [f"{head}, still leads {leading or 'nothing'}"]
        case AllocateProducerIdsResponse(start=start, length=length):
            return [f"{head}, {length} from {start} on"]
        case UpdateFeaturesResponse(message=message):
            head = f"{head} {message or ''}".rstrip()
    return [head, *(text for error, text in _parts(response) if error or not only_errors)]


def _parts(response: ApiResponse) -> list[tuple[int, str]]:
    """The parts of a response, each with its error."""
    match response:
        case CreateTopicsResponse(topics=created):
            return [(one.error, _created_topic(one)) for one in created]
        case CreatePartitionsResponse(topics=answered) | UpdateFeaturesResponse(features=answered):
            return [(one.error, _with_error(one.name, one.error, one.message)) for one in answered]
        case DeleteTopicsResponse(topics=deleted):
            return [
                (one.error, _with_error(_topic(one.name, one.topic_id), one.error))
                for one in deleted
            ]
        case AlterUserScramCredentialsResponse(users=users):
            return [(one.error, _with_error(one.user, one.error, one.message)) for one in users]
        case AlterPartitionResponse(partitions=altered):
            return [(one.error, _altered_partition(one)) for one in altered]
        case (
            AlterPartitionReassignmentsResponse(partitions=partitions)
            | ElectLeadersResponse(partitions=partitions)
        ):
            return [
                (
                    one.error,
                    _with_error(partition_name(one.topic, one.partition), one.error, one.message),
                )
                for one in partitions
            ]
        case ListPartitionReassignmentsResponse(partitions=ongoing):
            return [
                (NONE, f"{one.topic}-{one.partition} {assignment_in_words(one.assignment)}")
                for one in ongoing
            ]
        case ControlledShutdownResponse() | AllocateProducerIdsResponse():
            return []
        case _:
            assert_never(response)


def _names(named: list[tuple[str, int]] | None) -> list[str]:
    if named is None:
        return ["all partitions"]
    return [partition_name(topic, number) for topic, number in named]


def _altered_partition(one: AlteredPartition) -> str:
    topic = write_topic_id(one.topic_id) if one.topic_id else one.topic
    if one.error:
        return _with_error(partition_name(topic, one.partition), one.error)
    return (
        f"{topic}-{one.partition} {leader_in_words(one.leader)}, epoch {one.leader_epoch}, "
        f"ISR {broker_list(one.isr)}, version {one.partition_epoch}"
    )


def _options_text(dry: bool, timeout_ms: int) -> str:
    return f"{', validate only' if dry else ''}, within {timeout_ms} ms"


def _new_topic(topic: NewTopic) -> str:
    if topic.assignments:
        wanted = _assignment_text(topic.assignments)
    else:
        wanted = f"partitions {_count(topic.partitions)} of {_count(topic.replication_factor)}"
    configs = "".join(f" {key}={value}" for key, value in topic.configs)
    return f"{topic.name} {wanted}{configs}"


def _count(count: int) -> str:
    return "by default" if count == NOT_GIVEN else str(count)


def _new_partitions(new: NewPartitions) -> str:
    given = "" if new.assignments is None else f" {_assignment_text(enumerate(new.assignments))}"
    return f"{new.topic} to {new.count}{given}"


def _assignment_text(assignments: Iterable[tuple[int, Sequence[int]]]) -> str:
    return " ".join(f"{number}:[{','.join(map(str, ids))}]" for number, ids in assignments)


def _created_topic(one: CreatedTopic) -> str:
    if one.error:
        return _with_error(one.name, one.error, one.message)
    named = f" id {write_topic_id(one.topic_id)}" if one.topic_id else ""
    if one.hides_configs:
        return f"{one.name}{named}, with partitions that the client may not see"
    configs = "".join(f" {key}={value}" for key, value in one.configs)
    return f"{one.name} {one.partitions} partitions of {one.replication_factor}{named}{configs}"


def _with_error(what: str, error: int, message: str | None = None) -> str:
    return f"{what} {error_name(error)} {message or ''}".rstrip()


def _topic(name: str | None, topic_id: bytes | None) -> str:
    return " ".join(
        one for one in (name, f"id {write_topic_id(topic_id)}" if topic_id else "") if one
    )
