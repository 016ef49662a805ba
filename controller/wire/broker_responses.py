"""Decodes responses of brokers, reduced to the nonzero error codes (KB 12.4).

A LeaderAndIsr response has an error code for each partition, nearly always zero. Hand-coded,
decoding takes a tenth of a microsecond per partition; a general decoder takes twenty.
"""

from struct import Struct, error, iter_unpack
from typing import NamedTuple

from controller.wire.apis import LEADER_AND_ISR, UPDATE_METADATA, Api
from controller.wire.errors import MalformedResponse
from controller.wire.reading import after_tags, array_length, string_length

_FIRST_BY_TOPIC_ID = 5
_PARTITION_BYTES = 7
_int16 = Struct(">h").unpack_from
_partition_error = Struct(">ih").unpack_from

PartitionError = tuple[str, int, int]


class BrokerResponse(NamedTuple):
    """The top-level error, and topic, partition and code of each nonzero partition error.

    The topic is its id in hex in versions that identify topics by id (LeaderAndIsr from 5 on).
    """

    error: int
    partition_errors: list[PartitionError]


def decode_broker_response(api: Api, version: int, body: bytes) -> BrokerResponse:
    """Decode a response body. Raises `MalformedResponse`."""
    try:
        answer, end = _decode(api, version, body)
    except (IndexError, ValueError, error) as fault:
        raise MalformedResponse(
            f"response to {api.name} version {version} cannot be read: {fault}"
        ) from fault
    if end != len(body):
        raise MalformedResponse(
            f"response to {api.name} version {version} has {len(body)} bytes instead of {end}"
        )
    return answer


def _decode(api: Api, version: int, body: bytes) -> tuple[BrokerResponse, int]:
    flexible = api.is_flexible(version)
    (code,) = _int16(body)
    errors: list[PartitionError] = []
    end = 2
    if api is LEADER_AND_ISR and version >= _FIRST_BY_TOPIC_ID:
        errors, end = _errors_by_topic_id(body, end)
    elif api is not UPDATE_METADATA:
        errors, end = _errors_by_name(body, end, flexible)
    return BrokerResponse(code, errors), after_tags(body, end) if flexible else end


def _errors_by_name(body: bytes, at: int, flexible: bool) -> tuple[list[PartitionError], int]:
    """One flat array: topic name, partition, code."""
    errors = []
    count, at = array_length(body, at, flexible)
    for _ in range(count):
        length, start = string_length(body, at, flexible)
        at = start + length
        partition, code = _partition_error(body, at)
        if code:
            errors.append((body[start:at].decode(), partition, code))
        at += 6
        if flexible:
            at = at + 1 if body[at] == 0 else after_tags(body, at)
    return errors, at


def _errors_by_topic_id(body: bytes, at: int) -> tuple[list[PartitionError], int]:
    """An array of topics, each with its id and an array of partition and code."""
    errors: list[PartitionError] = []
    topics, at = array_length(body, at, flexible=True)
    for _ in range(topics):
        topic_id = body[at : at + 16]
        count, at = array_length(body, at + 16, flexible=True)
        block = body[at : at + count * _PARTITION_BYTES]
        if len(block) == count * _PARTITION_BYTES and not any(block[6::_PARTITION_BYTES]):
            at += len(block)
            if any(block[4::_PARTITION_BYTES]) or any(block[5::_PARTITION_BYTES]):
                errors += _nonzero(topic_id.hex(), block)
        else:
            at = _add_tagged(errors, topic_id.hex(), body, at, count)
        at = after_tags(body, at)
    return errors, at


def _nonzero(topic: str, block: bytes) -> list[PartitionError]:
    return [(topic, partition, code) for partition, code, _ in iter_unpack(">ihB", block) if code]


def _add_tagged(errors: list[PartitionError], topic: str, body: bytes, at: int, count: int) -> int:
    """Slow path for partitions with tagged fields. Return the position after them."""
    for _ in range(count):
        partition, code = _partition_error(body, at)
        if code:
            errors.append((topic, partition, code))
        at = after_tags(body, at + 6)
    return at
