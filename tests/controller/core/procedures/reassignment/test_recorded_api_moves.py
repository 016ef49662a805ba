"""Moves requested by AlterPartitionReassignments have a record, so that a cancellation restores
the order of the originals (ORIGINALS_RESTORED_BY_API)."""

from typing import Any

import pytest

from controller.core import error_codes as codes
from controller.core.commands import Notice
from controller.core.znodes import Entry, Reassignment
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    entries,
    files,
    identity,
    interruptible,
    record,
    records,
    remove_cancel,
    request,
    request_quietly,
    set_minimum,
    submit,
    submit_extra,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask,
    ask_for_isr,
    assert_no_failures,
    assignment,
    cancel,
    catch_up,
    listed,
    reassign,
    reassigning,
)

API = "the AlterPartitionReassignments API"
RESHUFFLED = [3, 4, 2]
"""From [1,2,3]: Kafka's cancellation results in [3,2,1] (KB 7.8.2)."""


def moving(*target: int, **settings: Any) -> Cluster:
    """t-0 moves from [1,2,3] to the target, by the API."""
    cluster = interruptible(6, 1, 2, 3, **settings)
    assert reassign(cluster, *target) == codes.NONE
    return cluster


def logged(seen: Seen, code: str) -> list[tuple[str, str]]:
    """Subject and text of the notices with a code."""
    return [
        (one.subject, one.text)
        for one in seen.commands
        if isinstance(one, Notice) and one.code == code
    ]


# The record -------------------------------------------------------------------------------------


def test_api_move_has_a_record() -> None:
    cluster = moving(4, 5, 6)
    assert record(cluster) == Reassignment((4, 5, 6), 3, False, (1, 2, 3), api=True)
    assert listed(cluster) == {T0: "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3"}


def test_completed_api_move_has_no_record() -> None:
    cluster = moving(4, 5, 6)
    catch_up(cluster, 4, 5, 6)
    assert assignment(cluster) == "4,5,6"
    assert_nothing_is_left(cluster)
    assert reassigning(cluster) == []
    assert_no_failures(cluster)


def test_another_target_by_the_api_keeps_the_identity_and_the_originals() -> None:
    cluster = moving(4, 5, 6)
    czxid, mzxid = identity(cluster)
    assert reassign(cluster, 5) == codes.NONE
    assert record(cluster) == Reassignment((5,), 3, False, (1, 2, 3), api=True)
    assert identity(cluster)[0] == czxid
    assert identity(cluster)[1] > mzxid
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2,3"


def test_api_move_without_new_replicas_leaves_no_record() -> None:
    cluster = moving(3, 2, 1)
    assert assignment(cluster) == "3,2,1"
    assert_nothing_is_left(cluster)
    assert reassigning(cluster) == []


@pytest.mark.parametrize("settings", [{"kip_236_enable": False}, {"rules": "kafka"}])
def test_without_kip_236_an_api_move_has_no_record(settings: dict[str, Any]) -> None:
    cluster = Cluster(1, 2, 3, 4, **({"kip_236_enable": True} | settings)).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    assert reassign(cluster, *RESHUFFLED) == codes.NONE
    assert records(cluster) == []
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "3,2,1"


# originals-restored-by-api ----------------------------------------------------------------------


@pytest.mark.parametrize("failover", [False, True])
@pytest.mark.deviates("originals-restored-by-api")
def test_api_cancellation_restores_the_originals_in_their_order(failover: bool) -> None:
    cluster = moving(*RESHUFFLED)
    if failover:
        cluster.expire()
    seen = cluster.seen()
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2,3"
    assert files(cluster) == [1, 2, 3]
    assert_nothing_is_left(cluster)
    assert logged(seen, "reassignment_rolled_back") == [
        (
            "t-0",
            f"the partition is on its original replicas 1,2,3 again: {API} cancelled the "
            f"reassignment to 3,4,2, which was requested by {API}",
        )
    ]
    assert_no_failures(cluster)


def test_api_cancellation_of_a_move_by_entry_restores_the_originals() -> None:
    cluster = interruptible(4, 1, 2, 3)
    submit(cluster, {T0: RESHUFFLED})
    seen = cluster.seen()
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2,3"
    assert entries(cluster) is None
    assert_nothing_is_left(cluster)
    [(_, text)] = logged(seen, "reassignment_rolled_back")
    assert f"{API} cancelled the reassignment to " in text
    assert text.endswith("requested by /admin/reassign_partitions")


def test_api_cancellation_of_a_move_by_request_restores_the_originals() -> None:
    cluster = interruptible(4, 1, 2, 3)
    request(cluster, {T0: RESHUFFLED})
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)


def test_api_cancellation_without_a_move_is_an_error() -> None:
    cluster = interruptible(4, 1, 2, 3)
    assert cancel(cluster) == codes.NO_REASSIGNMENT_IN_PROGRESS


def test_api_cancellation_with_too_few_originals_in_sync_is_refused() -> None:
    cluster = moving(4, 5, 6)
    set_minimum(cluster, 2)
    ask_for_isr(cluster, 1, 4, 5)
    seen = cluster.seen()
    [answer] = ask(cluster, (T0, None)).partitions
    assert answer.error == codes.INVALID_REPLICA_ASSIGNMENT
    refused = (
        "2 of the original replicas 1,2,3 must be live and in sync, and only broker 1 is: the "
        "request to cancel the reassignment is rejected; repeat the request when more are, or "
        "lower min.insync.replicas of the topic first"
    )
    assert answer.message == refused
    assert logged(seen, "reassignment_not_cancelled") == [("t-0", refused)]
    assert logged(seen, "rollback_waits") == []
    assert record(cluster) is not None
    catch_up(cluster, 2)
    assert assignment(cluster) == "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3"
    catch_up(cluster, 6)
    assert assignment(cluster) == "4,5,6"


