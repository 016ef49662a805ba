"""A topic that waits for its deletion changes only as far as brokers need it (KB 8.6)."""

from typing import Literal

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.operations import Create, SetData
from controller.core.procedures.elections.rebalance import rebalance_timer
from controller.core.state_machines import PartitionState
from tests.controller.core.cluster import Cluster
from tests.controller.core.endpoint import call, controlled_shutdown, next_request
from tests.controller.core.procedures.topics.deleting import (
    cluster_with_topic,
    left_of,
    logs,
    mark_quietly,
)


def waiting(cluster: Cluster) -> list[str]:
    return list(cluster.fold.controller.context.ineligible_for_deletion)


def waiting_from_failover() -> Cluster:
    """t is marked and its deletion has not started: broker 3 was down when the controller took
    the role. u is like t, without a marker. Broker 1 leads, and 2 is in sync."""
    cluster = cluster_with_topic()
    cluster.create_topic("u", {0: [1, 2, 3]})
    cluster.stop_broker(3)
    mark_quietly(cluster, "t")
    cluster.expire()
    assert waiting(cluster) == ["t"]
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1,2] v 1 ce 1"
    return cluster


def test_failover_does_not_start_the_deletion_of_a_topic_with_an_offline_replica() -> None:
    cluster = waiting_from_failover()
    assert logs(cluster, "t") == {1: [0], 2: [0], 3: [0]}
    assert cluster.fold.controller.context.deletion_started == {}
    cluster.start_broker(3)
    assert left_of(cluster, "t") == []


def test_queued_topic_gets_no_new_leader() -> None:
    cluster = waiting_from_failover()
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1,2] v 1 ce 1"
    assert cluster.partition("t", 0).state is PartitionState.ONLINE
    assert cluster.state("u", 0) == "leader 2 e 2 isr [2] v 2 ce 2"
    cluster.start_broker(1)
    cluster.start_broker(3)
    assert left_of(cluster, "t") == []


def test_queued_topic_gets_no_first_leader() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [2]})
    mark_quietly(cluster, "t")
    cluster.expire()
    assert waiting(cluster) == ["t"]
    seen = cluster.seen()
    cluster.start_broker(2)
    assert left_of(cluster, "t") == []
    assert not any(isinstance(one, Create) for one in seen.writes())


@pytest.mark.parametrize("election", ["preferred", "unclean"])
def test_election_in_a_queued_topic_is_refused(
    election: Literal["preferred", "unclean"],
) -> None:
    cluster = waiting_from_failover()
    request = ElectLeadersReceived(next_request(cluster), 2, election, [("t", 0)])
    answer = call(cluster, request)
    assert [one.error for one in answer.partitions] == [codes.INVALID_TOPIC_EXCEPTION]


def test_controlled_shutdown_does_not_change_a_queued_topic() -> None:
    cluster = waiting_from_failover()
    answer = controlled_shutdown(cluster, 1)
    assert (answer.error, answer.remaining) == (codes.NONE, ())
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1,2] v 1 ce 1"
    assert cluster.leadership("u", 0).leader == 2


def test_rebalance_does_not_change_a_queued_topic() -> None:
    cluster = waiting_from_failover()
    for topic in ("t", "u"):
        state = cluster.leadership(topic, 0)
        path = znodes.state_path(topic, 0)
        moved = znodes.write_state(type(state)(2, 1, (2, 1), 0, 1))
        cluster.ask(SetData(path, moved, state.partition_epoch))
        cluster.announce_isr((topic, 0))
    cluster.fire(rebalance_timer(cluster.fold.controller))
    assert cluster.leadership("t", 0).leader == 2
    assert cluster.leadership("u", 0).leader == 1


def test_partitions_are_not_added_to_a_queued_topic() -> None:
    cluster = waiting_from_failover()
    cluster.create_topic("t", {0: [1, 2, 3], 1: [1]})
    assert list(cluster.topic("t").assignments) == [0]
    assert cluster.state("t", 1) is None


def test_starting_brokers_do_not_get_the_leaders_of_queued_topics() -> None:
    """KB 9.1 step 3 omits them. Step 4 does not: their replicas are brought online, and in the
    metadata the topic has leader -2."""
    cluster = waiting_from_failover()
    seen = cluster.seen()
    cluster.start_broker(4)
    assert not any("t-0" in request for request in seen.requests(4))
    seen = cluster.seen()
    cluster.start_broker(3)
    first, brought_online = seen.requests(3)[:2]
    assert "u-0" in first
    assert "t-0" not in first
    assert brought_online.startswith("LeaderAndIsr v7; t-0 leader 1 e 1 isr [1,2]")
    assert all("t-0 leader -2" in one for one in seen.requests(1) if "t-0 leader" in one)
