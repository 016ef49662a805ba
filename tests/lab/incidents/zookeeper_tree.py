"""The whole tree of a ZooKeeper, and the differences between the trees of two runs."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from aiozk import ZKClient
from aiozk.exc import NoNode

TOPIC_ID_LENGTH = 22
_NOT_KAFKAS = ("/zookeeper",)
_SALT = re.compile(r"salt=[^,]+")
_DERIVED_FROM_SALT = re.compile(r"(stored_key|server_key)=([^,]+)")
_OF_THE_RUN = ("timestamp", "port", "endpoints")
"""Fields of /controller and of brokers' registrations that differ between runs."""


class Znode(NamedTuple):
    """The content of a znode, JSON if possible, otherwise text."""

    content: Any
    version: int
    is_ephemeral: bool


Tree = dict[str, Znode]
Field = tuple[str, str]
"""A znode's path and the field: "version", "data.leader"."""


class Difference(NamedTuple):
    """A field that differs between two trees; None if a tree lacks the field."""

    field: Field
    stock: Any
    refold: Any

    def __str__(self) -> str:
        path, name = self.field
        return f"{path} {name}: stock {self.stock!r}, refold {self.refold!r}"


class ZooKeeperTree:
    """Reads the whole tree and writes requests, in a separate session; an async context manager."""

    def __init__(self, connect: str) -> None:
        self._client = ZKClient(connect, session_timeout=20)

    async def __aenter__(self) -> Self:
        await self._client.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def read(self, path: str) -> Znode | None:
        """A znode, or None if it does not exist."""
        try:
            data, stat = await self._client.get(path)
        except NoNode:
            return None
        return Znode(_content(data), stat.version, stat.ephemeral_owner != 0)

    async def children(self, path: str) -> list[str]:
        """The names below a path, in order."""
        try:
            return sorted(await self._client.get_children(path))
        except NoNode:
            return []

    async def whole(self) -> Tree:
        """Every znode except ZooKeeper's; znodes that are deleted during the read are skipped."""
        tree: Tree = {}
        paths = ["/"]
        for path in paths:
            znode = await self.read(path)
            if znode is not None:
                tree[path] = znode
                below = [f"{path.rstrip('/')}/{name}" for name in await self.children(path)]
                paths += [one for one in below if one not in _NOT_KAFKAS]
        return tree

    async def create(self, path: str, content: Any = None) -> None:
        """Creates a znode, with JSON if there is content. Raises NodeExists."""
        await self._client.create(path, None if content is None else json.dumps(content))

    async def set(self, path: str, content: Any, version: int = -1) -> None:
        """Writes JSON. Raises NoNode, or BadVersion if the znode has been written since."""
        await self._client.set(path, json.dumps(content), version)

    async def delete(self, path: str) -> None:
        """Deletes a znode. Raises NoNode."""
        await self._client.delete(path, force=True)


def _content(data: bytes | None) -> Any:
    text = (data or b"").decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def differences(stock: Tree, refold: Tree) -> list[Difference]:
    """The fields that differ, except those that differ from run to run."""
    ours, theirs = comparable(refold), comparable(stock)
    return [
        Difference(field, theirs.get(field), ours.get(field))
        for field in sorted(theirs.keys() | ours.keys())
        if theirs.get(field) != ours.get(field)
    ]


def comparable(tree: Tree) -> dict[Field, Any]:
    """The fields of a tree without timestamps, ports, ids and the number of earlier controllers."""
    epoch = tree["/controller_epoch"].content
    fields: dict[Field, Any] = {}
    for path, znode in tree.items():
        fields[path, "is ephemeral"] = znode.is_ephemeral
        for name, value in _fields(path, znode, epoch):
            fields[path, name] = value
    return fields


def _fields(path: str, znode: Znode, epoch: int) -> Iterator[tuple[str, Any]]:
    content = znode.content
    if path == "/controller_epoch":
        return
    yield "version", znode.version
    if path == "/cluster/id":
        content = {**content, "id": "an id"}
    elif path == "/controller":
        content = _without(content, "brokerid", *_OF_THE_RUN)
    elif path.startswith("/brokers/ids/"):
        content = _without(content, *_OF_THE_RUN)
    elif path == "/latest_producer_id_block" and content:
        # Below IBP 3.0 each broker takes a block when it starts; above, the znode is empty.
        content = _without(content, "broker")
    elif path.startswith("/config/users/") and content:
        content = {**content, "config": _without_salts(content["config"])}
    elif path.startswith("/brokers/topics/") and path.endswith("/state"):
        content = _state(content, epoch)
    elif path.startswith("/brokers/topics/") and "topic_id" in (content or {}):
        is_id = len(content["topic_id"]) == TOPIC_ID_LENGTH
        content = {**content, "topic_id": "an id" if is_id else content["topic_id"]}
    yield from _flat("data", content)


def _without_salts(configs: Mapping[str, str]) -> dict[str, str]:
    """A user's configuration, with only the lengths of a credential that is made with a salt."""
    return {
        key: _DERIVED_FROM_SALT.sub(
            lambda found: f"{found[1]}={len(found[2])} characters", _SALT.sub("salt", value)
        )
        for key, value in configs.items()
    }


def _state(content: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """A partition's state with the controller epoch relative to the present one, and the ISR
    without the order in which followers caught up."""
    written_by = content["controller_epoch"] - epoch
    return {**content, "controller_epoch": written_by, "isr": sorted(content["isr"])}


def _without(content: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in names}


def _flat(name: str, content: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _flat(f"{name}.{key}", value)
    else:
        yield name, content
