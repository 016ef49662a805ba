"""A topic's znode that somebody changes by hand while its partitions are on their way."""

import pytest

from controller.core import znodes
from controller.core.values import Assignment
from controller.core.znodes import CANCEL_CONTENT, REASSIGN_CANCEL
from tests.controller.core.cluster import Cluster
from tests.controller.core.reassignment.interrupting import (
    assert_nothing_is_left,
    cancel_all,
    entries,
    records,
    remove_cancel,
    request,
    submit,
    written_in,
)
from tests.controller.core.reassignment.reassigning import (
    T0,
    assert_no_failures,
    assignment,
    catch_up,
)
from tests.controller.core.reassignment.test_bad_reassignments import T1, in_flight, two_partitions


def topic_json(partitions: dict[int, Assignment]) -> bytes:
    """What somebody writes into a topic's znode."""
    return znodes.write_topic(znodes.TopicContent(partitions))


TOPIC_BY_HAND = {
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


@pytest.mark.parametrize("what", TOPIC_BY_HAND)
def test_a_topic_changed_by_hand_while_in_flight_is_told_and_written_again(what: str) -> None:
    cluster = in_flight()
    seen = cluster.seen()
    cluster.put(znodes.topic_path("t"), TOPIC_BY_HAND[what])
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"
    [text] = seen.notice_texts("assignment_mended")
    assert text.startswith("another client changed them in /brokers/topics/t during")
    assert f"It contained {TOPIC_BY_HAND[what].decode()!r}" in text
    assert seen.notice_texts("partitions_missing") == []
    catch_up(cluster, 3)
    cancel_all(cluster)
    remove_cancel(cluster)
    catch_up(cluster, 4, name=T1)
    assert (assignment(cluster), assignment(cluster, T1)) == ("3", "4")
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_a_topic_changed_by_hand_is_cancelled_as_it_was_begun() -> None:
    cluster = in_flight()
    cluster.put_quietly(znodes.topic_path("t"), b"garbage")
    cluster.put_quietly(REASSIGN_CANCEL, CANCEL_CONTENT)
    cluster.run()
    assert assignment(cluster) == "1"
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"
    assert_no_failures(cluster)


def test_what_only_looks_as_if_it_moved_is_put_right() -> None:
    """No controller has begun it, and none would end it."""
    cluster = two_partitions()
    seen = cluster.seen()
    data = topic_json({0: Assignment((3, 1), (3,), (1,)), 1: Assignment((2,))})
    cluster.put(znodes.topic_path("t"), data)
    assert len(seen.notice_texts("assignment_mended")) == 1
    assert (assignment(cluster), assignment(cluster, T1)) == ("1", "2")


def test_while_nothing_moves_a_change_by_hand_is_left_alone_as_in_kafka() -> None:
    cluster = two_partitions()
    seen = cluster.seen()
    data = topic_json({0: Assignment((4,)), 1: Assignment((2,))})
    cluster.put(znodes.topic_path("t"), data)
    assert seen.notice_texts("assignment_mended") == []
    assert cluster.data(znodes.topic_path("t")) == data


def test_partitions_added_while_others_move_are_kept() -> None:
    """An old tool writes the topic as it read it before the reassignment, with one more."""
    cluster = two_partitions()
    before = cluster.topic("t").assignments
    submit(cluster, {T0: [3]})
    cluster.put(znodes.topic_path("t"), topic_json({**before, 2: Assignment((4,))}))
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert assignment(cluster, ("t", 2)) == "4"
    assert cluster.leadership("t", 2).leader == 4


def test_a_topic_that_is_changed_while_it_is_mended_is_looked_at_again() -> None:
    cluster = in_flight()
    path = znodes.topic_path("t")
    seen = cluster.seen()
    cluster.once(
        lambda issued: path in written_in([issued]),
        lambda: cluster.put_quietly(path, topic_json({0: Assignment((1,)), 2: Assignment((4,))})),
    )
    cluster.put(path, b"garbage")
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert assignment(cluster, ("t", 2)) == "4"
    assert len(seen.notice_texts("assignment_mended")) == 2
    assert_no_failures(cluster)


def test_a_topic_that_nobody_could_read_at_failover_goes_on_when_it_is_mended() -> None:
    """What it goes back to stands in the log: the record has no partition that it is of."""
    cluster = two_partitions()
    request(cluster, {T0: [3]})
    before = cluster.data(znodes.topic_path("t"))
    seen = cluster.seen()
    cluster.put_quietly(znodes.topic_path("t"), b"garbage")
    cluster.expire()
    assert len(seen.notice_texts("unreadable_znode")) == 1
    [text] = seen.notice_texts("record_removed")
    assert text.startswith('there is no partition t-0; removed, it contained \'{"version":1,')
    assert text.endswith('"original_replicas":[1],"leader_epoch":0}\'')
    cluster.put(znodes.topic_path("t"), before or b"")
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert_nothing_is_left(cluster)


def test_without_kip_236_a_topic_changed_by_hand_is_left_alone() -> None:
    cluster = Cluster(1, 2, 3, 4).start()
    cluster.create_topic("t", {0: [1]})
    submit(cluster, {T0: [3]})
    cluster.put(znodes.topic_path("t"), TOPIC_BY_HAND["another target"])
    assert cluster.data(znodes.topic_path("t")) == TOPIC_BY_HAND["another target"]


def test_a_topic_deleted_by_hand_takes_its_reassignments_with_it() -> None:
    cluster = in_flight()
    cluster.create_topic("u", {0: [1]})
    submit(cluster, {T0: [3], ("u", 0): [4]})
    seen = cluster.seen()
    cluster.remove_quietly(znodes.topic_path("t"))
    cluster.run()
    assert seen.notice_texts("reassignment_ended") == [
        "its topic was deleted by hand: its reassignment is over"
    ]
    assert records(cluster) == [("u", 0)]
    assert set(entries(cluster) or {}) == {("u", 0)}
    catch_up(cluster, 4, name=("u", 0))
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)
