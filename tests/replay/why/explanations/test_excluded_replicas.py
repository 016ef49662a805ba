"""Answers about a partition, and its brokers, while /admin/reassign_cancel cancels its move."""

from pathlib import Path

import pytest

from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.elections.electing import configure
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    interruptible,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, ask_for_isr
from tests.replay.why.asked import first, why

PARTITION = {"topic": "t", "partition": 0}


@pytest.fixture
def cluster() -> Cluster:
    """t-0 from [1,2] to [3,4,5]; its rollback waits, since only 3 is in sync."""
    cluster = interruptible(5, 1, 2)
    configure(cluster, "topics/t", "true")
    submit(cluster, {T0: [3, 4, 5]})
    ask_for_isr(cluster, 1, 3)
    for broker in (1, 2):
        cluster.stop_broker(broker)
    cancel_all(cluster)
    return cluster


def test_offline_partition_names_the_live_replicas_that_may_not_lead(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.stop_broker(3)
    answer = first(cluster, tmp_path, **PARTITION)
    excluded = [f"{one} is not an original replica of the cancelled reassignment" for one in (4, 5)]
    assert f"1 is not online, 2 is not online, 3 is not online, {', '.join(excluded)}" in answer
    assert (
        "The partition is online again when broker 3 returns, or after an unclean election, which "
        "may lose records and elects only the original replicas 1,2, because the move to 3,4,5 is "
        "cancelled."
    ) in answer


def test_broker_whose_move_waits_to_be_rolled_back(cluster: Cluster, tmp_path: Path) -> None:
    [known] = why(cluster, tmp_path, topic="t", partition=0, is_reassignment=True).moves
    assert known.cancelled is not None
    cancelled = "/admin/reassign_cancel was created (event N, czxid "
    assert first(cluster, tmp_path, **PARTITION, broker=5).startswith(
        "Broker 5 is not in the ISR of t-0: it was being added; now it is live, but has not caught "
        f"up. The move to 3,4,5, which adds it, is cancelled: {cancelled}"
    )
    assert f"The move to 3,4,5, which adds it, is cancelled: {cancelled}" in first(
        cluster, tmp_path, **PARTITION, broker=3
    )


def test_broker_whose_move_was_rolled_back(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start_broker(1)
    ask_for_isr(cluster, 3, 1)
    answer = first(cluster, tmp_path, **PARTITION, broker=5)
    assert answer.startswith(
        "Broker 5 has no replica of t-0: its replicas are 1,2. The move from 1,2 to 3,4,5 was "
        "rolled back at event N: /admin/reassign_cancel was created"
    )
    assert "The move" not in first(cluster, tmp_path, **PARTITION, broker=1)
