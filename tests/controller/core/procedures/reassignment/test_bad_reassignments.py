"""Unreadable and impossible content of any KIP-236 znode is reported and removed."""

from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.operations import CreateSequential
from controller.core.procedures.elections.rebalance import rebalance_timer
from controller.core.procedures.reassignment import reassign_partitions
from controller.core.znodes import (
    CANCEL_CONTENT,
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REQUEST_PREFIX,
    Entry,
    Reassignment,
    reassignment_path,
    write_entries,
    write_reassignment,
)
from tests.controller.core.cluster import DAEMON, Cluster
from tests.controller.core.procedures.reassignment.interrupting import (
    assert_nothing_is_left,
    cancel_all,
    entries,
    extra,
    one_by_each_route,
    record,
    records,
    request,
    requests,
    submit,
    submit_extra,
    two_partitions,
    written_in,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    Name,
    assert_no_failures,
    assignment,
    catch_up,
)
from tests.controller.core.procedures.topics.deleting import mark

UNREADABLE = (
    b"",
    b"nonsense",
    b"\xff\xfe",
    b"[]",
    b'{"version":1}',
    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":["a"]}]}',
    b'{"version":1,"assignments":{"t":{"zero":[1]}}}',
    b'{"version":2,"assignments":{"t":{"0":[1]}}}',
    b'{"version":1,"assignments":{"t":{"-1":[1]}}}',
    b'{"version":1,"assignments":{"t":{"0":[99999999999]}}}',
    b'{"version":1,"assignments":{"t":{"0":[1]} "u":{"0":[1]}}}',
)

BAD = {
    "unknown topic": (("missing", 0), [1], "The partition does not exist."),
    "unknown partition": (("t", 7), [1], "The partition does not exist."),
    "empty list": (T0, [], "The replica list is empty."),
    "repeated broker": (T0, [3, 3], "The replica list 3,3 names a broker twice."),
    "negative broker": (
        T0,
        [3, -1],
        "The replica list 3,-1 has a negative broker id.",
    ),
    "the daemon": (T0, [DAEMON], "Broker 1000 is the controller, which holds no replicas."),
}


def put_request(cluster: Cluster, data: bytes) -> None:
    """A client creates a request with any content."""
    cluster.ask(CreateSequential(REQUEST_PREFIX, data))
    cluster.run()


# Unreadable content ------------------------------------------------------------------------------


@pytest.mark.parametrize("data", UNREADABLE)
def test_unreadable_request_is_removed_and_its_content_logged(data: bytes) -> None:
    cluster = two_partitions()
    seen = cluster.seen()
    put_request(cluster, data)
    assert requests(cluster) == []
    [text] = seen.texts_of("unreadable_znode")
    assert text.endswith(
        f"the znode is deleted; its content was {data.decode('utf-8', 'replace')!r}"
    )
    request(cluster, {T0: [3]})
    assert assignment(cluster) == "3,1 adding 3 removing 1"


def test_child_whose_name_is_not_a_request_name_is_still_a_request() -> None:
    cluster = two_partitions()
    cluster.put(f"{REASSIGNMENT_REQUESTS}/by_hand", b"nonsense")
    assert requests(cluster) == []
    assert_no_failures(cluster)


@pytest.mark.parametrize("path", [znodes.REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA])
@pytest.mark.parametrize("data", UNREADABLE)
def test_unreadable_entries_are_removed_and_their_content_logged(path: str, data: bytes) -> None:
    cluster = two_partitions()
    seen = cluster.seen()
    cluster.put(path, data)
    assert cluster.data(path) is None
    [text] = seen.texts_of("unreadable_znode")
    assert text.endswith(
        f"the znode is deleted; its content was {data.decode('utf-8', 'replace')!r}"
    )
    submit(cluster, {T0: [3]})
    assert assignment(cluster) == "3,1 adding 3 removing 1"


def test_znode_made_unreadable_during_the_move_gets_its_entries_back() -> None:
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    cluster.put(znodes.REASSIGN_PARTITIONS, b"nonsense")
    assert entries(cluster) == {T0: Entry((3,), (1,))}
    [text] = seen.texts_of("unreadable_znode")
    assert "the reassignments under way replace its content" in text
    assert seen.texts_of("entries_mended") == []
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert_nothing_is_left(cluster)


def test_znode_deleted_during_the_move_does_not_stop_the_move() -> None:
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    cluster.remove(znodes.REASSIGN_PARTITIONS)
    submit(cluster, {T1: [4]})
    assert T1 in (entries(cluster) or {})
    catch_up(cluster, 3)
    catch_up(cluster, 4, name=T1)
    assert (assignment(cluster), assignment(cluster, T1)) == ("3", "4")
    assert_nothing_is_left(cluster)


