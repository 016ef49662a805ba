"""The server's side of the wire protocol: decoded requests and encoded replies."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from controller.core.operations import (
    OK,
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)

MULTI, MULTI_READ, ADD_WATCH, CLOSE, PING = 14, 22, 106, -11, 11
SET_WATCHES, SET_WATCHES_2 = 101, 105
AUTH, SASL = 100, 102
EVENT_TYPES = {
    "none": -1,
    "created": 1,
    "deleted": 2,
    "data": 3,
    "children": 4,
    "data watch removed": 5,
}


class Sent(NamedTuple):
    """A request as the server receives it. `body` follows the opcode."""

    xid: int
    opcode: int
    body: bytes


class Greeting(NamedTuple):
    """A connect request as the server receives it."""

    last_zxid: int
    timeout_ms: int
    session_id: int
    password: bytes


class Znode(NamedTuple):
    """The znode in a reply."""

    data: bytes | None
    version: int = 0
    czxid: int = 1
    mzxid: int = 1
    owner: int = 0


def greeting(output: bytes) -> Greeting:
    """The only frame of a new connection."""
    length, _, zxid, timeout, session_id, size = struct.unpack_from(">iiqiqi", output)
    assert len(output) == length + 4 == 32 + size + 1
    return Greeting(zxid, timeout, session_id, output[32 : 32 + size])


def requests(output: bytes) -> list[Sent]:
    """All requests that a session has sent."""
    found = []
    at = 0
    while at < len(output):
        length, xid, opcode = struct.unpack_from(">iii", output, at)
        found.append(Sent(xid, opcode, output[at + 12 : at + 4 + length]))
        at += 4 + length
    return found


def handshake(session_id: int, timeout_ms: int, password: bytes | None = b"p" * 16) -> bytes:
    """The reply to a connect request. A timeout of 0 means that the session has expired."""
    return _framed(struct.pack(">iiq", 0, timeout_ms, session_id) + _buffer(password) + b"\0")


def reply(xid: int, body: bytes = b"", *, error: int = OK, zxid: int = 1) -> bytes:
    """A reply to a request."""
    return _framed(struct.pack(">iqi", xid, zxid, error) + body)


def sasl_body(token: bytes | None) -> bytes:
    """The body of a SASL reply."""
    return _buffer(token)


def watch_event(path: str, change: str, zxid: int = -1) -> bytes:
    """A watch event."""
    body = struct.pack(">ii", EVENT_TYPES[change], 3) + _string(path)
    return reply(-1, body, zxid=zxid)


def znode_body(znode: Znode) -> bytes:
    """The body of a getData reply."""
    return _buffer(znode.data) + stat_body(znode)


def stat_body(znode: Znode) -> bytes:
    """The body of an exists reply."""
    times = (znode.czxid, znode.mzxid, 11, 12)
    return struct.pack(">qqqqiiiqiiq", *times, znode.version, 13, 14, znode.owner, 15, 16, 17)


def children_body(names: Sequence[str]) -> bytes:
    """The body of a getChildren reply."""
    return _int(len(names)) + b"".join(map(_string, names))


def multi_read_body(items: Sequence[Znode | int]) -> bytes:
    """The body of a multiRead reply. A number is an error."""
    parts = [
        _failed(one) if isinstance(one, int) else struct.pack(">i?i", 4, False, 0) + znode_body(one)
        for one in items
    ]
    return b"".join(parts) + _END


def multi_body(
    operations: Sequence[WriteOperation], errors: list[int], versions: list[int]
) -> bytes:
    """The body of a multi reply."""
    if any(errors):
        return b"".join(map(_failed, errors)) + _END
    parts = []
    for operation, version in zip(operations, versions, strict=True):
        match operation:
            case Create(path=path):
                parts.append(struct.pack(">i?i", 1, False, 0) + _string(path))
            case SetData():
                stat = stat_body(Znode(None, version))
                parts.append(struct.pack(">i?i", 5, False, 0) + stat)
            case Delete():
                parts.append(struct.pack(">i?i", 2, False, 0))
            case Check():
                parts.append(struct.pack(">i?i", 13, False, 0))
    return b"".join(parts) + _END


def multi_read_paths(body: bytes) -> list[str]:
    """The paths in a multiRead."""
    reader = _Reader(body)
    paths = []
    while reader.head() == 4:
        paths.append(reader.text())
        assert reader.take(1) == b"\0"
    return paths


def multi_operations(body: bytes) -> list[WriteOperation]:
    """The operations in a multi."""
    reader = _Reader(body)
    operations: list[WriteOperation] = []
    while (opcode := reader.head()) != -1:
        path = reader.text()
        if opcode == 1:
            data = reader.buffer()
            for _ in range(reader.number()):
                reader.number(), reader.text(), reader.text()
            flags = reader.number()
            kind = CreateSequential if flags & 2 else Create
            operations.append(kind(path, data, flags & 1 == 1))
        elif opcode == 5:
            operations.append(SetData(path, reader.buffer(), reader.number()))
        else:
            operations.append((Delete if opcode == 2 else Check)(path, reader.number()))
    return operations


def watch_lists(body: bytes) -> tuple[int, list[list[str]]]:
    """The zxid and the lists of a setWatches or setWatches2."""
    reader = _Reader(body)
    (zxid,) = struct.unpack(">q", reader.take(8))
    lists = []
    while reader.rest:
        lists.append([reader.text() for _ in range(reader.number())])
    return zxid, lists


def path_of(body: bytes) -> str:
    """The path at the start of a request."""
    return _Reader(body).text()


class _Reader:
    def __init__(self, body: bytes) -> None:
        self.rest = body

    def take(self, count: int) -> bytes:
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def number(self) -> int:
        return int.from_bytes(self.take(4), signed=True)

    def buffer(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        return self.buffer().decode()

    def head(self) -> int:
        opcode = self.number()
        self.take(5)
        return opcode


def _framed(data: bytes) -> bytes:
    return _int(len(data)) + data


def _int(number: int) -> bytes:
    return struct.pack(">i", number)


def _buffer(data: bytes | None) -> bytes:
    return _int(-1) if data is None else _int(len(data)) + data


def _string(text: str) -> bytes:
    return _buffer(text.encode())


def _failed(error: int) -> bytes:
    return struct.pack(">i?ii", -1, False, error, error)


_END = struct.pack(">i?i", -1, True, -1)
