"""The messages between the daemon and its front process, and the link that carries them."""

import asyncio
import socket
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from controller.api.cluster_metadata import ClusterMetadata, MetadataQuery
from controller.api.connection_counts import ListenerCounts
from controller.api.endpoint_security import PLAIN, EndpointSecurity
from controller.api.limits import EndpointLimits
from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.configuration import Authorization
from controller.core.topic_configs import ConfigEntry
from controller.core.values import Broker, Endpoint
from controller.security.passwords import Password

_SIZE_BYTES: Final = 4
_READ_AHEAD_BYTES: Final = 1024 * 1024


class Listener(Struct, frozen=True):
    """A listening socket, by its file descriptor, and the listener that it serves."""

    descriptor: int
    endpoint: Endpoint
    security: EndpointSecurity = PLAIN


class FrontSetup(Struct, frozen=True, tag="setup"):
    """To the front, first: its configuration. Requests and connections are numbered from
    `first_number` on, so that a restarted front reuses no number. `broker_settings` determine
    the configuration of new topics in responses (topic_configs.py). `own_configs` are the
    daemon's configuration entries. `authorization`: who may see them; None: everybody."""

    broker_id: int
    listeners: tuple[Listener, ...]
    limits: EndpointLimits
    first_number: int
    broker_settings: dict[str, str]
    own_configs: tuple[ConfigEntry, ...] = ()
    authorization: Authorization | None = None


class LiveBrokerList(Struct, frozen=True, tag="live_brokers"):
    """To the front: all live brokers, without the daemon itself. Requests may be forwarded to
    them, and their requests to the controller take precedence over those of other clients."""

    brokers: tuple[Broker, ...]


class AddressRates(Struct, frozen=True, tag="address_rates"):
    """To the front: how many connections per second are accepted from an address, and from each
    other one; None: any number."""

    rates: dict[str, int] = {}
    default: int | None = None


class ConnectionLimits(Struct, frozen=True, tag="connection_limits"):
    """To the front: the limits of connections that Kafka's dynamic configuration has, with the
    names of `EndpointLimits`; None: those of the settings count."""

    connections_max: int | None = None
    connections_per_address_max: int | None = None
    connections_of_address_max: dict[str, int] | None = None
    creation_rate: int | None = None


class ResponseReady(Struct, frozen=True, tag="response_ready"):
    """To the front: the controller's response to a request."""

    response: ApiResponse


class ResponseDeferred(Struct, frozen=True, tag="response_deferred"):
    """To the front: the response to a request waits for brokers. The request no longer blocks
    others."""

    request: int


class ClientThrottled(Struct, frozen=True, tag="client_throttled"):
    """To the front: the response to a request, which follows, has the time until that wall clock as
    its throttle time, and the connection is not read for as long."""

    request: int
    until_ms: int


class Shutdown(Struct, frozen=True, tag="shutdown"):
    """To the front: no more responses follow. The front exits when clients have received theirs."""


class Ping(Struct, frozen=True, tag="ping"):
    """To the front, periodically: a heartbeat."""


class Pong(Struct, frozen=True, tag="pong"):
    """To the daemon: the response to a `Ping`."""


class RequestReceived(Struct, frozen=True, tag="request_received"):
    """To the daemon: a request for the controller arrived on that connection."""

    connection: int
    event: ApiRequest


class ReadCredential(Struct, frozen=True, tag="read_credential"):
    """To the daemon: a client logs in as that user by a SCRAM mechanism."""

    number: int
    user: str
    mechanism: str


class CredentialRead(Struct, frozen=True, tag="credential_read"):
    """To the front: the credential that ZooKeeper has, as text; None if it has none."""

    number: int
    credential: str | None


class ReadMetadata(Struct, frozen=True, tag="read_metadata"):
    """To the daemon: a client wants to know the cluster or topics."""

    number: int
    query: MetadataQuery


class MetadataRead(Struct, frozen=True, tag="metadata_read"):
    """To the front: the response to `ReadMetadata`; None while the daemon is not controller."""

    number: int
    answer: ClusterMetadata | None


class ReadBrokerRight(Struct, frozen=True, tag="read_broker_right"):
    """To the daemon: a client sends a request of brokers."""

    number: int
    client: ClientIdentity


class BrokerRightRead(Struct, frozen=True, tag="broker_right_read"):
    """To the front: whether that client may send requests of brokers, as far as the controller
    knows."""

    number: int
    is_allowed: bool


class ConnectionsCounted(Struct, frozen=True, tag="connections_counted"):
    """To the daemon: what the connections have been through, by listener."""

    listeners: dict[str, ListenerCounts]


class OperatorWarning(Struct, frozen=True, tag="operator_warning"):
    """To the daemon: a warning for the operator, most often about a connection that was closed."""

    text: str


Message = (
    FrontSetup
    | LiveBrokerList
    | AddressRates
    | ConnectionLimits
    | ResponseReady
    | ResponseDeferred
    | ClientThrottled
    | Shutdown
    | Ping
    | Pong
    | RequestReceived
    | ReadCredential
    | CredentialRead
    | ReadMetadata
    | MetadataRead
    | ReadBrokerRight
    | BrokerRightRead
    | ConnectionsCounted
    | OperatorWarning
)


def _as_text(value: Any) -> str:
    return value.reveal() if isinstance(value, Password) else str(value)


def _from_text(kind: type[Path | Password], text: str) -> Path | Password:
    return kind(text)


_encode = msgspec.msgpack.Encoder(enc_hook=_as_text).encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message, dec_hook=_from_text)


class FrontLink:
    """One end of the connection between the two processes. Each message follows its size."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> "FrontLink":
        """Use a connected socket; the link owns it from now on."""
        reader, writer = await asyncio.open_connection(sock=end, limit=_READ_AHEAD_BYTES)
        return cls(reader, writer)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the other end has not received yet."""
        return self._writer.transport.get_write_buffer_size()

    def send(self, message: Message) -> None:
        """Queue a message. Has no effect if the other end is gone."""
        if not self._writer.is_closing():
            body = _encode(message)
            self._writer.write(len(body).to_bytes(_SIZE_BYTES, "big") + body)

    async def receive(self) -> Message | None:
        """The next message; None if the other end is gone."""
        try:
            size = int.from_bytes(await self._reader.readexactly(_SIZE_BYTES), "big")
            return _decoder.decode(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def abort(self) -> None:
        """Close the link at once; `receive` then returns None."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the link and wait until it is closed."""
        self.abort()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return
