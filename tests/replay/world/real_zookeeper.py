"""A blocking session with a real ZooKeeper server, with the requests of the simulated one."""

import socket
import struct
from typing import Final

from controller.core.events import WatchFired
from controller.core.operations import Check, Create, Delete, SetData
from replay.world.requests import (
    AddWatch,
    CreateSequential,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    OperationResult,
    Read,
    Reply,
    Request,
    SetWatches,
    Sync,
    WriteInMulti,
)
from replay.znode_tree.tree import Stat

EXISTS: Final = 3
GET_DATA: Final = 4
SET_DATA: Final = 5
GET_CHILDREN: Final = 8
SYNC: Final = 9
GET_CHILDREN_2: Final = 12
DELETE: Final = 2
CHECK: Final = 13
MULTI: Final = 14
CREATE_2: Final = 15
MULTI_READ: Final = 22
SET_WATCHES_2: Final = 105
ADD_WATCH: Final = 106
CLOSE: Final = -11
FAILED: Final = -1

WATCH_XID: Final = -1
CHANGES: Final = {1: "created", 2: "deleted", 3: "data", 4: "children"}
WORLD_ANYONE_ALL: Final = struct.pack(">ii", 1, 31) + b"\0\0\0\5world\0\0\0\6anyone"


class RealSession:
    """One session on one connection. Every request waits for its reply."""

    def __init__(self, port: int, timeout_ms: int = 30_000) -> None:
        self._port = port
        self._timeout_ms = timeout_ms
        self.id, self._password = 0, bytes(16)
        self._connect()

    def reconnect(self) -> None:
        """Closes the connection and continues the session on a new one."""
        self._socket.close()
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        self._xid = 0
        self._events: list[WatchFired] = []
        self._send(
            struct.pack(">iqiqi", 0, 0, self._timeout_ms, self.id, len(self._password))
            + self._password
            + b"\0"
        )
        reply = self._receive()
        self.id = struct.unpack_from(">iiq", reply)[2]
        self._password = reply[20:36]

    def apply(self, request: Request) -> Reply:
        """Sends a request and reads its reply; earlier watch events are kept."""
        opcode, body = encode(request)
        return self.exchange(opcode, body).reply(opcode)

    def close(self) -> None:
        """Closes the session."""
        try:
            self.exchange(CLOSE, b"")
        finally:
            self._socket.close()

    def abandon(self) -> None:
        """Closes the connection, so that the session times out."""
        self._socket.close()

    def take_events(self) -> list[WatchFired]:
        """The watch events that arrived before the last reply."""
        events, self._events = self._events, []
        return events

    def await_events(self, count: int) -> list[WatchFired]:
        """Waits for this many watch events while no request is in flight."""
        while len(self._events) < count:
            packet = Packet(self._receive())
            assert packet.number() == WATCH_XID
            self._events.append(packet.event())
        return self.take_events()

    def exchange(self, opcode: int, body: bytes) -> "Packet":
        self._xid += 1
        self._send(struct.pack(">ii", self._xid, opcode) + body)
        while True:
            packet = Packet(self._receive())
            xid = packet.number()
            if xid == self._xid:
                return packet
            assert xid == WATCH_XID
            self._events.append(packet.event())

    def _send(self, body: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(body)) + body)

    def _receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            part = self._socket.recv(size - len(received))
            if not part:
                raise ConnectionError("the ZooKeeper server closed the connection")
            received += part
        return received


