"""Cancellations and requests, entries or records that other clients write or delete (KB 14.2)."""

import pytest

from controller.core import error_codes as codes
from controller.core import pauses, znodes
from controller.core.commands import Notice, ReadZnodes
from controller.core.events import WatchFired
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
    Entry,
    reassignment_path,
)
from tests.controller.core.cluster import Cluster, Seen, by_rule, reads
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    cancel_briefly,
    cancel_quietly,
    entries,
    interruptible,
    remove_cancel,
    request,
    request_quietly,
    requests,
    set_minimum,
    submit,
    submit_quietly,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    ask,
    ask_for_isr,
    assert_no_failures,
    assignment,
    cancel,
)
from tests.controller.core.procedures.reassignment.test_begun_elsewhere import begin_elsewhere

MOVING = "3,4,1,2 adding 3,4 removing 1,2"


def test_cancellation_removed_before_it_is_read_rolls_back_without_an_entry_and_a_record() -> None:
    """Another client has deleted them: the controller knows the reassignment."""
    cluster = two_partitions((1, 2), (1, 2))
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    cluster.remove_quietly(reassignment_path(*T0))
    cancel_briefly(cluster)
    cluster.remove(znodes.REASSIGN_PARTITIONS)
    assert assignment(cluster) == "1,2"
    assert len(seen.texts_of("record_mended")) == 1
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_hand_back_leaves_an_entry_that_stock_brokers_can_read() -> None:
    """The entry waits, and has no originals yet."""
    cluster = two_partitions()
    cancel_all(cluster)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    cluster.shut_down_quietly()
    cluster.run()
    cluster.fire("hand back: topics under way")
    assert cluster.is_stopped
    assert znodes.REASSIGN_PARTITIONS not in seen.written()
    assert entries(cluster) == {T0: Entry((3,))}


def warnings(seen: Seen) -> list[Notice]:
    return [one for one in seen.commands if isinstance(one, Notice) and one.level == "warning"]


def test_request_that_a_cancellation_stops_waits_with_the_next_ones() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    cluster.once(reads(znodes.topic_config_path("t")), lambda: cancel_quietly(cluster))
    seen = cluster.seen()
    path = request_quietly(cluster, {T0: [3, 4]})
    request(cluster, {T1: [3]})
    assert [assignment(cluster, name) for name in (T0, T1)] == ["1,2", "1,2"]
    assert [one.subject for one in warnings(seen)] == [path, REASSIGNMENT_REQUESTS]
    remove_cancel(cluster)
    assert assignment(cluster) == MOVING
    assert assignment(cluster, T1) == "3,1,2 adding 3 removing 1,2"
    assert requests(cluster) == []


def test_request_of_an_entry_that_a_cancellation_stops_does_not_wait() -> None:
    """The cancellation removes the entry."""
    cluster = two_partitions((1, 2), (1, 2))
    cluster.once(reads(znodes.topic_config_path("t")), lambda: cancel_quietly(cluster))
    seen = cluster.seen()
    submit(cluster, {T0: [3, 4]})
    assert warnings(seen) == []
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)


def test_request_waits_if_the_rollback_of_its_partition_waits() -> None:
    """The cancelled entry is of another route."""
    cluster = interruptible(4, 1, 2)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3, 4]})
    ask_for_isr(cluster, 1, 3)
    cancel_all(cluster)
    seen = cluster.seen()
    request(cluster, {T0: [3]})
    assert [one.subject for one in warnings(seen)] == [REASSIGNMENT_REQUESTS]


def test_request_of_an_entry_that_is_younger_than_the_cancellation_waits() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    cancel_all(cluster)
    submit_quietly(cluster, {T0: [3, 4]})
    request_quietly(cluster, {T0: [3, 4]}, legacy=True)
    seen = cluster.seen()
    cluster.run()
    waiting = [znodes.REASSIGN_PARTITIONS, REASSIGNMENT_REQUESTS]
    assert sorted(one.subject for one in warnings(seen)) == waiting
    remove_cancel(cluster)
    assert assignment(cluster) == MOVING


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (REASSIGN_CANCEL, "created"),
        (REASSIGN_PARTITIONS_EXTRA, "created"),
        (REASSIGNMENT_REQUESTS, "children"),
    ],
)
def test_log_that_is_folded_without_kip_236_does_not_lead_to_its_procedures(
    path: str, change: str
) -> None:
    """A watch of the recorded run has fired."""
    cluster = Cluster(1, 2, 3, 4, kip_236_enable=False).start()
    cluster.create_topic("t", {0: [1, 2]})
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    cluster.happen(WatchFired(path, change, 99), "watches")
    assert (seen.commands, assignment(cluster)) == ([], MOVING)


@pytest.mark.parametrize("target", [[3, 4], [4]])
@pytest.mark.parametrize("legacy", [True, False])
def test_failover_keeps_a_younger_entry_next_to_an_older_request(
    legacy: bool, target: list[int]
) -> None:
    """An entry is as old as a request only if the request was made of it."""
    cluster = two_partitions((1, 2), (1, 2))
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [3, 4]}, legacy=legacy)
        cancel_quietly(cluster)
        submit_quietly(cluster, {T0: target})
    is_of_request = legacy and target == [3, 4]
    assert entries(cluster) == (None if is_of_request else {T0: Entry(tuple(target))})
    assert assignment(cluster) == "1,2"


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_api_cancels_a_move_without_a_record_and_makes_none(is_cancelled: bool) -> None:
    """Another controller has begun the move. A cancellation of all moves concerns entries only."""
    cluster = two_partitions((1, 2), (1, 2))
    with OtherControllersTerm(cluster):
        begin_elsewhere(cluster)
        if is_cancelled:
            cancel_quietly(cluster)
    assert assignment(cluster) == MOVING
    seen = cluster.seen()
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2"
    assert [one for one in seen.written() if one.startswith(REASSIGNMENTS)] == []


def test_request_for_the_present_replicas_is_done_although_a_cancellation_comes_meanwhile() -> None:
    """The request moves nothing. Another target is refused."""
    cluster = two_partitions((1, 2), (1, 2))
    cluster.once(reads(znodes.REASSIGN_PARTITIONS), lambda: cancel_quietly(cluster))
    answer = ask(cluster, (T0, [1, 2]), (T1, [3, 4]))
    errors = {one.partition: one.error for one in answer.partitions}
    assert errors == {0: codes.NONE, 1: codes.REASSIGNMENT_IN_PROGRESS}


def test_later_parts_of_a_request_that_a_cancellation_stops_are_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last part of the request names a partition that does not exist."""
    monkeypatch.setattr(pauses, "TOGETHER_MAX", 1)
    cluster = two_partitions()
    is_second = by_rule(ReadZnodes, "reassignment: begin")
    seen = cluster.seen()
    cluster.once(is_second, lambda: cancel_quietly(cluster))
    request(cluster, {T0: [3], ("x", 0): [3]})
    assert seen.texts_of("reassignment_refused") == []
    remove_cancel(cluster)
    assert len(seen.texts_of("reassignment_refused")) == 1
    assert assignment(cluster) == "3,1 adding 3 removing 1"
