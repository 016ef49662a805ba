"""The part of a cluster that a command shows, and names that the cluster does not have."""

from pathlib import Path

import pytest

from replay.cluster_view.selecting import require, require_broker_among, selected
from replay.cluster_view.views import ClusterView
from replay.errors import ReplayError
from replay.inspect.at import cluster_at
from replay.logs.open_log import open_log

BOUNCED = Path(__file__).parents[2] / "incidents/bounced-broker"


@pytest.fixture(scope="module")
def cluster() -> ClusterView:
    """Brokers 1, 2 and 3 are registered. Broker 9 has a replica to delete. The controller resigns
    by the last event."""
    with open_log(BOUNCED) as log:
        return cluster_at(log, log.reader.last_seq - 1)


def test_selected_partition_is_the_only_one(cluster: ClusterView) -> None:
    found = selected(cluster, partition=("moved", 0))
    assert [one.name for one in found.partitions()] == ["moved-0"]
    assert [one.partition for one in found.replica_deletions] == ["moved-0"]
    assert selected(cluster, ["orders"]).replica_deletions == []


def test_unknown_topic_and_partition_are_errors_with_those_that_exist(cluster: ClusterView) -> None:
    with pytest.raises(ReplayError, match=r"no topic move at event .* did you mean moved[?]"):
        require(cluster, "move")
    with pytest.raises(ReplayError, match=r"no partition moved-7 at event .*; topic moved has 0"):
        require(cluster, "moved", 7)


def test_broker_with_a_replica_to_delete_is_known(cluster: ClusterView) -> None:
    assert cluster.known_brokers() == {1, 2, 3, 9}


def test_unknown_broker_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(ReplayError, match=r"^no broker 17; brokers: 1,2,9$"):
        require_broker_among([9, 1, 2], 17, "no {}")
    with pytest.raises(ReplayError, match=r"^no broker 17; brokers: none$"):
        require_broker_among([], 17, "no {}")
