"""Statements that agree with each other: between questions, moments and `inspect`."""

from collections.abc import Callable
from pathlib import Path

from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.reassigning import cluster_of, reassign
from tests.replay.why.asked import asked, first, plain

IncidentOf = Callable[[str], Path]


def test_move_that_a_failover_found_has_no_beginning(incident: IncidentOf) -> None:
    log = incident("cancellation-failover")
    assert plain(asked(log, 93, topic="guarded", partition=0, is_reassignment=True).answer) == (
        "The reassignment of guarded-0 from 1,2 to 3,9, found under way at event N, is being "
        "rolled back to 1,2, as decided at event N: /admin/reassign_cancel was found (event N, "
        "czxid 96)."
    )


def test_leader_that_a_failover_found_leads_since_an_unknown_time(incident: IncidentOf) -> None:
    log = incident("cancellation-failover")
    assert plain(asked(log, 50, topic="orders", partition=1).answer).startswith(
        "orders-1 has leader 3: the controller found it in ZooKeeper at event N, where another "
        "process had written it before. "
    )


def test_replica_that_is_being_removed_is_not_unhealthy(incident: IncidentOf) -> None:
    """Broker 1 leaves moved-1 at the end of its move, and is out of the ISR already."""
    log = incident("extra-conflict")
    answer = asked(log, 243, topic="moved", partition=1).answer
    assert "Its move to 3,2 is ending" in answer
    assert answer.count("now it is being removed") == 1
    unhealthy = asked(log, 243, is_unhealthy=True).unhealthy
    assert [(one.cause, one.affected) for one in unhealthy] == [
        ("broker 9 is not registered", ["deletion of the replica of moved-0 on broker 9"])
    ]
    assert asked(log, 243, topic="moved").answer == (
        "moved has 2 partitions, all online and in sync."
    )


def test_move_with_another_target_began_when_its_first_target_was_written(tmp_path: Path) -> None:
    cluster = cluster_of(5, 2, 1, 3)
    reassign(cluster, 4, 5, 2)
    cluster.now_ms += 7_000
    reassign(cluster, 5, 1)
    about = {"topic": "t", "partition": 0, "is_reassignment": True}
    assert first(cluster, tmp_path, **about).startswith(
        "The reassignment of t-0 from 1,2,3 to 5,1, begun at event N, has not ended yet, 7 s after "
        "it began: "
    )


def test_single_things_are_counted_in_the_singular(tmp_path: Path) -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1]})
    assert first(cluster, tmp_path, topic="t") == "t has 1 partition, all online and in sync."
    assert "It has 1 replica, leads 1, and is in " in first(cluster, tmp_path, broker=1)
