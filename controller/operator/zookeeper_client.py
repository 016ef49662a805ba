"""Reading and writing znodes for operator commands, over a separate ZooKeeper session."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Self

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from controller.core.commands import (
    CommandId,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    WriteAtomically,
    ZooKeeperCommand,
)
from controller.core.events import (
    ChildrenRead,
    Event,
    SessionConnected,
    SessionDisconnected,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.operations import (
    CONNECTION_LOSS,
    NO_AUTH,
    NO_NODE,
    OK,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    WriteOperation,
)
from controller.core.outcomes import Children, Writes, ZnodeColumns
from controller.operator.errors import ZooKeeperUnavailable
from controller.zookeeper.connection import PLAIN, ZooKeeperConnection, ZooKeeperSecurity
from controller.zookeeper.servers import ConnectString
from controller.zookeeper.session import SessionSettings

_LOST = {CONNECTION_LOSS, SESSION_EXPIRED}
_SLOW_SECONDS = 1.0
"""The time for a session before its absence is reported."""
_CLOSE_SECONDS_MAX = 5.0
"""ZooKeeper may hang; then it ends the session after its timeout."""

_Result = ZnodeColumns | Children | Writes


class ExistingZnode(Struct, frozen=True):
    """An existing znode. `owner` is the session of an ephemeral one, otherwise 0."""

    data: bytes
    version: int
    czxid: int
    mzxid: int
    owner: int


class FailedOperation(NamedTuple):
    """Why a transaction was not carried out: ZooKeeper's code of the operation that failed."""

    code: int
    operation: WriteOperation


