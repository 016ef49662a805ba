"""Names of partitions, brokers, controllers and commands."""

from functools import lru_cache
from typing import Final

_DIGITS_MAX: Final = 10
_NAMES_REMEMBERED: Final = 1 << 12
BROKER: Final = "broker "
"""The name of a broker begins with this."""


def partition_name(topic: str, number: int) -> str:
    """Kafka's name of a partition: "t-0"."""
    return f"{topic}-{number}"


def partition_named(name: str) -> tuple[str, int]:
    """The topic and the number of a partition with Kafka's name: "t-0". Raises ValueError."""
    topic, _, number = name.rpartition("-")
    if not topic or not number.isdecimal() or len(number) > _DIGITS_MAX:
        raise ValueError(f"{name} is not a partition")
    return topic, int(number)


def command_name(id: tuple[int, int]) -> str:
    """The name of a command: the event that caused it, and its ordinal among that event's
    commands, as in "41.0"."""
    cause, ordinal = id
    return f"{cause}.{ordinal}"


def broker_name(id: int) -> str:
    """The name of a broker, as the subject of a record and as a simulated process: "broker 3"."""
    return f"{BROKER}{id}"


def controller_name(id: int, *, is_kraft: bool = False) -> str:
    """The name of the process that has the controller role: "broker 3" or "KRaft controller
    3000"."""
    return f"KRaft controller {id}" if is_kraft else broker_name(id)


@lru_cache(_NAMES_REMEMBERED)
def find_broker(name: str) -> int | None:
    """The id of a broker by its name, as `broker_name` returns it; None if the name is another
    one."""
    number = name.removeprefix(BROKER)
    is_id = number != name and number.isdecimal() and len(number) <= _DIGITS_MAX
    return int(number) if is_id else None


def broker_named(name: str) -> int:
    """The id of a broker by its name, as `broker_name` returns it. Raises ValueError."""
    broker = find_broker(name)
    if broker is None:
        raise ValueError(f"{name} is not a broker")
    return broker


def is_broker(name: str) -> bool:
    """Whether a name is that of a broker."""
    return find_broker(name) is not None
