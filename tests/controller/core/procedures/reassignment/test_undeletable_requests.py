"""Requests that cannot be deleted, and forged requests (KB 14.5.2)."""

import pytest

from controller.core import znodes
from controller.core.commands import Issued, ReadZnodes, WriteZnodes
from controller.core.operations import NOT_EMPTY, CreateSequential, SetData
from controller.core.znodes import (
    REQUEST_PREFIX,
    Entry,
    Reassignment,
    read_request,
    request_path,
    write_request,
)
from tests.controller.core.cluster import Cluster, reads, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    WriteRejectingCluster,
    assert_nothing_is_left,
    cancel_all,
    entries,
    entries_json,
    record,
    remove_cancel,
    request,
    request_quietly,
    requests,
    set_minimum,
    submit,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    assert_no_failures,
    assignment,
    catch_up,
    reassigning,
)
from tests.controller.core.unreliable import Delivery

MOVING = "3,1,2 adding 3 removing 1,2"


def two_replicas() -> WriteRejectingCluster:
    """t-0 on [1,2]."""
    cluster = WriteRejectingCluster(1, 2, 3, 4, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2]})
    return cluster


def request_with_child(cluster: Cluster, target: int, *, legacy: bool = False) -> str:
    """A request with a child znode. The controller does not react yet."""
    path = request_quietly(cluster, {T0: [target]}, legacy=legacy)
    cluster.put_quietly(f"{path}/child", b"")
    return path


def empties(issued: Issued) -> bool:
    """Whether the command empties a request."""
    return isinstance(issued.command, WriteZnodes) and any(
        isinstance(one, SetData) and one.path.startswith(REQUEST_PREFIX)
        for one in issued.command.operations
    )


# Not deleted ------------------------------------------------------------------------------------


def test_request_with_a_child_is_emptied_and_reported() -> None:
    cluster = two_replicas()
    seen = cluster.seen()
    path = request_with_child(cluster, 3)
    cluster.run()
    assert assignment(cluster) == MOVING
    assert read_request(path, cluster.data(path)).assignments == {}
    assert seen.notices() == [("request_not_deleted", path)]
    assert seen.texts() == [
        "the request was carried out, but its znode cannot be deleted (ZooKeeper code "
        f"{NOT_EMPTY}); the request is not carried out again: delete the znode and its children"
    ]
    assert_no_failures(cluster)


@pytest.mark.parametrize("failover", [False, True])
def test_emptied_request_is_not_carried_out_again(failover: bool) -> None:
    cluster = two_replicas()
    path = request_with_child(cluster, 3)
    cluster.run()
    catch_up(cluster, 3)
    request(cluster, {T0: [1, 2]})
    catch_up(cluster, 1, 2)
    assert assignment(cluster) == "1,2"
    seen = cluster.seen()
    if failover:
        cluster.expire()
    else:
        request(cluster, {("u", 0): [1]})
    assert assignment(cluster) == "1,2"
    assert reassigning(cluster) == []
    assert seen.texts_of("request_not_deleted") == []
    cluster.remove_quietly(path)
    cluster.run()
    assert requests(cluster) == []


def test_request_that_can_be_deleted_later_is_deleted() -> None:
    cluster = two_replicas()
    path = request_with_child(cluster, 3)
    cluster.run()
    cluster.remove_quietly(f"{path}/child")
    request(cluster, {("u", 0): [1]})
    assert requests(cluster) == []


def test_requests_after_an_undeletable_one_are_carried_out() -> None:
    cluster = two_replicas()
    request_with_child(cluster, 3)
    cluster.run()
    request(cluster, {T0: [4]})
    assert record(cluster) == Reassignment((4,), 2, False, (1, 2))
    assert len(requests(cluster)) == 1


def test_request_that_cannot_be_emptied_is_carried_out_once_in_a_term() -> None:
    cluster = two_replicas()
    cluster.refuses = empties
    seen = cluster.seen()
    path = request_with_child(cluster, 3)
    cluster.run()
    assert seen.texts() == [
        "the request was carried out, but its znode cannot be deleted (ZooKeeper code "
        f"{NOT_EMPTY}); the request is not carried out again by this controller: delete the znode "
        "and its children"
    ]
    catch_up(cluster, 3)
    request(cluster, {T0: [1, 2]})
    catch_up(cluster, 1, 2)
    request(cluster, {("u", 0): [1]})
    assert assignment(cluster) == "1,2"
    assert reassigning(cluster) == []
    assert len(seen.texts_of("request_not_deleted")) == 1
    assert requests(cluster) == [path.rpartition("/")[2]]


