"""A connection with awaitable events."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

from controller.core.commands import CommandId, ZooKeeperCommand
from controller.core.events import ChildrenRead, Event, SessionConnected, ZnodesRead, ZnodesWritten
from controller.zookeeper.connection import ZooKeeperConnection
from controller.zookeeper.servers import parse_connect_string

E = TypeVar("E")
OUTCOMES = ZnodesRead | ZnodesWritten | ChildrenRead


class Client:
    """Records every event with its channel, and awaits events of a kind."""

    def __init__(self, connect: str, timeout_ms: int) -> None:
        where = parse_connect_string(connect)
        self.connection = ZooKeeperConnection(where, self._on_event, session_timeout_ms=timeout_ms)
        self.events: list[Event] = []
        self.channels: list[str] = []
        self._arrived = anyio.Event()
        self._commands = 0

    def _on_event(self, event: Event, channel: str) -> None:
        self.events.append(event)
        self.channels.append(channel)
        self._arrived.set()

    def submit(self, command: ZooKeeperCommand) -> CommandId:
        """Submit a command and return its id."""
        self._commands += 1
        command_id = CommandId(7, self._commands)
        self.connection.submit(command_id, command)
        return command_id

    async def until(self, found: Callable[[], E | None], seconds: float = 20) -> E:
        """Wait until `found` returns a result for the events so far."""
        with anyio.fail_after(seconds):
            while (one := found()) is None:
                self._arrived = anyio.Event()
                await self._arrived.wait()
        return one

    async def nth(self, kind: type[E], number: int = 1, seconds: float = 20) -> E:
        """The nth event of the kind, counted from 1."""

        def found() -> E | None:
            all_of_kind = [one for one in self.events if isinstance(one, kind)]
            return all_of_kind[number - 1] if len(all_of_kind) >= number else None

        return await self.until(found, seconds)

    async def outcome(self, command_id: CommandId, count: int = 1) -> list[Event]:
        """All outcome events of a command with `count` items."""

        def found() -> list[Event] | None:
            mine = [
                one
                for one in self.events
                if isinstance(one, OUTCOMES) and one.command == command_id
            ]
            items = sum(1 if isinstance(one, ChildrenRead) else len(one.errors) for one in mine)
            return mine if items >= count else None

        return await self.until(found)

    async def errors(self, command: ZooKeeperCommand, count: int) -> list[int]:
        """Carry out a command with `count` items and return their errors."""
        found = await self.outcome(self.submit(command), count)
        return [error for one in found for error in one.errors]  # type: ignore[union-attr]


@asynccontextmanager
async def client_of(connect: str, timeout_ms: int = 4000) -> AsyncIterator[Client]:
    """A client with a session, which is closed at the end."""
    client = Client(connect, timeout_ms)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.connection.run)
        try:
            await client.nth(SessionConnected)
            yield client
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(10):
                await client.connection.close()
            tasks.cancel_scope.cancel()
