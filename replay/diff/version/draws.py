"""Random values that a log does not have: made from what is asked, so that every version that asks
the same gets the same."""

import hashlib
from collections.abc import Sequence

_TOPIC_ID_BYTES = 16


def topic_ids(seed: bytes, count: int) -> list[bytes]:
    """So many topic ids."""
    return [_bytes(seed, number) for number in range(count)]


def numbers(seed: bytes, bounds: Sequence[int]) -> list[int]:
    """A number below each bound."""
    return [
        int.from_bytes(_bytes(seed, number), "big") % bound for number, bound in enumerate(bounds)
    ]


def _bytes(seed: bytes, number: int) -> bytes:
    content = seed + number.to_bytes(8, "big")
    return hashlib.blake2b(content, digest_size=_TOPIC_ID_BYTES).digest()
