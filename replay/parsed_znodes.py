"""The content of znodes for readers that skip content that Kafka cannot parse.

The readers of `controller.core.znodes` raise ZnodeError in these cases.
"""

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.values import LeaderAndIsr
from controller.core.znodes import ControllerZnode, Name, ReassignmentRequest, TopicContent


def parsed_topic(name: str, data: bytes | None) -> TopicContent | None:
    """The content of a topic's znode; None if it cannot be parsed."""
    try:
        return znodes.read_topic(name, data)
    except ZnodeError:
        return None


def parsed_state(path: str, data: bytes | None, version: int) -> LeaderAndIsr | None:
    """The content of a partition's state znode; None if it cannot be parsed."""
    try:
        return znodes.read_state(path, data, version)
    except ZnodeError:
        return None


def controller_epoch_of_state(path: str, data: bytes | None) -> int:
    """The controller epoch in a partition's state; 0 for other znodes and if it cannot be
    parsed."""
    is_state = znodes.partition_of_state(path) is not None
    state = parsed_state(path, data, 0) if is_state else None
    return state.controller_epoch if state is not None else 0


def parsed_epoch(data: bytes | None) -> int | None:
    """The content of /controller_epoch; None if it cannot be parsed."""
    try:
        return znodes.read_controller_epoch(data)
    except ZnodeError:
        return None


def kraft_controller(data: bytes | None) -> ControllerZnode | None:
    """The content of /controller if a KRaft controller has the role, None if not: the KRaft epoch
    is that of a controller that migrates the cluster, and -1 or 0 for a broker."""
    holder = znodes.read_controller(data)
    return holder if holder is not None and holder.kraftControllerEpoch > 0 else None


def parsed_config(path: str, data: bytes | None) -> dict[str, str]:
    """The content of a configuration's znode; empty if it cannot be parsed."""
    try:
        return znodes.read_config(path, data) if data is not None else {}
    except ZnodeError:
        return {}


def is_request(path: str) -> bool:
    """Whether a path is that of a znode with a reassignment request."""
    return path.startswith(znodes.REQUEST_PREFIX)


def parsed_entries(path: str, data: bytes | None) -> dict[Name, tuple[int, ...]]:
    """The entries of a reassignment znode; none if it cannot be parsed."""
    try:
        entries = znodes.read_entries(path, data).entries if data is not None else {}
    except ZnodeError:
        return {}
    return {name: entry.replicas for name, entry in entries.items()}


def parsed_request(path: str, data: bytes | None) -> ReassignmentRequest:
    """A request; one without targets if it cannot be parsed."""
    try:
        return znodes.read_request(path, data) if data is not None else ReassignmentRequest({})
    except ZnodeError:
        return ReassignmentRequest({})
