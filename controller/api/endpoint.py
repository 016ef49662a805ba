"""The daemon's side of the endpoint: receives events from the front process and sends it responses.

Only the front, a separate process, reads the bytes of clients. It passes on complete, size-checked
requests to the controller, decoded to events. `EndpointLimits` bounds the unanswered ones.
"""

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import anyio

from controller.api.cluster_metadata import MetadataSource, no_metadata
from controller.api.connection_counts import ConnectionTotals
from controller.api.heartbeat import Heartbeat
from controller.api.limits import EndpointLimits
from controller.api.listening import BoundListener
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
    MetadataRead,
    OperatorWarning,
    Ping,
    ReadBrokerRight,
    ReadCredential,
    ReadMetadata,
    RequestReceived,
    ResponseDeferred,
    ResponseReady,
    Shutdown,
)
from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.configuration import Authorization
from controller.core.topic_configs import ConfigEntry
from controller.core.values import Broker

logger = logging.getLogger(__name__)

EventSink = Callable[[ApiRequest, str], None]
"""Takes an event and its channel, "api:<connection number>". Must not block."""

CredentialSource = Callable[[str, str], Awaitable[str | None]]
"""Reads the credential of a user for a SCRAM mechanism; None if there is none."""


async def no_credentials(_user: str, _mechanism: str) -> str | None:
    """The source of an endpoint without SCRAM."""
    return None


BrokerRightSource = Callable[[ClientIdentity], bool]
"""Whether a client may send requests of brokers, as far as the controller knows."""


def no_broker_rights(_client: ClientIdentity) -> bool:
    """The source of an endpoint without a controller."""
    return False


