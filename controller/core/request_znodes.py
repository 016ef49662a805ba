"""What admin tools ask for through ZooKeeper: their JSON (KB 1.2 items 6 and 7).

The readers raise ZnodeError with the path for content that cannot be used.
"""

import msgspec
from msgspec import Struct

from controller.core.znodes import (
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
    Int32,
    Replicas,
    decoded,
    names_decoder,
)


class _ReassignmentEntry(Struct, frozen=True):
    topic: str
    partition: Int32
    replicas: Replicas


class _Reassignments(Struct, frozen=True):
    version: Int32
    partitions: list[_ReassignmentEntry]


_reassignments_decoder = msgspec.json.Decoder(_Reassignments)

ReassignmentEntries = dict[tuple[str, int], tuple[int, ...]]
"""The replicas that each partition shall have."""


def read_reassignments(data: bytes | None) -> ReassignmentEntries:
    """The entries of /admin/reassign_partitions; the last one of a partition counts.

    ReassignPartitionsZNode.decode. Raises ZnodeError.
    """
    znode = decoded(_reassignments_decoder, REASSIGN_PARTITIONS, "a request", data)
    return {(one.topic, one.partition): one.replicas for one in znode.partitions}


def lacks_entries(data: bytes | None) -> bool:
    """Whether that is an object without partitions: Kafka takes it for a request, and fails on the
    null pointer (ReassignPartitionsZNode.decode)."""
    try:
        content = msgspec.json.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return content is None or (isinstance(content, dict) and content.get("partitions") is None)


def write_reassignments(entries: ReassignmentEntries) -> bytes:
    """The content of /admin/reassign_partitions, its keys in Kafka's order."""
    return msgspec.json.encode(
        _Reassignments(
            1,
            [
                _ReassignmentEntry(topic, number, replicas)
                for (topic, number), replicas in entries.items()
            ],
        )
    )


def read_preferred_election(data: bytes | None) -> list[tuple[str, int]]:
    """The partitions of /admin/preferred_replica_election. Raises ZnodeError."""
    names = decoded(names_decoder, PREFERRED_ELECTION, "a request", data)
    return [(one.topic, one.partition) for one in names.partitions]


def fails_elections(data: bytes | None) -> bool:
    """Whether Kafka fails on a request for elections that cannot be read: it takes what is no JSON
    for an empty one (PreferredReplicaElectionZNode.decode)."""
    try:
        msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
