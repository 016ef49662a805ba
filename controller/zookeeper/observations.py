"""The observations of a session that watches all znodes of a cluster, in order."""

from msgspec import Struct


class ZnodeSeen(Struct, frozen=True, array_like=True, tag="znode"):
    """A znode as it was read, at a wall clock in ms."""

    at_ms: int
    path: str
    data: bytes
    version: int
    czxid: int
    mzxid: int
    owner: int


class ZnodeGone(Struct, frozen=True, array_like=True, tag="gone"):
    """A znode was deleted. Servers before 3.9 do not say in which transaction (`zxid` is -1)."""

    at_ms: int
    path: str
    zxid: int


class WatchBegun(Struct, frozen=True, array_like=True, tag="begun"):
    """A session began; all znodes follow, and then `WatchComplete`."""

    session: int
    server: str


class WatchComplete(Struct, frozen=True, array_like=True, tag="complete"):
    """All znodes were read."""


class WatchLost(Struct, frozen=True, array_like=True, tag="lost"):
    """The connection was lost. A server was last heard at `heard_ms`, a wall clock. The session
    continues on the next connection, or ends."""

    cause: str
    heard_ms: int


class WatchResumed(Struct, frozen=True, array_like=True, tag="resumed"):
    """The session continues on another connection. Changes in the meantime follow as
    observations."""


Observation = ZnodeSeen | ZnodeGone | WatchBegun | WatchComplete | WatchLost | WatchResumed
