"""Names of partitions and brokers."""

from functools import lru_cache
from typing import Final

_PARTITION_DIGITS_MAX: Final = 10
BROKER: Final = "broker "
"""The name of the subject of a broker begins with this."""


def partition_name(topic: str, number: int) -> str:
    """Kafka's name of a partition: "t-0"."""
    return f"{topic}-{number}"


def partition_named(name: str) -> tuple[str, int]:
    """The topic and the number of a partition with Kafka's name: "t-0". Raises ValueError."""
    topic, _, number = name.rpartition("-")
    if not topic or not number.isdecimal() or len(number) > _PARTITION_DIGITS_MAX:
        raise ValueError(f"{name} is not a partition")
    return topic, int(number)


@lru_cache
def broker_named(name: str) -> int:
    """The id of a broker by the name of its subject or process: "broker 3". Raises ValueError."""
    return int(name.removeprefix(BROKER))