def test_refused_request_that_cannot_be_deleted_is_refused_once() -> None:
    cluster = two_replicas()
    path = request_quietly(cluster, {("gone", 0): [3]})
    cluster.put_quietly(f"{path}/child", b"")
    seen = cluster.seen()
    cluster.run()
    request(cluster, {T0: [3]})
    cluster.expire()
    assert len(seen.texts_of("reassignment_refused")) == 1


def not_deleted(outcome: str, then: str) -> list[str]:
    """The report of a request that cannot be deleted."""
    return [
        f"the request {outcome}, but its znode cannot be deleted (ZooKeeper code {NOT_EMPTY}); "
        f"the request {then}: delete the znode and its children"
    ]


def test_unreadable_request_that_cannot_be_deleted_is_not_reported_as_carried_out() -> None:
    cluster = two_replicas()
    path = request_with_child(cluster, 3)
    cluster.put_quietly(path, b"garbage")
    seen = cluster.seen()
    cluster.run()
    texts = seen.texts_of("request_not_deleted")
    assert texts == not_deleted("cannot be read", "is ignored from now on")


@pytest.mark.parametrize("failover", [False, True])
@pytest.mark.parametrize("legacy", [False, True])
def test_rejected_request_that_cannot_be_deleted_is_reported_as_rejected(
    failover: bool, legacy: bool
) -> None:
    cluster = two_replicas()
    seen = cluster.seen()
    if failover:
        with OtherControllersTerm(cluster):
            request_with_child(cluster, 3 if legacy else -1, legacy=legacy)
    else:
        request_with_child(cluster, 3 if legacy else -1, legacy=legacy)
        cluster.run()
    texts = seen.texts_of("request_not_deleted")
    assert texts == not_deleted("was rejected", "is ignored from now on")


def test_request_for_a_partition_below_min_insync_replicas_is_reported_as_rejected() -> None:
    cluster = two_replicas()
    set_minimum(cluster, 3)
    seen = cluster.seen()
    request_with_child(cluster, 3)
    cluster.run()
    assert assignment(cluster) == "1,2"
    texts = seen.texts_of("request_not_deleted")
    assert texts == not_deleted("was rejected", "is ignored from now on")


def test_failover_reports_each_request_with_its_outcome() -> None:
    cluster = two_replicas()
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        request_with_child(cluster, 3)
        path = request_quietly(cluster, {("gone", 0): [3]})
        cluster.put_quietly(f"{path}/child", b"")
    assert assignment(cluster) == MOVING
    assert seen.texts_of("request_not_deleted") == [
        *not_deleted("was carried out", "is not carried out again"),
        *not_deleted("was rejected", "is ignored from now on"),
    ]


def test_failover_reports_a_request_as_carried_out_that_replaces_an_entry() -> None:
    """The entry is rejected."""
    cluster = two_replicas()
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [3]})
        request_with_child(cluster, 3)
    assert assignment(cluster) == MOVING
    assert entries(cluster) is None
    texts = seen.texts_of("request_not_deleted")
    assert texts == not_deleted("was carried out", "is not carried out again")


@pytest.mark.parametrize("failover", [False, True])
def test_request_whose_partitions_were_rejected_in_part_is_reported_so(failover: bool) -> None:
    cluster = two_replicas()
    seen = cluster.seen()

    def ask() -> None:
        path = request_quietly(cluster, {T0: [3], ("gone", 0): [3]})
        cluster.put_quietly(f"{path}/child", b"")

    if failover:
        with OtherControllersTerm(cluster):
            ask()
    else:
        ask()
        cluster.run()
    assert reassigning(cluster) == [T0]
    texts = seen.texts_of("request_not_deleted")
    outcome = "was carried out except for rejected partitions"
    assert texts == not_deleted(outcome, "is not carried out again")


def test_cancellation_drops_a_legacy_request_that_cannot_be_deleted() -> None:
    cluster = two_replicas()
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [3]})
        request_with_child(cluster, 3, legacy=True)
        cluster.put_quietly("/admin/reassign_cancel", b"")
        seen = cluster.seen()
    assert assignment(cluster) == "1,2"
    texts = seen.texts_of("request_not_deleted")
    assert texts == not_deleted("was cancelled", "is ignored from now on")
    assert seen.texts_of("reassignment_waits") == []
    remove_cancel(cluster)
    cluster.expire()
    assert assignment(cluster) == "1,2"
    assert reassigning(cluster) == []


