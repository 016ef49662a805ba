"""A request is carried out once, even if its controller fails between the begin and the deletion of
the request, and a stock controller then ends the reassignment (KB 14.5.2)."""

import pytest

from controller.core.commands import Issued, WriteZnodes
from controller.core.operations import Delete
from controller.core.znodes import CONTROLLER, REQUEST_PREFIX, read_request
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.interrupting import (
    assert_nothing_is_left,
    record,
    request_quietly,
    requests,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, T1, Name, assignment

MOVING = "3,1 adding 3 removing 1"
STOCK = 9


def _deletes_request(issued: Issued) -> bool:
    return isinstance(issued.command, WriteZnodes) and any(
        isinstance(one, Delete) and one.path.startswith(REQUEST_PREFIX)
        for one in issued.command.operations
    )


class Interrupted:
    """t-0 is on [1] and t-1 on [2]. The controller has begun a request to move partitions to [3],
    and lost the role to a stock controller before it deleted the request at `path`."""

    def __init__(self, *names: Name, has_child: bool = False) -> None:
        self.cluster: Cluster = two_partitions()
        self.path = request_quietly(self.cluster, {one: [3] for one in names})
        if has_child:
            self.cluster.put_quietly(f"{self.path}/child", b"")
        self.cluster.once(_deletes_request, self._lose_role)
        self.cluster.run()
        assert assignment(self.cluster) == MOVING
        assert self.cluster.data(self.path) is not None

    def _lose_role(self) -> None:
        self.cluster.ask(Delete(CONTROLLER, -1))
        self._session = self.cluster.take_role(STOCK)

    def refold_returns(self) -> None:
        self.cluster.leave_role(self._session)


@pytest.mark.parametrize("replicas", [1, 4])
def test_request_whose_reassignment_was_ended_elsewhere_is_not_carried_out_again(
    replicas: int,
) -> None:
    interrupted = Interrupted(T0)
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [replicas], 1: [2]})
    interrupted.refold_returns()
    assert assignment(cluster) == str(replicas)
    assert requests(cluster) == []
    assert_nothing_is_left(cluster)


def test_rest_of_the_request_goes_on() -> None:
    interrupted = Interrupted(T0, T1)
    cluster = interrupted.cluster
    moving = {"adding_replicas": {"1": [3]}, "removing_replicas": {"1": [2]}}
    cluster.change_topic_quietly("t", {0: [1], 1: [3, 2]}, **moving)
    interrupted.refold_returns()
    assert assignment(cluster) == "1"
    assert record(cluster, T1) is not None
    assert cluster.topic("t").assignments[1].target == (3,)
    assert requests(cluster) == []


@pytest.mark.parametrize("target", [3, 4])
def test_later_request_is_carried_out(target: int) -> None:
    interrupted = Interrupted(T0)
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    request_quietly(cluster, {T0: [target]})
    interrupted.refold_returns()
    assert assignment(cluster) == f"{target},1 adding {target} removing 1"
    assert requests(cluster) == []


def test_request_that_cannot_be_deleted_is_emptied() -> None:
    interrupted = Interrupted(T0, has_child=True)
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    interrupted.refold_returns()
    assert assignment(cluster) == "1"
    path = interrupted.path
    assert read_request(path, cluster.data(path)).assignments == {}


def test_failure_before_the_request_is_removed_changes_nothing() -> None:
    """The record goes last: without it, the request would be carried out again."""
    interrupted = Interrupted(T0)
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    again: list[int] = []

    def lose_role() -> None:
        cluster.ask(Delete(CONTROLLER, -1))
        again.append(cluster.take_role(STOCK))

    cluster.once(_deletes_request, lose_role)
    interrupted.refold_returns()
    cluster.leave_role(again[0])
    assert assignment(cluster) == "1"
    assert_nothing_is_left(cluster)
