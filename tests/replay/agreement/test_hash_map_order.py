"""The iteration orders of Scala's maps equal those of Scala 2.13.15."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.agreement.processing_order import (
    immutable_map_order,
    mutable_map_order,
)

Name = tuple[str, int]

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=200)


def test_brokers_of_a_small_cluster_are_in_kafkas_order() -> None:
    """Recordings of ten brokers show the same order."""
    assert immutable_map_order(range(1, 11)) == [5, 10, 1, 6, 9, 2, 7, 3, 8, 4]


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        (
            range(1001, 1013),
            [1005, 1001, 1012, 1006, 1002, 1007, 1011, 1003, 1008, 1010, 1004, 1009],
        ),
        (
            [101, 102, 103, 201, 202, 203, 301, 302, 303],
            [101, 202, 301, 302, 303, 103, 203, 201, 102],
        ),
        ([0, 1, 31, 100, 1001, 65536, 2**31 - 1], [0, 1001, 1, 2**31 - 1, 31, 65536, 100]),
        # 0, 941 and 2544 have their lowest ten bits in common.
        ([0, 941, 2544, 5, 1], [5, 1, 2544, 941, 0]),
        (
            [3, 226, 1250, 1364, 1726, 2390, 2967, 4, 239, 242],
            [226, 3, 1726, 1364, 2967, 2390, 1250, 239, 242, 4],
        ),
        # 18 and 169716 have their lowest twenty bits in common.
        ([22, 9142, 18, 9138, 169716, 7], [7, 9142, 22, 169716, 9138, 18]),
    ],
)
def test_colliding_ids_follow_other_ids(keys: list[int], order: list[int]) -> None:
    assert immutable_map_order(keys) == order


@given(IDS, st.randoms())
def test_order_depends_on_the_keys_only(keys: list[int], random: object) -> None:
    order = immutable_map_order(keys)
    assert sorted(order) == sorted(set(keys))
    shuffled = [*keys]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert immutable_map_order(shuffled) == order


# Partitions -----------------------------------------------------------------------------------


def numbered(topic: str, *numbers: int) -> list[Name]:
    return [(topic, number) for number in numbers]


@pytest.mark.parametrize(
    "order",
    [
        [
            ("__consumer_offsets", 7),
            ("t.04", 2),
            *numbered("big-01", 1, 0),
            ("wide_02", 0),
            ("t.04", 4),
        ],
        [*numbered("zz", 6, 5), *numbered("a-quite-long-name-of-a-topic", 1, 0)],
        numbered("t-07", 10, 0, 1, 4, 5, 2, 3, 8, 9, 6, 7),
        numbered("t-07", 12, 10, 11, 4, 5, 2, 3, 8, 9, 6, 7, 0, 1),
    ],
)
def test_partitions_of_a_request_are_in_kafkas_order(order: list[Name]) -> None:
    """The order of Kafka's TopicPartition in a scala.collection.mutable.HashMap."""
    assert mutable_map_order(order) == mutable_map_order(sorted(order)) == order


@pytest.mark.parametrize(
    "order",
    [
        numbered("t-07", 10, 11, 4, 5, 2, 3, 8, 9, 6, 7, 0, 1),
        [
            *numbered("t-07", 10, 4, 2, 8, 6),
            ("big-01", 8),
            ("t-07", 1),
            *numbered("big-01", 10, 4, 6, 0, 2),
            *numbered("t-07", 11, 5, 3, 9, 7),
            ("big-01", 9),
            ("t-07", 0),
            *numbered("big-01", 11, 5, 7, 1, 3),
        ],
    ],
)
def test_order_is_kafkas_if_the_table_is_full(order: list[Name]) -> None:
    assert mutable_map_order(order) == order


@given(st.lists(st.tuples(st.text("ab\u00e9\U0001f600", max_size=4), st.integers(0, 99))))
def test_no_partition_is_lost(names: list[Name]) -> None:
    assert sorted(mutable_map_order(names)) == sorted(set(names))


def test_partitions_with_the_same_hash_code_keep_the_order_of_the_request() -> None:
    """A recording of a plan with these two partitions shows the order of the znode."""
    assert mutable_map_order([("t.98", 11), ("t-48", 47)]) == [("t.98", 11), ("t-48", 47)]
    assert mutable_map_order([("t-48", 47), ("t.98", 11)]) == [("t-48", 47), ("t.98", 11)]