def test_unreadable_record_is_removed_at_the_next_failover() -> None:
    cluster = two_partitions()
    request(cluster, {T0: [3]})
    cluster.put_quietly(reassignment_path(*T0), b"nonsense")
    seen = cluster.seen()
    cluster.expire()
    [text] = seen.texts_of("unreadable_znode")
    assert text.endswith("the record is deleted; its content was 'nonsense'")
    assert records(cluster) == []
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert_nothing_is_left(cluster)


def test_record_deleted_during_the_move_does_not_stop_the_move() -> None:
    cluster = two_partitions()
    request(cluster, {T0: [3]})
    cluster.remove_quietly("/admin/reassignments/t")
    request(cluster, {T0: [4]})
    assert record(cluster) == Reassignment((4,), 1, False, (1,))
    catch_up(cluster, 4)
    assert assignment(cluster) == "4"
    assert_no_failures(cluster)


CHECKS: dict[str, Callable[[Cluster], object]] = {
    "a request": lambda cluster: request(cluster, {("missing", 0): [3]}),
    "a request made of an entry": lambda cluster: submit(cluster, {T0: [3], ("u", 0): [4]}),
    "an entry that is gone": lambda cluster: cluster.remove(znodes.REASSIGN_PARTITIONS),
    "time": lambda cluster: cluster.fire(rebalance_timer(cluster.fold.controller)),
}
CHANGED_RECORDS = {
    "garbage": (b"garbage", "its content was 'garbage'"),
    "an object": (b"{}", "its content was '{}'"),
    "another target": (
        write_reassignment(Reassignment((5, 6), 1, True, (6, 5))),
        'its content was \'{"version":1,"replicas":[5,6],',
    ),
}


@pytest.mark.parametrize("look", CHECKS)
@pytest.mark.parametrize("what", CHANGED_RECORDS)
def test_record_changed_by_a_client_is_reported_once_and_restored(what: str, look: str) -> None:
    cluster = one_by_each_route()
    cluster.create_topic("u", {0: [1]})
    data, held = CHANGED_RECORDS[what]
    before = record(cluster), record(cluster, T1)
    for name in (T0, T1):
        cluster.put_quietly(reassignment_path(*name), data)
    seen = cluster.seen()
    CHECKS[look](cluster)
    texts = seen.texts_of("record_mended")
    assert len(texts) == 2
    for text in texts:
        assert text.startswith("another client changed the record; the controller writes it again")
        assert held in text
    assert not seen.texts_of("record_not_mended")
    assert (record(cluster), record(cluster, T1)) == before
    catch_up(cluster, 3)
    catch_up(cluster, 4, name=T1)
    assert (assignment(cluster), assignment(cluster, T1)) == ("3", "4")
    assert_no_failures(cluster)


@pytest.mark.parametrize("look", CHECKS)
def test_record_deleted_by_a_client_is_created_again(look: str) -> None:
    cluster = one_by_each_route()
    cluster.create_topic("u", {0: [1]})
    before = record(cluster), record(cluster, T1)
    cluster.remove_quietly("/admin/reassignments")
    seen = cluster.seen()
    CHECKS[look](cluster)
    assert len(seen.texts_of("record_mended")) == 2
    assert (record(cluster), record(cluster, T1)) == before
    assert_no_failures(cluster)


def test_move_whose_record_a_client_changed_is_cancelled_to_the_originals() -> None:
    cluster = one_by_each_route()
    other = write_reassignment(Reassignment((5, 6), 1, True, (6, 5)))
    cluster.put_quietly(reassignment_path(*T0), other)
    cluster.put_quietly(reassignment_path(*T1), b"garbage")
    seen = cluster.seen()
    cancel_all(cluster)
    assert len(seen.texts_of("record_mended")) == 2
    assert assignment(cluster) == "1"
    assert record(cluster) is None
    assert record(cluster, T1) == Reassignment((4,), 1, False, (2,))


def test_record_changed_during_its_repair_is_repaired_at_the_next_check() -> None:
    cluster = one_by_each_route()
    path = reassignment_path(*T0)
    cluster.put_quietly(path, b"first")
    cluster.once(
        lambda issued: path in written_in([issued]),
        lambda: cluster.put_quietly(path, b"second"),
    )
    CHECKS["time"](cluster)
    assert cluster.data(path) == b"second"
    CHECKS["time"](cluster)
    assert record(cluster) == Reassignment((3,), 1, True, (1,))
    assert_no_failures(cluster)


