"""/controller and /controller_epoch: the current controller and the controller epoch."""

from typing import Final

import msgspec
from msgspec import Struct

from controller.core.errors import ZnodeError
from controller.core.znodes.schema import INT_MAX, Int32, parse_natural

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"


class ControllerZnode(Struct, frozen=True):
    """The content of /controller. Only `brokerid` is required."""

    brokerid: Int32
    kraftControllerEpoch: Int32 = -1


_controller_decoder = msgspec.json.Decoder(ControllerZnode)


def read_controller(data: bytes | None) -> ControllerZnode | None:
    """The broker id of the controller; None for content that cannot be used, as in Kafka
    (ControllerZNode).
    """
    try:
        return _controller_decoder.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_controller(broker: int, wall_ms: int) -> bytes:
    """The content of /controller as Kafka 3.9 writes it; the timestamp is a string of ms."""
    return (
        f'{{"version":2,"brokerid":{broker},"timestamp":"{wall_ms}","kraftControllerEpoch":-1}}'
    ).encode()


def read_controller_epoch(data: bytes | None) -> int:
    """The controller epoch: decimal text. Raises ZnodeError."""
    text = (data or b"").decode("ascii", "replace")
    number = parse_natural(text)
    if number is None or number == INT_MAX:
        raise ZnodeError(f"{CONTROLLER_EPOCH} holds {text[:40]!r}, not an epoch: repair the znode")
    return number