_RETRY_SECONDS: Final = 1.0
_FRONT_VARIABLES: Final = (
    *("HOME", "LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV"),
    *("OPENSSL_CONF", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)
_FRONT_PREFIXES: Final = ("PYTHON", "LC_", "COVERAGE_")
_UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
_ENDING_SECONDS_MAX: Final = 2.0


class ApiEndpoint:
    """Serves the bound listeners while `run` runs. All other methods return at once.

    If the front exits or hangs, it is restarted. The listeners stay open. Clients lose
    their connections and reconnect, as after the restart of a broker.
    """

    def __init__(
        self,
        on_event: EventSink,
        listeners: Sequence[BoundListener],
        *,
        broker_id: int,
        limits: EndpointLimits,
        broker_settings: Mapping[str, str],
        own_configs: Sequence[ConfigEntry] = (),
        authorization: Authorization | None = None,
        credentials: CredentialSource = no_credentials,
        metadata: MetadataSource = no_metadata,
        broker_rights: BrokerRightSource = no_broker_rights,
    ) -> None:
        self._on_event = on_event
        self._listeners = listeners
        self._broker_id = broker_id
        self._limits = limits
        self._broker_settings = dict(broker_settings)
        self._own_configs = tuple(own_configs)
        self._authorization = authorization
        self._credentials = credentials
        self._metadata = metadata
        self._broker_rights = broker_rights
        self.connections = ConnectionTotals(one.endpoint.listener for one in listeners)
        self._brokers: tuple[Broker, ...] = ()
        self._address_rates = AddressRates()
        self._connection_limits = ConnectionLimits()
        self._link: FrontLink | None = None
        self._first_number = 1
        self._is_ending = False
        self._ended = asyncio.Event()

    def set_brokers(self, brokers: Sequence[Broker]) -> None:
        """Set the live brokers, without the daemon itself. Requests that are not for the
        controller are forwarded to them, and their requests to the controller have a separate
        quota."""
        if tuple(brokers) != self._brokers:
            self._brokers = tuple(brokers)
            self._send(LiveBrokerList(self._brokers))

    def set_address_rates(self, rates: AddressRates) -> None:
        """Limit how many connections per second are accepted from single addresses."""
        self._address_rates = rates
        self._send(rates)

    def set_connection_limits(self, limits: ConnectionLimits) -> None:
        """Change the limits of connections that can change while the daemon runs."""
        self._connection_limits = limits
        self._send(limits)

    def answer(self, response: ApiResponse) -> None:
        """Answer a request by its number. Has no effect if the client has disconnected."""
        self._send(ResponseReady(response))

    def answer_later(self, request: int) -> None:
        """The response to a request waits for brokers, so its slot is free for another request."""
        self._send(ResponseDeferred(request))

    def throttle(self, request: int, until_ms: int) -> None:
        """The client of a request, whose response follows, is throttled until that wall clock."""
        self._send(ClientThrottled(request, until_ms))

    async def close(self) -> None:
        """End `run`. Clients have a moment to receive the responses that were sent."""
        self._is_ending = True
        if self._link is not None:
            self._send(Shutdown())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _ENDING_SECONDS_MAX)

    async def run(self) -> None:
        """Work until closed or cancelled, then close the listeners."""
        try:
            while True:
                try:
                    what = await self._run_front()
                except OSError as fault:
                    what = f"cannot be started: {fault}"
                if self._is_ending:
                    return
                logger.error(
                    "the endpoint's front process %s; it is restarted, and brokers and "
                    "clients reconnect",
                    what,
                )
                await anyio.sleep(_RETRY_SECONDS)
        finally:
            self._ended.set()
            for listener in self._listeners:
                listener.socket.close()

    async def _run_front(self) -> str:
        """Run one front process; return why it ended. Raises OSError if it cannot be started."""
        ours, theirs = socket.socketpair()
        try:
            process = await self._spawn(theirs.fileno())
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        link = await FrontLink.open(ours)
        link.send(self._setup())
        link.send(LiveBrokerList(self._brokers))
        link.send(self._address_rates)
        link.send(self._connection_limits)
        self._link = link
        heartbeat = Heartbeat()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_end_if_unresponsive, link, heartbeat)
                while (message := await link.receive()) is not None:
                    if isinstance(message, ReadCredential):
                        tasks.start_soon(self._send_credential, message)
                    elif isinstance(message, ReadMetadata):
                        tasks.start_soon(self._send_metadata, message)
                    self._handle(message, heartbeat)
                tasks.cancel_scope.cancel()
        finally:
            self._link = None
            self.connections.front_ended()
            with anyio.CancelScope(shield=True):
                await link.close()
                if process.returncode is None:
                    process.kill()
                await process.wait()
        if heartbeat.is_unresponsive:
            return f"did not answer for {heartbeat.unresponsive_s_max:g} s and was killed"
        return f"exited with status {process.returncode}"

    async def _spawn(self, link: int) -> asyncio.subprocess.Process:
        descriptors = [link, *(one.socket.fileno() for one in self._listeners)]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "controller.api.front", str(link), str(os.getpid())),
            pass_fds=descriptors,
            stdin=asyncio.subprocess.DEVNULL,
            env=front_environment(os.environ),
            # The front must not receive signals to the daemon's process group, from its start on.
            start_new_session=True,
        )

    def _setup(self) -> FrontSetup:
        listeners = tuple(
            Listener(one.socket.fileno(), one.endpoint, one.security) for one in self._listeners
        )
        return FrontSetup(
            self._broker_id,
            listeners,
            self._limits,
            self._first_number,
            self._broker_settings,
            self._own_configs,
            self._authorization,
        )

    async def _send_credential(self, wanted: ReadCredential) -> None:
        """Read a credential and send it to the front, which waits for it."""
        credential = await self._credentials(wanted.user, wanted.mechanism)
        self._send(CredentialRead(wanted.number, credential))

    async def _send_metadata(self, wanted: ReadMetadata) -> None:
        """Read the metadata for a query and send it to the front, which waits for it."""
        self._send(MetadataRead(wanted.number, await self._metadata(wanted.query)))

    def _handle(self, message: object, heartbeat: Heartbeat) -> None:
        # Every message proves that the front is alive; a `Pong` carries nothing else.
        heartbeat.answered()
        match message:
            case RequestReceived(connection=connection, event=event):
                self._first_number = max(self._first_number, connection + 1, event.request + 1)
                self._on_event(event, f"api:{connection}")
            case ReadBrokerRight(number=number, client=client):
                self._send(BrokerRightRead(number, self._broker_rights(client)))
            case ConnectionsCounted(listeners=listeners):
                self.connections.counted(listeners)
            case OperatorWarning(text=text):
                logger.warning("%s", text)

    def _send(
        self,
        message: ResponseReady
        | ResponseDeferred
        | ClientThrottled
        | Shutdown
        | LiveBrokerList
        | AddressRates
        | ConnectionLimits
        | CredentialRead
        | MetadataRead
        | BrokerRightRead,
    ) -> None:
        """Send to the front, if it runs. A new front receives the current state at its start."""
        if self._link is None:
            return
        self._link.send(message)
        if self._link.unsent_bytes > _UNSENT_BYTES_MAX:
            logger.error(
                "the endpoint's front process does not read its responses; it is restarted"
            )
            self._link.abort()
            self._link = None


def front_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that the front needs: those of Python, of TLS and of the system. The others
    may be passwords: REFOLD_ZOOKEEPER_PASSWORD, or those that `${env:...}` names."""
    return {
        name: value
        for name, value in environment.items()
        if name in _FRONT_VARIABLES or name.startswith(_FRONT_PREFIXES)
    }


async def _end_if_unresponsive(link: FrontLink, heartbeat: Heartbeat) -> None:
    """Disconnect a front that hangs, since brokers would wait for it."""
    await heartbeat.until_unresponsive(lambda: link.send(Ping()))
    link.abort()
