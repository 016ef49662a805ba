"""Differences between a write of the fold and one of a stock controller."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from controller.core import operations
from controller.core.operations import WriteOperation
from controller.core.values import ANY_VERSION
from controller.core.znodes import CONTROLLER, REASSIGN_PARTITIONS
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    Create,
    Delete,
    Operation,
    SetData,
)
from replay.structural_diff import NOTHING, differences
from replay.znode_view import ZnodeView

_NOT_COMPARED: Final = ("timestamp", "kraftControllerEpoch")
"""Keys of /controller: its time of writing, and a key that Kafka before 3.4 does not write."""

_FORM: Final = (CONTROLLER, "version")
"""The version of the format, which is 1 before Kafka 3.4."""

_KINDS: Final = {
    operations.Create: Create,
    operations.CreateSequential: Create,
    operations.SetData: SetData,
    operations.Delete: Delete,
}


def is_same_write(refold: WriteOperation, stock: Operation, path: str) -> bool:
    """Whether both do the same operation on the same znode. `path` is the path of `stock`."""
    return isinstance(stock, _KINDS.get(type(refold), Check)) and refold.path == path


def write_differences(refold: WriteOperation, stock: Operation, path: str) -> Iterator[str]:
    """The differences in content and expected version, in words. The order of keys does not
    count."""
    if isinstance(refold, operations.SetData) and isinstance(stock, SetData):
        version = stock.version - 1
        if refold.version not in (ANY_VERSION, version):
            yield f"{path}: at version {refold.version}, Kafka at {version}"
    data = getattr(refold, "data", b"")
    other = getattr(stock, "data", b"") or b""
    yield from _content_differences(path, data, other)


def _content_differences(path: str, refold: bytes, stock: bytes) -> Iterator[str]:
    if refold == stock:
        return
    try:
        one, other = msgspec.json.decode(refold), msgspec.json.decode(stock)
    except (msgspec.DecodeError, UnicodeDecodeError):
        yield f"{path}: {_text(refold)}, Kafka {_text(stock)}"
        return
    if not isinstance(one, dict) or not isinstance(other, dict):
        if one != other:
            yield f"{path}: {_text(refold)}, Kafka {_text(stock)}"
        return
    if path == REASSIGN_PARTITIONS:
        one, other = _in_order(one), _in_order(other)
    for (key, *rest), mine, its in sorted(differences(one, other), key=lambda found: found.part):
        values = [None if value is NOTHING else value for value in (mine, its)]
        if values[0] != values[1] and key not in _NOT_COMPARED and (path, key) != _FORM:
            yield f"{path}: {' '.join((key, *rest))} {_json(values[0])}, Kafka {_json(values[1])}"


def _in_order(content: dict[str, Any]) -> dict[str, Any]:
    """The content with sorted partitions: Kafka writes them in the order of a hash map."""
    partitions = content.get("partitions")
    if not isinstance(partitions, list):
        return content
    return content | {"partitions": sorted(partitions, key=msgspec.json.encode)}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")[:200] or "nothing"


def _json(value: Any) -> str:
    return "nothing" if value is None else msgspec.json.encode(value).decode()


def refusal(refold: WriteOperation, view: ZnodeView) -> int:
    """The error that ZooKeeper would return for a write now, 0 for none."""
    znode = view.find(refold.path)
    if isinstance(refold, operations.CreateSequential):
        return operations.OK
    if isinstance(refold, operations.Create):
        return operations.OK if znode is None else operations.NODE_EXISTS
    if znode is None:
        return operations.NO_NODE
    if refold.version not in (ANY_VERSION, znode.version):
        return operations.BAD_VERSION
    if isinstance(refold, operations.Delete) and view.children(refold.path):
        return operations.NOT_EMPTY
    return operations.OK


def version_after(refold: WriteOperation, view: ZnodeView) -> int:
    """The version of a znode after a write that is done now; -1 if it is deleted."""
    znode = view.find(refold.path)
    if isinstance(refold, operations.SetData):
        return 0 if znode is None else znode.version + 1
    return 0 if isinstance(refold, (operations.Create, operations.CreateSequential)) else -1
