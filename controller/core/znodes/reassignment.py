"""The znodes of reassignments: /admin/reassign_partitions, and those of KIP-236 (KB 1.2, 14.1,
14.4).

The controller and `refold reassign` both read and write them. The callers validate partitions,
brokers and replica lists.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from controller.core.errors import ZnodeError
from controller.core.znodes.schema import (
    Int32,
    Name,
    Natural32,
    Replicas,
    decode_znode,
    parse_natural,
)

REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
REASSIGN_CANCEL: Final = "/admin/reassign_cancel"
"""The existence of this znode cancels reassignments; its content says only whether the rollback is
forced.
"""
REASSIGN_PARTITIONS_EXTRA: Final = "/admin/reassign_partitions_extra"
REASSIGNMENT_REQUESTS: Final = "/admin/reassignment_requests"
REASSIGNMENTS: Final = "/admin/reassignments"
REQUEST_PREFIX: Final = f"{REASSIGNMENT_REQUESTS}/request_"
"""The path to create a persistent sequential znode with; ZooKeeper appends ten digits."""

REPLICA_DELETIONS: Final = "/admin/replica_deletions"
"""The parent of znodes with deletions of replicas that brokers have not confirmed yet."""
DELETION_PREFIX: Final = f"{REPLICA_DELETIONS}/requested_"
"""The path with which `refold reassign --delete-strays` creates a persistent sequential znode."""

CANCEL_CONTENT: Final = b'{"version":1}'
FORCED_CANCEL_CONTENT: Final = b'{"version":1,"force":true}'

_REQUEST: Final = re.compile(r"request_(-?[0-9]{10,})", re.ASCII)
_VERSION: Final = 1


def request_path(child: str) -> str:
    """The path of a child of /admin/reassignment_requests."""
    return f"{REASSIGNMENT_REQUESTS}/{child}"


def request_number(child: str) -> int | None:
    """The sequence number of a request by its name; None for any other child."""
    found = _REQUEST.fullmatch(child)
    return int(found[1]) if found else None


def reassignments_path(topic: str) -> str:
    """The parent of a topic's reassignments."""
    return f"{REASSIGNMENTS}/{topic}"


def reassignment_path(topic: str, partition: int) -> str:
    """Where the reassignment of a partition is recorded."""
    return f"{REASSIGNMENTS}/{topic}/{partition}"


def deletion_path(child: str) -> str:
    """The path of a child of /admin/replica_deletions."""
    return f"{REPLICA_DELETIONS}/{child}"


# /admin/reassign_cancel -------------------------------------------------------------------------


class _Cancellation(Struct, frozen=True):
    version: Int32 = _VERSION
    force: bool = False


_cancellation_decoder = msgspec.json.Decoder(_Cancellation)


def read_force(data: bytes | None) -> bool:
    """Whether the content of /admin/reassign_cancel asks to go back without enough originals in
    sync. The creation of the znode cancels, so it may be empty. Raises ZnodeError."""
    if not data:
        return False
    read = decode_znode(_cancellation_decoder, REASSIGN_CANCEL, "a cancellation", data)
    _check_version(REASSIGN_CANCEL, read.version)
    return read.force


def is_forced(data: bytes | None) -> bool:
    """Whether the content of /admin/reassign_cancel asks to go back without enough originals in
    sync. Content that cannot be read does not."""
    try:
        return read_force(data)
    except ZnodeError:
        return False


def _check_version(path: str, version: int) -> None:
    if version != _VERSION:
        raise ZnodeError(f"{path} has version {version}, and only {_VERSION} is known")


# /admin/replica_deletions/$child ----------------------------------------------------------------


class ReplicaDeletion(Struct, frozen=True):
    """A broker and the partitions whose replica the broker must delete."""

    broker: int
    partitions: tuple[Name, ...]


class _ReplicaDeletion(Struct, frozen=True):
    version: Int32
    broker: Int32
    partitions: dict[str, list[Natural32]]


