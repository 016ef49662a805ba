"""The front: accepts connections, and exits when the link to the daemon ends."""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final, NamedTuple

import anyio
from anyio.abc import TaskGroup

from controller.api.connection_counts import ClosingReason, ListenerCounts
from controller.api.errors import (
    HandshakeTimedOut,
    IdleTooLong,
    NoBrokersKnown,
    NotForwarded,
    NoUpstream,
    RequestRejected,
    SessionEnded,
)
from controller.api.front.accepting import AddressQuotas, CreationRates, accept_connections
from controller.api.front.admission import Admission
from controller.api.front.broker_rights import BrokerRights
from controller.api.front.cluster_metadata import MetadataQueries
from controller.api.front.connection import ClientConnection, FrontContext
from controller.api.front.identification import Credentials, Identification
from controller.api.front.live_brokers import LiveBrokers
from controller.api.front.pending_requests import PendingRequests
from controller.api.front.request_quotas import RequestQuotas
from controller.api.front.session import ClientSession
from controller.api.front.streams import write_through
from controller.api.messages import (
    AddressRates,
    BrokerRightRead,
    ClientThrottled,
    ConnectionLimits,
    ConnectionsCounted,
    CredentialRead,
    FrontLink,
    FrontSetup,
    Listener,
    LiveBrokerList,
    Message,
    MetadataRead,
    OperatorWarning,
    Ping,
    Pong,
    ResponseDeferred,
    ResponseReady,
    Shutdown,
)
from controller.core.client_address import canonical_address
from controller.core.values import Endpoint
from controller.security.errors import LoginRejected
from controller.wire.client_requests import MalformedRequest

logger = logging.getLogger(__name__)

WARNING_INTERVAL_S: Final = 10.0
_NOT_FORWARDED_INTERVAL_S: Final = 600.0
_LAST_ANSWERS_SECONDS_MAX: Final = 1.0
_REPORT_SECONDS: Final = 1.0


class RateLimitedWarning:
    """Reports the first warning at once, and then at most one in an interval, with the number of
    suppressed ones.

    `warn` reports a text; `clock` returns seconds.
    """

    def __init__(
        self,
        warn: Callable[[str], None],
        clock: Callable[[], float],
        interval_s: float = WARNING_INTERVAL_S,
    ) -> None:
        self._warn = warn
        self._clock = clock
        self._interval_s = interval_s
        self._warned_at: float | None = None
        self._suppressed = 0

    def add(self, address: str, problem: str) -> None:
        """A client's connection was closed because of a problem."""
        now = self._clock()
        if self._warned_at is not None and now - self._warned_at < self._interval_s:
            self._suppressed += 1
            return
        others = f"; {self._suppressed} others were closed since the last message" * bool(
            self._suppressed
        )
        self._warn(f"closed the connection of {address}: {problem}{others}")
        self._warned_at, self._suppressed = now, 0


class _Connection(NamedTuple):
    """A connection; the cancellation of `scope` closes it, also in its TLS handshake."""

    listener: str
    address: str
    scope: anyio.CancelScope


