"""Damaged requests to a controller, each sent on a separate connection.

None of the requests changes anything.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from struct import pack
from typing import Any

from controller.wire.client_requests import RequestHead, encode_request
from tests.controller.api.client import (
    API_VERSIONS,
    allocate_producer_ids,
    api_versions,
    request_schema,
)
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION, CONTROLLED_SHUTDOWN
from tests.lab.default_clusters.crafted_requests import (
    ALTER_CASES,
    ALTER_PARTITION_VERSIONS,
    FIRST_BY_TOPIC_ID,
    LEADER,
    UNKNOWN_BROKER,
    EpochCase,
    alter_partition,
    controlled_shutdown,
    topic_id_of,
    topic_of,
)

CLIENT_ID = "test"
CORRELATION_ID = 77
LEADER_AND_ISR = 4
LIST_GROUPS = 16
HEADER_TAGS_AT = 4 + 8 + 2 + len(CLIENT_ID)
UNKNOWN_TAG = b"\1\xc8\1\2ab"
"""A section of one tagged field: number 200, two bytes."""

Epochs = Mapping[int, int]
"""Each broker's registered epoch."""

Request = Callable[[Epochs], Any]
Frame = Callable[[Epochs], bytes]


@dataclass(frozen=True)
class FrameCase:
    """`frame` returns all bytes that are sent, including the size."""

    request: str
    what: str
    version: int
    frame: Frame


def _framed(frame: bytes) -> bytes:
    return pack(">i", len(frame)) + frame


def _head(api_key: int, version: int) -> bytes:
    return pack(">hhi", api_key, version, CORRELATION_ID)


def _encoded(api_key: int, version: int, request: Any) -> bytes:
    return encode_request(RequestHead(api_key, version, CORRELATION_ID), CLIENT_ID, request)


def _with_more(frame: bytes) -> bytes:
    return _framed(frame[4:] + b"\0\0\1")


def _cut(frame: bytes) -> bytes:
    return _framed(frame[4:-3])


def _with_unknown_tag(frame: bytes) -> bytes:
    return _framed(frame[4:-1] + UNKNOWN_TAG)


def _with_unknown_tag_in_header(frame: bytes) -> bytes:
    return _framed(frame[4:HEADER_TAGS_AT] + UNKNOWN_TAG + frame[HEADER_TAGS_AT + 1 :])


def _without_client_id(frame: bytes) -> bytes:
    return _framed(frame[4:12] + b"\xff\xff" + frame[HEADER_TAGS_AT:])


def _with_negative_client_id(frame: bytes) -> bytes:
    return _framed(frame[4:12] + b"\xff\xfe" + frame[HEADER_TAGS_AT:])


_DAMAGES: Mapping[str, Callable[[bytes], bytes]] = {
    "trailing bytes": _with_more,
    "truncated": _cut,
    "an unknown tagged field": _with_unknown_tag,
    "an unknown tagged field in its header": _with_unknown_tag_in_header,
    "without a client id": _without_client_id,
    "a client id of length -2": _with_negative_client_id,
}
"""Changes to a frame of a flexible version."""


def _damaged(name: str, api_key: int, version: int, request: Request) -> Iterator[FrameCase]:
    for what, damage in _DAMAGES.items():
        yield FrameCase(
            name,
            what,
            version,
            lambda epochs, damage=damage: damage(_encoded(api_key, version, request(epochs))),
        )


def _fixed(name: str, what: str, version: int, frame: bytes) -> FrameCase:
    return FrameCase(name, what, version, lambda _: frame)


def _alter_partition_cases() -> Iterator[FrameCase]:
    present = next(one for one in ALTER_CASES if one.what == "the present state")
    for version in ALTER_PARTITION_VERSIONS:
        yield from _damaged(
            "AlterPartition",
            ALTER_PARTITION,
            version,
            partial(alter_partition, present, version),
        )
        for is_known in (True, False):
            what = f"{'a known' if is_known else 'an unknown'} topic without partitions"
            frame = _without_partitions(version, is_known=is_known)
            yield FrameCase("AlterPartition", what, version, frame)


