"""A fold continues from a snapshot that was taken during a topic deletion."""

from hypothesis import given, settings

from controller.core.snapshot import load_snapshot, take_snapshot
from tests.controller.core.cluster import Cluster
from tests.controller.core.eventful import RandomEventsCluster, Step, steps
from tests.controller.core.procedures.topics.deleting import (
    cluster_with_topic,
    left_of,
    mark,
    slow_to_delete,
)


def continue_from_a_snapshot(cluster: Cluster) -> None:
    """Another fold with the content of the snapshot replaces the cluster's."""
    data = take_snapshot(cluster.fold)
    cluster.fold = load_snapshot(data, cluster.fold.controller.configuration)
    assert take_snapshot(cluster.fold) == data


def test_requested_replica_deletions_are_in_the_snapshot() -> None:
    cluster = cluster_with_topic()
    cluster.create_topic("u", {0: [2, 3]})
    cluster.stop_broker(3)
    slow_to_delete(cluster, 1, 2)
    mark(cluster, "t", "u")
    context = cluster.fold.controller.context
    assert len(context.in_flight) == 2
    assert list(context.ineligible_for_deletion) == ["t", "u"]
    continue_from_a_snapshot(cluster)
    cluster.answer_slow()
    continue_from_a_snapshot(cluster)
    cluster.start_broker(3)
    assert left_of(cluster, "t") + left_of(cluster, "u") == []


@settings(max_examples=40)
@given(steps=steps)
def test_snapshot_after_every_step_changes_no_command(steps: list[Step]) -> None:
    whole, broken_off = RandomEventsCluster(), RandomEventsCluster()
    for step in steps:
        for cluster in (whole, broken_off):
            cluster.step(step)
        continue_from_a_snapshot(broken_off)
    for cluster in (whole, broken_off):
        cluster.settle()
    assert broken_off.commands() == whole.commands()
