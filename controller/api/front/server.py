"""The front: accepts connections, and exits when the link to the daemon ends."""

import asyncio
import logging
import socket
from collections.abc import Callable
from itertools import count
from typing import Final

import anyio
from anyio.abc import TaskGroup

from controller.api.errors import NoBrokersKnown, NotPassedOn, NoUpstream, RequestRejected
from controller.api.front.admission import Admission
from controller.api.front.connection import ClientConnection, FrontContext
from controller.api.front.identification import Credentials, Identification
from controller.api.front.live_brokers import LiveBrokers
from controller.api.front.pending_requests import PendingRequests
from controller.api.front.request_quotas import RequestQuotas
from controller.api.front.streams import READ_AHEAD_BYTES, within, write_through
from controller.api.listening import BACKLOG
from controller.api.messages import (
    ClientThrottled,
    CredentialRead,
    Link,
    Listener,
    Message,
    OperatorWarning,
    Ping,
    Pong,
    ResponseDeferred,
    ResponseReady,
    Setup,
    Shutdown,
)
from controller.api.messages import LiveBrokers as LiveBrokersMessage
from controller.core.values import Endpoint
from controller.security.errors import LoginRejected
from controller.wire.client_requests import MalformedRequest

logger = logging.getLogger(__name__)

WARNING_INTERVAL_S: Final = 10.0
_LAST_ANSWERS_SECONDS_MAX: Final = 1.0


class RateLimitedWarning:
    """Reports the first warning at once, and then at most one every ten seconds, with the number of
    suppressed ones.

    `warn` reports a text; `clock` returns seconds.
    """

    def __init__(self, warn: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._warn = warn
        self._clock = clock
        self._warned_at: float | None = None
        self._suppressed = 0

    def add(self, address: str, problem: str) -> None:
        """A client's connection was closed because of a problem."""
        now = self._clock()
        if self._warned_at is not None and now - self._warned_at < WARNING_INTERVAL_S:
            self._suppressed += 1
            return
        others = f"; {self._suppressed} others were closed since the last message" * bool(
            self._suppressed
        )
        self._warn(f"closed the connection of {address}: {problem}{others}")
        self._warned_at, self._suppressed = now, 0


class Front:
    """Serves the listeners of one `Setup` until the link ends."""

    def __init__(self, setup: Setup, link: Link, connections_max: int) -> None:
        limits = setup.limits
        self._setup = setup
        self._link = link
        self._numbers = count(setup.first_number)
        self._admission = Admission(connections_max, limits.connections_per_address_max)
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._warnings = RateLimitedWarning(self._warn, asyncio.get_running_loop().time)
        self._brokers = LiveBrokers([one.endpoint for one in setup.listeners], self._warn)
        self._credentials = Credentials(link.send)
        self._pending = PendingRequests(link.send, first_number=setup.first_number)
        self._context = FrontContext(
            setup.broker_id,
            limits,
            self._admission,
            RequestQuotas(limits),
            self._pending,
            self._brokers,
            setup.broker_settings,
            setup.own_configs,
            setup.authorization,
        )
        self._identification = [
            Identification(one.security, setup.authorization, self._credentials.read, self._warn)
            for one in setup.listeners
        ]

    async def run(self) -> None:
        """Serve until the daemon exits or shuts the front down."""
        async with anyio.create_task_group() as connections:
            listeners = zip(self._setup.listeners, self._identification, strict=True)
            servers = [await self._listen(*one, connections) for one in listeners]
            message = await self._link.receive()
            while message is not None and not isinstance(message, Shutdown):
                self._handle_message(message)
                message = await self._link.receive()
            for server in servers:
                server.close()
            if message is not None:
                with anyio.move_on_after(_LAST_ANSWERS_SECONDS_MAX):
                    await self._pending.wait_until_delivered()
            connections.cancel_scope.cancel()

    async def _listen(
        self, listener: Listener, identification: Identification, connections: TaskGroup
    ) -> asyncio.Server:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if identification.has_tls:
                # No byte may arrive before the TLS handshake begins.
                transport = writer.transport
                assert isinstance(transport, asyncio.Transport)
                transport.pause_reading()
            connections.start_soon(
                self._connected, listener.endpoint, identification, reader, writer
            )

        return await asyncio.start_server(
            connected,
            sock=socket.socket(fileno=listener.descriptor),
            limit=READ_AHEAD_BYTES,
            backlog=BACKLOG,
        )

    def _handle_message(self, message: Message) -> None:
        match message:
            case ResponseReady(answer=answer):
                self._pending.answered(answer)
            case ResponseDeferred(request=request):
                self._pending.later(request)
            case ClientThrottled(request=request, until_ms=until_ms):
                self._pending.throttled(request, until_ms)
            case LiveBrokersMessage(brokers=brokers):
                self._brokers.set(brokers)
            case CredentialRead(number=number, credential=credential):
                self._credentials.arrived(number, credential)
            case Ping():
                self._link.send(Pong())

    def _warn(self, text: str) -> None:
        self._link.send(OperatorWarning(text))

    async def _connected(
        self,
        listener: Endpoint,
        identification: Identification,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        number = next(self._numbers)
        address = _address(writer)
        evicted = self._admission.admit(number, address)
        if evicted is not None:
            self._warnings.add(
                _address(self._writers[evicted]),
                f"too many connections, and {address} needs one",
            )
            self._writers[evicted].transport.abort()
        self._writers[number] = writer
        write_through(writer)
        try:
            seconds_max = self._context.limits.first_request_ms / 1000
            async with within(seconds_max, "the TLS handshake and the login were not completed"):
                client = await identification.identify(reader, writer, address)
            connection = ClientConnection(number, listener, client, reader, writer, self._context)
            await connection.serve()
        except (RequestRejected, LoginRejected, NoUpstream, MalformedRequest) as fault:
            self._warnings.add(address, str(fault))
        except (asyncio.IncompleteReadError, OSError, NoBrokersKnown, NotPassedOn):
            pass  # The client or its broker disconnected, or the client must use another address.
        except Exception:
            logger.exception("the connection of %s is closed because of a bug in refold", address)
        finally:
            self._admission.connection_closed(number)
            del self._writers[number]
            writer.transport.abort()


def _address(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if peer else "a disconnected client"