def test_entry_removed_by_a_client_during_the_move_is_restored_and_reported() -> None:
    cluster = one_by_each_route()
    cluster.create_topic("u", {0: [1]})
    seen = cluster.seen()
    submit(cluster, {("u", 0): [4]})
    assert seen.texts_of("entries_mended") == [
        "the entries of t-0 were removed while their reassignments were under way: the controller "
        "writes the entries again; to end the reassignments, cancel them"
    ]
    assert entries(cluster) == {("u", 0): Entry((4,), (1,)), T0: Entry((3,), (1,))}
    cluster.remove(znodes.REASSIGN_PARTITIONS)
    assert set(entries(cluster) or {}) == {("u", 0), T0}


@pytest.mark.parametrize(("room", "is_restored"), [(-1, False), (0, True)])
def test_removed_entry_is_restored_if_it_fits(
    monkeypatch: pytest.MonkeyPatch, room: int, is_restored: bool
) -> None:
    cluster = one_by_each_route()
    size = len(write_entries({T0: Entry((3,))}))
    monkeypatch.setattr(reassign_partitions, "DATA_BYTES_MAX", size + room)
    cluster.remove(znodes.REASSIGN_PARTITIONS)
    assert (entries(cluster) is not None) is is_restored
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert_no_failures(cluster)


def test_removed_entries_are_not_restored_during_a_cancellation() -> None:
    cluster = one_by_each_route()
    cluster.stop_broker(1)
    cluster.put_quietly(REASSIGN_CANCEL, CANCEL_CONTENT)
    cluster.remove(znodes.REASSIGN_PARTITIONS)
    assert entries(cluster) is None
    cluster.start_broker(1)
    assert assignment(cluster) == "1"
    assert entries(cluster) is None
    assert_no_failures(cluster)


def test_removed_entry_of_a_topic_being_deleted_is_not_restored() -> None:
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    cluster.stop_broker(3)
    cluster.put_quietly("/admin/delete_topics/t", b"")
    cluster.remove(znodes.REASSIGN_PARTITIONS)
    assert entries(cluster) is None
    assert_no_failures(cluster)


def test_deleted_parent_znodes_are_created_again() -> None:
    cluster = two_partitions()
    cluster.remove_quietly("/admin/reassignments")
    cluster.remove(REASSIGNMENT_REQUESTS)
    request(cluster, {T1: [4]})
    assert record(cluster, T1) == Reassignment((4,), 1, False, (2,))
    submit(cluster, {T0: [3]})
    assert record(cluster) == Reassignment((3,), 1, True, (1,))


# Impossible reassignments -----------------------------------------------------------------------


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("submitted", [submit, submit_extra, request])
def test_impossible_reassignment_is_reported_and_dropped_and_the_others_start(
    what: str, submitted: Callable[[Cluster, dict[Name, list[int]]], object]
) -> None:
    name, target, why = BAD[what]
    cluster = two_partitions()
    seen = cluster.seen()
    submitted(cluster, {name: target, T1: [4]})
    [text] = seen.texts_of("reassignment_refused")
    assert text.endswith(why)
    assert assignment(cluster) == "1"
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"
    assert requests(cluster) == []
    assert extra(cluster) is None
    catch_up(cluster, 4, name=T1)
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


@pytest.mark.parametrize("path", [znodes.REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA])
def test_last_of_several_entries_for_a_partition_is_used_and_that_is_reported(path: str) -> None:
    cluster = two_partitions()
    seen = cluster.seen()
    data = (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3]},'
        b'{"topic":"t","partition":0,"replicas":[4]}]}'
    )
    cluster.put(path, data)
    assert set(seen.texts_of("repeated_entry")) == {
        "the znode has several entries for t-0: the last one counts"
    }
    assert assignment(cluster) == "4,1 adding 4 removing 1"
    assert entries(cluster) == {T0: Entry((4,), (1,))}


@pytest.mark.parametrize("submitted", [submit, submit_extra, request])
def test_unregistered_broker_is_waited_for_and_reported(
    submitted: Callable[[Cluster, dict[Name, list[int]]], object],
) -> None:
    cluster = two_partitions()
    seen = cluster.seen()
    submitted(cluster, {T0: [9]})
    assert "the reassignment waits until these brokers are registered: 9" in seen.texts()
    assert assignment(cluster) == "9,1 adding 9 removing 1"
    cluster.start_broker(9)
    catch_up(cluster, 9)
    assert assignment(cluster) == "9"
    assert_nothing_is_left(cluster)


def test_deleted_topic_ends_its_reassignments() -> None:
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    request(cluster, {T1: [4]})
    mark(cluster, "t")
    assert cluster.data(znodes.topic_path("t")) is None
    assert_nothing_is_left(cluster)


def test_topic_deleted_during_a_cancellation_leaves_no_znodes() -> None:
    cluster = two_partitions()
    request(cluster, {T0: [3]})
    cancel_all(cluster)
    mark(cluster, "t")
    assert_no_failures(cluster)
