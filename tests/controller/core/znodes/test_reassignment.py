"""The znodes of KIP-236 as bytes: written content is readable, and errors name the path."""

import msgspec
import pytest

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.znodes import (
    REASSIGN_PARTITIONS_EXTRA,
    Entry,
    Reassignment,
    deletion_path,
    parse_natural,
    read_deletion,
    read_entries,
    read_reassignment,
    read_request,
    reassignment_path,
    request_number,
    request_path,
    without_originals,
    write_entries,
    write_reassignment,
    write_request,
)

_KIP_236_ENTRIES = b"""{"version":1,
 "partitions":[{"topic": "foo1", "partition": 0, "replicas": [1,2,4],
                "original_replicas": [1,2,3]},
               {"topic": "foo2", "partition": 1, "replicas": [7,9,8],
                "original_replicas": [5,6,8]}]}"""


def test_entries_of_kip_236_are_read() -> None:
    found = read_entries(znodes.REASSIGN_PARTITIONS, _KIP_236_ENTRIES)
    assert found.entries == {
        ("foo1", 0): Entry((1, 2, 4), (1, 2, 3)),
        ("foo2", 1): Entry((7, 9, 8), (5, 6, 8)),
    }
    assert not found.repeated


def test_entries_are_written_as_they_are_read() -> None:
    entries = {("a", 0): Entry((1, 2), (3,)), ("b", 7): Entry((4,))}
    assert read_entries("/x", write_entries(entries)).entries == entries


def test_entry_without_originals_has_no_originals_field() -> None:
    entries = without_originals({("a", 0): Entry((1, 2), (3,))})
    assert write_entries(entries) == (
        b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2]}]}'
    )


def test_last_of_repeated_entries_is_used() -> None:
    content = msgspec.json.encode(
        {
            "version": 1,
            "partitions": [
                {"topic": "a", "partition": 0, "replicas": [1]},
                {"topic": "a", "partition": 0, "replicas": [2]},
            ],
        }
    )
    found = read_entries(REASSIGN_PARTITIONS_EXTRA, content)
    assert found.entries == {("a", 0): Entry((2,))}
    assert found.repeated == (("a", 0),)


def test_request_is_written_and_read() -> None:
    wanted = {("my-topic", 0): (1, 2, 3), ("your-topic", 3): (4, 5, 6)}
    content = write_request(wanted, legacy=True)
    assert msgspec.json.decode(content) == {
        "version": 1,
        "assignments": {"my-topic": {"0": [1, 2, 3]}, "your-topic": {"3": [4, 5, 6]}},
        "legacy": True,
    }
    found = read_request("/x", content)
    assert (found.assignments, found.legacy) == (wanted, True)
    assert b"legacy" not in write_request(wanted)


def test_record_is_written_and_read() -> None:
    record = Reassignment((4, 5), 3, True, (1, 2, 3))
    content = write_reassignment(record)
    assert content == (
        b'{"version":1,"replicas":[4,5],"top":3,"legacy":true,"original_replicas":[1,2,3]}'
    )
    assert read_reassignment(reassignment_path("a", 0), content) == record


@pytest.mark.parametrize(
    "content",
    [None, b"", b"no json", b'{"version":1}', b'{"version":1,"assignments":{"t":{"x":[1]}}}'],
)
def test_error_of_an_invalid_request_names_its_path(content: bytes | None) -> None:
    path = request_path("request_0000000007")
    with pytest.raises(ZnodeError, match=path):
        read_request(path, content)


@pytest.mark.parametrize(
    "content", [None, b"no json", b'{"version":2,"broker":4,"partitions":{"t":[0]}}']
)
def test_unusable_replica_deletion_names_its_path(content: bytes | None) -> None:
    path = deletion_path("2_1")
    with pytest.raises(ZnodeError, match=path):
        read_deletion(path, content)


@pytest.mark.parametrize("content", [None, b"[]", b'{"version":1,"partitions":{}}', b"\xff"])
def test_error_of_invalid_entries_names_their_path(content: bytes | None) -> None:
    with pytest.raises(ZnodeError, match=REASSIGN_PARTITIONS_EXTRA):
        read_entries(REASSIGN_PARTITIONS_EXTRA, content)


@pytest.mark.parametrize(
    ("child", "number"),
    [("request_0000000012", 12), ("request_x", None), ("other_0000000001", None)],
)
def test_requests_are_recognized_by_their_names(child: str, number: int | None) -> None:
    assert request_number(child) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("12", 12),
        ("2147483647", 2**31 - 1),
        ("2147483648", None),
        ("01", None),
        ("-1", None),
    ],
)
def test_partition_numbers_have_one_spelling(text: str, number: int | None) -> None:
    assert parse_natural(text) == number


@pytest.mark.parametrize(
    ("content", "is_forced"),
    [
        (None, False),
        (b"", False),
        (znodes.CANCEL_CONTENT, False),
        (znodes.FORCED_CANCEL_CONTENT, True),
    ],
)
def test_cancellation_is_forced_only_if_it_says_so(content: bytes | None, is_forced: bool) -> None:
    assert znodes.read_force(content) == is_forced
    assert znodes.is_forced(content) == is_forced


@pytest.mark.parametrize("content", [b"{", b"\xff", b'{"version":2,"force":true}'])
def test_cancellation_that_cannot_be_read_forces_nothing(content: bytes) -> None:
    assert not znodes.is_forced(content)
    with pytest.raises(ZnodeError, match="/admin/reassign_cancel"):
        znodes.read_force(content)


@pytest.mark.parametrize(
    ("content", "lacks_entries"),
    [
        (None, False),
        (b"{", False),
        (b"[]", False),
        (b"7", False),
        (b'{"version":1,"partitions":[]}', False),
        (b"{}", True),
        (b'{"version":1,"partitions":null}', True),
        (b"null", True),
    ],
)
def test_object_or_null_without_partitions_lacks_entries(
    content: bytes | None, lacks_entries: bool
) -> None:
    assert znodes.lacks_entries(content) == lacks_entries
