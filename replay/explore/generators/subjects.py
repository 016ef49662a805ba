"""The subjects of a message: znodes and partitions."""

from collections.abc import Iterator
from typing import Final

from controller.core import znodes
from controller.core.operations import Check
from replay.names import partition_name
from replay.world.ensemble.codec import BadRequest, ServerCodec
from replay.world.ensemble.protocol import CloseSession, ConnectRequest, Ping, RequestPacket
from replay.world.messages import ControllerRequest, ControllerResponse, ControlRequest
from replay.world.network import Delivery
from replay.world.processes import ZOOKEEPER, is_controller
from replay.world.requests import AddWatch, Multi, MultiRead, RemoveWatches, Request, SetWatches
from replay.znode_tree.paths import parent_of

_BEGIN_OF_CONNECT_REQUEST: Final = bytes(4)
_PING_REPLY: Final = (-2).to_bytes(4, signed=True)


class MessageSubjects:
    """Reads the messages of one run, in order."""

    def __init__(self) -> None:
        self._codecs: dict[str, ServerCodec] = {}
        self._of: dict[int, frozenset[str] | None] = {}

    def read(self, one: Delivery) -> bool:
        """Read a message. Returns whether its order matters to a controller: not that of a
        heartbeat, and of nothing between brokers and clients."""
        _, _, receiver = one.link.partition(">")
        message = one.message
        if receiver == ZOOKEEPER:
            requests = list(self._requests(one))
            if not any(not isinstance(each, Ping) for each in requests):
                return False
            self._of[one.id] = _of_requests(requests)
            return True
        if is_controller(receiver):
            return not (isinstance(message, bytes) and message[4:8] == _PING_REPLY)
        return isinstance(message, ControlRequest | ControllerResponse)

    def subjects_of(self, one: Delivery) -> frozenset[str] | None:
        """The znodes and partitions that a message is about; None: anything. Called after
        `read`."""
        if one.id in self._of:
            return self._of.pop(one.id)
        message = one.message
        if isinstance(message, ControlRequest):
            partitions = message.request.partitions
            return frozenset(partition_name(each.topic, each.partition) for each in partitions)
        if isinstance(message, ControllerRequest):
            return None
        return None

    def _requests(self, one: Delivery) -> Iterator[Request | Ping | CloseSession | ConnectRequest]:
        message = one.message
        if isinstance(message, RequestPacket):
            yield message.request
        elif isinstance(message, bytes):
            codec = self._codecs.get(one.link)
            if codec is None or message[4:8] == _BEGIN_OF_CONNECT_REQUEST:
                codec = self._codecs[one.link] = ServerCodec()
            try:
                for read in codec.read(message):
                    yield read.request if isinstance(read, RequestPacket) else read
            except BadRequest:
                del self._codecs[one.link]
        elif isinstance(message, ConnectRequest):
            yield message


def _of_requests(
    requests: list[Request | Ping | CloseSession | ConnectRequest],
) -> frozenset[str] | None:
    found: dict[str, None] = {}
    for request in requests:
        paths = _paths(request)
        if paths is None:
            return None
        for path in paths:
            # Writes below a directory matter to those who list it.
            found[path] = None
            parent = parent_of(path)
            if parent in _LISTED:
                found[parent] = None
    return frozenset(found)


_LISTED: Final = (
    znodes.BROKER_IDS,
    znodes.TOPICS,
    znodes.DELETE_TOPICS,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
    znodes.CONFIG_CHANGES,
    znodes.REASSIGNMENT_REQUESTS,
    znodes.REPLICA_DELETIONS,
)


def _paths(request: Request | Ping | CloseSession | ConnectRequest) -> list[str] | None:
    """The paths of a request; None: it may be about any."""
    match request:
        case Ping():
            return []
        case CloseSession() | ConnectRequest() | SetWatches():
            return None
        case Multi(operations=operations):
            # The check of /controller_epoch is in every write of a controller.
            return [one.path for one in operations if not isinstance(one, Check)]
        case MultiRead(reads=reads):
            return [one.path for one in reads]
        case AddWatch(path=path) | RemoveWatches(path=path):
            return [path]
        case _:
            return [request.path]
