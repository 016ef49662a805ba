"""What the ephemeralOwner of a znode says: nobody, a session, or what ends the znode instead.

As ZooKeeper's EphemeralType has it from 3.5.4 on. Without zookeeper.extendedTypesEnabled a server
takes TTLs for sessions; nothing in a snapshot tells, but no session looks like one: its id begins
with the server's, and 255 is reserved. (The TTLs of 3.5.3, a beta, are taken for sessions.)
"""

from typing import Final

CONTAINER_OWNER: Final = -(1 << 63)
"""Of a container: it goes with its last child."""

TTL_MS_MAX: Final = (1 << 40) - 1
_TTL_OWNER: Final = -(1 << 56)
_NOT_THE_TTL: Final = ~TTL_MS_MAX


def ttl_owner(ttl_ms: int) -> int:
    """The owner of a znode that goes when it was idle for `ttl_ms`, 1 to TTL_MS_MAX."""
    return _TTL_OWNER | ttl_ms


def ttl_of(owner: int) -> int | None:
    """The time to live in ms; None if the znode has none."""
    return owner & TTL_MS_MAX if owner & _NOT_THE_TTL == _TTL_OWNER else None


def is_session(owner: int) -> bool:
    """Whether the znode is ephemeral: it goes with the session that `owner` is."""
    return owner > 0 or (owner != 0 and owner != CONTAINER_OWNER and ttl_of(owner) is None)
