"""The server's side of ZooKeeper's wire format: requests are decoded, replies are encoded.

The client's side is in controller.zookeeper (`wire`, `bulk`). Framing and opcodes are shared.
Requests that refold's session does not send are not decoded.
"""

import struct
from collections.abc import Iterator
from typing import Final

from controller.core.events import WatchFired
from controller.core.operations import (
    OK,
    UNIMPLEMENTED,
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
)
from controller.zookeeper.bulk import (
    ADD_WATCH,
    CHECK,
    CREATE,
    DELETE,
    EXISTS,
    FAILED,
    GET_CHILDREN,
    GET_DATA,
    MULTI,
    MULTI_READ,
    REMOVE_WATCHES,
    SET_DATA,
)
from controller.zookeeper.errors import MalformedReply
from controller.zookeeper.wire import WATCH_EVENT_XID, FrameReader
from replay.world.ensemble.protocol import (
    CloseSession,
    ConnectRequest,
    ConnectResponse,
    Ping,
    ReplyPacket,
    RequestPacket,
    ServerMessage,
)
from replay.world.requests import (
    AddWatch,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    OperationResult,
    RemoveWatches,
    Reply,
    Request,
    SetWatches,
    Sync,
    WriteInMulti,
)

SYNC: Final = 9
PING: Final = 11
GET_CHILDREN_2: Final = 12
CREATE_2: Final = 15
CLOSE: Final = -11
SET_WATCHES: Final = 101
SET_WATCHES_2: Final = 105
SINCE_3_6: Final = (MULTI_READ, ADD_WATCH, SET_WATCHES_2)

_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2
_RECURSIVE: Final = 1
_CONNECTED: Final = 3
_TYPES: Final = {"created": 1, "deleted": 2, "data": 3, "children": 4}

_INT = struct.Struct(">i")
_TWO_INTS = struct.Struct(">ii")
_LONG = struct.Struct(">q")
_CONNECT_REQUEST = struct.Struct(">iqiqi")
_CONNECT_RESPONSE = struct.Struct(">iiiqi")
_REPLY = struct.Struct(">iiqi")
_ITEM = struct.Struct(">i?i")
_FAILED_ITEM = struct.Struct(">i?ii")
_STAT = struct.Struct(">qqqqiiiqiiq")
_END = _ITEM.pack(FAILED, True, -1)


class BadRequest(Exception):
    """The client sent bytes that no server accepts: the connection is closed."""


class ServerCodec:
    """One connection. `is_old`: the server is one before 3.6."""

    def __init__(self, *, is_old: bool = False) -> None:
        self._frames = FrameReader()
        self._is_connected = False
        self._is_old = is_old

    def read(self, data: bytes) -> Iterator[ConnectRequest | RequestPacket]:
        """The messages that are complete now. Raises BadRequest."""
        try:
            for frame in self._frames.feed(data):
                if self._is_connected:
                    yield self._request(frame)
                else:
                    self._is_connected = True
                    yield _connect_request(frame)
        except (MalformedReply, struct.error, UnicodeDecodeError) as error:
            raise BadRequest(str(error)) from error

    def write(self, message: ServerMessage, forms: tuple[int, ...] = ()) -> bytes:
        """A message as bytes. `forms`: those of the request that it answers."""
        match message:
            case ReplyPacket(xid=xid, reply=reply):
                return _answer(xid, reply, forms)
            case WatchFired(path=path, change=change, zxid=zxid):
                body = _TWO_INTS.pack(_TYPES[change], _CONNECTED) + _string(path)
                return _REPLY.pack(len(body) + 16, WATCH_EVENT_XID, zxid, OK) + body
            case ConnectResponse(timeout_ms=timeout_ms, session=session, password=password):
                size = _CONNECT_RESPONSE.size - 4 + len(password) + 1
                head = _CONNECT_RESPONSE.pack(size, 0, timeout_ms, session, len(password))
                return head + password + b"\0"

    def _request(self, frame: bytes) -> RequestPacket:
        xid, opcode = _TWO_INTS.unpack_from(frame)
        if self._is_old and opcode in SINCE_3_6:
            raise Unimplemented(xid)
        reader = _Reader(frame, 8)
        match opcode:
            case _ if opcode == MULTI:
                return _multi(xid, reader)
            case _ if opcode == MULTI_READ:
                return _multi_read(xid, reader)
            case _ if opcode == PING:
                return RequestPacket(xid, Ping(), (PING,))
            case _ if opcode == CLOSE:
                return RequestPacket(xid, CloseSession(), (CLOSE,))
            case _:
                return RequestPacket(xid, _single(opcode, reader), (opcode,))


class Unimplemented(BadRequest):
    """A request that the server's version does not know."""

    def __init__(self, xid: int) -> None:
        super().__init__("the server is older than ZooKeeper 3.6")
        self.xid = xid


def unimplemented(xid: int, zxid: int) -> bytes:
    """The reply to such a request."""
    return _REPLY.pack(16, xid, zxid, UNIMPLEMENTED)


class _Reader:
    """Reads a request field by field."""

    __slots__ = ("at", "frame")

    def __init__(self, frame: bytes, at: int) -> None:
        self.frame = frame
        self.at = at

    def number(self) -> int:
        (number,) = _INT.unpack_from(self.frame, self.at)
        self.at += 4
        return int(number)

    def long(self) -> int:
        (number,) = _LONG.unpack_from(self.frame, self.at)
        self.at += 8
        return int(number)

    def flag(self) -> bool:
        self.at += 1
        return self.frame[self.at - 1 : self.at] == b"\1"

    def buffer(self) -> bytes:
        start = self.at + 4
        self.at = start + max(_INT.unpack_from(self.frame, self.at)[0], 0)
        if self.at > len(self.frame):
            raise BadRequest("a request ends too soon")
        return self.frame[start : self.at]

    def string(self) -> str:
        return self.buffer().decode()

    def strings(self) -> tuple[str, ...]:
        return tuple([self.string() for _ in range(self.number())])

    def skip_acl(self) -> None:
        for _ in range(self.number()):
            self.at += 4
            self.buffer()
            self.buffer()