# Forged requests --------------------------------------------------------------------------------


def test_legacy_request_without_an_entry_is_refused_by_name() -> None:
    cluster = two_replicas()
    seen = cluster.seen()
    path = request(cluster, {T0: [3]}, legacy=True)
    assert assignment(cluster) == "1,2"
    assert record(cluster) is None
    assert seen.notices() == [("reassignment_refused", "t-0")]
    assert seen.texts() == [
        f"the reassignment to 3, requested by {path}, is rejected: /admin/reassign_partitions has "
        "no such entry"
    ]
    assert_nothing_is_left(cluster)


def test_legacy_request_with_another_target_than_its_entry_is_refused() -> None:
    cluster = two_replicas()
    cancel_all(cluster)
    submit_quietly(cluster, {T0: [3]})
    request_quietly(cluster, {T0: [4]}, legacy=True)
    cluster.run()
    seen = cluster.seen()
    remove_cancel(cluster)
    assert entries(cluster) == {T0: Entry((3,), (1, 2))}
    assert record(cluster) == Reassignment((3,), 2, True, (1, 2))
    assert len(seen.texts_of("reassignment_refused")) == 1


def test_partitions_of_a_legacy_request_with_an_entry_start() -> None:
    cluster = two_replicas()
    cluster.create_topic("u", {0: [1]})
    with OtherControllersTerm(cluster):
        pass
    cancel_all(cluster)
    submit_quietly(cluster, {T0: [3]})
    request_quietly(cluster, {T0: [3], ("u", 0): [4]}, legacy=True)
    cluster.run()
    seen = cluster.seen()
    remove_cancel(cluster)
    assert reassigning(cluster) == [T0]
    assert len(seen.texts_of("reassignment_refused")) == 1
    assert requests(cluster) == []


def test_failover_refuses_a_legacy_request_without_an_entry_by_name() -> None:
    cluster = two_replicas()
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [3]}, legacy=True)
    assert assignment(cluster) == "1,2"
    assert requests(cluster) == []
    assert seen.notices() == [("reassignment_refused", "t-0")]


def claim(cluster: Cluster, epoch: int) -> None:
    """A client makes a request in the name of an entry and of a controller epoch; the controller
    does not look yet."""
    data = write_request({T0: (3,)}, legacy=True, controller_epoch=epoch)
    cluster.ask(CreateSequential(REQUEST_PREFIX, data))


@pytest.mark.parametrize("epoch", [0, 1, 2, 3, 999])
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_failover_refuses_a_request_of_any_term_without_an_entry(
    epoch: int, is_elsewhere: bool
) -> None:
    """When it was made, another controller or no controller had the role."""
    cluster = two_replicas()
    seen = cluster.seen()
    if is_elsewhere:
        with OtherControllersTerm(cluster):
            claim(cluster, epoch)
    else:
        cluster.once(reads(znodes.CONTROLLER_EPOCH), lambda: claim(cluster, epoch))
        cluster.expire()
    assert reassigning(cluster) == []
    assert seen.notices() == [("reassignment_refused", "t-0")]
    assert_nothing_is_left(cluster)


def test_failover_refuses_a_request_whose_entry_a_stock_controller_deleted() -> None:
    """A stock controller cannot read entries with originals. The failover refuses the remaining
    request and names its partition."""
    cluster = two_replicas()
    sessions: list[int] = []
    cluster.once(writes(znodes.REASSIGN_PARTITIONS), lambda: sessions.append(cluster.seize_role(9)))
    submit(cluster, {T0: [3]})
    assert not cluster.is_active
    assert len(requests(cluster)) == 1
    cluster.remove_quietly(znodes.REASSIGN_PARTITIONS)
    seen = cluster.seen()
    cluster.leave_role(sessions[0])
    assert reassigning(cluster) == []
    assert seen.notices() == [("reassignment_refused", "t-0")]
    assert_nothing_is_left(cluster)


def test_request_of_this_term_whose_entry_was_deleted_is_refused() -> None:
    cluster = two_replicas()
    seen = cluster.seen()
    data = write_request({T0: (3,)}, legacy=True, controller_epoch=1)
    cluster.ask(CreateSequential(REQUEST_PREFIX, data))
    cluster.run()
    assert reassigning(cluster) == []
    assert seen.notices() == [("reassignment_refused", "t-0")]


