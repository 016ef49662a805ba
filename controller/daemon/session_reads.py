"""Reads over the daemon's session that decide nothing in the core and never reach the event log."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final

import anyio

from controller.core import znodes
from controller.core.commands import CommandId, ReadChildren, ReadZnodes
from controller.core.errors import ZnodeError
from controller.core.events import ChildrenRead, Event, ZnodesRead
from controller.core.operations import NO_NODE, OK
from controller.daemon.errors import ZnodeUnreadable

_SECONDS_MAX: Final = 5.0
_READS_MAX: Final = 8
"""At once: strangers may ask for any user."""
_NO_EVENT: Final = -1
"""No event of a log has this number, so these commands cannot be mistaken for the fold's."""

_Outcome = ZnodesRead | ChildrenRead


class SessionReads:
    """Takes the events of the session, and passes on those that are not replies to these reads."""

    def __init__(
        self,
        submit: Callable[[CommandId, ReadZnodes | ReadChildren], None],
        on_event: Callable[[Event, str], None],
    ) -> None:
        self._submit = submit
        self._on_event = on_event
        self._ordinals = count()
        self._waiting: dict[CommandId, asyncio.Future[_Outcome]] = {}
        self._turns = asyncio.Semaphore(_READS_MAX)

    async def data(self, path: str) -> bytes | None:
        """The content of a znode; None if it does not exist. Raises ZnodeUnreadable."""
        found = await self._outcome_of(ReadZnodes((path,)))
        if isinstance(found, ZnodesRead) and found.errors[0] in (OK, NO_NODE):
            return found.data[0]
        raise ZnodeUnreadable(path)

    async def children(self, path: str) -> list[str]:
        """The children of a znode; none if it does not exist. Raises ZnodeUnreadable."""
        found = await self._outcome_of(ReadChildren(path))
        if isinstance(found, ChildrenRead) and found.error in (OK, NO_NODE):
            return found.children
        raise ZnodeUnreadable(path)

    async def scram_credential(self, user: str, mechanism: str) -> str | None:
        """The credential of a user, read at each login, so that a change counts at once. None if
        there is none, or ZooKeeper cannot be read."""
        path = znodes.user_config_path(user)
        try:
            return znodes.read_config(path, await self.data(path)).get(mechanism)
        except (ZnodeError, ZnodeUnreadable):
            return None

    async def _outcome_of(self, command: ReadZnodes | ReadChildren) -> _Outcome | None:
        """None if there is no reply in time."""
        id = CommandId(_NO_EVENT, next(self._ordinals))
        answered: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        async with self._turns:
            self._waiting[id] = answered
            self._submit(id, command)
            with anyio.move_on_after(_SECONDS_MAX):
                return await answered
        return None

    def receive(self, event: Event, channel: str) -> None:
        """Take an event of the session."""
        if not isinstance(event, ZnodesRead | ChildrenRead) or event.command.cause != _NO_EVENT:
            self._on_event(event, channel)
            return
        answered = self._waiting.pop(event.command)
        if not answered.done():
            answered.set_result(event)
