"""The assignment of new replicas. The tables are the results of Kafka 3.9.1's AdminUtils."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as some

from controller.core.errors import RequestRefused
from controller.core.replica_assignment import (
    assign_replicas,
    changed_assignment,
    check_counts,
    lacks_racks,
    replicas_to_drop,
)
from controller.core.values import NO_LEADER, Assignment, Broker

Racks = dict[int, str | None]

NO_RACKS: Racks = dict.fromkeys((0, 4, 6, 10, 12))
SIX: Racks = dict.fromkeys((0, 4, 6, 10, 12, 16))
ODD: Racks = {0: "r3", 4: "r1", 6: "r2", 10: "r3", 12: "r3"}
TWO_BY_TWO: Racks = {0: "r0", 4: "r0", 6: "r1", 10: "r1"}
THREE: Racks = {0: "r1", 4: "r0", 6: "r1"}
DOCUMENTED: Racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
"""The example in AdminUtils."""


def brokers_of(racks: Racks) -> list[Broker]:
    return [Broker(id, 1, (), rack) for id, rack in racks.items()]


@pytest.mark.parametrize(
    ("racks", "partitions", "replication_factor", "start", "first", "replicas"),
    [
        (NO_RACKS, 2, 4, 2, 2, [(12, 6, 10, 0), (0, 10, 12, 4)]),
        (SIX, 4, 3, 5, 0, [(16, 0, 4), (0, 4, 6), (4, 6, 10), (6, 10, 12)]),
        (NO_RACKS, 1, 4, 0, 0, [(0, 4, 6, 10)]),
        ({7: None}, 3, 1, 0, 0, [(7,), (7,), (7,)]),
        (ODD, 1, 5, 2, 1, [(10, 6, 4, 0, 12)]),
        (TWO_BY_TWO, 2, 2, 2, 4, [(4, 10), (10, 0)]),
        (THREE, 4, 3, 2, 9, [(6, 4, 0), (4, 0, 6), (0, 4, 6), (6, 4, 0)]),
        ({0: "r0", 4: "r0", 6: "r0"}, 1, 2, 1, 0, [(4, 0)]),
        (
            DOCUMENTED,
            7,
            3,
            0,
            0,
            [(0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3), (0, 4, 2)],
        ),
    ],
)
def test_assignment_is_that_of_kafka(
    racks: Racks,
    partitions: int,
    replication_factor: int,
    start: int,
    first: int,
    replicas: list[tuple[int, ...]],
) -> None:
    brokers = brokers_of(racks)
    assigned = assign_replicas(brokers, partitions, replication_factor, start, start, first)
    assert assigned == replicas


def test_second_replica_shift_is_drawn_independently_of_the_start_index() -> None:
    brokers = brokers_of(NO_RACKS)
    assert assign_replicas(brokers, 2, 2, 0, 2) == [(0, 10), (4, 12)]
    assert assign_replicas(brokers, 2, 2, 3, 0) == [(10, 12), (12, 0)]


@given(
    racks=some.lists(some.sampled_from("abc"), min_size=1, max_size=7),
    partitions=some.integers(1, 30),
    dice=some.tuples(some.integers(0, 6), some.integers(0, 6)),
    data=some.data(),
)
def test_replicas_of_a_partition_are_on_distinct_brokers_and_spread_over_racks(
    racks: list[str], partitions: int, dice: tuple[int, int], data: some.DataObject
) -> None:
    brokers = brokers_of(dict(enumerate(racks)))
    replication_factor = data.draw(some.integers(1, len(racks)))
    start, shift = (one % len(racks) for one in dice)
    assigned = assign_replicas(brokers, partitions, replication_factor, start, shift)
    assert len(assigned) == partitions
    for replicas in assigned:
        assert len(set(replicas)) == replication_factor
        spread = {racks[one] for one in replicas}
        assert len(spread) == min(replication_factor, len(set(racks)))
    firsts = Counter(replicas[0] for replicas in assigned)
    assert max(firsts.values()) - min(firsts[one] for one in range(len(racks))) <= 1


def test_racks_of_only_some_brokers_are_ignored() -> None:
    mixed = brokers_of({1: "a", 2: None})
    assert lacks_racks(mixed)
    with pytest.raises(RequestRefused) as refused:
        check_counts(mixed, 1, 1)
    assert (refused.value.error, refused.value.message) == (-1, None)
    assert str(refused.value) == "error code -1"
    assert not lacks_racks(brokers_of(THREE))
    assert not lacks_racks(brokers_of(NO_RACKS))
    assert not lacks_racks([])


def test_refused_counts_are_explained() -> None:
    with pytest.raises(RequestRefused, match="must be larger than 0"):
        check_counts(brokers_of(THREE), 1, 0)


@pytest.mark.parametrize(
    ("leader", "isr", "top", "dropped"),
    [
        pytest.param(4, (1, 2, 4), 2, (2, 3), id="the leader stays, then another in sync"),
        pytest.param(4, (4,), 2, (2, 3), id="one out of sync stays with the leader"),
        pytest.param(NO_LEADER, (2,), 2, (3, 4), id="without a leader"),
        pytest.param(4, (1, 2, 4), 1, (1, 2, 3), id="the leader alone"),
    ],
)
def test_replaced_target_keeps_the_best_replicas(
    leader: int, isr: tuple[int, ...], top: int, dropped: tuple[int, ...]
) -> None:
    assigned = (1, 2, 3, 4, 5, 6)
    found = replicas_to_drop(assigned, leader, isr, top, target=(5,), originals=(6,))
    assert found == dropped


def test_assignment_of_a_replaced_target_has_kept_replicas_added_and_removed() -> None:
    found = changed_assignment((5, 1, 2, 6), (1,), target=(7, 5), originals=(6,))
    assert found == Assignment((7, 5, 2, 6), adding=(7, 5, 2), removing=(2, 6))
