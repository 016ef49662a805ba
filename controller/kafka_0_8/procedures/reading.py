"""Reads of znodes whose ACL may not allow them: such a znode is reported once and skipped, like
unreadable content (S-10)."""

from collections.abc import Sequence

from controller.core.errors import ProcedureError
from controller.core.operations import NO_AUTH
from controller.core.outcomes import ZnodeColumns
from controller.core.zookeeper_io import (
    denied_text,
    fetch_children,
    fetch_znodes,
    read_children_of_each,
)
from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.configuration import SECOND_RULES


async def read_znodes(broker: Broker, paths: list[str], rule: str) -> ZnodeColumns:
    """Data and stat of each path. The error of a denied one is NO_AUTH; it is reported."""
    found = await fetch_znodes(broker, paths, rule, may_be_denied=True)
    for path, error in zip(paths, found.errors, strict=True):
        if error == NO_AUTH:
            broker.report_denied(path, denied_text(path))
    return found


async def children_of(broker: Broker, path: str, rule: str, *, watch: bool = False) -> list[str]:
    """The children of a znode, sorted; none if it does not exist, or if they may not be read."""
    try:
        children = (await fetch_children(broker, path, rule, watch=watch)).children
    except ProcedureError as error:
        broker.denied[path] = None
        broker.report_denied(path, str(error))
        return []
    _forget_denial(broker, path)
    return children


async def children_of_each(broker: Broker, paths: Sequence[str], rule: str) -> dict[str, list[str]]:
    """The children of several znodes, as `children_of`."""
    try:
        children = await read_children_of_each(broker, list(paths), rule)
    except ProcedureError:
        return {path: await children_of(broker, path, rule) for path in paths}
    for path in paths:
        _forget_denial(broker, path)
    return children


def _forget_denial(broker: Broker, path: str) -> None:
    if path in broker.denied and broker.configuration.rules > SECOND_RULES:
        broker.forget(path)
    broker.denied.pop(path, None)
