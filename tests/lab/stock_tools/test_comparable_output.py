"""Only parts that differ between runs are removed from the output of tools."""

import json

import pytest

from tests.lab.incidents.zookeeper_tree import Tree, Znode
from tests.lab.stock_tools.calls import NODE
from tests.lab.stock_tools.comparable_output import (
    comparable_lines,
    distribution,
    proposal,
    without_daemon,
)
from tests.lab.stock_tools.comparison import (
    BEGIN,
    END,
    Played,
    cells,
    cells_of,
    differing,
    matrix,
    reasons,
    shown,
    unexplained,
    with_matrix,
)
from tests.lab.stock_tools.script import SCRIPT
from tests.lab.stock_tools.steps import Row
from tools.lab.kafka_tools import MAIN_CLASSES

TOPIC = "Topic: {}\tTopicId: {}\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: "
PARTITION = "\tTopic: {}\tPartition: {}\tLeader: {}\tReplicas: {}\tIsr: {}\tElr: N/A"


def test_ids_and_the_order_of_topics_and_isr_are_ignored() -> None:
    one = [
        TOPIC.format("a", "A" * 22),
        PARTITION.format("a", 0, 1, "1,2", "2,1"),
        TOPIC.format("b", "B" * 22),
    ]
    other = [
        TOPIC.format("b", "C" * 22),
        TOPIC.format("a", "D" * 22),
        PARTITION.format("a", 0, 1, "1,2", "1,2"),
    ]
    assert comparable_lines("\n".join(one)) == comparable_lines("\n".join(other))


@pytest.mark.parametrize(
    "changed",
    [("a", 1, 1, "1,2", "1,2"), ("a", 0, 2, "1,2", "1,2"), ("a", 0, 1, "2,1", "1,2")],
    ids=["the partition", "the leader", "the order of the assignment"],
)
def test_partitions_leaders_and_assignments_are_compared(changed: tuple[object, ...]) -> None:
    assert comparable_lines(PARTITION.format(*changed)) != comparable_lines(
        PARTITION.format("a", 0, 1, "1,2", "1,2")
    )


@pytest.mark.parametrize(
    ("peer", "is_kept"),
    [("(broker 2)", False), ("(refold)", True), ("localhost:(port of refold)", True)],
)
def test_only_lost_connections_to_refold_are_kept(peer: str, is_kept: bool) -> None:
    line = f"WARN [AdminClient] Bootstrap broker {peer} disconnected (o.a.k.NetworkClient)"
    assert bool(comparable_lines(line)) is is_kept


def test_only_the_distribution_of_random_replicas_is_compared() -> None:
    one = [
        PARTITION.format("random", 0, 1, "1,2", "1,2"),
        PARTITION.format("random", 1, 2, "2,1", "2"),
    ]
    other = [one[1].replace("Partition: 1", "Partition: 0"), one[0].replace(": 0", ": 1")]
    assert comparable_lines("\n".join(one)) == comparable_lines("\n".join(other))
    lopsided = [one[0], one[0].replace(": 0", ": 1")]
    assert comparable_lines("\n".join(one)) != comparable_lines("\n".join(lopsided))


def test_distribution_shows_two_replicas_in_one_rack() -> None:
    assert "in [2] racks" in distribution({"0": [1, 2], "1": [4, 3]})
    assert "in [1, 2] racks" in distribution({"0": [1, 3], "1": [4, 3]})


@pytest.mark.parametrize(
    ("replicas", "is_alike"), [([2, 1], True), ([3, 4], False), ([1, 3], False), ([1], False)]
)
def test_brokers_sizes_and_racks_of_a_proposal_are_compared(
    replicas: list[int], is_alike: bool
) -> None:
    title = "Current\nProposed partition reassignment configuration\n"

    def proposed(given: list[int]) -> str:
        moves = [{"topic": "t", "partition": 0, "replicas": given}]
        return proposal(title + json.dumps({"partitions": moves}))

    assert (proposed(replicas) == proposed([1, 2])) == is_alike


