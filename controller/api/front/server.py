"""The front: takes connections, lets clients in, and ends with the link to the daemon."""

import asyncio
import logging
import socket
from itertools import count
from typing import Final

import anyio
from anyio.abc import TaskGroup

from controller.api.errors import NoUpstream, Refused, StandsBy
from controller.api.front.admission import Admission
from controller.api.front.connection import ClientConnection, Shared
from controller.api.front.lanes import Lanes
from controller.api.front.live_brokers import LiveBrokers
from controller.api.front.pending_requests import PendingRequests
from controller.api.front.rate_limited_warning import RateLimitedWarning
from controller.api.front.streams import READ_AHEAD_BYTES, write_through
from controller.api.listening import BACKLOG
from controller.api.messages import (
    Answered,
    Ending,
    Later,
    Link,
    Listener,
    Message,
    Ping,
    Pong,
    Setup,
    Told,
)
from controller.api.messages import LiveBrokers as LiveBrokersTold
from controller.core.values import Endpoint
from controller.wire.client_requests import MalformedRequest

logger = logging.getLogger(__name__)

_LAST_ANSWERS_SECONDS_MAX: Final = 1.0


class Front:
    """Serves the listeners of one `Setup` until the link ends."""

    def __init__(self, setup: Setup, link: Link, connections_max: int) -> None:
        limits = setup.limits
        self._setup = setup
        self._link = link
        self._numbers = count(setup.first_number)
        self._admission = Admission(connections_max, limits.connections_per_address_max)
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._complaints = RateLimitedWarning(self._tell, asyncio.get_running_loop().time)
        self._brokers = LiveBrokers([one.endpoint for one in setup.listeners], self._tell)
        self._desk = PendingRequests(link.send, first_number=setup.first_number)
        self._shared = Shared(
            setup.broker_id,
            limits,
            self._admission,
            Lanes(limits),
            self._desk,
            self._brokers,
            setup.broker_settings,
            setup.own_configs,
        )

    async def run(self) -> None:
        """Serve until the daemon is gone."""
        async with anyio.create_task_group() as connections:
            servers = [await self._listen(one, connections) for one in self._setup.listeners]
            message = await self._link.receive()
            while message is not None and not isinstance(message, Ending):
                self._heard(message)
                message = await self._link.receive()
            for server in servers:
                server.close()
            if message is not None:
                with anyio.move_on_after(_LAST_ANSWERS_SECONDS_MAX):
                    await self._desk.all_delivered()
            connections.cancel_scope.cancel()

    async def _listen(self, listener: Listener, connections: TaskGroup) -> asyncio.Server:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.start_soon(self._connected, listener.endpoint, reader, writer)

        return await asyncio.start_server(
            connected,
            sock=socket.socket(fileno=listener.descriptor),
            limit=READ_AHEAD_BYTES,
            backlog=BACKLOG,
        )

    def _heard(self, message: Message) -> None:
        match message:
            case Answered(answer=answer):
                self._desk.answered(answer)
            case Later(request=request):
                self._desk.later(request)
            case LiveBrokersTold(brokers=brokers):
                self._brokers.set(brokers)
            case Ping():
                self._link.send(Pong())

    def _tell(self, text: str) -> None:
        self._link.send(Told(text))

    async def _connected(
        self, came_in: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        number = next(self._numbers)
        address = _address(writer)
        gone = self._admission.admit(number, address)
        if gone is not None:
            self._complaints.add(_address(self._writers[gone]), f"it made room for {address}")
            self._writers[gone].transport.abort()
        self._writers[number] = writer
        write_through(writer)
        try:
            await ClientConnection(number, came_in, reader, writer, self._shared).serve()
        except (Refused, NoUpstream, MalformedRequest) as fault:
            self._complaints.add(address, str(fault))
        except (asyncio.IncompleteReadError, OSError, StandsBy):
            pass  # It went, or its broker did, or it has to go elsewhere.
        except Exception:
            logger.exception("the connection of %s is closed by a fault in refold", address)
        finally:
            self._admission.gone(number)
            del self._writers[number]
            writer.transport.abort()


def _address(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if peer else "a client that has gone"
