"""Reads of znodes whose ACL may not allow them: such a znode is reported once and skipped, like
unreadable content (S-10)."""

from collections.abc import Sequence

from controller.core.errors import ProcedureError
from controller.core.operations import NO_AUTH
from controller.core.outcomes import Znodes
from controller.core.zookeeper_io import (
    denied_text,
    fetch_children,
    fetch_znodes,
    read_children_of_each,
)
from controller.kafka_0_8.broker import Broker


async def read_znodes(broker: Broker, paths: list[str], rule: str) -> Znodes:
    """Data and stat of each path. The error of a denied one is NO_AUTH; it is reported."""
    found = await fetch_znodes(broker, paths, rule, may_be_denied=True)
    for path, error in zip(paths, found.errors, strict=True):
        if error == NO_AUTH:
            broker.report_denied(path, denied_text(path))
    return found


async def children_of(broker: Broker, path: str, rule: str, *, watch: bool = False) -> list[str]:
    """The children of a znode, sorted; none if it does not exist, or if they may not be read."""
    try:
        return (await fetch_children(broker, path, rule, watch=watch)).children
    except ProcedureError as error:
        broker.report_denied(path, str(error))
        return []


async def children_of_each(broker: Broker, paths: Sequence[str], rule: str) -> dict[str, list[str]]:
    """The children of several znodes, as `children_of`."""
    try:
        return await read_children_of_each(broker, list(paths), rule)
    except ProcedureError:
        return {path: await children_of(broker, path, rule) for path in paths}
