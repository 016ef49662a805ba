"""The metrics of work whose term ends meanwhile: of long work that is interrupted, and of queued
events."""

import pytest

from controller.core import pauses, znodes
from controller.core.events import WatchFired
from controller.core.metric_table import QUEUE_TIME, timer_name
from controller.core.metrics_observer import MetricsObserver
from tests.controller.core.cluster import Cluster, reads
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


def change_states(cluster: Cluster) -> None:
    """Watches report that the states of two partitions have changed."""
    for number in (0, 1):
        state = znodes.state_path("t", number)
        cluster.happen_next(WatchFired(state, "data", -1), "watches")


def test_dropped_events_have_no_queue_time() -> None:
    """The session ends while two changes wait. In the next session, two other ones are handled in
    one go."""
    cluster = Cluster(1).start()
    found = cluster.fold.controller.observer = MetricsObserver(cluster.fold.controller)

    def change_states_and_end_the_session() -> None:
        change_states(cluster)
        cluster.end_session()

    cluster.once(reads(znodes.TOPICS), change_states_and_end_the_session)
    cluster.create_topic("t", {0: [1], 1: [1]})
    before = queue_times(found)
    cluster.once(reads(znodes.TOPICS), lambda: change_states(cluster))
    cluster.create_topic("u", {0: [1]})
    assert queue_times(found) - before == 4, "of the list, the two states and the new topic"
