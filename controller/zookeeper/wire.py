"""ZooKeeper's wire format: frames, reply headers and infrequent requests.

The messages are aiozk's protocol classes; addWatch and setWatches2, which it lacks, are declared
here. Bulk operations are in `bulk`.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from aiozk.protocol.acl import ACL
from aiozk.protocol.close import CloseRequest
from aiozk.protocol.connect import ConnectRequest, ConnectResponse
from aiozk.protocol.ping import PingRequest
from aiozk.protocol.primitives import Buffer, Int, Long, UString, Vector
from aiozk.protocol.request import Request
from aiozk.protocol.sync import SyncRequest
from aiozk.protocol.watches import SetWatchesRequest, WatchEvent

from controller.zookeeper.errors import MalformedReply

PING_XID: Final = -2
WATCH_EVENT_XID: Final = -1
SET_WATCHES_XID: Final = -8
AUTH_XID: Final = -4

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""Longer than any expected reply: the peer does not use ZooKeeper's protocol."""

_LENGTH = struct.Struct(">i")
_LENGTH_AND_XID = struct.Struct(">ii")
_HEADER = struct.Struct(">iqi")
HEADER_BYTES: Final = _HEADER.size

_CHANGES: Final = {1: "created", 2: "deleted", 3: "data", 4: "children"}


class _SetWatches2(Request):  # type: ignore[misc]
    """setWatches of ZooKeeper 3.6, which includes persistent watches."""

    opcode = 105
    parts = (
        ("relative_zxid", Long),
        ("data_watches", Vector.of(UString)),
        ("exist_watches", Vector.of(UString)),
        ("child_watches", Vector.of(UString)),
        ("persistent_watches", Vector.of(UString)),
        ("persistent_recursive_watches", Vector.of(UString)),
    )


class _Auth(Request):  # type: ignore[misc]
    """Adds an identity to the session, by any scheme but SASL."""

    opcode = 100
    parts = (("type", Int), ("scheme", UString), ("auth", Buffer))


class _Sasl(Request):  # type: ignore[misc]
    """One message of the client in a SASL exchange."""

    opcode = 102
    parts = (("token", Buffer),)


class Handshake(NamedTuple):
    """The server's response to a connect request. `timeout_ms` 0 means that the session is over."""

    timeout_ms: int
    session_id: int
    password: bytes


class ReplyHeader(NamedTuple):
    """The header of every reply; the body begins at HEADER_BYTES."""

    xid: int
    zxid: int
    error: int


class WatchNotice(NamedTuple):
    """A watch event from the server; `path` includes the chroot."""

    path: str
    change: str


class WatchLists(NamedTuple):
    """The watches to set on a new connection; paths include the chroot."""

    data: list[str]
    exist: list[str]
    child: list[str]
    persistent: list[str]
    recursive: list[str]


class FrameReader:
    """Splits the bytes of a connection into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that are complete now. Raises MalformedReply for an impossible length."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= 4:
                (length,) = _LENGTH.unpack_from(buffer, start)
                if not 0 <= length <= FRAME_BYTES_MAX:
                    raise MalformedReply(f"a frame of {length} bytes")
                end = start + 4 + length
                if end > len(buffer):
                    return
                with memoryview(buffer) as view, view[start + 4 : end] as part:
                    frame = bytes(part)
                start = end
                yield frame
        finally:
            del buffer[:start]


def framed(xid: int, body: bytes) -> bytes:
    """A request as a frame; `body` begins with the opcode."""
    return _LENGTH_AND_XID.pack(len(body) + 4, xid) + body


def connect_request(last_zxid: int, timeout_ms: int, session_id: int, password: bytes) -> bytes:
    """The first frame of a connection; session id 0 requests a new session."""
    body: bytes = ConnectRequest(
        protocol_version=0,
        last_seen_zxid=last_zxid,
        timeout=timeout_ms,
        session_id=session_id,
        password=password,
        read_only=False,
    ).serialize()
    return _LENGTH.pack(len(body)) + body


def ping_request() -> bytes:
    """A whole frame with the fixed xid of pings."""
    return framed(PING_XID, PingRequest().serialize())


def close_request() -> bytes:
    """The body of closeSession, which deletes the session's ephemeral znodes at once."""
    body: bytes = CloseRequest().serialize()
    return body


def sync_request(path: str) -> bytes:
    """The body of sync: the server first catches up with the leader."""
    body: bytes = SyncRequest(path=path).serialize()
    return body


def set_watches_request(lists: WatchLists, relative_zxid: int, *, persistent: bool) -> bytes:
    """A whole frame that sets watches again, and fires those missed since `relative_zxid`.

    `persistent` is false for servers before 3.6, which receive setWatches.
    """
    message = (_SetWatches2 if persistent else SetWatchesRequest)(
        relative_zxid=relative_zxid,
        data_watches=lists.data,
        exist_watches=lists.exist,
        child_watches=lists.child,
    )
    if persistent:
        message.persistent_watches = lists.persistent
        message.persistent_recursive_watches = lists.recursive
    return framed(SET_WATCHES_XID, message.serialize())


def auth_request(scheme: str, credentials: bytes) -> bytes:
    """A whole frame that adds an identity, such as `digest` with user:password."""
    return framed(AUTH_XID, _Auth(type=0, scheme=scheme, auth=credentials).serialize())


def sasl_request(token: bytes) -> bytes:
    """The body of a client's SASL message."""
    body: bytes = _Sasl(token=token).serialize()
    return body


def read_sasl_token(frame: bytes) -> bytes:
    """Decode a server's SASL message. Raises MalformedReply."""
    try:
        token, _ = Buffer.parse(frame, HEADER_BYTES)
    except struct.error as error:
        raise MalformedReply(f"SASL message: {error}") from error
    return bytes(token or b"")


def acl_vector(acl: Sequence[ACL]) -> bytes:
    """An access control list as encoded in a create request."""
    form, values = Vector.of(ACL)(acl).render()
    return struct.pack(f">{form}", *values)


def read_handshake(frame: bytes) -> Handshake:
    """Decode the first reply of a connection. Raises MalformedReply."""
    try:
        reply = ConnectResponse.deserialize(frame)
    except struct.error as error:
        raise MalformedReply(f"handshake: {error}") from error
    return Handshake(max(reply.timeout, 0), reply.session_id, reply.password or b"")


def read_header(frame: bytes) -> ReplyHeader:
    """Decode the header of a reply. Raises MalformedReply."""
    if len(frame) < HEADER_BYTES:
        raise MalformedReply(f"a reply of {len(frame)} bytes")
    return ReplyHeader._make(_HEADER.unpack_from(frame))


def read_watch_event(frame: bytes) -> WatchNotice | None:
    """Decode a watch event; None for a change that is not watched.

    Raises MalformedReply.
    """
    try:
        event, _ = WatchEvent.parse(frame, HEADER_BYTES)
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedReply(f"watch event: {error}") from error
    if event.path is None:
        raise MalformedReply("a watch event without a path")
    change = _CHANGES.get(event.type)
    return WatchNotice(event.path, change) if change else None


def read_children(frame: bytes) -> list[str]:
    """Decode the reply of getChildren. Raises MalformedReply."""
    try:
        names, _ = Vector.of(UString).parse(frame, HEADER_BYTES)
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedReply(f"children: {error}") from error
    if None in names:
        raise MalformedReply("a child without a name")
    return list(names)
