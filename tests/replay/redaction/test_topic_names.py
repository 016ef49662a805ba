"""Replacement topic names with which the decisions are the same."""

from itertools import combinations

import pytest

from controller.core.topic_names import problem_of, unify_collision_chars
from replay.redaction.topic_names import hash_code, topic_stand_ins

NAMES = [
    "orders",
    "orders.eu",
    "orders_us",
    "a",
    "ab",
    "b-1",
    "b.1x",
    "Z",
    "0",
    "payments",
    "p_q.r",
]


def test_order_and_hash_codes_are_kept() -> None:
    found = topic_stand_ins(NAMES, [])
    assert [found[one] for one in sorted(NAMES)] == sorted(found.values())
    assert all(hash_code(name) == hash_code(other) for name, other in found.items())


def test_replacement_does_not_contain_the_name() -> None:
    found = topic_stand_ins(NAMES, [])
    for name, other in found.items():
        assert name != other
        assert len(name) < 3 or name not in other


def test_replacements_collide_as_the_names_do() -> None:
    names = ["a.b", "a_b", "a-b", "c.d_e", "c_d.e", "x"]
    found = topic_stand_ins(names, [])
    for one, other in combinations(names, 2):
        collide = unify_collision_chars(one) == unify_collision_chars(other)
        assert (unify_collision_chars(found[one]) == unify_collision_chars(found[other])) == collide


def test_kept_names_keep_their_place_in_the_order() -> None:
    names = ["__consumer_offsets", "__b", "_a", "z"]
    found = topic_stand_ins(names, ["__consumer_offsets"])
    assert found["__consumer_offsets"] == "__consumer_offsets"
    assert [found[one] for one in sorted(names)] == sorted(found.values())


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250, "ä"])
def test_illegal_name_stays_illegal(name: str) -> None:
    found = topic_stand_ins([name, "legal"], [])
    assert problem_of(found[name]) is not None
    assert problem_of(found["legal"]) is None


def test_hash_code_is_javas() -> None:
    assert hash_code("orders") == 0xC3DF62E5
    assert hash_code("") == 0
