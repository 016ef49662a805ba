"""A tool adds partitions by writing the topic's znode while the controller moves another one."""

from typing import Literal

import pytest
from msgspec import structs

from replay.explore.generators.scenarios import generic
from replay.explore.invariants.invariant import Violation
from replay.explore.run import run
from replay.world.inputs import CreatePartitions, Reassign, Target
from replay.world.scenario import Scenario

Route = Literal["api", "znode"]
MOVE = (Target("orders", 0, (1, 2, 4)),)
AT_MS = range(5_000, 5_013)
"""From the request to the time at which the topic's znode has been written."""


def checking_versions(*, checks: bool) -> Scenario:
    """The generic scenario, in which a refold has the role."""
    scenario = generic()
    controllers = tuple(
        structs.replace(
            one,
            configuration=structs.replace(one.configuration, checks_topic_versions=checks),
        )
        for one in scenario.controllers
    )
    return structs.replace(scenario, active_ms=30_000, controllers=controllers)


def violations(route: Route, *, checks: bool) -> list[Violation]:
    """Of one run for each time at which the tool may write."""
    scenario = checking_versions(checks=checks)
    found = []
    for at_ms in AT_MS:
        added = CreatePartitions(at_ms, "orders", ((2, 3, 4),), "znode")
        violation = run(scenario, (Reassign(5_000, MOVE, route), added)).violation
        if violation is not None:
            found.append(violation)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("route", ["api", "znode"])
def test_partition_added_at_any_time_of_a_reassignment_is_kept(route: Route) -> None:
    assert violations(route, checks=True) == []


@pytest.mark.parametrize("route", ["api", "znode"])
def test_partition_is_lost_if_the_version_is_not_checked(route: Route) -> None:
    found = {one.invariant for one in violations(route, checks=False)}
    assert found == {"partitions-kept"}
