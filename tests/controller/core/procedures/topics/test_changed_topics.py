"""Clients change a topic's znode while its partitions are being reassigned."""

import pytest

from controller.core import znodes
from controller.core.values import Assignment
from controller.core.znodes import CANCEL_CONTENT, REASSIGN_CANCEL
from tests.controller.core.cluster import Cluster, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    assert_nothing_is_left,
    cancel_all,
    entries,
    one_by_each_route,
    put_isr_quietly,
    records,
    remove_cancel,
    request,
    submit,
    two_partitions,
    written_in,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    assert_no_failures,
    assignment,
    catch_up,
    listed,
)
from tests.controller.core.unreliable import Delivery


def topic_json(partitions: dict[int, Assignment]) -> bytes:
    """The content that a client writes to a topic's znode."""
    return znodes.write_topic(znodes.TopicContent(partitions))


CHANGED_TOPICS = {
    "nothing is under way": topic_json({0: Assignment((1,)), 1: Assignment((2,))}),
    "replicas at rest elsewhere": topic_json({0: Assignment((4, 1)), 1: Assignment((2,))}),
    "another target": topic_json({0: Assignment((4, 1), (4,), (1,)), 1: Assignment((2,))}),
    "no target": topic_json({0: Assignment((3, 1), (3,), (3, 1)), 1: Assignment((2,))}),
    "adding what is no replica": topic_json({0: Assignment((1,), (3,), (9,)), 1: Assignment((2,))}),
    "the partition is missing": topic_json({1: Assignment((4, 2), (4,), (2,))}),
    "no partitions": topic_json({}),
    "garbage": b"garbage",
    "empty": b"",
}


@pytest.mark.parametrize("what", CHANGED_TOPICS)
def test_topic_changed_by_a_client_during_a_move_is_reported_and_restored(what: str) -> None:
    cluster = one_by_each_route()
    seen = cluster.seen()
    cluster.put(znodes.topic_path("t"), CHANGED_TOPICS[what])
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"
    [text] = seen.texts_of("assignment_mended")
    assert text.startswith("another client changed t-")
    assert " in /brokers/topics/t during a reassignment" in text
    assert f"The znode contained {CHANGED_TOPICS[what].decode()!r}" in text
    assert seen.texts_of("partitions_missing") == []
    catch_up(cluster, 3)
    cancel_all(cluster)
    remove_cancel(cluster)
    catch_up(cluster, 4, name=T1)
    assert (assignment(cluster), assignment(cluster, T1)) == ("3", "4")
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_move_of_a_topic_changed_by_a_client_is_cancelled_to_the_originals() -> None:
    cluster = one_by_each_route()
    cluster.put_quietly(znodes.topic_path("t"), b"garbage")
    cluster.put_quietly(REASSIGN_CANCEL, CANCEL_CONTENT)
    cluster.run()
    assert assignment(cluster) == "1"
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"
    assert_no_failures(cluster)


@pytest.mark.parametrize("second", [2, 4])
def test_assignment_that_only_looks_like_a_move_is_corrected(second: int) -> None:
    """No controller has started such a move, and none would complete it."""
    cluster = two_partitions()
    seen = cluster.seen()
    data = topic_json({0: Assignment((3, 1), (3,), (1,)), 1: Assignment((second,))})
    cluster.put(znodes.topic_path("t"), data)
    assert len(seen.texts_of("assignment_mended")) == 1
    assert (assignment(cluster), assignment(cluster, T1)) == ("1", "2")


def test_without_a_move_a_change_by_a_client_is_ignored_as_in_kafka() -> None:
    cluster = two_partitions()
    seen = cluster.seen()
    data = topic_json({0: Assignment((4,)), 1: Assignment((2,))})
    cluster.put(znodes.topic_path("t"), data)
    assert seen.texts_of("assignment_mended") == []
    assert cluster.topic("t").assignments == znodes.read_topic("t", data).assignments


def test_partitions_added_during_a_move_are_kept() -> None:
    """An old tool writes the assignment from before the reassignment, with one more partition."""
    cluster = two_partitions()
    before = cluster.topic("t").assignments
    submit(cluster, {T0: [3]})
    cluster.put(znodes.topic_path("t"), topic_json({**before, 2: Assignment((4,))}))
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert assignment(cluster, ("t", 2)) == "4"
    assert cluster.leadership("t", 2).leader == 4