class Packet:
    """Reads a packet of a server field by field."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._offset = 0

    def number(self) -> int:
        return int(self._unpack(">i")[0])

    def long_number(self) -> int:
        return int(self._unpack(">q")[0])

    def reply(self, opcode: int) -> Reply:
        """The rest of a reply, after its xid."""
        zxid, error = self.long_number(), self.number()
        if error:
            return Reply(zxid, (OperationResult(error),))
        if opcode in (MULTI, MULTI_READ):
            return Reply(zxid, tuple(self.multi_results()))
        return Reply(zxid, (self.result(opcode),))

    def event(self) -> WatchFired:
        zxid = self.long_number()
        self.number()
        change = CHANGES[self.number()]
        self.number()
        return WatchFired(self._string(), change, zxid)

    def multi_results(self) -> list[OperationResult]:
        results: list[OperationResult] = []
        while True:
            opcode, done = self._unpack(">i?i")[:2]
            if done:
                return results
            results.append(
                OperationResult(self.number()) if opcode == FAILED else self.result(opcode)
            )

    def result(self, opcode: int) -> OperationResult:
        match opcode:
            case _ if opcode == CREATE_2:
                return OperationResult(path=self._string(), stat=self._stat())
            case _ if opcode in (SET_DATA, EXISTS):
                return OperationResult(stat=self._stat())
            case _ if opcode == GET_DATA:
                return OperationResult(data=self._buffer(), stat=self._stat())
            case _ if opcode == GET_CHILDREN:
                return OperationResult(children=self._names())
            case _ if opcode == GET_CHILDREN_2:
                return OperationResult(children=self._names(), stat=self._stat())
            case _ if opcode == SYNC:
                return OperationResult(path=self._string())
            case _:
                return OperationResult()

    def _stat(self) -> Stat:
        return Stat(*self._unpack(">qqqqiiiqiiq"))

    def _names(self) -> tuple[str, ...]:
        return tuple(sorted(self._string() for _ in range(self.number())))

    def _string(self) -> str:
        return self._buffer().decode()

    def _buffer(self) -> bytes:
        size = self.number()
        self._offset += size
        return self._body[self._offset - size : self._offset]

    def _unpack(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from(layout, self._body, self._offset)
        self._offset += struct.calcsize(layout)
        return values


def encode(request: Request) -> tuple[int, bytes]:
    match request:
        case Multi(operations=operations):
            return MULTI, _multi([_encode_write(one) for one in operations])
        case MultiRead(reads=reads):
            return MULTI_READ, _multi([_encode_read(one, in_multi=True) for one in reads])
        case GetData() | Exists() | GetChildren():
            return _encode_read(request, in_multi=False)
        case AddWatch(path, recursive):
            return ADD_WATCH, _string(path) + struct.pack(">i", recursive)
        case SetWatches(zxid, data, exist, child, persistent, recursives):
            lists = (data, exist, child, persistent, recursives)
            return SET_WATCHES_2, struct.pack(">q", zxid) + b"".join(map(_strings, lists))
        case Sync(path):
            return SYNC, _string(path)
        case _:
            return _encode_write(request)


def _encode_read(request: Read, in_multi: bool) -> tuple[int, bytes]:
    body = _string(request.path) + struct.pack(">?", request.watch)
    match request:
        case Exists():
            return EXISTS, body
        case GetData():
            return GET_DATA, body
        case GetChildren():
            return GET_CHILDREN if in_multi else GET_CHILDREN_2, body


def _encode_write(operation: WriteInMulti) -> tuple[int, bytes]:
    match operation:
        case Create(path, data, ephemeral):
            return CREATE_2, _create(path, data, ephemeral, sequential=False)
        case CreateSequential(path, data, ephemeral):
            return CREATE_2, _create(path, data, ephemeral, sequential=True)
        case SetData(path, data, version):
            return SET_DATA, _string(path) + _buffer(data) + struct.pack(">i", version)
        case Delete(path, version):
            return DELETE, _string(path) + struct.pack(">i", version)
        case Check(path, version):
            return CHECK, _string(path) + struct.pack(">i", version)


def _create(path: str, data: bytes, ephemeral: bool, sequential: bool) -> bytes:
    flags = struct.pack(">i", ephemeral + 2 * sequential)
    return _string(path) + _buffer(data) + WORLD_ANYONE_ALL + flags


def _multi(operations: list[tuple[int, bytes]]) -> bytes:
    parts = [struct.pack(">i?i", opcode, False, -1) + body for opcode, body in operations]
    return b"".join(parts) + struct.pack(">i?i", -1, True, -1)


def _strings(texts: tuple[str, ...]) -> bytes:
    return struct.pack(">i", len(texts)) + b"".join(map(_string, texts))


def _string(text: str) -> bytes:
    return _buffer(text.encode())


def _buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data
