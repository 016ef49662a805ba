"""The example {1,2,3} to {4,5,6}: row OB-01, KB 7.10 and its trace.

Kafka's controller removes the old replicas from the ISR in B4, one write for each. With refold's
own rules, B3 removes them, and B4 does not write (isr-within-replicas);
tests/transcripts/reassignment.txt shows that step by step.
"""

from controller.core import znodes
from controller.core.commands import UpdateMetadataRequest
from controller.core.operations import Delete, SetData
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.procedures.reassignment.reassigning import (
    EXAMPLE,
    as_text,
    example,
    listed,
    play_example,
    request,
)

TOPIC, NUMBER = EXAMPLE
BEFORE, BETWEEN, AFTER = "1,2,3", "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3", "4,5,6"
ALL_SIX = "[5,1,6,2,3,4]"


def played(rules: str = "kafka") -> tuple[Cluster, Seen, list[tuple[str, str]]]:
    """The example from start to end, and the contents of ZooKeeper in order: assignment and
    state."""
    cluster = example(rules=rules)
    stood: list[tuple[str, str]] = []

    def look() -> None:
        content = cluster.topic(TOPIC).assignments[NUMBER]
        now = (as_text(content), str(cluster.state(*EXAMPLE)))
        if now not in stood[-1:]:
            stood.append(now)

    look()
    cluster.before = lambda issued: look()
    seen = cluster.seen()
    play_example(cluster)
    look()
    return cluster, seen, stood


def test_OB_01_example_passes_through_the_six_rows_of_the_table() -> None:
    _, _, stood = played()
    rows = [
        (BEFORE, "leader 1 e 5 isr [1,2,3] v 7 ce 1"),
        (BETWEEN, "leader 1 e 6 isr [1,2,3] v 8 ce 1"),
        (BETWEEN, f"leader 1 e 6 isr {ALL_SIX} v 11 ce 1"),
        (BETWEEN, f"leader 4 e 7 isr {ALL_SIX} v 12 ce 1"),
        (BETWEEN, "leader 4 e 10 isr [5,6,4] v 15 ce 1"),
        (AFTER, "leader 4 e 10 isr [5,6,4] v 15 ce 1"),
    ]
    assert [row for row in stood if row in rows] == rows


def test_OB_01_zookeeper_contents_change_step_by_step() -> None:
    """KB 7.10: leader epochs 6 to 10, versions 8 to 15."""
    cluster, _, stood = played()
    assert stood == [
        (BEFORE, "leader 1 e 5 isr [1,2,3] v 7 ce 1"),
        (BETWEEN, "leader 1 e 5 isr [1,2,3] v 7 ce 1"),
        (BETWEEN, "leader 1 e 6 isr [1,2,3] v 8 ce 1"),
        (BETWEEN, "leader 1 e 6 isr [1,2,3,6] v 9 ce 1"),
        (BETWEEN, "leader 1 e 6 isr [1,6,2,3,4] v 10 ce 1"),
        (BETWEEN, "leader 1 e 6 isr [5,1,6,2,3,4] v 11 ce 1"),
        (BETWEEN, "leader 4 e 7 isr [5,1,6,2,3,4] v 12 ce 1"),
        (BETWEEN, "leader 4 e 8 isr [5,6,2,3,4] v 13 ce 1"),
        (BETWEEN, "leader 4 e 9 isr [5,6,3,4] v 14 ce 1"),
        (BETWEEN, "leader 4 e 10 isr [5,6,4] v 15 ce 1"),
        (AFTER, "leader 4 e 10 isr [5,6,4] v 15 ce 1"),
    ]
    assert request(cluster) is None
    assert listed(cluster) == {}


