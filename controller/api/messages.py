"""What the daemon and its front process tell each other, and the link that carries it."""

import asyncio
import socket
from typing import Final

import msgspec
from msgspec import Struct

from controller.api.limits import Limits
from controller.core.commands import ApiAnswer
from controller.core.events import ApiRequest
from controller.core.topic_configs import ConfigEntry
from controller.core.values import Broker, Endpoint

_SIZE_BYTES: Final = 4
_READ_AHEAD_BYTES: Final = 1024 * 1024


class Listener(Struct, frozen=True):
    """A socket that listens, by its file descriptor, and what it listens for."""

    descriptor: int
    endpoint: Endpoint


class Setup(Struct, frozen=True, tag="setup"):
    """To the front, first: all that it needs. Its requests and its connections are numbered from
    `first_number` on, so that a front that takes another's place repeats none. `broker_settings`
    are what tools are told of a new topic's configuration by (topic_configs.py), `own_configs` what
    they are told of the daemon's own."""

    broker_id: int
    listeners: tuple[Listener, ...]
    limits: Limits
    first_number: int
    broker_settings: dict[str, str]
    own_configs: tuple[ConfigEntry, ...] = ()


class LiveBrokers(Struct, frozen=True, tag="live_brokers"):
    """To the front: all live brokers but the daemon itself. Requests may be passed on to them, and
    theirs to the controller go before those of others."""

    brokers: tuple[Broker, ...]


class ResponseReady(Struct, frozen=True, tag="response_ready"):
    """To the front: the controller's answer to a request."""

    answer: ApiAnswer


class ResponseDeferred(Struct, frozen=True, tag="response_deferred"):
    """To the front: the answer to a request waits for brokers, which holds up no other request."""

    request: int


class Shutdown(Struct, frozen=True, tag="shutdown"):
    """To the front: there are no more answers. It ends when clients have those that there are."""


class Ping(Struct, frozen=True, tag="ping"):
    """To the front, again and again: does it still work?"""


class Pong(Struct, frozen=True, tag="pong"):
    """To the daemon: the answer to a `Ping`."""


class RequestReceived(Struct, frozen=True, tag="request_received"):
    """To the daemon: a request of the controller's own came on that connection."""

    connection: int
    event: ApiRequest


class OperatorWarning(Struct, frozen=True, tag="operator_warning"):
    """To the daemon: what the operator ought to know, of clients that are turned away above all."""

    text: str


Message = (
    Setup
    | LiveBrokers
    | ResponseReady
    | ResponseDeferred
    | Shutdown
    | Ping
    | Pong
    | RequestReceived
    | OperatorWarning
)

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class Link:
    """One end of the connection between the two processes: each message behind its size."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> "Link":
        """Work over a connected socket, which is the link's from now on."""
        reader, writer = await asyncio.open_connection(sock=end, limit=_READ_AHEAD_BYTES)
        return cls(reader, writer)

    @property
    def unsent_bytes(self) -> int:
        """What the other end has not taken yet."""
        return self._writer.transport.get_write_buffer_size()

    def send(self, message: Message) -> None:
        """Queue a message; without effect where the other end is gone."""
        if not self._writer.is_closing():
            body = _encode(message)
            self._writer.write(len(body).to_bytes(_SIZE_BYTES, "big") + body)

    async def receive(self) -> Message | None:
        """The next message; None when the other end is gone."""
        try:
            size = int.from_bytes(await self._reader.readexactly(_SIZE_BYTES), "big")
            return _decoder.decode(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def abort(self) -> None:
        """End the link at once; `receive` gives None then."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """End the link and wait until it has ended."""
        self.abort()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return