def _without_partitions(version: int, *, is_known: bool) -> Frame:
    schema = request_schema(ALTER_PARTITION, version)
    named: dict[str, Any] = {"topic_name": topic_of(version) if is_known else "nowhere"}
    if version >= FIRST_BY_TOPIC_ID:
        named = {"topic_id": topic_id_of(version if is_known else 77)}
    topics = (schema.TopicData(partitions=(), **named),)

    def frame(epochs: Epochs) -> bytes:
        request = schema.AlterPartitionRequest(
            broker_id=LEADER, broker_epoch=epochs[LEADER], topics=topics
        )
        return _encoded(ALTER_PARTITION, version, request)

    return frame


def _api_versions_cases() -> Iterator[FrameCase]:
    yield from _damaged("ApiVersions", API_VERSIONS, 3, lambda _: api_versions())
    schema = request_schema(API_VERSIONS, 3)
    for name, number in (("-a", "1"), ("a b", "1"), ("a", ""), ("a", "1-")):
        request = schema.ApiVersionsRequest(
            client_software_name=name, client_software_version=number
        )
        frame = _encoded(API_VERSIONS, 3, request)
        yield _fixed("ApiVersions", f"of software {name!r} version {number!r}", 3, frame)
    client_id = b"\0\4test"
    for what, version, rest in (
        ("without a body", 3, client_id + b"\0"),
        ("without a header", 3, b""),
        ("an unknown version", 99, client_id + b"\0"),
        ("an unknown version with half a header", 99, client_id),
        ("a negative version", -1, client_id),
        ("trailing bytes", 0, client_id + b"\1\2"),
    ):
        yield _fixed("ApiVersions", what, version, _framed(_head(API_VERSIONS, version) + rest))


def _invalid_requests() -> Iterator[FrameCase]:
    """Requests with APIs, versions or sizes that do not exist."""
    for name, api_key, version in (
        ("AlterPartition", ALTER_PARTITION, 4),
        ("AlterPartition", ALTER_PARTITION, -1),
        ("AllocateProducerIds", ALLOCATE_PRODUCER_IDS, 1),
        ("ControlledShutdown", CONTROLLED_SHUTDOWN, 4),
        ("LeaderAndIsr", LEADER_AND_ISR, 99),
    ):
        frame = _framed(_head(api_key, version) + b"\xff\xff\0" + bytes(30))
        yield _fixed(name, "an unknown version", version, frame)
    for what, frame in (
        ("API key 999", _framed(_head(999, 0) + b"\xff\xff")),
        ("API key -1", _framed(_head(-1, 0) + b"\xff\xff")),
        ("a size of 0", pack(">i", 0)),
        ("a size of -1", pack(">i", -1)),
        ("a size of 4", _framed(b"\0\x38\0\3")),
        ("a size of 2 GB", pack(">i", 2**31 - 1) + _head(ALTER_PARTITION, 3)),
    ):
        yield _fixed("any", what, 0, frame)


def _cases() -> Iterator[FrameCase]:
    yield from _alter_partition_cases()
    stale = allocate_producer_ids(LEADER, 1)
    yield from _damaged("AllocateProducerIds", ALLOCATE_PRODUCER_IDS, 0, lambda _: stale)
    unknown = EpochCase("an unknown broker", UNKNOWN_BROKER, version=3)
    yield from _damaged(
        "ControlledShutdown", CONTROLLED_SHUTDOWN, 3, partial(controlled_shutdown, unknown)
    )
    yield from _api_versions_cases()
    groups = request_schema(LIST_GROUPS, 4).ListGroupsRequest()
    yield from _damaged("ListGroups", LIST_GROUPS, 4, lambda _: groups)
    yield from _invalid_requests()


FRAME_CASES = tuple(_cases())