def test_topic_changed_during_its_repair_is_repaired_again() -> None:
    cluster = one_by_each_route()
    path = znodes.topic_path("t")
    seen = cluster.seen()
    cluster.once(
        lambda issued: path in written_in([issued]),
        lambda: cluster.put_quietly(path, topic_json({0: Assignment((1,)), 2: Assignment((4,))})),
    )
    cluster.put(path, b"garbage")
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert assignment(cluster, ("t", 2)) == "4"
    assert len(seen.texts_of("assignment_mended")) == 2
    assert_no_failures(cluster)


def test_topic_unreadable_at_failover_continues_its_move_after_a_repair() -> None:
    """The originals are only in the log, because the record belongs to no known partition."""
    cluster = two_partitions()
    request(cluster, {T0: [3]})
    before = cluster.data(znodes.topic_path("t"))
    seen = cluster.seen()
    cluster.put_quietly(znodes.topic_path("t"), b"garbage")
    cluster.expire()
    assert len(seen.texts_of("unreadable_znode")) == 1
    [text] = seen.texts_of("record_removed")
    assert text.startswith(
        'the partition t-0 does not exist; the record is deleted; its content was \'{"version":1,'
    )
    assert text.endswith('"original_replicas":[1],"leader_epoch":0}\'')
    cluster.put(znodes.topic_path("t"), before or b"")
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert_nothing_is_left(cluster)


def test_move_of_a_topic_that_is_readable_again_completes_if_all_are_in_sync() -> None:
    """No leader changes the ISR again, which would complete the move as well."""
    cluster = two_partitions()
    request(cluster, {T0: [3]})
    before = cluster.data(znodes.topic_path("t"))
    cluster.put_quietly(znodes.topic_path("t"), b"garbage")
    put_isr_quietly(cluster, 1, 3)
    cluster.expire()
    cluster.put(znodes.topic_path("t"), before or b"")
    assert assignment(cluster) == "3"
    assert_nothing_is_left(cluster)


def test_without_kip_236_an_added_partition_is_not_reassigned() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1]})
    data = topic_json({0: Assignment((1,)), 1: Assignment((2, 1), (2,), (1,))})
    cluster.put(znodes.topic_path("t"), data)
    assert cluster.leadership("t", 1).isr == (2, 1)
    assert listed(cluster) == {}


def test_without_kip_236_a_partition_that_is_missing_during_a_move_is_reported() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1], 1: [2]})
    submit(cluster, {T0: [3]})
    left = znodes.TopicContent({0: Assignment((3, 1), (3,), (1,))}, cluster.topic("t").topic_id)
    seen = cluster.seen()
    cluster.put(znodes.topic_path("t"), znodes.write_topic(left))
    [text] = seen.texts_of("partitions_missing")
    assert text.startswith("t-1 are missing")


def test_without_kip_236_a_change_by_a_client_is_ignored() -> None:
    cluster = Cluster(1, 2, 3, 4).start()
    cluster.create_topic("t", {0: [1]})
    submit(cluster, {T0: [3]})
    cluster.put(znodes.topic_path("t"), CHANGED_TOPICS["another target"])
    data = CHANGED_TOPICS["another target"]
    assert cluster.topic("t").assignments == znodes.read_topic("t", data).assignments


def test_topic_deleted_by_a_client_ends_its_reassignments() -> None:
    cluster = one_by_each_route()
    cluster.create_topic("u", {0: [1]})
    submit(cluster, {T0: [3], ("u", 0): [4]})
    seen = cluster.seen()
    cluster.remove_quietly(znodes.topic_path("t"))
    cluster.run()
    assert seen.texts_of("reassignment_ended") == [
        "a topic was deleted by hand: the reassignment of t-0, t-1 is over"
    ]
    assert records(cluster) == [("u", 0)]
    assert set(entries(cluster) or {}) == {("u", 0)}
    catch_up(cluster, 4, name=("u", 0))
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_entry_of_a_deleted_topic_does_not_move_the_next_topic_of_that_name() -> None:
    """A client creates the topic again, and the session ends when the record of the deleted topic
    is removed."""
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    path = znodes.topic_path("t")
    removes_record = writes(znodes.reassignment_path(*T0))
    cluster.once(
        removes_record, lambda: cluster.put_quietly(path, topic_json({0: Assignment((1,))}))
    )
    cluster.lose(removes_record, Delivery.SESSION_OVER_AFTER)
    cluster.remove_quietly(path)
    cluster.run()
    assert assignment(cluster) == "1"
    assert_nothing_is_left(cluster)
