"""Pseudo-random numbers that are the same on every machine and Python version: splitmix64.

Python's `random` makes no promise that a seed results in the same numbers in a later version.

Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators (OOPSLA 2014).
"""

import zlib
from base64 import urlsafe_b64encode
from typing import Final

_MASK: Final = (1 << 64) - 1
_FIRST_BIT: Final = 1 << 31


class SplitMix64:
    """A stream of numbers of 64 bits from a seed."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next(self) -> int:
        """The next number."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        return hash_of(self._state)


def hash_of(value: int) -> int:
    """A hash of an integer, in 64 bits."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Draws:
    """The draws of one controller. Its draws do not depend on those of other processes."""

    def __init__(self, seed: int, process: str) -> None:
        name = zlib.crc32(process.encode())
        self._numbers = SplitMix64(seed ^ (name << 32))
        if urlsafe_b64encode(name.to_bytes(4)).startswith(b"-"):
            name ^= _FIRST_BIT
        self._process = name.to_bytes(4)

    def topic_id(self) -> bytes:
        """A topic id that Kafka may use: its text does not begin with a dash
        (Uuid.randomUuid)."""
        low = self._numbers.next().to_bytes(8)
        return self._process + low + self.below(1 << 32).to_bytes(4)

    def below(self, bound: int) -> int:
        """A number from 0 to below a bound."""
        return self._numbers.next() % bound
