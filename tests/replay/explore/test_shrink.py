"""Shrinking finds a smallest run, of the inputs and of the cluster."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from replay.explore.generators.mix import random_mix
from replay.explore.generators.scenarios import generic
from replay.explore.numbers import RandomNumbers
from replay.explore.shrink import ddmin, shrink
from replay.world.inputs import (
    CrashBroker,
    DeleteControllerZnode,
    ExpireSession,
    FeatureChange,
    Input,
    Reassign,
    Target,
    UpdateFeatures,
)
from replay.world.scenario import Scenario


@pytest.mark.parametrize("needed", [{3}, {0, 9}, {1, 4, 7}, set(range(10))])
def test_ddmin_finds_exactly_the_needed_items(needed: set[int]) -> None:
    found = ddmin(list(range(10)), lambda some: needed <= set(some))
    assert found == sorted(needed)


def test_ddmin_result_is_minimal_for_a_predicate_that_is_not_monotonic() -> None:
    def test(some: list[int]) -> bool:
        return len(some) % 3 == 1 and 5 in some

    found = ddmin(list(range(10)), test)
    assert test(found)
    assert not any(test(found[:place] + found[place + 1 :]) for place in range(len(found)))


def _noise() -> list[Input]:
    return [one for seed in range(3) for one in random_mix(generic(), RandomNumbers(seed))]


def test_shrunk_run_has_the_needed_inputs_and_the_smallest_cluster() -> None:
    crash, expiry = CrashBroker(9_000, 2, True, 4_000), ExpireSession(9_100, "refold 100")
    inputs = [*_noise(), crash, *_noise(), expiry]

    def breaks(scenario: Scenario, some: Sequence[Input]) -> bool:
        has_crash = any(isinstance(one, CrashBroker) and one.broker == 2 for one in some)
        has_expiry = any(isinstance(one, ExpireSession) for one in some)
        return has_crash and has_expiry and any(one.id == 2 for one in scenario.brokers)

    shrunk = shrink(generic(), inputs, breaks, seconds=60)
    assert shrunk.is_minimal
    assert sorted(type(one).__name__ for one in shrunk.inputs) == ["CrashBroker", "ExpireSession"]
    assert len(shrunk.scenario.topics) == 0
    assert shrunk.scenario.load is None
    assert len(shrunk.scenario.controllers) == 1


def test_values_of_inputs_are_simplified() -> None:
    move = Reassign(5_000, (Target("orders", 0, (1, 2)), Target("orders", 1, (2, 3))))

    def breaks(scenario: Scenario, some: Sequence[Input]) -> bool:
        return any(
            isinstance(one, Reassign) and any(each.partition == 1 for each in one.targets)
            for one in some
        )

    shrunk = shrink(generic(), [move], breaks, seconds=60)
    (found,) = shrunk.inputs
    assert isinstance(found, Reassign)
    assert [one.partition for one in found.targets] == [1]


def test_changes_of_features_and_znodes_of_the_start_are_left_out() -> None:
    changes = FeatureChange("a", 3), FeatureChange("b", 4)
    scenario = structs.replace(generic(), znodes={"/feature": "", "/latest_producer_id_block": ""})

    def breaks(scenario: Scenario, some: Sequence[Input]) -> bool:
        is_changed = any(
            isinstance(one, UpdateFeatures) and changes[1] in one.changes for one in some
        )
        return is_changed and "/feature" in scenario.znodes

    shrunk = shrink(scenario, [UpdateFeatures(5_000, changes, True)], breaks, seconds=60)
    assert shrunk.inputs == (UpdateFeatures(5_000, changes[1:]),)
    assert shrunk.scenario.znodes == {"/feature": ""}
    # The levels 3 and 4 are no brokers.
    assert len(shrunk.scenario.brokers) == 1


def test_brokers_that_inputs_name_are_kept() -> None:
    def breaks(scenario: Scenario, some: Sequence[Input]) -> bool:
        return len(some) == 1

    inputs: list[Input] = [CrashBroker(5_000, 4), DeleteControllerZnode(6_000)]
    shrunk = shrink(generic(), inputs, breaks, seconds=60)
    named = {one.broker for one in shrunk.inputs if isinstance(one, CrashBroker)}
    assert named <= {one.id for one in shrunk.scenario.brokers}


def test_run_that_breaks_without_inputs_is_shrunk_to_none() -> None:
    shrunk = shrink(generic(), _noise(), lambda scenario, some: True, seconds=60)
    assert shrunk.inputs == ()
    assert len(shrunk.scenario.brokers) == 1


def test_shrinking_ends_when_its_time_is_over() -> None:
    times = iter(range(1000))
    inputs = _noise()
    shrunk = shrink(
        generic(), inputs, lambda scenario, some: False, seconds=3, now=lambda: next(times)
    )
    assert not shrunk.is_minimal
    assert shrunk.inputs == tuple(inputs)


def test_interrupted_shrinking_returns_what_it_has_reached() -> None:
    calls: list[int] = []

    def interrupted(scenario: Scenario, inputs: Sequence[Input]) -> bool:
        calls.append(len(inputs))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return True

    shrunk = shrink(
        generic(), [DeleteControllerZnode(one) for one in range(4)], interrupted, seconds=60
    )
    assert not shrunk.is_minimal
    assert len(shrunk.inputs) < 4
