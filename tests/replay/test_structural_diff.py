"""The parts in which two values differ."""

from typing import Any

import pytest
from msgspec import Struct

from replay.structural_diff import NOTHING, differences, text


class Item(Struct):
    name: str
    value: Any


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [("a.b", 1, 2)]),
        ({"a": 1}, {"b": 1}, [("a", 1, NOTHING), ("b", NOTHING, 1)]),
        (Item("t", {"b": 1}), Item("t", {"b": 2}), [("value.b", 1, 2)]),
        ([Item("t", 1)], [Item("t", 2)], [("[t].value", 1, 2)]),
        ([Item("t", 1)], [], [("[t]", Item("t", 1), NOTHING)]),
        (
            {"list": [Item("t", 1), Item("t", 2)]},
            {"list": [Item("t", 1), Item("t", 3)]},
            [("list[t #2].value", 2, 3)],
        ),
        (
            {"list": [Item("s", 1), Item("t", 2)]},
            {"list": [Item("t", 2), Item("s", 1)]},
            [("list, the order", "s, t", "t, s")],
        ),
        ([1, 2], [2, 1], [("", [1, 2], [2, 1])]),
    ],
)
def test_differing_parts_are_named(one: Any, other: Any, expected: list[Any]) -> None:
    found = [(each.name, each.one, each.other) for each in differences(one, other)]
    assert found == expected


def test_parts_below_the_depth_are_not_taken_apart() -> None:
    one, other = {"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}
    assert [each.name for each in differences(one, other, depth=2)] == ["a.b"]


def test_values_are_shown_as_text_up_to_a_length() -> None:
    assert text(NOTHING, 5) is None
    assert text(b"abc", 5) == "abc"
    assert text(b"\xff\x00", 5) == "ff00"
    assert text({"a": [1, 2]}, 5) == '{"a":...'
