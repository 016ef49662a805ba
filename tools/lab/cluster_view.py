"""What stands in ZooKeeper, for those who look on: who is controller, who leads."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiozk import ZKClient
from aiozk.exc import NoNode, ZKError

_POLL_SECONDS = 0.05


class ClusterView:
    """A reader with a ZooKeeper session of its own; an async context manager."""

    def __init__(self, connect: str) -> None:
        self._client = ZKClient(connect, session_timeout=20)

    async def __aenter__(self) -> Self:
        await self._client.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def controller(self) -> int | None:
        """The broker id in /controller."""
        znode = await self._read("/controller")
        return None if znode is None else int(znode["brokerid"])

    async def controller_epoch(self) -> int:
        """The controller epoch."""
        return int(await self._read("/controller_epoch") or 0)

    async def states(self, topic: str) -> dict[int, dict[str, Any]]:
        """The state znode of every partition of a topic that has one."""
        znode = await self._read(f"/brokers/topics/{topic}")
        found = {}
        for number in sorted(map(int, znode["partitions"])) if znode else ():
            state = await self._read(f"/brokers/topics/{topic}/partitions/{number}/state")
            if state is not None:
                found[number] = state
        return found

    async def _read(self, path: str) -> Any:
        try:
            return json.loads(await self._client.get_data(path))
        except NoNode:
            return None


async def until(reached: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    """Ask until it is so. Raises TimeoutError that names `what`."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    if await reached():
                        return
                except ZKError:
                    pass
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise TimeoutError(f"{what}: not within {seconds:.0f} s") from None
