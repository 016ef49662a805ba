"""The kinds of ephemeralOwner of a znode: none, a session, a container or a time to live.

The rules are those of ZooKeeper's EphemeralType from 3.5.4 on. Without
zookeeper.extendedTypesEnabled a server treats TTLs as sessions. A snapshot does not record that
setting, but no session id looks like a TTL: it begins with the server's id, and 255 is reserved.
TTLs of 3.5.3, a beta version, are treated as sessions.
"""

from typing import Final

CONTAINER_OWNER: Final = -(1 << 63)
"""The owner of a container, which is deleted after its last child."""

TTL_MS_MAX: Final = (1 << 40) - 1
_TTL_OWNER: Final = -(1 << 56)
_NOT_THE_TTL: Final = ~TTL_MS_MAX


def ttl_owner(ttl_ms: int) -> int:
    """The owner of a znode that is deleted after `ttl_ms` without changes, 1 to TTL_MS_MAX."""
    return _TTL_OWNER | ttl_ms


def ttl_of(owner: int) -> int | None:
    """The time to live in ms; None if the znode has none."""
    return owner & TTL_MS_MAX if owner & _NOT_THE_TTL == _TTL_OWNER else None


def is_session(owner: int) -> bool:
    """Whether `owner` is a session: the znode is ephemeral and is deleted with the session."""
    return owner > 0 or (owner != 0 and owner != CONTAINER_OWNER and ttl_of(owner) is None)
