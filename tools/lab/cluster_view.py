"""Reads and writes znodes of a cluster, for observers of the controller and of leaders."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from aiozk import ZKClient
from aiozk.exc import NoNode, ZKError

from controller.core import znodes

_POLL_SECONDS = 0.05
Found = TypeVar("Found")
_log = logging.getLogger(__name__)


class ClusterReader:
    """A reader with a separate ZooKeeper session; an async context manager.

    `connect` may end with a chroot. After ZooKeeper was killed or paused, create a new
    ClusterReader: this client takes long to reconnect.
    """

    def __init__(self, connect: str) -> None:
        servers, slash, chroot = connect.partition("/")
        self._root = slash + chroot
        self._client = ZKClient(servers, session_timeout=20)

    async def __aenter__(self) -> Self:
        await self._client.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def controller(self) -> int | None:
        """The broker id in /controller."""
        znode = await self._read_json(znodes.CONTROLLER)
        return None if znode is None else int(znode["brokerid"])

    async def controller_epoch(self) -> int:
        """The controller epoch."""
        return int(await self._read_json(znodes.CONTROLLER_EPOCH) or 0)

    async def broker_epoch(self, broker: int) -> int:
        """The broker epoch of a registered broker: the czxid of its registration."""
        return await self.czxid(znodes.broker_path(broker))

    async def czxid(self, path: str) -> int:
        """The zxid of the transaction that created a znode; 0 if the znode does not exist."""
        try:
            _, stat = await self._client.get(self._root + path)
        except NoNode:
            return 0
        return int(stat.created_zxid)

    async def owner(self, path: str) -> int:
        """The session that owns a znode; 0 for none."""
        _, stat = await self._client.get(self._root + path)
        return int(stat.ephemeral_owner)

    async def states(self, topic: str) -> dict[int, dict[str, Any]]:
        """The content of the state znode of every partition of a topic that has one."""
        znode = await self._read_json(znodes.topic_path(topic))
        found = {}
        for number in sorted(map(int, znode["partitions"])) if znode else ():
            state = await self._read_json(znodes.state_path(topic, number))
            if state is not None:
                found[number] = state
        return found

    async def topic(self, topic: str) -> dict[str, Any] | None:
        """The content of a topic's znode."""
        found: dict[str, Any] | None = await self._read_json(znodes.topic_path(topic))
        return found

    async def config(self, entity: str) -> dict[str, str]:
        """The dynamic configuration of an entity such as topics/t or brokers/1."""
        znode = await self._read_json(znodes.config_path(entity))
        found: dict[str, str] = znode["config"] if znode else {}
        return found

    async def create_topic(
        self,
        topic: str,
        assignment: Mapping[int, Sequence[int]],
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Write a topic's znodes as a broker does; `assignment` has the replicas of each
        partition."""
        partitions = {str(number): list(replicas) for number, replicas in assignment.items()}
        configs = self._root + znodes.TOPIC_CONFIGS
        await self._client.ensure_path(configs)
        content = json.dumps({"version": 1, "config": dict(config or {})})
        await self._client.create(f"{configs}/{topic}", content)
        content = json.dumps({"version": 1, "partitions": partitions})
        await self._client.create(self._root + znodes.topic_path(topic), content)

    async def configure(self, entity: str, config: Mapping[str, str]) -> None:
        """Replace the dynamic configuration of an entity such as topics/t, and notify the brokers.
        Brokers read it shortly after."""
        path = self._root + znodes.config_path(entity)
        await self._client.ensure_path(path)
        content = json.dumps({"version": 1, "config": dict(config)})
        await self._client.set_data(path, content, force=True)
        change = json.dumps({"version": 2, "entity_path": entity})
        path = self._root + znodes.CONFIG_CHANGE_PREFIX
        await self._client.create(path, change, sequential=True)

    async def overwrite(self, path: str, data: str) -> None:
        """Set the data of a znode."""
        await self._client.set_data(self._root + path, data)

    async def create(self, path: str, data: str = "", *, sequential: bool = False) -> None:
        """Create a znode."""
        await self._client.create(self._root + path, data, sequential=sequential)

    async def exists(self, path: str) -> bool:
        """Whether a znode exists."""
        return bool(await self._client.exists(self._root + path))

    async def children(self, path: str) -> list[str]:
        """The children of a znode; none if it does not exist."""
        try:
            return list(await self._client.get_children(self._root + path))
        except NoNode:
            return []

    async def content(self, path: str) -> Any:
        """The JSON in a znode; None if it does not exist."""
        return await self._read_json(path)

    async def versioned(self, path: str) -> tuple[Any, int]:
        """The JSON in a znode that exists, and the version of the znode."""
        data, stat = await self._client.get(self._root + path)
        return json.loads(data), int(stat.version)

    async def delete(self, path: str) -> None:
        """Delete a znode, whatever its version is."""
        await self._client.delete(self._root + path, force=True)

    async def _read_json(self, path: str) -> Any:
        try:
            return json.loads(await self._client.get_data(self._root + path))
        except NoNode:
            return None


async def until(find: Callable[[], Awaitable[Found]], seconds: float, what: str) -> Found:
    """Poll until `find` returns a true value, and return this value. Raises TimeoutError with
    `what`. If a test's own time limit ends the wait first, its captured log names `what`."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    if found := await find():
                        return found
                except ZKError:
                    pass
                await asyncio.sleep(_POLL_SECONDS)
    except asyncio.CancelledError:
        _log.warning("interrupted while waiting: %s", what)
        raise
    except TimeoutError:
        raise TimeoutError(f"{what}: not within {seconds:.0f} s") from None