def test_only_the_daemons_lines_are_removed() -> None:
    output = (
        'from brokers 1,2,1000\nconfigs for broker 1000 are:\n{"brokers": [{"broker": 1000}]}\nx'
    )
    assert without_daemon(output) == 'from brokers 1,2\n{"brokers": []}\nx'


@pytest.mark.parametrize(
    "line",
    [
        "retention.ms=1000",
        "max.message.bytes=10000,retention.bytes=1000",
        "t-0: replicas 1,1000",
        "configs for broker 10000 are:",
        "from brokers 1,10000,21000",
    ],
)
def test_number_that_contains_the_daemons_id_is_kept(line: str) -> None:
    assert without_daemon(line) == line


def test_only_differences_without_a_reason_are_reported() -> None:
    stock = Played(
        [Row("tool", "list", "1,2"), Row("tool", "brokers", "from brokers 1,2", NODE)], {}
    )
    refold = Played(
        [Row("tool", "list", "1,3"), Row("tool", "brokers", "from brokers 1,2,1000", NODE)], {}
    )
    report = unexplained(stock, refold)
    assert "tool list" in report
    assert "brokers" not in report
    found = cells(stock, refold)
    assert list(found.values()) == ["differs", NODE.name]
    text = matrix({"3.9": found, "2.8": {}})
    assert f"| tool | `brokers` | {NODE.name} | - |" in text


def test_reason_explains_no_other_difference() -> None:
    stock = Played([Row("tool", "brokers", "from brokers 1,2", NODE)], {})
    refold = Played([Row("tool", "brokers", "from brokers 1,3,1000", NODE)], {})
    assert "+from brokers 1,3" in unexplained(stock, refold)


def test_reason_without_a_difference_is_reported() -> None:
    rows = [Row("tool", "brokers", "from brokers 1,2", NODE)]
    assert "brokers" in unexplained(Played(rows, {}), Played(rows, {}))


def test_matrix_is_written_between_its_markers() -> None:
    page = with_matrix(with_matrix("before\n" + BEGIN + END + "after\n", "one"), "two")
    assert "one" not in page
    assert page.startswith("before\n")
    assert page.endswith("after\n")


def test_written_matrix_is_read_without_the_tables_after_it() -> None:
    column = {("tool", "command"): "same", ("tool", "other"): "one more node"}
    written = f"{matrix({'3.9.1-at-3.9': column, '2.8.2-at-2.8': {}})}\n{reasons()}"
    page = with_matrix(BEGIN + END + "\n| a table | after it |\n", written)
    assert cells_of(page, "3.9.1-at-3.9") == shown(column)
    assert cells_of(page, "2.8.2-at-2.8") == {}


def test_moves_and_cancellations_differ_in_epochs_and_versions_only() -> None:
    """`isr-within-replicas` and `originals-restored-by-api`."""

    def tree(epoch: int, version: int, replicas: list[int]) -> Tree:
        state = {"leader": 3, "leader_epoch": epoch, "controller_epoch": 1, "isr": [3, 4]}
        return {
            "/controller": Znode({"version": 2}, 0, True),
            "/controller_epoch": Znode(1, 0, False),
            "/brokers/topics/heavy": Znode({"partitions": {"0": replicas}}, version, False),
            "/brokers/topics/moved/partitions/0/state": Znode(state, version, False),
        }

    assert not differing(tree(4, 6, [1, 2]), tree(2, 4, [1, 2]))
    assert len(differing(tree(4, 6, [1, 2]), tree(2, 4, [2, 1]))) == 1


def test_script_has_every_tool() -> None:
    calls = [
        call
        for step in SCRIPT
        for call in getattr(step, "calls", ()) or [getattr(step, "call", None)]
        if call is not None
    ]
    # kafka-acls needs an authorizer: tests/lab/secured runs it.
    assert {call.tool for call in calls} == MAIN_CLASSES.keys() - {"kafka-acls"}
