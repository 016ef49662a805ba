"""The metrics of long work that is interrupted and whose term ends meanwhile."""

import pytest

from controller.core import pauses
from controller.core.metric_table import timer_name
from controller.core.metrics_observer import MetricsObserver
from tests.controller.core.test_urgent_events import (
    PART,
    api_request,
    lose_role_in_the_interruption,
    with_25_partitions,
)


def test_long_work_of_a_lost_role_is_counted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "TOGETHER_MAX", PART)
    cluster = with_25_partitions()
    controller = cluster.fold.controller
    found = controller.observer = MetricsObserver(controller)

    def counted() -> tuple[float, float]:
        name = timer_name("PartitionReassignment")
        values = {(one.name, *one.labels): one.value for one in found.samples()}
        return values[(f"{name}_count",)], values[(name, ("quantile", "0.999"))]

    lose_role_in_the_interruption(cluster, [])
    cluster.happen(api_request(), "api:2")
    assert not cluster.is_active
    assert counted()[0] == 1
    cluster.now_ms += 3_600_000
    cluster.expire()
    times, longest_ms = counted()
    assert times == 1
    assert longest_ms < 1_000