def test_under_refolds_rules_the_new_leader_is_written_without_the_old_replicas() -> None:
    cluster, seen, stood = played("refold")
    assert stood[5:] == [
        (BETWEEN, f"leader 1 e 6 isr {ALL_SIX} v 11 ce 1"),
        (BETWEEN, "leader 4 e 7 isr [5,6,4] v 12 ce 1"),
        (AFTER, "leader 4 e 7 isr [5,6,4] v 12 ce 1"),
    ]
    for broker in (1, 2, 3):
        assert seen.requests(broker)[-3:-1] == [
            f"StopReplica v4; {TOPIC}-0 e 7",
            f"StopReplica v4; {TOPIC}-0 e 7 delete",
        ]
    assert request(cluster) is None
    assert listed(cluster) == {}


def test_OB_01_requests_are_sent_in_the_order_of_the_trace() -> None:
    _, seen, _ = played()
    all_six = "UpdateMetadata to 1,2,3,4,5,6"
    assert grouped(seen) == [
        # A1
        "LeaderAndIsr to 1,2,3,4,5,6",
        all_six,
        # A2
        "LeaderAndIsr to 4",
        all_six,
        "LeaderAndIsr to 5",
        all_six,
        "LeaderAndIsr to 6",
        all_six,
        # The ISR grows by 6, 4 and 5.
        all_six,
        all_six,
        all_six,
        # B3
        "LeaderAndIsr to 4,5,6",
        all_six,
        # B4
        "LeaderAndIsr to 4,5,6",
        all_six,
        "StopReplica to 1,2,3",
        # B5
        "StopReplica to 1,2,3",
        # B8
        all_six,
    ]


def grouped(seen: Seen) -> list[str]:
    """The requests in order. Consecutive requests of a kind with ascending brokers are one
    batch."""
    batches: list[tuple[str, list[int]]] = []
    for one in seen.broker_requests():
        kind = type(one).__name__.removesuffix("Request")
        if batches and batches[-1][0] == kind and batches[-1][1][-1] < one.broker:
            batches[-1][1].append(one.broker)
        else:
            batches.append((kind, [one.broker]))
    return [f"{kind} to {','.join(map(str, brokers))}" for kind, brokers in batches]


def test_OB_01_new_old_and_leading_replicas_get_their_requests() -> None:
    _, seen, _ = played()
    between = "replicas [4,5,6,1,2,3] adding [4,5,6] removing [1,2,3]"
    raised = f"LeaderAndIsr v7; {TOPIC}-0 leader 1 e 6 isr [1,2,3] v 8 ce 1 {between}"
    elected = f"LeaderAndIsr v7; {TOPIC}-0 leader 4 e 7 isr {ALL_SIX} v 12 ce 1 replicas [4,5,6]"
    done = f"LeaderAndIsr v7; {TOPIC}-0 leader 4 e 10 isr [5,6,4] v 15 ce 1 replicas [4,5,6]"

    def announced(broker: int) -> list[str]:
        return [one for one in seen.requests(broker) if not one.startswith("UpdateMetadata")]

    assert announced(4) == [f"{raised} new", f"{raised} new", elected, done]
    for broker, epoch in ((1, 7), (2, 8), (3, 9)):
        assert announced(broker) == [
            raised,
            f"StopReplica v4; {TOPIC}-0 e {epoch}",
            f"StopReplica v4; {TOPIC}-0 e 10 delete",
        ]


def test_OB_01_metadata_carries_the_raised_epoch() -> None:
    """Race R25: an epoch raised only in ZooKeeper would block consumers."""
    _, seen, _ = played()
    updates = [one for one in seen.broker_requests() if isinstance(one, UpdateMetadataRequest)]
    epochs = [one.partitions[0].leadership.leader_epoch for one in updates if one.broker == 1]
    assert epochs == [6] * 7 + [7, 10, 10]
    assert [one.replicas for one in updates[-1].partitions] == [(4, 5, 6)]


def test_OB_01_assignment_is_written_first_and_last_then_the_request_is_deleted() -> None:
    _, seen, _ = played()
    topic, state = znodes.topic_path(TOPIC), znodes.state_path(*EXAMPLE)
    assert seen.written() == [topic, *[state] * 8, topic, znodes.REASSIGN_PARTITIONS]
    assert isinstance(seen.writes()[0], SetData)
    assert isinstance(seen.writes()[-1], Delete)
    assert seen.notices() == []
