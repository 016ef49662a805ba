"""The znodes that admin tools write below /admin, without reassignments (reassignment.py)."""

from typing import Final

import msgspec

from controller.core.znodes.schema import Name, decode_znode, names_decoder

ADMIN: Final = "/admin"
DELETE_TOPICS: Final = f"{ADMIN}/delete_topics"
PREFERRED_ELECTION: Final = f"{ADMIN}/preferred_replica_election"


def delete_topic_path(topic: str) -> str:
    """The marker of a topic that is to be deleted."""
    return f"{DELETE_TOPICS}/{topic}"


def read_preferred_election(data: bytes | None) -> list[Name]:
    """The partitions of /admin/preferred_replica_election. Raises ZnodeError."""
    return decode_znode(names_decoder, PREFERRED_ELECTION, "a request", data).names


def fails_elections(data: bytes | None) -> bool:
    """Whether Kafka fails on a request for elections that cannot be read: content that is not JSON
    counts as an empty request there (PreferredReplicaElectionZNode.decode)."""
    try:
        msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
