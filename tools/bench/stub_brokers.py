"""Stub brokers: registered in ZooKeeper, they respond to a controller's requests with success and
record when each request arrived.

They run in a separate process, so that they take no CPU time from the measured process. Each line
of its standard input is a command such as {"do": "register", "broker": 1}; the result is a line of
JSON. The process exits at the end of its standard input.

The responses name no partition: partitions without an error need not be listed.
"""

import asyncio
import json
import ssl
import struct
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import anyio

from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.operations import OK, Create, Delete
from controller.core.protocol_versions import LATEST, ProtocolVersion
from controller.core.values import ANY_VERSION
from tools.bench.zookeeper_reads import CommandClient, client_of
from tools.lab.secured import LISTENER

HOST: Final = "127.0.0.1"
_BUFFER_BYTES: Final = 256 * 1024
_HEAD_BYTES_MAX: Final = 512
"""How many of a frame's first bytes are kept to parse its header."""

_LINE_BYTES_MAX: Final = 16 * 1024 * 1024

LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6
API_VERSIONS: Final = 18

SASL_HANDSHAKE: Final = 17
SASL_AUTHENTICATE: Final = 36

_HIGHEST: Final = {
    LEADER_AND_ISR: 7,
    STOP_REPLICA: 4,
    UPDATE_METADATA: 8,
    API_VERSIONS: 4,
    SASL_HANDSHAKE: 1,
    SASL_AUTHENTICATE: 0,
}
_LOGIN: Final = {
    # No error, and the mechanisms.
    SASL_HANDSHAKE: struct.pack(">hih5s", 0, 1, 5, b"PLAIN"),
    # No error, no text, no bytes: everybody may log in.
    SASL_AUTHENTICATE: struct.pack(">hhi", 0, -1, 0),
}
_FIRST_FLEXIBLE: Final = {LEADER_AND_ISR: 4, STOP_REPLICA: 2, UPDATE_METADATA: 6}
_API_VERSIONS_FIRST_FLEXIBLE: Final = 3

_HEAD = struct.Struct(">ihhih")
"""Frame size, API key, version, correlation id, length of the client id."""


class Request(NamedTuple):
    """A received request; `ended_ns` is the monotonic clock at its last byte."""

    broker: int
    api: int
    version: int
    controller: int
    frame_bytes: int
    ended_ns: int


def answer_to(api: int, version: int, correlation_id: int) -> bytes:
    """A complete response frame without errors. Raises KeyError for an unknown API."""
    if api == API_VERSIONS:
        body = _encoded_versions(version)
    elif api in _LOGIN:
        body = _LOGIN[api]
    elif version < _FIRST_FLEXIBLE[api]:
        body = bytes(2) if api == UPDATE_METADATA else bytes(2 + 4)
    else:
        # Tags of the header; error code, an empty compact array where there is one, tags.
        body = bytes(1 + 2 + 1) if api == UPDATE_METADATA else b"\0\0\0\1\0"
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


def _encoded_versions(version: int) -> bytes:
    flexible = version >= _API_VERSIONS_FIRST_FLEXIBLE
    tags = b"\0" if flexible else b""
    ranges = [struct.pack(">hhh", api, 0, highest) + tags for api, highest in _HIGHEST.items()]
    count = struct.pack(">b", len(ranges) + 1) if flexible else struct.pack(">i", len(ranges))
    throttle = struct.pack(">i", 0) if version else b""
    return b"".join((bytes(2), count, *ranges, throttle, tags))


