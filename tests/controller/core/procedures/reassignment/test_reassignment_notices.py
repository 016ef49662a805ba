"""The log lines of each move: its origin and its end, once each (docs/kip-236.md)."""

from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.commands import Notice
from controller.core.znodes import Entry, Reassignment
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    cancel_all,
    entries,
    interruptible,
    record,
    request,
    request_quietly,
    requests,
    set_minimum,
    submit,
    submit_extra,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask,
    ask_for_isr,
    assignment,
    cancel,
    catch_up,
    reassign,
)

API = "the AlterPartitionReassignments API"
REQUESTS = "/admin/reassignment_requests"
ENTRIES = "/admin/reassign_partitions"
CODES = (
    "reassignment_begun",
    "reassignment_replaced",
    "reassignment_completed",
    "reassignment_rolled_back",
    "reassignment_ended",
    "reassignment_refused",
)

Begin = Callable[[Cluster, int], object]


def by_entry(cluster: Cluster, target: int) -> None:
    """By /admin/reassign_partitions."""
    submit(cluster, {T0: [target]})


def by_request(cluster: Cluster, target: int) -> None:
    """By /admin/reassignment_requests."""
    request(cluster, {T0: [target]})


def by_api(cluster: Cluster, target: int) -> None:
    """A request by the API."""
    assert reassign(cluster, target) == 0


ROUTES = [
    (by_entry, ENTRIES, ENTRIES, ENTRIES),
    (by_request, f"{REQUESTS}/request_0000000000", f"{REQUESTS}/request_0000000001", REQUESTS),
    (by_api, API, API, API),
]


def logged(seen: Seen) -> list[tuple[str, str, str, str]]:
    """Level, code, subject and text of the log lines on moves, in order."""
    return [
        (one.level, one.code, one.subject, one.text)
        for one in seen.commands
        if isinstance(one, Notice) and one.code in CODES
    ]


def info(code: str, text: str) -> tuple[str, str, str, str]:
    """A log line of t-0."""
    return ("info", f"reassignment_{code}", "t-0", text)


# One move ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("begin", "first", "second", "route"), ROUTES)
def test_changed_and_completed_move_is_logged_once_each(
    begin: Begin, first: str, second: str, route: str
) -> None:
    cluster = interruptible(4, 1, 2)
    seen = cluster.seen()
    begin(cluster, 3)
    begin(cluster, 4)
    catch_up(cluster, 4)
    assert assignment(cluster) == "4"
    assert logged(seen) == [
        info("begun", f"a reassignment from 1,2 to 3 begins, requested by {first}"),
        info(
            "replaced", f"the target of the reassignment changes from 3 to 4, requested by {second}"
        ),
        info(
            "completed",
            f"the reassignment, requested by {route}, is complete: the partition is on replicas 4",
        ),
    ]


def test_move_reverted_by_a_request_is_logged_to_its_end() -> None:
    cluster = interruptible(4, 1, 2)
    seen = cluster.seen()
    request(cluster, {T0: [3, 4]})
    catch_up(cluster, 3)
    request(cluster, {T0: [1, 2]})
    assert assignment(cluster) == "1,2"
    assert logged(seen)[1:] == [
        info(
            "replaced",
            "the target of the reassignment changes from 3,4 to 1,2, requested by "
            f"{REQUESTS}/request_0000000001",
        ),
        info(
            "completed",
            f"the reassignment, requested by {REQUESTS}, is complete: the "
            "partition is on replicas 1,2",
        ),
    ]


def test_request_for_the_present_replicas_is_no_move() -> None:
    cluster = interruptible(4, 1, 2)
    seen = cluster.seen()
    request(cluster, {T0: [1, 2]})
    assert logged(seen) == []


@pytest.mark.parametrize(("begin", "first", "second", "route"), ROUTES)
def test_move_continued_by_a_failover_is_logged_once_each(
    begin: Begin, first: str, second: str, route: str
) -> None:
    cluster = interruptible(4, 1, 2)
    seen = cluster.seen()
    begin(cluster, 3)
    cluster.expire()
    cluster.expire()
    catch_up(cluster, 3)
    assert logged(seen) == [
        info("begun", f"a reassignment from 1,2 to 3 begins, requested by {first}"),
        info(
            "completed",
            f"the reassignment, requested by {route}, is complete: the partition is on replicas 3",
        ),
    ]


@pytest.mark.parametrize(("begin", "first", "second", "route"), ROUTES)
def test_move_cancelled_by_the_api_is_logged_once(
    begin: Begin, first: str, second: str, route: str
) -> None:
    cluster = interruptible(4, 1, 2)
    begin(cluster, 3)
    seen = cluster.seen()
    assert cancel(cluster) == 0
    assert logged(seen) == [
        info(
            "rolled_back",
            f"the partition is on its original replicas 1,2 again: {API} cancelled the "
            f"reassignment to 3, which was requested by {route}",
        )
    ]


def test_move_cancelled_by_the_znode_is_logged_once() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    cancel_all(cluster)
    cluster.expire()
    assert logged(seen) == [
        info(
            "rolled_back",
            "the partition is on its original replicas 1,2 again: /admin/reassign_cancel "
            f"cancelled the reassignment to 3, which was requested by {ENTRIES}",
        )
    ]


