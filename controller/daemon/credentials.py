"""Reads the SCRAM credentials of users whenever a client logs in, so that a change counts at once.

These reads decide nothing in the core and never reach the event log: the log has the principal that
a client has proved to be.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final

import anyio

from controller.core import znodes
from controller.core.commands import CommandId, ReadZnodes
from controller.core.errors import ZnodeError
from controller.core.events import Event, ZnodesRead
from controller.core.operations import OK
from controller.core.outcomes import Znodes

_SECONDS_MAX: Final = 5.0
_READS_MAX: Final = 8
"""Strangers may ask for any user."""
_NO_EVENT: Final = -1
"""No event of a log has this number, so these commands cannot be mistaken for the fold's."""


class CredentialReader:
    """Reads over the daemon's session."""

    def __init__(
        self,
        submit: Callable[[CommandId, ReadZnodes], None],
        on_event: Callable[[Event, str], None],
    ) -> None:
        """`on_event` takes the events that are not replies to these reads."""
        self._submit = submit
        self._on_event = on_event
        self._ordinals = count()
        self._waiting: dict[CommandId, tuple[Znodes, asyncio.Future[None]]] = {}
        self._turns = asyncio.Semaphore(_READS_MAX)

    async def read(self, user: str, mechanism: str) -> str | None:
        """The credential as ZooKeeper has it. None if there is none, or ZooKeeper cannot be
        read."""
        path = znodes.user_config_path(user)
        async with self._turns:
            data = await self._data(path)
        try:
            return znodes.read_config(path, data).get(mechanism)
        except ZnodeError:
            return None

    async def _data(self, path: str) -> bytes | None:
        id = CommandId(_NO_EVENT, next(self._ordinals))
        result = Znodes(1)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[id] = result, done
        self._submit(id, ReadZnodes((path,)))
        with anyio.move_on_after(_SECONDS_MAX):
            await done
            return result.data[0] if result.errors[0] == OK else None
        return None

    def take(self, event: Event, channel: str) -> None:
        """Take an event of the session."""
        if isinstance(event, ZnodesRead) and event.command.cause == _NO_EVENT:
            result, done = self._waiting.pop(event.command)
            result.add(event)
            if not done.done():
                done.set_result(None)
        else:
            self._on_event(event, channel)
