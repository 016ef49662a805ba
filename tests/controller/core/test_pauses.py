"""Long work in parts, between which urgent controller events are handled."""

from typing import Literal

import pytest

from controller.core.pauses import slices
from tests.controller.core.driving import ControllerHarness


@pytest.mark.parametrize(
    ("rules", "count", "sizes"),
    [
        ("refold", 0, [0]),
        ("refold", 1, [1]),
        ("refold", 2_000, [2_000]),
        ("refold", 4_001, [2_000, 2_000, 1]),
        ("kafka", 0, [0]),
        ("kafka", 1, [1]),
        ("kafka", 4_001, [4_001]),
    ],
)
def test_elections_are_divided_into_slices_but_not_under_kafkas_rules(
    rules: Literal["refold", "kafka"], count: int, sizes: list[int]
) -> None:
    found = list(slices(ControllerHarness(5, rules=rules).controller, range(count)))
    assert list(map(len, found)) == sizes
    assert [one for part in found for one in part] == list(range(count))
