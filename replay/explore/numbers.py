"""Random numbers by which the generators make inputs; a run itself uses none."""

from collections.abc import Sequence
from typing import TypeVar

from replay.world.draws import SplitMix64

T = TypeVar("T")


class RandomNumbers(SplitMix64):
    """A stream of numbers from a seed."""

    __slots__ = ()

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

    def split(self) -> "RandomNumbers":
        """Return a generator of random numbers that are independent of those that follow here."""
        return RandomNumbers(self.next())


def seed_of(seed: int, run: int) -> int:
    """The seed of a run of an exploration: independent of all other runs, and of the workers."""
    return RandomNumbers(seed ^ RandomNumbers(run).next()).next()