_deletion_decoder = msgspec.json.Decoder(_ReplicaDeletion)


def read_deletion(path: str, data: bytes | None) -> ReplicaDeletion:
    """A deletion that is not confirmed yet. Raises ZnodeError, also for an unknown version."""
    znode = decode_znode(_deletion_decoder, path, "a replica deletion", data)
    _check_version(path, znode.version)
    names = [(topic, number) for topic, found in znode.partitions.items() for number in found]
    return ReplicaDeletion(znode.broker, tuple(names))


def write_deletion(one: ReplicaDeletion) -> bytes:
    """The content of a deletion: `{"version":1,"broker":4,"partitions":{"orders":[0,1]}}`."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in one.partitions:
        by_topic.setdefault(topic, []).append(number)
    return msgspec.json.encode(_ReplicaDeletion(_VERSION, one.broker, by_topic))


# /admin/reassign_partitions, as Kafka reads it ----------------------------------------------------


class _ReassignmentEntry(Struct, frozen=True):
    topic: str
    partition: Int32
    replicas: Replicas


class _Reassignments(Struct, frozen=True):
    version: Int32
    partitions: list[_ReassignmentEntry]


_reassignments_decoder = msgspec.json.Decoder(_Reassignments)

ReassignmentEntries = dict[tuple[str, int], tuple[int, ...]]
"""The target replicas of each partition."""


def read_reassignments(data: bytes | None) -> ReassignmentEntries:
    """The entries of /admin/reassign_partitions; the last one of a partition counts.

    ReassignPartitionsZNode.decode. Raises ZnodeError.
    """
    znode = decode_znode(_reassignments_decoder, REASSIGN_PARTITIONS, "a request", data)
    return {(one.topic, one.partition): one.replicas for one in znode.partitions}


def lacks_entries(data: bytes | None) -> bool:
    """Whether that is an object without partitions: Kafka takes it for a request, and fails on the
    null pointer (ReassignPartitionsZNode.decode)."""
    try:
        content = msgspec.json.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return content is None or (isinstance(content, dict) and content.get("partitions") is None)


# /admin/reassign_partitions and /admin/reassign_partitions_extra, with KIP-236 --------------------


class Entry(Struct, frozen=True):
    """The target replicas of a partition, and the original ones (None: not recorded yet)."""

    replicas: Replicas
    original_replicas: Replicas | None = None


Entries = dict[Name, Entry]
"""In the order of the znode."""


class _Entry(Struct, frozen=True, omit_defaults=True):
    topic: str
    partition: Int32
    replicas: Replicas
    original_replicas: Replicas | None = None


class _Entries(Struct, frozen=True):
    version: Int32
    partitions: list[_Entry]


_entries_decoder = msgspec.json.Decoder(_Entries)


class EntriesRead(Struct, frozen=True):
    """The entries of such a znode; `repeated` names partitions with several entries: the last
    counts.
    """

    entries: Entries
    repeated: tuple[Name, ...] = ()


def read_entries(path: str, data: bytes | None) -> EntriesRead:
    """The entries of either znode. Raises ZnodeError."""
    znode = decode_znode(_entries_decoder, path, "a reassignment", data)
    entries: Entries = {}
    repeated: dict[Name, None] = {}
    for one in znode.partitions:
        name = (one.topic, one.partition)
        if name in entries:
            repeated[name] = None
        entries[name] = Entry(one.replicas, one.original_replicas)
    return EntriesRead(entries, tuple(repeated))


def write_entries(entries: Mapping[Name, Entry]) -> bytes:
    """The content of either znode, its keys in KIP-236's order (KIP-236 P-04)."""
    partitions = [
        _Entry(topic, number, one.replicas, one.original_replicas)
        for (topic, number), one in entries.items()
    ]
    return msgspec.json.encode(_Entries(1, partitions))


