"""The names of the processes of a simulated cluster, and the kind of process that a name is of.

A broker's process has the name of the broker (`replay.names`). A stock controller is a part of a
broker, and has a name for itself.
"""

from typing import Final

ZOOKEEPER: Final = "zookeeper"
"""The process of the ensemble."""
ADMIN: Final = "admin"
"""The process of the administrators."""
_REFOLD: Final = "refold "
_STOCK: Final = "stock "
_PRODUCER: Final = "producer "
_CONSUMER: Final = "consumer "


def refold_name(id: int) -> str:
    """The process of a refold: "refold 100"."""
    return f"{_REFOLD}{id}"


def stock_name(id: int) -> str:
    """The controller in a broker: "stock 1"."""
    return f"{_STOCK}{id}"


def producer_name(number: int) -> str:
    """The process of a producer: "producer 0"."""
    return f"{_PRODUCER}{number}"


def consumer_name(number: int) -> str:
    """The process of a consumer: "consumer 0"."""
    return f"{_CONSUMER}{number}"


def is_refold(process: str) -> bool:
    """Whether a process is a refold."""
    return process.startswith(_REFOLD)


def is_controller(process: str) -> bool:
    """Whether a process is a controller: a refold, or the one in a broker."""
    return process.startswith((_REFOLD, _STOCK))


def is_client(process: str) -> bool:
    """Whether a process is a producer or a consumer."""
    return process.startswith((_PRODUCER, _CONSUMER))


def id_in(process: str) -> int:
    """The id of a broker or a controller, or the number of a client, by the name of its process."""
    return int(process.rpartition(" ")[2])