class Front:
    """Serves the listeners of one `FrontSetup` until the link ends."""

    def __init__(
        self,
        setup: FrontSetup,
        link: FrontLink,
        connections_max: int,
        possible_max: int | None = None,
    ) -> None:
        """`connections_max`: those of the setup, or fewer; `possible_max`: how many this process
        can have."""
        limits = setup.limits
        self._connections_max = connections_max
        self._possible_max = possible_max
        self._setup = setup
        self._link = link
        self._numbers = count(setup.first_number)
        self._counts = {one.endpoint.listener: ListenerCounts() for one in setup.listeners}
        self._rates = CreationRates(limits, self._counts)
        self._creation_rate: int | None = None
        self._address_quotas = AddressQuotas(limits.creation_burst_seconds)
        quotas = limits.of_listeners.items()
        self._admission = Admission(
            connections_max,
            limits.connections_per_address_max,
            limits.connections_of_address_max,
            {name: one.connections_max for name, one in quotas if one.connections_max is not None},
        )
        self._connections: dict[int, _Connection] = {}
        clock = asyncio.get_running_loop().time
        self._warnings = RateLimitedWarning(self._warn, clock)
        # Clients that look for a broker come again and again.
        self._not_forwarded = RateLimitedWarning(self._warn, clock, _NOT_FORWARDED_INTERVAL_S)
        self._brokers = LiveBrokers([one.endpoint for one in setup.listeners], self._warn)
        self._credentials = Credentials(link.send)
        self._metadata = MetadataQueries(link.send)
        self._broker_rights = BrokerRights(link.send, setup.authorization)
        self._pending = PendingRequests(link.send, first_number=setup.first_number)
        self._context = FrontContext(
            setup.broker_id,
            limits,
            self._admission,
            RequestQuotas(limits),
            self._pending,
            self._metadata,
            self._broker_rights,
            self._brokers,
            setup.broker_settings,
            setup.own_configs,
            setup.authorization,
            self._counts,
        )
        self._identification = [
            Identification(one.security, setup.authorization, self._credentials.read, self._warn)
            for one in setup.listeners
        ]

    async def run(self) -> None:
        """Serve until the daemon exits or shuts the front down."""
        async with anyio.create_task_group() as connections:
            accepting = anyio.CancelScope()
            connections.start_soon(self._accept, accepting, connections)
            connections.start_soon(self._report_counts)
            message = await self._link.receive()
            while message is not None and not isinstance(message, Shutdown):
                self._handle_message(message)
                message = await self._link.receive()
            accepting.cancel()
            if message is not None:
                with anyio.move_on_after(_LAST_ANSWERS_SECONDS_MAX):
                    await self._pending.wait_until_delivered()
            connections.cancel_scope.cancel()

    async def _accept(self, scope: anyio.CancelScope, connections: TaskGroup) -> None:
        with scope:
            async with anyio.create_task_group() as listeners:
                for one in zip(self._setup.listeners, self._identification, strict=True):
                    listeners.start_soon(self._listen, *one, connections)

    async def _listen(
        self, listener: Listener, identification: Identification, connections: TaskGroup
    ) -> None:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if identification.has_tls:
                # No byte may arrive before the TLS handshake begins.
                transport = writer.transport
                assert isinstance(transport, asyncio.Transport)
                transport.pause_reading()
            connections.start_soon(
                self._serve_connection, listener.endpoint, identification, reader, writer
            )

        name = listener.endpoint.listener
        await accept_connections(
            socket.socket(fileno=listener.descriptor),
            partial(self._rates.limiters_of, name),
            self._counts[name],
            connected,
        )

    async def _report_counts(self) -> None:
        """Report what has happened to connections, for the metrics."""
        reported = {name: ListenerCounts() for name in self._counts}
        while True:
            now = {name: one.copy() for name, one in self._counts.items()}
            if now != reported:
                self._link.send(ConnectionsCounted(now))
                reported = now
            await asyncio.sleep(_REPORT_SECONDS)

    def _handle_message(self, message: Message) -> None:
        match message:
            case ResponseReady(response=response):
                self._pending.answered(response)
            case ResponseDeferred(request=request):
                self._pending.defer(request)
            case ClientThrottled(request=request, until_ms=until_ms):
                self._pending.throttled(request, until_ms)
            case LiveBrokerList(brokers=brokers):
                self._brokers.set(brokers)
            case AddressRates():
                self._address_quotas.set(message)
            case ConnectionLimits():
                self._set_limits(message)
            case CredentialRead(number=number, credential=credential):
                self._credentials.answer(number, credential)
            case BrokerRightRead(number=number, is_allowed=is_allowed):
                self._broker_rights.answer(number, is_allowed)
            case MetadataRead(number=number, answer=metadata):
                self._metadata.answer(number, metadata)
            case Ping():
                self._link.send(Pong())

    def _set_limits(self, changed: ConnectionLimits) -> None:
        limits = self._setup.limits
        total_max = changed.connections_max or self._connections_max
        if self._possible_max is not None:
            total_max = min(total_max, self._possible_max)
        per_address_max = changed.connections_per_address_max
        if per_address_max is None:
            per_address_max = limits.connections_per_address_max
        of_addresses = changed.connections_of_address_max
        if of_addresses is None:
            of_addresses = limits.connections_of_address_max
        self._admission.set_limits(total_max, per_address_max, of_addresses)
        if changed.creation_rate != self._creation_rate:
            self._creation_rate = changed.creation_rate
            self._rates.set(changed.creation_rate or limits.creation_rate)

    def _warn(self, text: str) -> None:
        self._link.send(OperatorWarning(text))

    async def _serve_connection(
        self,
        listener: Endpoint,
        identification: Identification,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        number = next(self._numbers)
        address = _address(writer)
        counts = self._counts[listener.listener]
        if not self._address_quotas.admit(address, asyncio.get_running_loop().time()):
            counts.close("address rate")
            self._warnings.add(address, "too many new connections (connection_creation_rate)")
            writer.transport.abort()
            return
        evicted = self._admission.admit(number, address, listener.listener)
        if evicted == number:
            counts.close("refused")
            self._warnings.add(address, "no connection is allowed (max.connections.per.ip)")
            writer.transport.abort()
            return
        if evicted is not None:
            replaced = self._connections[evicted]
            text = f"too many connections, and {address} needs one"
            self._warnings.add(replaced.address, text)
            self._counts[replaced.listener].close("replaced")
            replaced.scope.cancel()
        scope = anyio.CancelScope()
        self._connections[number] = _Connection(listener.listener, address, scope)
        counts.open += 1
        write_through(writer)
        try:
            with scope:
                session = await self._identify_client(
                    identification, reader, writer, address, counts
                )
                await ClientConnection(
                    number, listener, session, reader, writer, self._context
                ).serve()
        except IdleTooLong:
            counts.close("idle")
        except SessionEnded:
            counts.close("session expired")
        except (RequestRejected, LoginRejected, NoUpstream, MalformedRequest) as fault:
            counts.close(_reason(fault))
            self._warnings.add(address, str(fault))
        except NotForwarded as why:
            counts.close("not passed on")
            self._not_forwarded.add(address, str(why))
        except (asyncio.IncompleteReadError, OSError, NoBrokersKnown):
            pass  # The client or its broker disconnected, or the client must use another address.
        except Exception:
            logger.exception("the connection of %s is closed because of a bug in refold", address)
        finally:
            self._admission.connection_closed(number)
            counts.open -= 1
            del self._connections[number]
            writer.transport.abort()

    async def _identify_client(
        self,
        identification: Identification,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        address: str,
        counts: ListenerCounts,
    ) -> ClientSession:
        """The principal of a client that identifies itself in time. Raises `HandshakeTimedOut`, and
        as `identify` does."""
        seconds_max = self._context.limits.first_request_ms / 1000
        try:
            async with asyncio.timeout(seconds_max):
                session = await identification.identify(reader, writer, address)
        except TimeoutError:
            counts.failed_logins += 1
            raise HandshakeTimedOut(
                "the TLS handshake and the login were not completed in time"
            ) from None
        except (LoginRejected, MalformedRequest):
            counts.failed_logins += 1
            raise
        if identification.authenticates:
            counts.logins += 1
        return session


def _reason(fault: Exception) -> ClosingReason:
    if isinstance(fault, HandshakeTimedOut):
        return "handshake timeout"
    return "authentication" if isinstance(fault, LoginRejected) else "request"


def _address(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return canonical_address(str(peer[0])) if peer else "a disconnected client"