class _Connection(asyncio.BufferedProtocol):
    """One connection to a stub. Parses the header of each frame and drops the rest."""

    def __init__(self, broker: int, note: Callable[[Request], None]) -> None:
        self._broker = broker
        self._note = note
        self._buffer = bytearray(_BUFFER_BYTES)
        self._head = b""
        self._missing = 0
        self._request: tuple[int, int, int, int, int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        start = 0
        while start < nbytes:
            if self._request is None:
                part = self._buffer[start : min(start + _HEAD_BYTES_MAX, nbytes)]
                self._head += part
                start += len(part) - self._begin()
            else:
                taken = min(self._missing, nbytes - start)
                self._missing -= taken
                start += taken
            if self._request is not None and not self._missing:
                self._end(*self._request)

    def _begin(self) -> int:
        """Parse a header if it is complete; returns the number of unused bytes."""
        head = self._head
        if len(head) < _HEAD.size:
            return 0
        size, api, version, correlation_id, client_id_bytes = _HEAD.unpack_from(head)
        controller_at = _HEAD.size + max(client_id_bytes, 0)
        controller_at += version >= _FIRST_FLEXIBLE.get(api, _API_VERSIONS_FIRST_FLEXIBLE)
        frame_bytes: int = 4 + size
        if len(head) < min(controller_at + 4, frame_bytes):
            return 0
        # All three requests of a controller begin with its id.
        (controller,) = (
            struct.unpack_from(">i", head, controller_at) if api in _FIRST_FLEXIBLE else (-1,)
        )
        self._request = (api, version, correlation_id, controller, frame_bytes)
        self._head = b""
        self._missing = max(frame_bytes - len(head), 0)
        return max(len(head) - frame_bytes, 0)

    def _end(self, api: int, version: int, correlation_id: int, controller: int, size: int) -> None:
        self._request = None
        if api in _FIRST_FLEXIBLE:
            self._note(Request(self._broker, api, version, controller, size, time.monotonic_ns()))
        self._transport.write(answer_to(api, version, correlation_id))


class _Stubs:
    """All stubs of the process."""

    def __init__(
        self, zookeeper: CommandClient, protocol: ProtocolVersion, tls: ssl.SSLContext | None
    ) -> None:
        self._zookeeper = zookeeper
        self._protocol = protocol
        self._listeners = {"PLAINTEXT": None} if tls is None else {"PLAINTEXT": None, LISTENER: tls}
        self._requests: list[Request] = []
        self._servers: dict[int, list[asyncio.Server]] = {}
        self._ports: dict[tuple[int, str], int] = {}
        self._connections: dict[int, list[_Connection]] = {}

    async def execute(self, order: dict[str, Any]) -> Any:
        """Execute a command of the driver."""
        match order:
            case {"do": "register", "broker": broker}:
                return await self._register(broker)
            case {"do": "unregister", "broker": broker}:
                return await self._unregister(broker)
            case {"do": "requests"}:
                requests, self._requests = self._requests, []
                return requests
        raise ValueError(f"unknown command: {order}")

    async def _register(self, broker: int) -> int:
        """Listen on the same ports as before and register; returns the time of the registration
        request."""
        self._connections[broker] = []

        def accept() -> _Connection:
            connection = _Connection(broker, self._requests_note)
            self._connections[broker].append(connection)
            return connection

        loop = asyncio.get_running_loop()
        ports: dict[str, int] = {}
        servers = self._servers[broker] = []
        for listener, tls in self._listeners.items():
            before = self._ports.get((broker, listener), 0)
            server = await loop.create_server(accept, HOST, before, ssl=tls)
            servers.append(server)
            ports[listener] = self._ports[broker, listener] = server.sockets[0].getsockname()[1]
        requested_ns = time.monotonic_ns()
        registration = _registration(ports, self._protocol)
        await self._write(Create(znodes.broker_path(broker), registration, ephemeral=True))
        return requested_ns

    async def _unregister(self, broker: int) -> int:
        """Delete the registration and close all connections; returns the time of the delete
        request."""
        for server in self._servers.pop(broker):
            server.close()
        for connection in self._connections.pop(broker):
            connection._transport.abort()
        requested_ns = time.monotonic_ns()
        await self._write(Delete(znodes.broker_path(broker), ANY_VERSION))
        return requested_ns

    async def _write(self, operation: Create | Delete) -> None:
        errors = await self._zookeeper.call(WriteZnodes((operation,), None), 1)
        if errors != [OK]:
            raise RuntimeError(f"{operation.path}: ZooKeeper code {errors[0]}")

    def _requests_note(self, request: Request) -> None:
        self._requests.append(request)


def _registration(ports: Mapping[str, int], protocol: ProtocolVersion) -> bytes:
    security = {"PLAINTEXT": "PLAINTEXT", LISTENER: "SASL_SSL"}
    znode = {
        "version": 5 if protocol.at_least("2.7-IV0") else 4,
        "host": HOST,
        "port": ports["PLAINTEXT"],
        "jmx_port": -1,
        "endpoints": [f"{name}://{HOST}:{port}" for name, port in ports.items()],
        "listener_security_protocol_map": {name: security[name] for name in ports},
        "features": {},
        "timestamp": str(time.time_ns() // 1_000_000),
    }
    return json.dumps(znode).encode()


async def _serve(connect: str, protocol: str, identity: str) -> None:
    tls = None
    if identity:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(identity)
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    async with client_of(connect) as zookeeper:
        stubs = _Stubs(zookeeper, ProtocolVersion(protocol), tls)
        while line := await orders.readline():
            answer = json.dumps(await stubs.execute(json.loads(line)))
            sys.stdout.write(answer + "\n")
            sys.stdout.flush()


class StubBrokers:
    """The driver's handle of a stub process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = anyio.Lock()

    @classmethod
    async def start(
        cls, connect: str, log: Path, protocol: str = LATEST, identity: Path | None = None
    ) -> Self:
        """Start the process without brokers. Brokers will register like those of `protocol`. Its
        errors are written to `log`. `identity`: the key and certificate of a second listener, with
        SASL_SSL, where everybody may log in by PLAIN."""
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tools.bench.stub_brokers", connect, protocol),
                str(identity or ""),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=_LINE_BYTES_MAX,
            )
        return cls(process)

    async def register(self, broker: int) -> int:
        """Register the broker; returns the monotonic clock (ns) of the request."""
        return int(await self._order("register", broker=broker))

    async def unregister(self, broker: int) -> int:
        """Let the broker fail; returns the monotonic clock (ns) at which its znode's deletion was
        requested."""
        return int(await self._order("unregister", broker=broker))

    async def requests(self) -> list[Request]:
        """The requests since the last call, in order."""
        return [Request(*one) for one in await self._order("requests")]

    async def _order(self, order: str, **what: int) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._turn:
            self._process.stdin.write(json.dumps({"do": order, **what}).encode() + b"\n")
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the stub brokers exited; see stub-brokers.log")
        return json.loads(line)

    async def close(self) -> None:
        """Stop the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


if __name__ == "__main__":
    anyio.run(_serve, sys.argv[1], sys.argv[2], sys.argv[3])
