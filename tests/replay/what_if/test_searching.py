"""The point of no return: the likelihood jumps at the event that decides."""

from collections.abc import Callable
from pathlib import Path

import pytest

from replay.logs.open_log import open_log
from replay.what_if.causes import BrokerUnregistered, ExternalCause
from replay.what_if.changes import WhatIfChanges, apply_changes
from replay.what_if.conditions import condition_of
from replay.what_if.describing import event_texts
from replay.what_if.incident import Incident
from replay.what_if.searching import LikelihoodCurve, Search, point_of_no_return
from replay.world.inputs import CrashBroker, ElectLeaders, Input, StopBroker
from replay.world.scenario import Scenario, SlowReplica, TopicSpec
from tests.replay.what_if.simulated import incident_at, log_of_run, scenario

pytestmark = pytest.mark.timeout(300)

INCIDENTS = Path(__file__).parents[2] / "incidents"
OTHERS = TopicSpec("u", ((2, 3, 1), (3, 1, 2)))


def curve_of(
    incident: Incident,
    condition: str,
    branches: int = 12,
    workers: int = 1,
    changes: WhatIfChanges | None = None,
) -> LikelihoodCurve:
    search = Search(condition_of(condition, incident), branches, 12, 7, workers)
    return point_of_no_return(incident, apply_changes(incident, changes or WhatIfChanges()), search)


def gone(cause: ExternalCause, broker: int) -> bool:
    return isinstance(cause.what, BrokerUnregistered) and cause.what.broker == broker


def requested(cause: ExternalCause) -> bool:
    return isinstance(cause.what, ElectLeaders)


@pytest.mark.parametrize(
    ("begun", "inputs", "condition", "decisive"),
    [
        pytest.param(
            scenario(TopicSpec("t", ((1, 2),)), OTHERS),
            (
                CrashBroker(8_000, 3, False, None),
                CrashBroker(15_000, 2, False, None),
                CrashBroker(22_000, 1, False, None),
            ),
            "t-0 offline",
            lambda one: gone(one, 1),
            id="the last replica fails",
            marks=pytest.mark.long,
        ),
        pytest.param(
            scenario(TopicSpec("t", ((1, 2),)), OTHERS, slow=[SlowReplica(2, "t", 0, 6_000, None)]),
            (
                CrashBroker(12_000, 1, False, None),
                CrashBroker(13_000, 3, False, 4_000),
                ElectLeaders(24_000, (("t", 0),), "unclean"),
            ),
            "t-0 lost",
            requested,
            id="an operator requests an unclean election",
        ),
        pytest.param(
            scenario(TopicSpec("t", ((1, 2, 3),)), OTHERS),
            (
                StopBroker(8_000, 3, 5_000),
                CrashBroker(15_000, 2, False, None),
                StopBroker(24_000, 1, None),
            ),
            "t-0 leader 3",
            lambda one: gone(one, 1),
            id="a shutdown moves the leader",
            marks=pytest.mark.long,
        ),
    ],
)
def test_likelihood_jumps_at_the_planted_event(
    begun: Scenario,
    inputs: tuple[Input, ...],
    condition: str,
    decisive: Callable[[ExternalCause], bool],
    tmp_path: Path,
) -> None:
    incident = incident_at(log_of_run(tmp_path, begun, *inputs))
    (planted,) = [one.seq for one in incident.causes if decisive(one)]
    curve = curve_of(incident, condition)
    jump = curve.jumps[0]
    assert abs(jump.seq - planted) <= 1
    assert jump.is_exact
    assert jump.after == 1.0
    assert jump.before <= 0.6
    assert all(one.likelihood == 1.0 for one in curve.points if one.seq >= jump.seq)


@pytest.mark.long
def test_recorded_outage_is_decided_by_the_failure_of_the_last_replica() -> None:
    curve = curve_of(incident_at(INCIDENTS / "unclean-election"), "orders-3 offline")
    assert curve.jumps[0].seq == 90
    assert curve.jumps[0].after == 1.0
    assert curve.jumps[-1].after == 0.0


@pytest.mark.long
def test_stock_clusters_outage_is_decided_by_the_failure_of_the_last_replica() -> None:
    curve = curve_of(incident_at(INCIDENTS / "stock-unclean-election"), "never_04-0 offline")
    assert abs(curve.jumps[0].seq - 511) <= 1


@pytest.mark.long
def test_same_seed_has_the_same_curve_with_any_number_of_workers() -> None:
    incident = incident_at(INCIDENTS / "broker-crash")
    one, two = (curve_of(incident, "orders-1 leader 3", 4, workers) for workers in (1, 2))
    assert one.points == two.points
    assert one.futures == sum(point.futures for point in one.points)


def test_condition_that_nothing_affects_has_no_jump() -> None:
    curve = curve_of(incident_at(INCIDENTS / "broker-crash"), "orders-1 offline", 4)
    assert curve.jumps == []
    assert {one.likelihood for one in curve.points} == {0.0}


@pytest.mark.parametrize(
    ("changes", "since"),
    [
        pytest.param(WhatIfChanges(drop=(90,)), 89, id="the last replica does not fail"),
        pytest.param(
            WhatIfChanges(set=("orders:unclean.leader.election.enable=true",), begin=89),
            110,
            id="another replica is elected",
        ),
    ],
)
def test_moments_after_a_change_have_it(changes: WhatIfChanges, since: int) -> None:
    incident = incident_at(INCIDENTS / "unclean-election")
    curve = curve_of(incident, "orders-3 offline", 4, changes=changes)
    later = [one.likelihood for one in curve.points if since <= one.seq < 127]
    assert len(later) > 2
    assert set(later) == {0.0}


def test_delayed_event_has_no_effect_before_its_new_time() -> None:
    path = INCIDENTS / "unclean-election"
    incident = incident_at(path)
    changes = WhatIfChanges(delay=("90=4s",))
    curve = curve_of(incident, "orders-3 offline", 8, changes=changes)
    jump = curve.jumps[0]
    assert jump.seq == 103
    assert incident.times[102] < incident.times[90] + 4_000 < incident.times[103]
    with open_log(path) as log:
        texts = event_texts(log, incident, apply_changes(incident, changes), [jump.seq])
    assert texts[103].startswith("the registration of broker 1 ended")


@pytest.mark.long
def test_limits_include_the_likelihood() -> None:
    curve = curve_of(incident_at(INCIDENTS / "unclean-election"), "orders-3 offline", 8)
    assert all(one.low <= one.likelihood <= one.high for one in curve.points)
    assert any(0 < one.likelihood < 1 for one in curve.points)
