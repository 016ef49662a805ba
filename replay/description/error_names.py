"""The names of error codes."""

from typing import Final

from controller.core import error_codes, operations

_KAFKA: Final = {value: name for name, value in vars(error_codes).items() if isinstance(value, int)}
_ZOOKEEPER: Final = {
    getattr(operations, name): name
    for name in (
        "RUNTIME_INCONSISTENCY",
        "CONNECTION_LOSS",
        "NO_NODE",
        "NO_AUTH",
        "BAD_VERSION",
        "NO_CHILDREN_FOR_EPHEMERALS",
        "NODE_EXISTS",
        "NOT_EMPTY",
        "SESSION_EXPIRED",
        "FENCED",
    )
}


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    return _KAFKA.get(code, f"error {code}")


def zookeeper_error_name(code: int) -> str:
    """ZooKeeper's name of an error code. FENCED is refold's: /controller_epoch has changed."""
    return _ZOOKEEPER.get(code, f"code {code}")
