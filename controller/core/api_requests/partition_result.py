"""The answer for one partition of an admin tool's request."""

from msgspec import Struct


class PartitionResult(Struct, frozen=True, array_like=True, gc=False):
    """The answer for one partition: a Kafka error code and, with an error, a message."""

    topic: str
    partition: int
    error: int
    message: str = ""