def test_request_of_an_earlier_term_that_appears_later_is_refused() -> None:
    """Only a failover finds requests of earlier terms."""
    cluster = two_replicas()
    with OtherControllersTerm(cluster):
        pass
    seen = cluster.seen()
    data = write_request({T0: (3,)}, legacy=True, controller_epoch=1)
    path = cluster.ask(CreateSequential(REQUEST_PREFIX, data)).path
    cluster.run()
    assert assignment(cluster) == "1,2"
    assert record(cluster) is None
    assert seen.notices() == [("reassignment_refused", "t-0")]
    assert seen.texts()[0].startswith(f"the reassignment to 3, requested by {path}, is rejected: ")
    assert_nothing_is_left(cluster)


# Requests of entries ----------------------------------------------------------------------------


def makes_request(issued: Issued) -> bool:
    """Whether a request is created."""
    operations = getattr(issued.command, "operations", ())
    return any(isinstance(one, CreateSequential) for one in operations)


def test_entry_that_is_read_twice_has_one_request() -> None:
    """Another entry is added before the request of the first is made."""
    cluster = two_replicas()
    cluster.create_topic("u", {0: [1]})
    seen = cluster.seen()
    both = entries_json({T0: [2, 1], ("u", 0): [3]})
    cluster.once(makes_request, lambda: cluster.put_quietly(znodes.REASSIGN_PARTITIONS, both))
    submit(cluster, {T0: [2, 1]})
    made = [one for one in seen.writes() if isinstance(one, CreateSequential)]
    asked = [list(read_request(one.path, one.data).assignments) for one in made]
    assert asked == [[T0], [("u", 0)]]
    assert seen.notices() == []
    assert assignment(cluster) == "2,1"
    assert reassigning(cluster) == [("u", 0)]


def test_two_requests_of_one_entry_after_a_lost_reply_start_it_once() -> None:
    cluster = two_replicas()
    seen = cluster.seen()
    cluster.lose(makes_request, Delivery.REPLY_LOST)
    submit(cluster, {T0: [2, 1]})
    assert len([one for one in seen.writes() if isinstance(one, CreateSequential)]) == 2
    assert assignment(cluster) == "2,1"
    assert len(seen.texts_of("reassignment_begun")) == 1
    assert seen.notices() == []
    assert_nothing_is_left(cluster)


def test_entry_whose_request_another_client_deleted_is_requested_again() -> None:
    cluster = two_replicas()
    cluster.once(
        reads("/admin/reassignment_requests"),
        lambda: [cluster.remove_quietly(request_path(one)) for one in requests(cluster)],
    )
    submit(cluster, {T0: [3]})
    assert assignment(cluster) == MOVING


def test_emptied_request_does_not_wait_for_the_end_of_a_cancellation() -> None:
    cluster = two_replicas()
    request_with_child(cluster, 3)
    cluster.run()
    seen = cluster.seen()
    cancel_all(cluster)
    request(cluster, {})
    cluster.expire()
    assert seen.texts_of("reassignment_waits") == []


def test_request_that_another_client_deletes_before_it_is_read_is_no_unreadable_one() -> None:
    cluster = two_replicas()
    path = request_path("request_0000000000")
    cluster.once(reads(path), lambda: cluster.remove_quietly(path))
    seen = cluster.seen()
    request(cluster, {T0: [3]})
    assert (seen.notices(), assignment(cluster)) == ([], "1,2")


def test_legacy_request_for_an_unknown_partition_is_rejected() -> None:
    cluster = two_replicas()
    seen = cluster.seen()
    request(cluster, {("missing", 0): [3]}, legacy=True)
    assert seen.notices() == [("reassignment_refused", "missing-0")]
    assert requests(cluster) == []


def test_entries_that_another_client_deletes_before_they_are_read_do_not_begin() -> None:
    cluster = two_replicas()
    cluster.once(
        lambda issued: (
            isinstance(issued.command, ReadZnodes)
            and znodes.REASSIGN_PARTITIONS in issued.command.paths
        ),
        lambda: cluster.remove_quietly(znodes.REASSIGN_PARTITIONS),
    )
    seen = cluster.seen()
    submit(cluster, {T0: [3]})
    assert (seen.notices(), assignment(cluster), entries(cluster)) == ([], "1,2", None)
    submit(cluster, {T0: [3]})
    assert assignment(cluster) == MOVING
