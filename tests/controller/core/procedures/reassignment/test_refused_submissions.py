"""Reassignments that a failover or a znode requests and that are refused, wait, or repeat what is
under way (KB 14.5)."""

import pytest

from controller.core import znodes
from controller.core.commands import ReadZnodes
from controller.core.values import Assignment
from controller.core.znodes import TopicContent
from tests.controller.core.cluster import Cluster, by_rule
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    cancel_quietly,
    entries,
    extra,
    interruptible,
    record,
    remove_cancel,
    request,
    request_quietly,
    requests,
    submit,
    submit_extra,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    as_text,
    assert_no_failures,
    assignment,
)


def test_partition_that_a_tool_has_deleted_is_not_reassigned() -> None:
    """The controller remembers the states of its replicas."""
    cluster = interruptible(3, 1, 2)
    cluster.remove_topic_znodes("t")
    assert cluster.partition(*T0).replicas == ()
    seen = cluster.seen()
    request(cluster, {T0: [3]})
    submit(cluster, {T0: [3]})
    assert [one for one in seen.texts() if "The partition does not exist." in one] != []
    assert znodes.topic_path("t") not in seen.written()
    assert (record(cluster), entries(cluster), requests(cluster)) == (None, None, [])
    assert_no_failures(cluster)


@pytest.mark.parametrize("target", [(3, 3), (-1, 3)])
def test_impossible_extra_entry_leaves_the_move_under_way_alone(target: tuple[int, int]) -> None:
    cluster = interruptible(3, 1)
    submit(cluster, {T0: [2]})
    before, moving = record(cluster), assignment(cluster)
    seen = cluster.seen()
    submit_extra(cluster, {T0: target})
    assert (extra(cluster), record(cluster), assignment(cluster)) == (None, before, moving)
    assert [one for one in seen.written() if one == znodes.topic_path("t")] == []
    assert set(entries(cluster) or {}) == {T0}


def test_move_that_another_controller_began_without_a_record_refuses_other_requests() -> None:
    """A move without a record is one of the AlterPartitionReassignments API."""
    cluster = interruptible(3, 1)
    with OtherControllersTerm(cluster):
        content = TopicContent(
            {0: Assignment((2, 1), (2,), (1,))}, topic_id=cluster.topic("t").topic_id
        )
        cluster.put_quietly(znodes.topic_path("t"), znodes.write_topic(content))
    assert record(cluster) is None
    seen = cluster.seen()
    request(cluster, {T0: [3]})
    [text] = seen.texts_of("reassignment_refused")
    assert "by way of the AlterPartitionReassignments API" in text
    assert assignment(cluster) == "2,1 adding 2 removing 1"


def test_failover_takes_the_last_target_even_if_it_is_the_one_under_way() -> None:
    cluster = interruptible(4, 1)
    request(cluster, {T0: [2]})
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [3]})
        request_quietly(cluster, {T0: [2]})
    assert assignment(cluster) == "2,1 adding 2 removing 1"
    assert requests(cluster) == []


def test_request_stays_while_a_cancellation_appears_during_a_failover() -> None:
    cluster = interruptible(3, 1)
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [2]})
        is_read = by_rule(ReadZnodes, "reassignment: begin")
        cluster.once(is_read, lambda: cancel_quietly(cluster))
    assert as_text(cluster.topic("t").assignments[0]) == "1"
    assert len(requests(cluster)) == 1
    remove_cancel(cluster)
    assert assignment(cluster) == "2,1 adding 2 removing 1"
    assert requests(cluster) == []


def test_under_a_cancellation_a_failover_cancels_an_empty_target_and_resumes_nothing() -> None:
    cluster = Cluster(1, 2, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    topic_id = cluster.topic("t").topic_id
    cluster.put(znodes.REASSIGN_CANCEL, znodes.CANCEL_CONTENT)
    with OtherControllersTerm(cluster):
        empty = Assignment((1,), (), (1,))
        moving = Assignment((2, 1), (2,), (1,))
        content = TopicContent({0: empty, 1: moving}, topic_id)
        cluster.put_quietly(znodes.topic_path("t"), znodes.write_topic(content))
    context = cluster.fold.controller.context
    assert [one.key for one in context.held] == [("t", 1)]
    assert cluster.topic("t").assignments[0] == Assignment((1,))
