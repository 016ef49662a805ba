"""What Kafka wrote counts from then on, whatever the fold would have written."""

from collections.abc import Iterable

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.state import ControllerContext
from replay.stock_clusters.zookeeper_log.transactions import Create, Operation, SetData


def adopt(context: ControllerContext, written: Iterable[tuple[str, Operation]]) -> None:
    """Put states and assignments that were written into what a controller knows."""
    for path, operation in written:
        if not isinstance(operation, (SetData, Create)):
            continue
        version = operation.version if isinstance(operation, SetData) else 0
        try:
            _adopt_content(context, path, operation.data, version)
        except ZnodeError:
            continue


def _adopt_content(context: ControllerContext, path: str, data: bytes | None, version: int) -> None:
    named = znodes.state_of(path)
    if named is not None:
        partition = context.find(*named)
        if partition is not None:
            partition.leadership = znodes.read_state(path, data, version)
        return
    name = path.removeprefix(f"{znodes.TOPICS}/")
    if name == path or "/" in name:
        return
    for number, assignment in znodes.read_topic(name, data).assignments.items():
        partition = context.find(name, number)
        if partition is not None:
            partition.assignment = assignment