def test_move_replaced_by_extra_entries_is_logged_with_their_znode_as_the_cause() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    submit_extra(cluster, {T0: [4]})
    assert logged(seen) == [
        info(
            "rolled_back",
            "the partition is on its original replicas 1,2 again: an entry of "
            "/admin/reassign_partitions_extra with replicas 4 cancelled the reassignment to 3, "
            f"which was requested by {ENTRIES}",
        ),
        info(
            "begun",
            f"a reassignment from 1,2 to 4 begins, requested by {ENTRIES}, to which the controller "
            "added the entry of /admin/reassign_partitions_extra",
        ),
    ]


def test_entry_that_a_client_writes_later_does_not_name_the_extra_znode() -> None:
    cluster = interruptible(4, 1, 2)
    submit_extra(cluster, {T0: [3]})
    catch_up(cluster, 3)
    seen = cluster.seen()
    submit(cluster, {T0: [4]})
    assert logged(seen) == [
        info("begun", f"a reassignment from 3 to 4 begins, requested by {ENTRIES}")
    ]


def test_entry_that_a_client_changes_and_restores_does_not_name_the_extra_znode() -> None:
    cluster = interruptible(4, 1, 2)
    submit_extra(cluster, {T0: [3]})
    submit(cluster, {T0: [4]})
    seen = cluster.seen()
    submit(cluster, {T0: [3]})
    assert logged(seen) == [
        info(
            "replaced",
            f"the target of the reassignment changes from 4 to 3, requested by {ENTRIES}",
        )
    ]


def test_move_completed_at_a_failover_is_logged_once() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.set_isr("t", 0, (1, 2, 3))
    assert logged(seen) == [
        info(
            "completed",
            f"the reassignment, requested by {ENTRIES}, is "
            "complete: the partition is on replicas 3",
        )
    ]


@pytest.mark.parametrize("is_seen_by_failover", [False, True])
def test_move_that_ends_with_its_topic_is_logged(is_seen_by_failover: bool) -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    if is_seen_by_failover:
        with OtherControllersTerm(cluster):
            cluster.put_quietly(znodes.delete_topic_path("t"), b"")
    else:
        cluster.put(znodes.delete_topic_path("t"), b"")
    first, *others = logged(seen)
    assert first == info(
        "ended",
        f"the reassignment to 3, requested by {ENTRIES}, has ended: its topic is being deleted",
    )
    # A failover also removes the entry, as one of a topic that does not exist.
    assert [code for _, code, _, _ in others] == ["reassignment_refused"] * is_seen_by_failover


def test_move_ended_by_another_controller_is_logged_only_as_ended() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.change_topic_quietly("t", {0: [3]})
    assert [code for _, code, _, _ in logged(seen)] == ["reassignment_ended"]


def test_same_target_again_is_not_logged() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    submit(cluster, {T0: [3]})
    assert logged(seen) == []


@pytest.mark.parametrize("begin", [submit, request, ask])
def test_present_replicas_again_are_no_move(begin: Callable[..., object]) -> None:
    cluster = interruptible(4, 1, 2)
    seen = cluster.seen()
    if begin is ask:
        ask(cluster, (T0, [1, 2]))
    else:
        begin(cluster, {T0: [1, 2]})
    assert assignment(cluster) == "1,2"
    assert logged(seen) == []


# Refusals ---------------------------------------------------------------------------------------


def test_failover_refuses_a_request_for_a_partition_moved_by_an_entry_once() -> None:
    """The entry and its record are kept."""
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [4]})
    assert [line for line in logged(seen) if line[1] == "reassignment_refused"] == [
        (
            "warning",
            "reassignment_refused",
            "t-0",
            f"the reassignment to 4, requested by {REQUESTS}/request_0000000001, is rejected: The "
            f"partition is being reassigned by way of {ENTRIES}: that reassignment has to end or "
            "be cancelled first.",
        )
    ]
    assert len(logged(seen)) == 1
    assert record(cluster) == Reassignment((3,), 2, True, (1, 2))
    assert entries(cluster) == {T0: Entry((3,), (1, 2))}
    assert requests(cluster) == []


def test_failover_refuses_an_entry_for_a_partition_moved_by_a_request_once() -> None:
    cluster = interruptible(4, 1, 2)
    request(cluster, {T0: [3]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [4]})
        request_quietly(cluster, {T0: [4]})
    assert [(code, text) for _, code, _, text in logged(seen)] == [
        (
            "reassignment_refused",
            f"the reassignment to 4, requested by {ENTRIES}, is rejected: "
            f"{REQUESTS}/request_0000000001 requested a reassignment of the partition earlier",
        ),
        (
            "reassignment_replaced",
            "the target of the reassignment changes from 3 to 4, requested by "
            f"{REQUESTS}/request_0000000001",
        ),
    ]
    assert entries(cluster) is None


def test_refusal_of_a_live_request_is_logged_once() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    path = request(cluster, {T0: [4]})
    assert [(code, text) for _, code, _, text in logged(seen)] == [
        (
            "reassignment_refused",
            f"the reassignment to 4, requested by {path}, is rejected: The partition is being "
            f"reassigned by way of {ENTRIES}: that reassignment has to end or be cancelled first.",
        )
    ]


def test_waiting_rollback_names_each_original_in_sync() -> None:
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, 3)
    submit(cluster, {T0: [4, 5, 6]})
    ask_for_isr(cluster, 1, 2, 4)
    seen = cluster.seen()
    cancel_all(cluster)
    [text] = seen.texts_of("rollback_waits")
    assert text.startswith(
        "3 of the original replicas 1,2,3 must be live and in sync, and only brokers 1,2 are: "
    )
