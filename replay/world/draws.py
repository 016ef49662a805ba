"""Numbers that look random and are the same in every run with the same seed."""

import zlib
from base64 import urlsafe_b64encode
from typing import Final

_MASK: Final = (1 << 64) - 1


class Numbers:
    """The splitmix64 generator (Steele, Lea, Flood 2014)."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next(self) -> int:
        """A number of 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, bound: int) -> int:
        """A number from 0 to below a bound."""
        return self.next() % bound


class Draws:
    """What one controller draws. Its draws do not depend on those of other processes."""

    def __init__(self, seed: int, process: str) -> None:
        self._process = zlib.crc32(process.encode())
        self._numbers = Numbers(seed ^ (self._process << 32))

    def topic_id(self) -> bytes:
        """A topic id that Kafka may use: its text does not begin with a dash
        (Uuid.randomUuid)."""
        while True:
            drawn = self._process.to_bytes(4) + self._numbers.next().to_bytes(8)
            drawn += self._numbers.below(1 << 32).to_bytes(4)
            if not urlsafe_b64encode(drawn).startswith(b"-"):
                return drawn
            self._process += 1

    def below(self, bound: int) -> int:
        """A number from 0 to below a bound."""
        return self._numbers.below(bound)