def _connect_request(frame: bytes) -> ConnectRequest:
    _, last_zxid, timeout_ms, session, size = _CONNECT_REQUEST.unpack_from(frame)
    password = frame[_CONNECT_REQUEST.size : _CONNECT_REQUEST.size + size]
    return ConnectRequest(last_zxid, timeout_ms, session, password)


def _single(opcode: int, reader: _Reader) -> Request:
    if opcode in (SET_WATCHES, SET_WATCHES_2):
        zxid = reader.long()
        lists = [reader.strings() for _ in range(5 if opcode == SET_WATCHES_2 else 3)]
        return SetWatches(zxid, *lists)
    match opcode:
        case _ if opcode == GET_DATA:
            return GetData(reader.string(), reader.flag())
        case _ if opcode == EXISTS:
            return Exists(reader.string(), reader.flag())
        case _ if opcode in (GET_CHILDREN, GET_CHILDREN_2):
            return GetChildren(reader.string(), reader.flag())
        case _ if opcode == ADD_WATCH:
            return AddWatch(reader.string(), reader.number() == _RECURSIVE)
        case _ if opcode == REMOVE_WATCHES:
            return RemoveWatches(reader.string())
        case _ if opcode == SYNC:
            return Sync(reader.string())
    write = _write(opcode, reader)
    if isinstance(write, Check):
        raise BadRequest("check is part of a multi")
    return write


def _write(opcode: int, reader: _Reader) -> WriteInMulti:
    path = reader.string()
    match opcode:
        case _ if opcode == SET_DATA:
            return SetData(path, reader.buffer(), reader.number())
        case _ if opcode == CHECK:
            return Check(path, reader.number())
        case _ if opcode == DELETE:
            return Delete(path, reader.number())
        case _ if opcode in (CREATE, CREATE_2):
            data = reader.buffer()
            reader.skip_acl()
            flags = reader.number()
            kind = CreateSequential if flags & _SEQUENTIAL else Create
            return kind(path, data, bool(flags & _EPHEMERAL))
        case _:
            raise BadRequest(f"the opcode {opcode}")


def _items(reader: _Reader) -> Iterator[int]:
    """The opcodes of a multi; the caller reads each item."""
    while True:
        opcode, is_end, _ = _ITEM.unpack_from(reader.frame, reader.at)
        reader.at += _ITEM.size
        if is_end:
            return
        yield opcode


def _multi(xid: int, reader: _Reader) -> RequestPacket:
    forms, operations = [MULTI], []
    for opcode in _items(reader):
        forms.append(opcode)
        operations.append(_write(opcode, reader))
    return RequestPacket(xid, Multi(tuple(operations)), tuple(forms))


def _multi_read(xid: int, reader: _Reader) -> RequestPacket:
    forms = [MULTI_READ]
    reads: list[GetData | GetChildren] = []
    for opcode in _items(reader):
        forms.append(opcode)
        path, watch = reader.string(), reader.flag()
        reads.append(GetData(path, watch) if opcode == GET_DATA else GetChildren(path, watch))
    return RequestPacket(xid, MultiRead(tuple(reads)), tuple(forms))


def _answer(xid: int, reply: Reply, forms: tuple[int, ...]) -> bytes:
    form = forms[0]
    if form in (MULTI, MULTI_READ):
        body, error = _multi_body(reply, forms), OK
    else:
        # A ping's reply has no results.
        result = reply.results[0] if reply.results else OperationResult()
        error = result.error
        body = b"" if error else _body(form, result)
    return _REPLY.pack(len(body) + 16, xid, reply.zxid, error) + body


def _multi_body(reply: Reply, forms: tuple[int, ...]) -> bytes:
    """A failed multi has an error for each operation; a multiRead has one for each that failed."""
    results = reply.results
    has_failed = forms[0] == MULTI and any([one.error for one in results])
    parts: list[bytes] = []
    for place, result in enumerate(results):
        if result.error or has_failed:
            parts.append(_FAILED_ITEM.pack(FAILED, False, result.error, result.error))
        else:
            form = forms[place + 1]
            parts.append(_ITEM.pack(form, False, 0))
            parts.append(_body(form, result))
    parts.append(_END)
    return b"".join(parts)


def _body(form: int, result: OperationResult) -> bytes:
    match form:
        case _ if form in (SET_DATA, EXISTS):
            return _stat(result)
        case _ if form == GET_DATA:
            data = result.data or b""
            return _INT.pack(len(data)) + data + _stat(result)
        case _ if form in (CREATE, SYNC):
            return _string(result.path or "")
        case _ if form == CREATE_2:
            return _string(result.path or "") + _stat(result)
        case _ if form in (GET_CHILDREN, GET_CHILDREN_2):
            names = result.children or ()
            body = _INT.pack(len(names)) + b"".join([_string(one) for one in names])
            return body + _stat(result) if form == GET_CHILDREN_2 else body
        case _ if form == ADD_WATCH:
            return _INT.pack(OK)
        case _:
            return b""


def _stat(result: OperationResult) -> bytes:
    assert result.stat is not None
    return _STAT.pack(*result.stat)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT.pack(len(encoded)) + encoded