def without_originals(entries: Mapping[Name, Entry]) -> Entries:
    """The entries without their original replicas, so that a stock broker can read them
    (docs/kip-236-design.md#both-designs-together)."""
    return {name: Entry(one.replicas) for name, one in entries.items()}


# /admin/reassignment_requests/request_NNNNNNNNNN ------------------------------------------------


class ReassignmentRequest(Struct, frozen=True):
    """A request: the target replicas of each partition. `legacy`: made by the controller from
    /admin/reassign_partitions."""

    assignments: dict[Name, Replicas]
    legacy: bool = False


class _Request(Struct, frozen=True, omit_defaults=True):
    version: Int32
    assignments: dict[str, dict[str, Replicas]]
    legacy: bool = False
    controller_epoch: Int32 | None = None


_request_decoder = msgspec.json.Decoder(_Request)


def read_request(path: str, data: bytes | None) -> ReassignmentRequest:
    """A request. Raises ZnodeError, also for an unknown version."""
    znode = decode_znode(_request_decoder, path, "a reassignment request", data)
    _check_version(path, znode.version)
    assignments: dict[Name, Replicas] = {}
    for topic, partitions in znode.assignments.items():
        for text, replicas in partitions.items():
            number = parse_natural(text)
            if number is None:
                raise ZnodeError(f"{path}: {topic!r} has no partition {text[:40]!r}")
            assignments[topic, number] = replicas
    return ReassignmentRequest(assignments, znode.legacy)


def write_request(
    assignments: Mapping[Name, Iterable[int]],
    *,
    legacy: bool = False,
    controller_epoch: int | None = None,
) -> bytes:
    """The content of a request: valid JSON (docs/kip-236-design.md#output-and-json). The
    `controller_epoch` informs operators: the term in which a legacy request was made."""
    by_topic: dict[str, dict[str, Replicas]] = {}
    for (topic, number), replicas in assignments.items():
        by_topic.setdefault(topic, {})[str(number)] = tuple(replicas)
    return msgspec.json.encode(_Request(_VERSION, by_topic, legacy, controller_epoch))


# /admin/reassignments/$topic/$partition ---------------------------------------------------------


class Reassignment(Struct, frozen=True, array_like=True):
    """A reassignment that is under way: its target, how many replicas a change of target leaves at
    least (`top`, KB 14.6), and the replicas that a cancellation restores, in order.

    `legacy`: it came by /admin/reassign_partitions; `api`: by the AlterPartitionReassignments API.
    """

    replicas: tuple[int, ...]
    top: int
    legacy: bool
    original_replicas: tuple[int, ...]
    api: bool = False


class _Reassignment(Struct, frozen=True, omit_defaults=True):
    version: Int32
    replicas: Replicas
    top: Natural32
    legacy: bool
    original_replicas: Replicas
    api: bool = False
    leader_epoch: Int32 | None = None


_reassignment_decoder = msgspec.json.Decoder(_Reassignment)


def read_reassignment(path: str, data: bytes | None) -> Reassignment:
    """The record of a reassignment. Raises ZnodeError."""
    return read_record(path, data)[0]


def read_record(path: str, data: bytes | None) -> tuple[Reassignment, int | None]:
    """The record of a reassignment, and the leader epoch that the partition had when the record was
    written; None where it does not say. Raises ZnodeError."""
    one = decode_znode(_reassignment_decoder, path, "a reassignment", data)
    record = Reassignment(one.replicas, one.top, one.legacy, one.original_replicas, one.api)
    return record, one.leader_epoch


def write_reassignment(one: Reassignment, leader_epoch: int | None = None) -> bytes:
    """The record of a reassignment (docs/kip-236-design.md#both-designs-together)."""
    return msgspec.json.encode(
        _Reassignment(
            1, one.replicas, one.top, one.legacy, one.original_replicas, one.api, leader_epoch
        )
    )
