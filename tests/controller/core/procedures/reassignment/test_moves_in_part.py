"""Some of the reassignments that are handled together fail, or have not caught up (KB 7.5, 7.7)."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from tests.controller.core.cluster import writes
from tests.controller.core.endpoint import alter_partition, proposal
from tests.controller.core.procedures.reassignment.interrupting import WriteRejectingCluster
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    as_text,
    ask,
    assignment,
    cancel,
    cluster_of,
    listed,
    reassign,
)


def test_move_that_has_not_caught_up_is_left_alone_when_another_completes() -> None:
    cluster = cluster_of(3, 1)
    cluster.create_topic("u", {0: [1]})
    other = ("u", 0)
    ask(cluster, (T0, [2]), (other, [3]))
    before = cluster.state(*other)
    seen = cluster.seen()
    changed = proposal(cluster, "t", 0, isr=(1, 2)), proposal(cluster, "u", 0)
    alter_partition(cluster, 1, *changed)
    assert (assignment(cluster), assignment(cluster, other)) == ("2", "3,1 adding 3 removing 1")
    assert cluster.state(*other) == before
    assert [text for text in seen.requests(3) if "LeaderAndIsr" in text and "u-0" in text] == []


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_move_whose_topic_cannot_be_written_sends_no_request(rules: str) -> None:
    cluster = WriteRejectingCluster(1, 2, 3, rules=rules)
    cluster.start()
    cluster.create_topic("t", {0: [1]})
    cluster.refuses = writes(znodes.topic_path("t"))
    before = cluster.state("t", 0)
    seen = cluster.seen()
    assert reassign(cluster, 2) == codes.UNKNOWN_SERVER_ERROR
    assert (cluster.state("t", 0), seen.requests(2), seen.requests(1)) == (before, [], [])
    assert listed(cluster) == {}
    cluster.refuses = lambda issued: False
    assert reassign(cluster, 3) == codes.NONE
    assert assignment(cluster) == "3,1 adding 3 removing 1"


def test_under_kafka_rules_a_cancellation_that_cannot_be_stored_deletes_no_replica() -> None:
    cluster = WriteRejectingCluster(1, 2, 3, rules="kafka")
    cluster.start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    ask(cluster, (T0, [2]), (T1, [3]))
    cluster.refuses = writes(znodes.topic_path("t"))
    seen = cluster.seen()
    assert cancel(cluster) == codes.UNKNOWN_SERVER_ERROR
    assert seen.requests(2) == []
    assert as_text(cluster.topic("t").assignments[0]) == "2,1 adding 2 removing 1"
