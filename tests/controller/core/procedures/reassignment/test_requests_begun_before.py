"""A request is carried out once, even if its controller fails between the begin and the deletion of
the request, and a stock controller then ends the reassignment (KB 14.5.2)."""

import pytest

from controller.core.commands import Issued, WriteZnodes
from controller.core.operations import Delete, SetData
from controller.core.znodes import (
    CONTROLLER,
    REQUEST_PREFIX,
    Entry,
    Reassignment,
    read_request,
)
from tests.controller.core.cluster import Cluster, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    Targets,
    WriteRejectingCluster,
    assert_nothing_is_left,
    cancel_quietly,
    entries,
    record,
    request_quietly,
    requests,
    submit_quietly,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    Name,
    assert_no_failures,
    assignment,
    reassigning,
)

MOVING = "3,1 adding 3 removing 1"
STOCK = 9


def _deletes_request(issued: Issued) -> bool:
    return isinstance(issued.command, WriteZnodes) and any(
        isinstance(one, Delete) and one.path.startswith(REQUEST_PREFIX)
        for one in issued.command.operations
    )


class InterruptedRequest:
    """t-0 is on [1] and t-1 on [2]. The controller has begun a request to move partitions to [3],
    and lost the role to a stock controller before it deleted the request at `path`. `legacy`: the
    request was made of an entry. The controller has not handled the request for `later`."""

    def __init__(
        self,
        *names: Name,
        has_child: bool = False,
        legacy: bool = False,
        later: Targets | None = None,
        is_later_legacy: bool = False,
    ) -> None:
        cluster = two_partitions(kind=WriteRejectingCluster)
        assert isinstance(cluster, WriteRejectingCluster)
        self.cluster = cluster
        wanted = {one: [3] for one in names}
        if legacy:
            submit_quietly(self.cluster, wanted)
        self.path = request_quietly(self.cluster, wanted, legacy=legacy)
        if has_child:
            self.cluster.put_quietly(f"{self.path}/child", b"")
        if later is not None:
            request_quietly(self.cluster, later, legacy=is_later_legacy)
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
    interrupted = InterruptedRequest(T0)
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [replicas], 1: [2]})
    interrupted.refold_returns()
    assert assignment(cluster) == str(replicas)
    assert requests(cluster) == []
    assert_nothing_is_left(cluster)


def end_t0(cluster: Cluster) -> None:
    """A stock controller ends the move of t-0. That of t-1 continues."""
    moving = {"adding_replicas": {"1": [3]}, "removing_replicas": {"1": [2]}}
    cluster.change_topic_quietly("t", {0: [1], 1: [3, 2]}, **moving)


def test_rest_of_the_request_goes_on() -> None:
    interrupted = InterruptedRequest(T0, T1)
    cluster = interrupted.cluster
    end_t0(cluster)
    interrupted.refold_returns()
    assert assignment(cluster) == "1"
    assert record(cluster, T1) is not None
    assert cluster.topic("t").assignments[1].target == (3,)
    assert requests(cluster) == []


@pytest.mark.parametrize("target", [3, 4])
def test_later_request_is_carried_out(target: int) -> None:
    interrupted = InterruptedRequest(T0)
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    request_quietly(cluster, {T0: [target]})
    interrupted.refold_returns()
    assert assignment(cluster) == f"{target},1 adding {target} removing 1"
    assert requests(cluster) == []


def test_rest_of_a_request_that_cannot_be_written_is_reported() -> None:
    interrupted = InterruptedRequest(T0, T1)
    cluster = interrupted.cluster
    end_t0(cluster)
    cluster.refuses = lambda issued: any(
        isinstance(one, SetData) and one.path == interrupted.path
        for one in getattr(issued.command, "operations", ())
    )
    seen = cluster.seen()
    interrupted.refold_returns()
    assert ("request_not_deleted", interrupted.path) in seen.notices()
    assert seen.texts_of("request_not_deleted") == [
        "the reassignments of t-0 that it requests are over, but the znode cannot be written "
        "(ZooKeeper code -102); they begin again"
    ]
    assert reassigning(cluster) == [T0, T1]


def test_rest_of_a_request_that_another_client_deletes_is_not_reported() -> None:
    interrupted = InterruptedRequest(T0, T1)
    cluster = interrupted.cluster
    end_t0(cluster)
    cluster.once(writes(interrupted.path), lambda: cluster.remove_quietly(interrupted.path))
    seen = cluster.seen()
    interrupted.refold_returns()
    assert seen.texts_of("request_not_deleted") == []
    assert (requests(cluster), reassigning(cluster)) == ([], [T1])


def test_request_that_was_carried_out_is_deleted_while_a_cancellation_exists() -> None:
    interrupted = InterruptedRequest(T0)
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    cancel_quietly(cluster)
    interrupted.refold_returns()
    assert assignment(cluster) == "1"
    assert_nothing_is_left(cluster)


def test_request_of_an_entry_is_carried_out_by_way_of_the_entry() -> None:
    """Another request is over."""
    interrupted = InterruptedRequest(T0)
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    submit_quietly(cluster, {T1: [3]})
    request_quietly(cluster, {T1: [3]}, legacy=True)
    seen = cluster.seen()
    interrupted.refold_returns()
    assert record(cluster, T1) == Reassignment((3,), 1, True, (2,))
    assert entries(cluster) == {T1: Entry((3,), (2,))}
    assert seen.texts_of("reassignment_refused") == []
    assert requests(cluster) == []


def test_request_for_another_target_that_was_not_begun_is_carried_out() -> None:
    """The request is older than the reassignment that was ended."""
    interrupted = InterruptedRequest(T0, later={T0: [4]})
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    interrupted.refold_returns()
    assert assignment(cluster) == "4,1 adding 4 removing 1"
    assert requests(cluster) == []


def test_request_of_an_entry_is_refused_after_a_request_for_the_same_target_was_begun() -> None:
    """The entry does not exist."""
    interrupted = InterruptedRequest(T0, later={T0: [3]}, is_later_legacy=True)
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    seen = cluster.seen()
    interrupted.refold_returns()
    [text] = seen.texts_of("reassignment_refused")
    assert text.endswith("is rejected: /admin/reassign_partitions has no such entry")
    assert assignment(cluster) == "1"
    assert_nothing_is_left(cluster)


def test_request_is_carried_out_after_an_entry_with_the_same_target_was_begun_and_ended() -> None:
    """The request is older than the reassignment of the entry, and was not handled."""
    interrupted = InterruptedRequest(T0, legacy=True, later={T0: [3]})
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    interrupted.refold_returns()
    assert assignment(cluster) == MOVING
    assert record(cluster) == Reassignment((3,), 1, False, (1,))
    assert (entries(cluster), requests(cluster)) == (None, [])
    assert_no_failures(cluster)


def test_request_that_cannot_be_deleted_is_emptied() -> None:
    interrupted = InterruptedRequest(T0, has_child=True)
    cluster = interrupted.cluster
    cluster.change_topic_quietly("t", {0: [1], 1: [2]})
    interrupted.refold_returns()
    assert assignment(cluster) == "1"
    path = interrupted.path
    assert read_request(path, cluster.data(path)).assignments == {}


def test_failure_before_the_request_is_removed_changes_nothing() -> None:
    """The record goes last: without it, the request would be carried out again."""
    interrupted = InterruptedRequest(T0)
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
