"""When a cluster has settled, so that the result of a step can be compared."""

from typing import Any

import pytest

from tests.lab.incidents.zookeeper_tree import Tree, Znode
from tests.lab.stock_tools.harness import HEAVY, unsettled

LIVE = (1, 2, 3)


def tree(
    replicas: list[int],
    leader: int,
    isr: list[int],
    *,
    topic: str = "t",
    marked: bool = False,
    **more: Any,
) -> Tree:
    """Three live brokers and a topic with one partition."""
    path = f"/brokers/topics/{topic}"
    state = {"leader": leader, "isr": isr}
    found = {f"/brokers/ids/{broker}": Znode({}, 0, True) for broker in LIVE}
    found[path] = Znode({"partitions": {"0": replicas}, **more}, 0, False)
    found[f"{path}/partitions/0/state"] = Znode(state, 0, False)
    if marked:
        found[f"/admin/delete_topics/{topic}"] = Znode("", 0, False)
    return found


@pytest.mark.parametrize(
    "settled",
    [
        tree([1, 2], 1, [1, 2]),
        tree([1, 9], 1, [1]),
        tree([8, 9], -1, [9]),
        tree([1, 9], -1, [9], marked=True),
        tree([1, 9], 1, [1], adding_replicas={"0": [9]}),
        tree([1, 2], 1, [1], topic=HEAVY),
    ],
    ids=["in sync", "one dead", "all dead", "deletion waits", "reassignment waits", "heavy"],
)
def test_cluster_with_only_blocked_operations_is_settled(settled: Tree) -> None:
    assert unsettled(settled) == []


@pytest.mark.parametrize(
    "in_progress",
    [
        tree([1, 2], 1, [1]),
        tree([1, 9], 9, [1]),
        tree([1, 9], 1, [1, 9]),
        tree([1, 9], -1, [1]),
        tree([1, 2], -1, [1], marked=True),
        tree([1, 2, 3], 1, [1, 2, 3], adding_replicas={"0": [3]}),
    ],
    ids=["lags", "dead leader", "dead in sync", "no leader", "deleted", "reassigned"],
)
def test_cluster_with_an_operation_that_can_end_is_not_settled(in_progress: Tree) -> None:
    assert unsettled(in_progress) != []


def test_missing_state_or_undeleted_znode_is_not_settled() -> None:
    new = tree([1, 2], 1, [1, 2])
    del new["/brokers/topics/t/partitions/0/state"]
    assert unsettled(new) == ["t-0 has no state"]
    gone = tree([1, 2], 1, [1, 2], marked=True)
    del gone["/brokers/topics/t"]
    assert unsettled(gone) == ["t is not deleted"]
