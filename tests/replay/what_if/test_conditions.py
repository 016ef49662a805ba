"""The conditions of a search."""

from functools import cache
from pathlib import Path

import pytest

from replay.errors import ReplayError
from replay.explore.verdict import invariant_names
from replay.what_if.conditions import (
    InvariantCondition,
    PartitionCondition,
    condition_of,
    has_bad_outcome,
)
from replay.what_if.incident import Incident
from replay.world.inputs import CrashBroker, ElectLeaders, Input
from replay.world.scenario import SlowReplica, TopicSpec
from tests.replay.what_if.simulated import incident_at, scenario

INCIDENTS = Path(__file__).parents[2] / "incidents"
SLOW = scenario(TopicSpec("t", ((1, 2),)), slow=[SlowReplica(2, "t", 0, 5_000, None)])
CRASH = CrashBroker(12_000, 1, False, None)
UNCLEAN = ElectLeaders(22_000, (("t", 0),), "unclean")


@cache
def incident() -> Incident:
    return incident_at(INCIDENTS / "broker-crash")


def test_conditions_are_parsed() -> None:
    assert condition_of("orders-1 offline", incident()) == PartitionCondition(
        "orders", 1, "offline"
    )
    assert condition_of("orders-1 lost", incident()) == PartitionCondition("orders", 1, "lost")
    assert condition_of("orders-1 leader 3", incident()) == PartitionCondition(
        "orders", 1, "leader", 3
    )
    name = invariant_names()[0]
    assert condition_of(name, incident()) == InvariantCondition(name)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "is not `PARTITION offline`, .*, and no invariant has this name"),
        ("nope", f"; invariants: {', '.join(sorted(invariant_names()))}$"),
        ("leader-in-irs", r"; did you mean leader-in-isr\? Invariants: "),
        ("orders-1 broken", "is not `PARTITION offline`, `PARTITION leader N` or"),
        ("orders-1 leader", "is not `PARTITION offline`, `PARTITION leader N` or"),
        ("orders-1 leader 9", "--invariant: the log has no broker 9; brokers: 1,2,3"),
        ("orders offline", "orders is not TOPIC-NUMBER, such as orders-0"),
        ("orders-77 offline", "the log has no partition orders-77"),
    ],
)
def test_condition_that_is_none_is_refused(text: str, error: str) -> None:
    with pytest.raises(ReplayError, match=error):
        condition_of(text, incident())


@pytest.mark.parametrize(
    ("what", "inputs", "expected"),
    [
        ("offline", (), False),
        ("offline", (CRASH,), True),
        ("lost", (CRASH,), False),
        ("lost", (CRASH, UNCLEAN), True),
    ],
)
def test_condition_of_a_partition_holds(
    what: str, inputs: tuple[Input, ...], expected: bool
) -> None:
    condition = PartitionCondition("t", 0, what)  # type: ignore[arg-type]
    assert has_bad_outcome(condition, SLOW, inputs, 4_000) is expected


def test_leader_is_that_of_the_end() -> None:
    begun = scenario(TopicSpec("t", ((1, 2),)))
    assert has_bad_outcome(PartitionCondition("t", 0, "leader", 2), begun, (CRASH,), 4_000)
    assert not has_bad_outcome(PartitionCondition("t", 0, "leader", 1), begun, (CRASH,), 4_000)


def test_partition_that_was_offline_before_the_beginning_is_not() -> None:
    restarts = CrashBroker(6_000, 1, False, 10_000)
    begun = scenario(TopicSpec("t", ((1,),)))
    assert has_bad_outcome(PartitionCondition("t", 0, "offline"), begun, (restarts,), 4_000)
    assert not has_bad_outcome(PartitionCondition("t", 0, "offline"), begun, (restarts,), 25_000)


def test_invariant_that_holds_is_not_a_bad_outcome() -> None:
    assert not has_bad_outcome(
        InvariantCondition("leader-in-isr"), scenario(TopicSpec("t", ((1, 2),))), (), 4_000
    )
