"""The metrics of work whose term ends meanwhile: of long work that is interrupted, and of queued
events."""

import pytest

from controller.core import pauses, znodes
from controller.core.configuration import Configuration
from controller.core.events import Recorded, SessionConnected, SessionExpired, WatchFired
from controller.core.fold import Fold
from controller.core.metric_table import QUEUE_TIME, timer_name
from controller.core.metrics_observer import MetricsObserver
from replay.logs.recorded_fold import fold_event
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


def queue_times(found: MetricsObserver) -> float:
    """How many times in the queue are counted."""
    return sum(one.value for one in found.samples() if one.name == f"{QUEUE_TIME}_count")


def test_dropped_events_have_no_queue_time() -> None:
    """A session ends while the controller is elected. Of two ISR changes that were queued, none is
    handled; of two in the next session, both are, in one go."""
    fold = Fold(Configuration(broker_id=1000))
    found = fold.controller.observer = MetricsObserver(fold.controller)
    changes = [WatchFired(znodes.state_path("t", number), "data", -1) for number in (0, 1)]
    events = [SessionConnected(1, 6000, "", renewed=False), *changes, SessionExpired(1)]
    for seq, event in enumerate(events, start=1):
        fold_event(fold, Recorded(seq, 0, 0, 0, "session", event))
    counts = [queue_times(found)]
    for seq, event in enumerate(changes, start=len(events) + 1):
        fold_event(fold, Recorded(seq, 0, 0, 0, "watches", event))
    counts.append(queue_times(found))
    assert counts == [2, 4], "Startup and Expire; then each change"
