"""When a cluster has settled: what a step does is looked at no earlier."""

from typing import Any

import pytest

from tests.lab.incidents.zookeeper_tree import Tree, Znode
from tests.lab.stock_tools.stage import HEAVY, unsettled

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
    """Three live brokers and a topic of one partition."""
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
    ids=["in sync", "one is dead", "all are dead", "not to be deleted", "not to be moved", "heavy"],
)
def test_what_cannot_go_on_is_settled(settled: Tree) -> None:
    assert unsettled(settled) == []


@pytest.mark.parametrize(
    "under_way",
    [
        tree([1, 2], 1, [1]),
        tree([1, 9], 9, [1]),
        tree([1, 9], 1, [1, 9]),
        tree([1, 9], -1, [1]),
        tree([1, 2], -1, [1], marked=True),
        tree([1, 2, 3], 1, [1, 2, 3], adding_replicas={"0": [3]}),
    ],
    ids=["lags", "a dead leader", "dead in sync", "no leader", "to be deleted", "to be moved"],
)
def test_what_can_go_on_is_not(under_way: Tree) -> None:
    assert unsettled(under_way) != []


def test_a_partition_without_a_state_and_a_mark_without_a_topic_are_not() -> None:
    new = tree([1, 2], 1, [1, 2])
    del new["/brokers/topics/t/partitions/0/state"]
    assert unsettled(new) == ["t-0 has no state"]
    gone = tree([1, 2], 1, [1, 2], marked=True)
    del gone["/brokers/topics/t"]
    assert unsettled(gone) == ["t is not deleted"]
