"""Variations of given inputs: those of a log or of a scenario file, at other times.

Inputs that happen within a short time were concurrent: nothing in the log orders them but the
moments at which they were observed.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec import structs

from replay.explore.numbers import Numbers

_SHIFTS_MS: Final = (5, 100, 1_000, 4_000)
_UNCHANGED_PERCENT: Final = 20
_SHIFTED_PERCENT: Final = 60


class Timed(Protocol):
    """What has a time, as an input has."""

    @property
    def at_ms(self) -> int: ...


T = TypeVar("T", bound=Timed)


def varied(inputs: Sequence[T], numbers: Numbers, end_ms: int | None = None) -> list[T]:
    """The inputs, most of them a little earlier or later; sometimes all at their times.

    No input moves to `end_ms` or later. A scenario has no inputs after its active part.
    """
    if numbers.chance(_UNCHANGED_PERCENT):
        return list(inputs)
    shift_ms = numbers.choice(_SHIFTS_MS)
    found = [
        _at(one, _within(one.at_ms + numbers.between(-shift_ms, shift_ms), end_ms))
        if numbers.chance(_SHIFTED_PERCENT)
        else one
        for one in inputs
    ]
    return sorted(found, key=lambda one: one.at_ms)


def _within(at_ms: int, end_ms: int | None) -> int:
    return max(0, at_ms if end_ms is None else min(at_ms, end_ms - 1))


def _at(one: T, at_ms: int) -> T:
    struct: Any = one
    moved: T = structs.replace(struct, at_ms=at_ms)
    return moved
