"""Pseudo-random numbers that are the same on every machine and Python version: splitmix64.

The generators use them to make inputs; a run itself uses none. Python's `random` makes no promise
that a seed results in the same choices in a later version.

Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators (OOPSLA 2014).
"""

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

_MASK: Final = 2**64 - 1
_GAMMA: Final = 0x9E3779B97F4A7C15


class Numbers:
    """A stream of numbers from a seed."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def next(self) -> int:
        """The next number of 64 bits."""
        self._state = (self._state + _GAMMA) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, bound: int) -> int:
        """A number from 0 to below `bound`."""
        return (self.next() * bound) >> 64

    def between(self, first: int, last: int) -> int:
        """A number from `first` to `last`, both included."""
        return first + self.below(last - first + 1)

    def chance(self, percent: int) -> bool:
        """True in `percent` of 100 cases."""
        return self.below(100) < percent

    def choice(self, of: Sequence[T]) -> T:
        """One of a sequence that is not empty."""
        return of[self.below(len(of))]

    def weighted(self, weights: Sequence[tuple[T, int]]) -> T:
        """One of the values, with a probability in proportion to its weight."""
        place = self.below(sum(weight for _, weight in weights))
        for value, weight in weights:
            place -= weight
            if place < 0:
                return value
        raise ValueError("no value has a weight")

    def sample(self, of: Sequence[T], count: int) -> list[T]:
        """`count` different places of a sequence, in a random order."""
        rest = list(of)
        found = []
        for _ in range(min(count, len(rest))):
            found.append(rest.pop(self.below(len(rest))))
        return found

    def split(self) -> "Numbers":
        """An independent stream."""
        return Numbers(self.next())


def seed_of(seed: int, run: int) -> int:
    """The seed of a run of an exploration: independent of all other runs, and of the workers."""
    return Numbers(seed ^ Numbers(run).next()).next()
