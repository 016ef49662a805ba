"""Fetch requests of a follower to leaders, over one connection per leader."""

import asyncio
from collections.abc import Callable
from typing import Final

from controller.core.commands import CommandId
from controller.core.error_codes import REQUEST_TIMED_OUT
from controller.kafka_0_8.commands import SendFetch, run_of
from controller.kafka_0_8.events import FetchResponded
from controller.kafka_0_8_broker.connection import Connection
from controller.kafka_0_8_broker.errors import Unreachable
from controller.kafka_0_8_broker.messages import FetchRequest, FetchResponse

REQUEST_SECONDS_MAX: Final = 2.0

OnResponse = Callable[[FetchResponded, str, list[bytes]], None]
"""Called with the outcome of a fetch, its channel, and the records."""


class Fetching:
    """The connections of a broker to leaders, by address."""

    def __init__(self, broker_id: int, on_response: OnResponse) -> None:
        self._broker_id = broker_id
        self._on_response = on_response
        self._connections: dict[str, Connection] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        # The event loop itself keeps only weak references to tasks.
        self._tasks: dict[asyncio.Task[None], None] = {}

    def send(self, id: CommandId, command: SendFetch) -> None:
        """Send a fetch request. If there is no response, REQUEST_TIMED_OUT is reported."""
        task = asyncio.create_task(self._fetch(id, command))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def close(self) -> None:
        """Close all connections; no response is reported any more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for connection in self._connections.values():
            await connection.close()

    async def _fetch(self, id: CommandId, command: SendFetch) -> None:
        outcome, records = FetchResponded(id, REQUEST_TIMED_OUT, 0, 0, 0), list[bytes]()
        try:
            connection = await self._connection(command.address)
            request = FetchRequest(
                connection.next_correlation(),
                self._broker_id,
                command.topic,
                command.partition,
                command.offset,
                command.epoch,
                command.replicas_version,
                run_of(command),
            )
            response = await connection.ask(request, REQUEST_SECONDS_MAX)
            if isinstance(response, FetchResponse):
                records = response.records
                found = response.error, len(records), response.hw, response.leo
                outcome = FetchResponded(id, *found)
        except Unreachable:
            pass  # The outcome says so, and the broker tries again.
        self._on_response(outcome, f"leader:{command.leader}", records)

    async def _connection(self, address: str) -> Connection:
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is not None and not connection.is_open:
                del self._connections[address]
                await connection.close()
                connection = None
            if connection is None:
                connection = await Connection.open(address, REQUEST_SECONDS_MAX)
                self._connections[address] = connection
            return connection
