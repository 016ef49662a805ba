"""ZooKeeper's messages as values.

Brokers and admins send and receive them unencoded. A refold daemon's session sends bytes, which
`codec` converts.
"""

from typing import Final

from msgspec import Struct

from controller.core.events import WatchFired
from replay.world.requests import Reply, Request

NO_SESSION: Final = 0
NO_PASSWORD: Final = bytes(16)


class ConnectRequest(Struct, frozen=True, gc=False):
    """The first message of a client, which requests a session or a new one (NO_SESSION)."""

    last_zxid: int
    timeout_ms: int
    session: int
    password: bytes


class ConnectResponse(Struct, frozen=True, gc=False):
    """The reply of a server. `timeout_ms` 0: the session is over."""

    timeout_ms: int
    session: int
    password: bytes


class Ping(Struct, frozen=True, gc=False):
    """Keeps the session alive."""


class CreateSession(Struct, frozen=True, gc=False):
    """The transaction that starts a session; never sent."""


class CloseSession(Struct, frozen=True, gc=False):
    """Ends the session; its ephemeral znodes are deleted."""


class RequestPacket(Struct, frozen=True):
    """A request. `forms`: the opcodes by which its reply is encoded, empty if it is not."""

    xid: int
    request: Request | Ping | CloseSession
    forms: tuple[int, ...] = ()


class ReplyPacket(Struct, frozen=True):
    """The reply to a request."""

    xid: int
    reply: Reply


ServerMessage = ConnectResponse | ReplyPacket | WatchFired
"""The messages of a server. A watch event is sent before the reply to any later request."""


def password_of(session: int) -> bytes:
    """The password of a session."""
    return session.to_bytes(16)
