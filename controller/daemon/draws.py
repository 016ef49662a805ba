"""Random values that the fold requests: topic ids and numbers."""

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from secrets import randbelow, token_bytes
from typing import Final

_RESERVED: Final = (bytes(16), bytes(15) + b"\x01")


def draw_topic_ids(count: int) -> list[bytes]:
    """`count` random topic ids of 16 bytes, none of them reserved."""
    drawn: list[bytes] = []
    while len(drawn) < count:
        candidate = token_bytes(16)
        if not is_reserved(candidate):
            drawn.append(candidate)
    return drawn


def draw_numbers(bounds: Sequence[int]) -> list[int]:
    """A random number for each bound, from 0 up to but not including the bound."""
    return [randbelow(bound) for bound in bounds]


def is_reserved(topic_id: bytes) -> bool:
    """Whether Kafka reserves the id, or prints it with a leading dash (Uuid.randomUuid)."""
    return topic_id in _RESERVED or urlsafe_b64encode(topic_id).startswith(b"-")
