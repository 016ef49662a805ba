"""Variations of given inputs: those of a log or of a scenario file, at other times.

Inputs that happen within a short time were concurrent: nothing in the log orders them but the
moments at which they were observed.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from replay.explore.numbers import Numbers
from replay.world.inputs import Input

_SHIFTS_MS: Final = (5, 100, 1_000, 4_000)
_UNCHANGED_PERCENT: Final = 20
_SHIFTED_PERCENT: Final = 60


def varied(inputs: Sequence[Input], numbers: Numbers) -> list[Input]:
    """The inputs, most of them a little earlier or later; sometimes all at their times."""
    if numbers.chance(_UNCHANGED_PERCENT):
        return list(inputs)
    shift_ms = numbers.choice(_SHIFTS_MS)
    found = [
        structs.replace(one, at_ms=max(0, one.at_ms + numbers.between(-shift_ms, shift_ms)))
        if numbers.chance(_SHIFTED_PERCENT)
        else one
        for one in inputs
    ]
    return sorted(found, key=lambda one: one.at_ms)
