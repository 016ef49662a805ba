"""The script's ZooKeeper session, for reading the cluster's state and for manual changes."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar

from aiozk import ACL, ZKClient
from aiozk.exc import NoNode

from controller.core import znodes

Answer = TypeVar("Answer")
Znode = dict[str, Any]

_SECONDS_MAX = 15.0
_CLOSE_SECONDS_MAX = 2.0


class ZnodeClient:
    """Reads and writes znodes; paths are without the chroot. An async context manager. `reconnect`
    starts a new session after a restart of ZooKeeper."""

    def __init__(self, connect: str, chroot: str) -> None:
        self._connect = connect
        self._chroot = chroot
        self._connected = asyncio.Event()
        self.sessions: list[str] = []

    async def __aenter__(self) -> Self:
        await self.reconnect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def reconnect(self) -> None:
        """Start a session."""
        self._client = ZKClient(self._connect, session_timeout=20)
        await self._client.start()
        self.sessions.append(hex(self._client.session.session_id))
        self._connected.set()

    async def close(self) -> None:
        """End the session; requests wait for the next one."""
        self._connected.clear()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS_MAX):
                await self._client.close()
        except TimeoutError:
            # ZooKeeper is not running: the client has not closed its connection.
            session = self._client.session
            if session.conn is not None:
                await session.conn.close(_CLOSE_SECONDS_MAX)
            session.heartbeat_handle.cancel()

    async def _ask(self, question: Callable[[ZKClient], Awaitable[Answer]]) -> Answer:
        async with asyncio.timeout(_SECONDS_MAX):
            await self._connected.wait()
            return await question(self._client)

    async def read(self, path: str) -> Any:
        """The JSON of a znode; None if it does not exist or does not contain JSON."""
        try:
            data, _ = await self._ask(lambda client: client.get(self._chroot + path))
            return json.loads(data or b"null")
        except (NoNode, ValueError):
            return None

    async def versioned(self, path: str) -> tuple[Any, int]:
        """The JSON of a znode, and its version. Raises NoNode, ValueError."""
        data, stat = await self._ask(lambda client: client.get(self._chroot + path))
        return json.loads(data or b"null"), stat.version

    async def children(self, path: str) -> list[str]:
        """The names of the children, sorted."""
        try:
            return sorted(await self._ask(lambda client: client.get_children(self._chroot + path)))
        except NoNode:
            return []

    async def create(self, path: str, content: Any = None) -> None:
        """Create a znode with JSON, or without data. Raises NodeExists, NoNode."""
        data = None if content is None else json.dumps(content, separators=(",", ":"))
        await self._ask(lambda client: client.create(self._chroot + path, data))

    async def set(self, path: str, content: Any) -> None:
        """Write JSON, whatever the version is. Raises NoNode."""
        data = json.dumps(content, separators=(",", ":"))
        await self._ask(lambda client: client.set(self._chroot + path, data, -1))

    async def delete(self, path: str) -> None:
        """Delete a znode, whatever its version is. Raises NoNode."""
        await self._ask(lambda client: client.delete(self._chroot + path, force=True))

    async def permit(self, path: str, *, creation: bool) -> None:
        """Let every client create children of a znode and change it, or only read it. Raises
        NoNode."""
        acl = ACL.make("world", "anyone", True, creation, creation, creation, True)
        await self._ask(lambda client: client.set_acl(self._chroot + path, [acl], force=True))

    async def controller(self) -> int | None:
        """The broker id in /controller."""
        znode = await self.read(znodes.CONTROLLER)
        return None if znode is None else int(znode["brokerid"])

    async def registration(self, broker: int) -> tuple[str, int] | None:
        """The session of a registered broker, and its broker epoch."""
        try:
            path = self._chroot + znodes.broker_path(broker)
            _, stat = await self._ask(lambda client: client.get(path))
        except NoNode:
            return None
        return hex(stat.ephemeral_owner), stat.created_zxid

    async def dump(self) -> dict[str, Znode]:
        """All znodes by their full path, including those of ZooKeeper itself."""
        tree: dict[str, Znode] = {}
        paths = ["/"]
        for path in paths:
            try:
                data, stat = await self._client.get(path)
                names = sorted(await self._client.get_children(path))
            except NoNode:
                continue
            tree[path] = _znode(data, stat)
            paths += [f"{path.rstrip('/')}/{name}" for name in names]
        return dict(sorted(tree.items()))


def _znode(data: bytes | None, stat: Any) -> Znode:
    znode: Znode = {"data": None}
    try:
        znode["data"] = None if data is None else data.decode()
    except UnicodeDecodeError:
        znode["data_base64"] = base64.b64encode(data or b"").decode()
    owner = stat.ephemeral_owner
    return znode | {
        "version": stat.version,
        "czxid": stat.created_zxid,
        "mzxid": stat.last_modified_zxid,
        "ephemeralOwner": hex(owner) if owner else 0,
        "pzxid": stat.last_modified_children,
        "cversion": stat.child_version,
        "ctime": stat.created,
        "mtime": stat.modified,
    }