class ZooKeeperClient:
    """A session while its block runs. All methods raise ZooKeeperUnavailable; a write may have
    happened even if it raises."""

    def __init__(
        self,
        connect: ConnectString,
        timeout_ms: int,
        security: ZooKeeperSecurity = PLAIN,
        on_slow: Callable[[str], None] | None = None,
    ) -> None:
        """Each step may take `timeout_ms`. `on_slow` is called with the reason if there is no
        session after a second."""
        self._timeout_s = timeout_ms / 1000
        settings = SessionSettings(
            # The session expires soon after the block ends; a server may raise this to its minimum.
            timeout_ms=timeout_ms,
            connect_timeout_ms=max(timeout_ms // len(connect.servers), 1),
            chroot=connect.chroot,
        )
        self._connection = ZooKeeperConnection(
            connect, self._on_event, settings=settings, security=security
        )
        self._connected = anyio.Event()
        self._changed = anyio.Event()
        self._waiting: dict[CommandId, tuple[_Result, anyio.Event]] = {}
        self._asked = 0
        self._on_slow = on_slow
        self._tasks: TaskGroup

    @property
    def _fault(self) -> str:
        """Why there is no session."""
        return self._connection.fault or "no reply"

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self._connection.run())
        with anyio.move_on_after(self._timeout_s):
            with anyio.move_on_after(_SLOW_SECONDS):
                await self._connected.wait()
            if not self._connected.is_set() and self._on_slow is not None:
                self._on_slow(self._fault)
            await self._connected.wait()
        if not self._connected.is_set():
            await self._end()
            raise ZooKeeperUnavailable(f"no session within {self._timeout_s:g} s: {self._fault}")
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.move_on_after(min(self._timeout_s, _CLOSE_SECONDS_MAX), shield=True):
            await self._connection.close()
        await self._end()

    async def znodes(self, paths: tuple[str, ...], *, may_be_denied: bool = False) -> ZnodeColumns:
        """Data and stat of these znodes, in order. `may_be_denied`: the error of a denied one is
        NO_AUTH."""
        result = ZnodeColumns(len(paths))
        await self.carry_out(ReadZnodes(paths), result)
        self._require_success(result.errors)
        if NO_AUTH in result.errors and not may_be_denied:
            raise _no_auth_error(paths[result.errors.index(NO_AUTH)])
        return result

    async def exists(self, path: str) -> bool:
        """Whether the znode exists."""
        result = ZnodeColumns(1)
        await self.carry_out(ReadStats((path,)), result)
        self._require_success(result.errors)
        _require_readable(path, result.errors[0])
        return result.errors[0] == OK

    @property
    def changed(self) -> anyio.Event:
        """Is set when a watch fires, and when the connection is lost or established."""
        return self._changed

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """The names of a znode's children, sorted; empty if it does not exist."""
        result = Children()
        await self.carry_out(ReadChildren(path, watch), result)
        self._require_success([result.error])
        if result.error == NO_AUTH:
            raise _no_auth_error(path)
        return result.children

    async def read(self, paths: tuple[str, ...]) -> list[ExistingZnode | None]:
        """These znodes in order; None for one that does not exist."""
        found = await self.znodes(paths)
        read: list[ExistingZnode | None] = []
        for place, error in enumerate(found.errors):
            _require_readable(paths[place], error)
            if error == NO_NODE:
                read.append(None)
                continue
            data = found.data[place] or b""
            versions = found.versions[place], found.czxids[place], found.mzxids[place]
            read.append(ExistingZnode(data, *versions, found.owners[place]))
        return read

    async def write(self, operations: tuple[WriteOperation, ...]) -> int:
        """Carry out all operations or none. Return ZooKeeper's code of the failed operation, or
        OK."""
        refused = await self.attempt(operations)
        return OK if refused is None else refused.code

    async def attempt(self, operations: tuple[WriteOperation, ...]) -> FailedOperation | None:
        """Carry out all operations or none. Return the operation that failed, None if they were
        carried out."""
        result = Writes(len(operations))
        await self.carry_out(WriteAtomically(operations), result)
        self._require_success(result.errors)
        for error, operation in zip(result.errors, operations, strict=True):
            if error not in (OK, RUNTIME_INCONSISTENCY):
                return FailedOperation(error, operation)
        return None

    async def carry_out(self, command: ZooKeeperCommand, result: _Result) -> None:
        """Send a command, and wait until `result` has its outcome. All other methods call this
        one. Raises ZooKeeperUnavailable if there is no reply in time."""
        self._asked += 1
        command_id = CommandId(self._asked, 0)
        done = anyio.Event()
        self._waiting[command_id] = result, done
        self._connection.submit(command_id, command)
        with anyio.move_on_after(self._timeout_s):
            await done.wait()
        if not done.is_set():
            raise ZooKeeperUnavailable(f"no reply within {self._timeout_s:g} s")

    def _require_success(self, errors: list[int]) -> None:
        if _LOST.intersection(errors):
            raise ZooKeeperUnavailable(f"the connection was lost: {self._connection.fault}")

    def _on_event(self, event: Event, channel: str) -> None:
        match event:
            case SessionConnected() | SessionDisconnected() | WatchFired():
                if isinstance(event, SessionConnected):
                    self._connected.set()
                self._changed.set()
                self._changed = anyio.Event()
            case (
                ZnodesRead(command=command)
                | ChildrenRead(command=command)
                | ZnodesWritten(command=command)
            ):
                result, done = self._waiting[command]
                # The result was created for this command, so it accepts the event.
                if result.add(event):  # type: ignore[arg-type]
                    del self._waiting[command]
                    done.set()
            case _:
                pass

    async def _end(self) -> None:
        self._running.cancel()
        await asyncio.wait([self._running])


def _require_readable(path: str, error: int) -> None:
    if error == NO_AUTH:
        raise _no_auth_error(path)
    if error not in (OK, NO_NODE):
        raise ZooKeeperUnavailable(f"{path} cannot be read (ZooKeeper code {error})")


def _no_auth_error(path: str) -> ZooKeeperUnavailable:
    return ZooKeeperUnavailable(
        f"{path} cannot be read (NoAuth): its ACL does not include refold's login"
    )
