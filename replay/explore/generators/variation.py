"""Variations of given inputs: those of a log or of a scenario file, at other times.

Inputs that happen within a short time were concurrent: nothing in the log orders them but the
moments at which they were observed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from msgspec import structs

from replay.explore.numbers import RandomNumbers
from replay.world.scenario import Scenario

_SHIFTS_MS: Final = (5, 100, 1_000, 4_000)
_UNCHANGED_PERCENT: Final = 20
_SHIFTED_PERCENT: Final = 60


class Timed(Protocol):
    """A value with a time, such as an input."""

    @property
    def at_ms(self) -> int:
        """When it happens, in milliseconds from the start of the run."""


T = TypeVar("T", bound=Timed)


def vary_times(
    inputs: Sequence[T], numbers: RandomNumbers, scenario: Scenario | None = None
) -> list[T]:
    """The inputs, most of them a little earlier or later; sometimes all at their times.

    With a scenario, none moves out of its active part.
    """
    if numbers.chance(_UNCHANGED_PERCENT):
        return list(inputs)
    shift_ms = numbers.choice(_SHIFTS_MS)
    moved_ms = partial(max, 0) if scenario is None else scenario.nearest_active_ms
    found = [
        _moved_to(one, moved_ms(one.at_ms + numbers.between(-shift_ms, shift_ms)))
        if numbers.chance(_SHIFTED_PERCENT)
        else one
        for one in inputs
    ]
    return sorted(found, key=lambda one: one.at_ms)


def _moved_to(one: T, at_ms: int) -> T:
    struct: Any = one
    moved: T = structs.replace(struct, at_ms=at_ms)
    return moved
