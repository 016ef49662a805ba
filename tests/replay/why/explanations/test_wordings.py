"""Answers name only what can help, and never lose a root cause."""

from pathlib import Path

from replay.inspect.at import cluster_at
from replay.logs.open_log import open_log
from replay.why.shortened import shortened
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.reassigning import (
    ask_for_isr,
    cluster_of,
    reassign,
)
from tests.replay.recorded_log import write_log
from tests.replay.why.asked import asked, first, plain, why

T0 = {"topic": "t", "partition": 0}


def test_unclean_election_is_not_offered_without_another_replica(tmp_path: Path) -> None:
    cluster = cluster_of(2, 1)
    cluster.stop_broker(1)
    answer = first(cluster, tmp_path, **T0)
    assert answer.endswith("The partition is online again when broker 1 returns.")


def test_member_of_the_isr_that_is_no_replica_is_not_waited_for(tmp_path: Path) -> None:
    cluster = cluster_of(3, 1, 2)
    cluster.stop_broker(2)
    cluster.stop_broker(1)
    cluster.set_isr("t", 0, [3])
    cluster.announce_isr(("t", 0))
    answer = first(cluster, tmp_path, **T0)
    assert (
        "Only broker 3 is in the ISR. No member of the ISR is a replica of the partition" in answer
    )
    assert "returns" not in answer


def test_root_cause_is_shown_however_few_causes_are(cluster: Cluster, tmp_path: Path) -> None:
    ask_for_isr(cluster, 1)
    cluster.stop_broker(1)
    cluster.stop_broker(2)
    for _ in range(5):
        cluster.start_broker(2)
        cluster.stop_broker(2)
    answer = why(cluster, tmp_path, **T0)
    offline = "t-0 has been offline since event N: the registration of"
    assert plain(answer.answer).startswith(offline)
    shown = shortened(answer, 1)
    assert shown[0] == answer.chain[0]
    assert "the registration of broker 1 is gone" in [one.text for one in shown]
    assert len(shown) < len(answer.chain)
    assert shortened(answer, 0) == answer.chain


def test_why_and_inspect_have_the_same_order_of_replicas(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start_broker(4)
    reassign(cluster, 4, 2)
    log = write_log(tmp_path / "log", cluster)
    with open_log(log) as opened:
        [move] = cluster_at(opened, len(cluster.history)).reassignments
    origin = ",".join(map(str, move.origin))
    answer = asked(log, **T0, is_reassignment=True).answer
    assert answer.startswith(f"The reassignment of t-0 from {origin} to 4,2")
