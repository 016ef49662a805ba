"""A request by Kafka's API undoes a reassignment by the steps of a rollback, also one that a stock
controller began. It never removes replicas in sync that are still needed
(ORIGINALS_RESTORED_BY_API)."""

from typing import Any

import pytest

from controller.core import error_codes as codes
from controller.core.znodes import Entry
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    WriteRejectingCluster,
    assert_nothing_is_left,
    cancel_all,
    entries,
    files,
    force_all,
    interruptible,
    record,
    remove_cancel,
    request,
    set_minimum,
    submit,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    ask,
    ask_for_isr,
    assert_no_failures,
    assignment,
    cancel,
    catch_up,
    reassign,
    reassigning,
)
from tests.controller.core.procedures.topics.deleting import mark

API = "the AlterPartitionReassignments API"
UNDER_WAY = "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3"
TOO_FEW = (
    "2 of the original replicas 1,2,3 must be live and in sync, and only broker 1 is: the request "
    "to cancel the reassignment is rejected; repeat the request when more are, or lower "
    "min.insync.replicas of the topic first"
)


def begin_elsewhere(cluster: Cluster) -> None:
    """A stock controller begins the move of t-0 from [1,2,3] to [4,5,6]."""
    cluster.change_topic_quietly(
        "t",
        {0: [4, 5, 6, 1, 2, 3]},
        adding_replicas={"0": [4, 5, 6]},
        removing_replicas={"0": [1, 2, 3]},
    )


def begun_by_stock(**settings: Any) -> Cluster:
    """A stock controller has begun the move for Kafka's API."""
    cluster = interruptible(6, 1, 2, 3, **settings)
    set_minimum(cluster, 2)
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster)
    return cluster


def younger_entry_begun_by_stock() -> Cluster:
    """A stock controller has begun the move for an entry, while /admin/reassign_cancel existed."""
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, 2)
    cancel_all(cluster)
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [4, 5, 6]})
        begin_elsewhere(cluster)
    return cluster


def begun_by_api(**settings: Any) -> Cluster:
    """refold has begun the move for Kafka's API."""
    cluster = interruptible(6, 1, 2, 3, **settings)
    set_minimum(cluster, 2)
    assert reassign(cluster, 4, 5, 6) == codes.NONE
    return cluster


# Moves without a record -------------------------------------------------------------------------


@pytest.mark.parametrize("begin", [begun_by_stock, younger_entry_begun_by_stock])
def test_cancellation_of_a_stock_controllers_move_keeps_the_replicas_in_sync(begin: Any) -> None:
    cluster = begin()
    ask_for_isr(cluster, 1, 4, 5)
    seen = cluster.seen()
    [answer] = ask(cluster, (T0, None)).partitions
    assert (answer.error, answer.message) == (codes.INVALID_REPLICA_ASSIGNMENT, TOO_FEW)
    assert seen.texts_of("reassignment_not_cancelled") == [TOO_FEW]
    assert assignment(cluster) == UNDER_WAY
    assert cluster.leadership("t", 0).isr == (1, 4, 5)
    assert {4, 5} <= set(files(cluster))


def test_refused_cancellation_of_a_younger_move_keeps_its_entry() -> None:
    cluster = younger_entry_begun_by_stock()
    ask_for_isr(cluster, 1, 4, 5)
    assert cancel(cluster) == codes.INVALID_REPLICA_ASSIGNMENT
    assert entries(cluster) == {T0: Entry((4, 5, 6))}
    assert record(cluster) is None


def test_cancellation_of_a_stock_controllers_move_is_logged() -> None:
    cluster = begun_by_stock()
    ask_for_isr(cluster, 1, 2, 4)
    seen = cluster.seen()
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2,3"
    assert cluster.leadership("t", 0).isr == (1, 2)
    assert files(cluster) == [1, 2, 3]
    assert reassigning(cluster) == []
    assert seen.texts_of("reassignment_rolled_back") == [
        f"the partition is on its original replicas 1,2,3 again: {API} cancelled the reassignment "
        f"to 4,5,6, which was requested by {API}"
    ]
    assert_no_failures(cluster)


def test_cancelled_younger_move_does_not_begin_when_the_cancellation_is_removed() -> None:
    cluster = younger_entry_begun_by_stock()
    seen = cluster.seen()
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2,3"
    assert seen.texts_of("reassignment_rolled_back") == [
        f"the partition is on its original replicas 1,2,3 again: {API} cancelled the reassignment "
        "to 4,5,6, which was requested by /admin/reassign_partitions"
    ]
    remove_cancel(cluster)
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)


def test_entry_of_a_younger_move_is_removed_before_the_originals_are_stored() -> None:
    """Otherwise the next controller would begin the cancelled reassignment of the entry again."""
    cluster = younger_entry_begun_by_stock()
    seen = cluster.seen()
    assert cancel(cluster) == codes.NONE
    written = [one.path for one in seen.writes()]
    paths = ["/admin/reassign_partitions", "/brokers/topics/t"]
    assert [one for one in written if one in paths] == paths


def test_entry_that_a_client_rewrites_meanwhile_waits() -> None:
    cluster = younger_entry_begun_by_stock()
    submit(cluster, {T0: [5]})
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2,3"
    assert entries(cluster) == {T0: Entry((5,))}
    remove_cancel(cluster)
    assert assignment(cluster) == "5,1,2,3 adding 5 removing 1,2,3"