def test_refused_api_cancellation_is_not_carried_out_later() -> None:
    """Also while /admin/reassign_cancel exists, which does not cancel moves of this route."""
    cluster = moving(4, 5, 6)
    set_minimum(cluster, 2)
    ask_for_isr(cluster, 1, 4, 5)
    cancel_all(cluster)
    assert cancel(cluster) == codes.INVALID_REPLICA_ASSIGNMENT
    catch_up(cluster, 2)
    assert assignment(cluster) == "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3"


def test_api_cancellation_succeeds_with_a_lower_min_insync_replicas() -> None:
    cluster = moving(4, 5, 6)
    set_minimum(cluster, 2)
    ask_for_isr(cluster, 1, 4, 5)
    assert cancel(cluster) == codes.INVALID_REPLICA_ASSIGNMENT
    set_minimum(cluster, 1)
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2,3"


def test_refused_api_cancellation_does_not_change_a_waiting_rollback() -> None:
    """The rollback of /admin/reassign_cancel continues when enough originals are in sync."""
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [4, 5, 6]})
    ask_for_isr(cluster, 1, 4, 5)
    cancel_all(cluster)
    assert cancel(cluster) == codes.INVALID_REPLICA_ASSIGNMENT
    catch_up(cluster, 2)
    assert assignment(cluster) == "1,2,3"


def test_api_cancellation_of_several_moves_answers_each() -> None:
    cluster = moving(4, 5, 6)
    cluster.create_topic("u", {0: [1]})
    answer = ask(cluster, (T0, None), (("u", 0), None), (("gone", 0), None))
    assert [one.error for one in answer.partitions] == [
        codes.NONE,
        codes.NO_REASSIGNMENT_IN_PROGRESS,
        codes.NO_REASSIGNMENT_IN_PROGRESS,
    ]
    assert assignment(cluster) == "1,2,3"


def test_cancellation_znode_does_not_cancel_api_moves() -> None:
    cluster = moving(4, 5, 6)
    cancel_all(cluster)
    assert record(cluster) is not None
    remove_cancel(cluster)
    catch_up(cluster, 4, 5, 6)
    assert assignment(cluster) == "4,5,6"


# Other routes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("failover", [False, True])
def test_entry_or_request_for_an_api_move_is_refused_by_its_name(
    failover: bool,
) -> None:
    cluster = moving(4)
    if failover:
        cluster.expire()
    seen = cluster.seen()
    request(cluster, {T0: [5]})
    submit(cluster, {T0: [6]})
    submit_extra(cluster, {T0: [6]})
    texts = seen.texts_of("reassignment_refused")
    assert len(texts) == 3
    assert all(f"The partition is being reassigned by way of {API}" in one for one in texts)
    assert record(cluster) == Reassignment((4,), 3, False, (1, 2, 3), api=True)
    assert entries(cluster) is None


def test_failover_refuses_other_routes_with_the_name_of_the_api() -> None:
    cluster = moving(4)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [5]})
        submit_quietly(cluster, {T0: [6]})
    texts = seen.texts_of("reassignment_refused")
    assert len(texts) == 2
    assert all(API in one for one in texts)
    assert record(cluster) == Reassignment((4,), 3, False, (1, 2, 3), api=True)
    assert entries(cluster) is None


def test_api_is_refused_with_the_name_of_the_route_of_the_move() -> None:
    cluster = interruptible(6, 1, 2, 3)
    submit(cluster, {T0: [4]})
    [answer] = ask(cluster, (T0, [5])).partitions
    assert answer.error == codes.REASSIGNMENT_IN_PROGRESS
    assert answer.message == (
        "The partition is being reassigned by way of /admin/reassign_partitions: that "
        "reassignment has to end or be cancelled first."
    )
    assert entries(cluster) == {T0: Entry((4,), (1, 2, 3))}


# Stock controllers ------------------------------------------------------------------------------


def test_move_of_a_stock_controller_has_no_record_and_is_rolled_back() -> None:
    cluster = interruptible(4, 1, 2, 3)
    with OtherControllersTerm(cluster):
        cluster.change_topic_quietly(
            "t",
            {0: [3, 4, 2, 1]},
            adding_replicas={"0": [4]},
            removing_replicas={"0": [1]},
        )
    assert reassigning(cluster) == [T0]
    assert records(cluster) == []
    seen = cluster.seen()
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "3,2,1"
    assert len(seen.texts_of("rollback")) == 7


def test_changed_move_of_a_stock_controller_gets_a_record() -> None:
    cluster = interruptible(5, 1, 2, 3)
    with OtherControllersTerm(cluster):
        cluster.change_topic_quietly(
            "t",
            {0: [4, 1, 2, 3]},
            adding_replicas={"0": [4]},
            removing_replicas={"0": [1, 2, 3]},
        )
    assert reassign(cluster, 5) == codes.NONE
    assert record(cluster) == Reassignment((5,), 3, False, (1, 2, 3), api=True)


def test_recorded_move_cancelled_by_a_stock_controller_ends() -> None:
    cluster = moving(4, 5, 6)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.change_topic_quietly("t", {0: [1, 2, 3]})
    assert logged(seen, "reassignment_ended") == [
        (
            "t-0",
            f"the reassignment to 4,5,6, requested by {API}, has ended: it was rolled back to "
            "1,2,3; of brokers 4,5,6, those that were not alive then may still have the "
            "partition's files: find them with `refold reassign --list-strays`",
        )
    ]
    assert_nothing_is_left(cluster)
