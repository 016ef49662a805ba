"""The front: takes connections, lets clients in, and ends with the link to the daemon."""

import asyncio
import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Final

from controller.api.errors import NoUpstream, Refused
from controller.api.front.admission import Admission
from controller.api.front.budget import Budget
from controller.api.front.complaints import Complaints
from controller.api.front.connection import ClientConnection, Shared
from controller.api.front.desk import Desk
from controller.api.front.live_brokers import LiveBrokers
from controller.api.front.streams import READ_AHEAD_BYTES, write_through
from controller.api.messages import Answered, Link, Setup, Told
from controller.api.messages import LiveBrokers as LiveBrokersTold
from controller.core.values import Endpoint
from controller.wire.client_requests import MalformedRequest

logger = logging.getLogger(__name__)

_BACKLOG: Final = 512


class Front:
    """Serves the listeners of one `Setup` until the link ends."""

    def __init__(self, setup: Setup, link: Link, connections_max: int) -> None:
        limits = setup.limits
        self._setup = setup
        self._link = link
        self._numbers = count(setup.first_number)
        self._admission = Admission(connections_max, limits.connections_per_address_max)
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._complaints = Complaints(self._tell, asyncio.get_running_loop().time)
        self._brokers = LiveBrokers([one.endpoint for one in setup.listeners], self._tell)
        self._desk = Desk(
            link.send,
            first_number=setup.first_number,
            waiting_max=limits.waiting_requests_max,
        )
        self._shared = Shared(
            setup.broker_id,
            limits,
            self._admission,
            Budget(limits.whole_bytes_max),
            self._desk,
            self._brokers,
            ThreadPoolExecutor(1, thread_name_prefix="coder"),
        )

    async def run(self) -> None:
        """Serve until the daemon is gone."""
        for listener in self._setup.listeners:
            await asyncio.start_server(
                partial(self._connected, listener.endpoint),
                sock=socket.socket(fileno=listener.descriptor),
                limit=READ_AHEAD_BYTES,
                backlog=_BACKLOG,
            )
        while (message := await self._link.receive()) is not None:
            match message:
                case Answered(answer=answer):
                    self._desk.answered(answer)
                case LiveBrokersTold(brokers=brokers):
                    own = self._setup.broker_id
                    self._brokers.set([one for one in brokers if one.id != own])

    def _tell(self, text: str) -> None:
        self._link.send(Told(text))

    async def _connected(
        self, came_in: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        number = next(self._numbers)
        peer = writer.get_extra_info("peername")
        address = str(peer[0]) if peer else "a client that has gone"
        gone = self._admission.admit(number, address)
        if gone is not None:
            self._writers[gone].transport.abort()
            self._complaints.add(address, "there were too many; the longest silent one went")
        self._writers[number] = writer
        write_through(writer)
        try:
            await ClientConnection(number, came_in, reader, writer, self._shared).serve()
        except (Refused, NoUpstream, MalformedRequest) as fault:
            self._complaints.add(address, str(fault))
        except TimeoutError:
            self._complaints.add(address, "an answer did not come from a broker, or was not taken")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # It went, or its broker did.
        except Exception:
            logger.exception("the connection of %s is closed by a fault in refold", address)
        finally:
            self._admission.gone(number)
            del self._writers[number]
            writer.transport.abort()