def test_partition_of_a_topic_that_is_being_deleted_is_unknown() -> None:
    cluster = begun_by_stock()
    cluster.stop_broker(6)
    mark(cluster, "t")
    [answer] = ask(cluster, (T0, None)).partitions
    assert answer.error == codes.UNKNOWN_TOPIC_OR_PARTITION


# The originals as target ------------------------------------------------------------------------


@pytest.mark.parametrize("begin", [begun_by_api, begun_by_stock])
@pytest.mark.parametrize("target", [(1, 2, 3), (3, 2, 1)])
def test_request_for_the_originals_keeps_the_replicas_in_sync(
    begin: Any, target: tuple[int, ...]
) -> None:
    cluster = begin()
    ask_for_isr(cluster, 1, 4, 5)
    seen = cluster.seen()
    [answer] = ask(cluster, (T0, list(target))).partitions
    assert answer.error == codes.INVALID_REPLICA_ASSIGNMENT
    assert seen.texts_of("reassignment_not_cancelled") == [answer.message]
    assert assignment(cluster) == UNDER_WAY
    assert cluster.leadership("t", 0).isr == (1, 4, 5)
    catch_up(cluster, 2)
    assert reassign(cluster, *target) == codes.NONE
    assert assignment(cluster) == ",".join(map(str, target))
    assert files(cluster) == [1, 2, 3]
    assert_nothing_is_left(cluster)


def test_request_for_the_originals_is_logged_as_a_cancellation() -> None:
    cluster = begun_by_api()
    seen = cluster.seen()
    assert reassign(cluster, 1, 2, 3) == codes.NONE
    assert seen.texts_of("reassignment_rolled_back") == [
        f"the partition is on its original replicas 1,2,3 again: {API} cancelled the reassignment "
        f"to 4,5,6, which was requested by {API}"
    ]
    assert seen.texts_of("reassignment_completed") == []
    assert_no_failures(cluster)


def test_next_controller_knows_that_the_originals_in_another_order_end_the_reassignment() -> None:
    """The controller is replaced before it removes the record."""
    cluster = WriteRejectingCluster(1, 2, 3, 4, 5, 6, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    assert reassign(cluster, 4, 5, 6) == codes.NONE
    cluster.refuses = lambda issued: "remove the record" in issued.reason.rule
    assert reassign(cluster, 3, 2, 1) == codes.NONE
    assert record(cluster) is not None
    cluster.refuses = lambda issued: False
    seen = cluster.seen()
    cluster.expire()
    [text] = seen.texts_of("reassignment_ended")
    assert "has ended: it was rolled back to 3,2,1" in text
    assert_nothing_is_left(cluster)


def test_some_of_the_originals_replace_the_target() -> None:
    """A target of only some originals is another reassignment."""
    cluster = begun_by_api()
    seen = cluster.seen()
    assert reassign(cluster, 1, 2) == codes.NONE
    assert len(seen.texts_of("reassignment_replaced")) == 1
    assert seen.texts_of("rollback") == []


def test_originals_are_refused_as_a_target_while_a_cancellation_exists() -> None:
    """The znode rejects every target; a null target is accepted."""
    cluster = begun_by_api()
    cancel_all(cluster)
    assert reassign(cluster, 1, 2, 3) == codes.REASSIGNMENT_IN_PROGRESS
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2,3"


@pytest.mark.parametrize("settings", [{"kip_236_enable": False}, {"rules": "kafka"}])
@pytest.mark.parametrize("target", [None, [1, 2, 3]])
def test_without_kip_236_a_request_undoes_a_reassignment_at_once(
    settings: dict[str, Any], target: list[int] | None
) -> None:
    cluster = Cluster(1, 2, 3, 4, 5, 6, **({"kip_236_enable": True} | settings)).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    set_minimum(cluster, 2)
    assert reassign(cluster, 4, 5, 6) == codes.NONE
    ask_for_isr(cluster, 1, 4, 5)
    [answer] = ask(cluster, (T0, target)).partitions
    assert answer.error == codes.NONE
    assert assignment(cluster) == "1,2,3"
    assert cluster.leadership("t", 0).isr == (1,)


# The force of /admin/reassign_cancel -------------------------------------------------------------


@pytest.mark.parametrize("failover", [False, True])
def test_force_of_the_znode_does_not_reach_a_cancellation_by_the_api(failover: bool) -> None:
    cluster = Cluster(1, 2, 3, 4, 5, 6, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2, 3], 1: [1, 2, 3]})
    set_minimum(cluster, 2)
    request(cluster, {T0: [4, 5, 6]})
    submit(cluster, {T1: [4, 5, 6]})
    ask_for_isr(cluster, 1, 4, 5)
    ask_for_isr(cluster, 1, 4, 5, name=T1)
    force_all(cluster)
    assert assignment(cluster, T1) == "1,2,3"
    if failover:
        cluster.expire()
    assert cancel(cluster) == codes.INVALID_REPLICA_ASSIGNMENT
    assert assignment(cluster) == UNDER_WAY
    assert cluster.leadership("t", 0).isr == (1, 4, 5)
