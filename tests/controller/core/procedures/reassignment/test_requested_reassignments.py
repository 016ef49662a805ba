"""/admin/reassignment_requests and /admin/reassignments (KB 14.4, 14.5)."""

from collections.abc import Callable

import msgspec
import pytest

from controller.core import znodes
from controller.core.commands import ReadChildren, ReadStats, ReadZnodes
from controller.core.operations import CreateSequential
from controller.core.znodes import (
    REASSIGNMENT_REQUESTS,
    REQUEST_PREFIX,
    Entry,
    Reassignment,
    reassignment_path,
)
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.interrupting import (
    assert_nothing_is_left,
    entries,
    identity,
    interruptible,
    record,
    records,
    request,
    request_quietly,
    requests,
    submit,
    topics_with_records,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    assert_no_failures,
    assignment,
    catch_up,
    reassign,
)


def set_minimum(cluster: Cluster, path: str, least: int) -> None:
    """Set min.insync.replicas of a topic, or of the cluster."""
    config = {"version": 1, "config": {"min.insync.replicas": str(least)}}
    cluster.put_quietly(path, msgspec.json.encode(config))


# One request ------------------------------------------------------------------------------------


def test_request_starts_its_reassignments_and_is_deleted() -> None:
    cluster = two_partitions((1, 2), (2, 3))
    seen = cluster.seen()
    path = request(cluster, {T0: [3, 4], T1: [1]})
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    assert assignment(cluster, T1) == "1,2,3 adding 1 removing 2,3"
    assert record(cluster) == Reassignment((3, 4), 2, False, (1, 2))
    assert requests(cluster) == []
    written = seen.written()
    assert written.index(reassignment_path(*T0)) < written.index(path)
    assert written.index(reassignment_path(*T1)) < written.index(path)
    assert entries(cluster) is None


def test_request_with_the_trailing_commas_of_kip_236_is_read() -> None:
    cluster = interruptible(3, 1)
    data = b'{ "version":1, "assignments":{ "t": {"0":[1,2,3]} }, "legacy":false }'
    cluster.ask(CreateSequential(REQUEST_PREFIX, data))
    cluster.run()
    assert assignment(cluster) == "1,2,3 adding 2,3"


def test_record_is_deleted_at_completion_and_the_topics_parent_with_its_last_record() -> None:
    cluster = two_partitions((1, 2), (2, 3))
    request(cluster, {T0: [3, 4], T1: [1]})
    catch_up(cluster, 3, 4)
    assert assignment(cluster) == "3,4"
    assert records(cluster) == [T1]
    catch_up(cluster, 1, name=T1)
    assert topics_with_records(cluster) == []
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_records_are_exactly_the_reassignments_under_way() -> None:
    cluster = two_partitions((1, 2), (2, 3))
    assert records(cluster) == []
    request(cluster, {T0: [3]})
    assert records(cluster) == [T0]
    submit(cluster, {T1: [4]})
    assert sorted(records(cluster)) == [T0, T1]
    catch_up(cluster, 3)
    assert records(cluster) == [T1]


# Identity and change ----------------------------------------------------------------------------


def test_czxid_is_the_identity_and_another_mzxid_a_change() -> None:
    cluster = interruptible(5, 1, 2)
    request(cluster, {T0: [3]})
    czxid, mzxid = identity(cluster)
    assert mzxid == czxid
    request(cluster, {T0: [4]})
    again, changed = identity(cluster)
    assert again == czxid
    assert changed > mzxid
    catch_up(cluster, 4)
    request(cluster, {T0: [5]})
    assert identity(cluster)[0] > changed


def test_same_target_again_is_no_change() -> None:
    cluster = interruptible(5, 1, 2)
    request(cluster, {T0: [3]})
    before = identity(cluster)
    seen = cluster.seen()
    path = request(cluster, {T0: [3]})
    assert identity(cluster) == before
    assert seen.written() == [path]


def test_end_of_the_session_does_not_change_identities() -> None:
    cluster = interruptible(5, 1, 2)
    request(cluster, {T0: [3]})
    before = identity(cluster)
    cluster.expire()
    assert identity(cluster) == before


def test_later_requests_change_the_target_and_keep_the_top() -> None:
    cluster = interruptible(5, 1, 2)
    request(cluster, {T0: [3, 4, 5]})
    request(cluster, {T0: [4]})
    assert record(cluster) == Reassignment((4,), 2, False, (1, 2))
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


def test_request_for_the_originals_reverts_a_single_partition() -> None:
    """The client has to know the originals."""
    cluster = two_partitions((1, 2), (2, 3))
    request(cluster, {T0: [3, 4], T1: [1]})
    request(cluster, {T0: [1, 2]})
    assert assignment(cluster) == "1,2"
    assert records(cluster) == [T1]
    assert T0 not in cluster.broker(3).logs


def test_requests_are_processed_in_the_order_of_their_numbers() -> None:
    cluster = interruptible(5, 1, 2)
    session = cluster.seize_role(9)
    cluster.run()
    for target in (3, 4, 5):
        request_quietly(cluster, {T0: [target]})
    assert len(requests(cluster)) == 3
    cluster.leave_role(session)
    assert record(cluster) == Reassignment((5,), 2, False, (1, 2))
    assert requests(cluster) == []


# Legacy requests and new ones -------------------------------------------------------------------


def test_entry_becomes_a_legacy_request() -> None:
    cluster = two_partitions((1, 2), (2, 3))
    seen = cluster.seen()
    submit(cluster, {T0: [1, 2, 3], T1: [4]})
    [made] = [one for one in seen.writes() if isinstance(one, CreateSequential)]
    assert made.path == "/admin/reassignment_requests/request_"
    assert msgspec.json.decode(made.data) == {
        "version": 1,
        "assignments": {"t": {"0": [1, 2, 3], "1": [4]}},
        "legacy": True,
        "controller_epoch": 1,
    }
    assert record(cluster) == Reassignment((1, 2, 3), 2, True, (1, 2))
    assert requests(cluster) == []


def test_completed_entry_is_removed_before_its_record() -> None:
    cluster = two_partitions((1, 2), (2, 3))
    submit(cluster, {T0: [3], T1: [4]})
    seen = cluster.seen()
    catch_up(cluster, 3)
    assert entries(cluster) == {T1: Entry((4,), (2, 3))}
    written = seen.written()
    assert written.index(znodes.REASSIGN_PARTITIONS) < written.index(reassignment_path(*T0))
    catch_up(cluster, 4, name=T1)
    assert entries(cluster) is None
    assert_nothing_is_left(cluster)


def test_request_for_a_partition_moved_by_an_entry_is_refused_with_a_warning() -> None:
    cluster = two_partitions((1, 2), (2, 3))
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    request(cluster, {T0: [4], T1: [1]})
    assert seen.texts_of("reassignment_refused") == [
        "the reassignment to 4, requested by /admin/reassignment_requests/request_0000000001, is "
        "rejected: The partition is being reassigned by way of /admin/reassign_partitions: that "
        "reassignment has to end or be cancelled first."
    ]
    assert requests(cluster) == []
    assert record(cluster) == Reassignment((3,), 2, True, (1, 2))
    assert record(cluster, T1) == Reassignment((1,), 2, False, (2, 3))


def test_entry_for_a_partition_moved_by_a_request_is_refused_and_removed() -> None:
    cluster = two_partitions((1, 2), (2, 3))
    request(cluster, {T0: [3]})
    seen = cluster.seen()
    submit(cluster, {T0: [4], T1: [1]})
    [text] = seen.texts_of("reassignment_refused")
    assert "The partition is being reassigned by way of /admin/reassignment_requests" in text
    assert entries(cluster) == {T1: Entry((1,), (2, 3))}
    assert record(cluster) == Reassignment((3,), 2, False, (1, 2))


def test_api_is_refused_with_the_name_of_the_route() -> None:
    cluster = two_partitions((1, 2), (2, 3))
    request(cluster, {T0: [3]})
    assert reassign(cluster, 4) == 60
    assert record(cluster) == Reassignment((3,), 2, False, (1, 2))


def test_request_for_a_partition_moved_by_the_api_is_refused() -> None:
    cluster = two_partitions((1, 2), (2, 3))
    assert reassign(cluster, 4) == 0
    seen = cluster.seen()
    request(cluster, {T0: [3]})
    [text] = seen.texts_of("reassignment_refused")
    assert "the AlterPartitionReassignments API" in text
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


# min.insync.replicas ----------------------------------------------------------------------------


def test_request_with_fewer_replicas_than_the_topics_min_insync_replicas_is_refused() -> None:
    cluster = interruptible(3, 1)
    set_minimum(cluster, znodes.topic_config_path("t"), 2)
    seen = cluster.seen()
    request(cluster, {T0: [1, 2, 3]})
    assert assignment(cluster) == "1"
    assert requests(cluster) == []
    [text] = seen.texts_of("reassignment_refused")
    assert text == (
        "the reassignment to 1,2,3, requested by /admin/reassignment_requests/request_0000000000, "
        "is rejected: The partition has 1 replicas, fewer than min.insync.replicas=2 of its "
        "topic: producers with acks=all fail until the partition has more. Lower the setting, or "
        "request the reassignment in /admin/reassign_partitions."
    )


def test_entry_with_fewer_replicas_than_min_insync_replicas_starts_with_a_warning() -> None:
    """Existing tools that raise the number of replicas continue to work (KIP-236 X-01)."""
    cluster = interruptible(3, 1)
    set_minimum(cluster, znodes.topic_config_path("t"), 2)
    seen = cluster.seen()
    submit(cluster, {T0: [1, 2, 3]})
    assert seen.texts_of("below_min_insync_replicas") == [
        "The partition has 1 replicas, fewer than min.insync.replicas=2 of its topic: producers "
        "with acks=all fail until the partition has more."
    ]
    catch_up(cluster, 2, 3)
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)


@pytest.mark.parametrize("submitted", [submit, request])
def test_target_with_fewer_replicas_than_min_insync_replicas_begins_without_a_warning(
    submitted: Callable[[Cluster, dict[tuple[str, int], list[int]]], object],
) -> None:
    """The replicas before the move count (docs/log-codes.md)."""
    cluster = interruptible(3, 1, 2)
    set_minimum(cluster, znodes.topic_config_path("t"), 2)
    seen = cluster.seen()
    submitted(cluster, {T0: [3]})
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"
    assert seen.texts_of("below_min_insync_replicas") == []


@pytest.mark.parametrize(
    ("of_topic", "of_cluster", "of_daemon", "begins"),
    [
        (None, None, None, True),
        (None, None, "2", False),
        (None, 1, "2", True),
        (None, 2, "1", False),
        (1, 2, "2", True),
        (2, 1, "1", False),
    ],
)
def test_minimum_is_that_of_the_topic_else_of_the_cluster_else_of_the_daemon(
    of_topic: int | None, of_cluster: int | None, of_daemon: str | None, begins: bool
) -> None:
    given = {} if of_daemon is None else {"min.insync.replicas": of_daemon}
    cluster = interruptible(3, 1, broker_settings=given)
    if of_topic is not None:
        set_minimum(cluster, znodes.topic_config_path("t"), of_topic)
    if of_cluster is not None:
        set_minimum(cluster, znodes.broker_config_path(None), of_cluster)
    request(cluster, {T0: [2]})
    assert (record(cluster) is not None) is begins


def test_changed_reassignment_is_not_checked_again() -> None:
    cluster = interruptible(4, 1)
    request(cluster, {T0: [2]})
    set_minimum(cluster, znodes.topic_config_path("t"), 2)
    request(cluster, {T0: [3]})
    assert record(cluster) == Reassignment((3,), 1, False, (1,))


# Watches ----------------------------------------------------------------------------------------


def watched(cluster: Cluster) -> set[str]:
    """Every watched path except those of topics: each topic has one watch."""
    paths: set[str] = set()
    for _, commands in cluster.history:
        for one in (issued.command for issued in commands):
            if isinstance(one, ReadStats | ReadZnodes) and one.watch:
                paths.update(one.paths)
            elif isinstance(one, ReadChildren) and one.watch:
                paths.add(one.path)
    return {one for one in paths if not one.startswith(znodes.TOPICS)}


def test_number_of_watches_is_independent_of_the_number_of_reassignments() -> None:
    cluster = Cluster(1, 2, 3, kip_236_enable=True).start()
    before = watched(cluster)
    assert REASSIGNMENT_REQUESTS in before
    cluster.create_topic("t", {number: [1] for number in range(40)})
    for number in range(0, 40, 2):
        request(cluster, {("t", number): [2]})
    submit(cluster, {("t", number): [3] for number in range(1, 40, 2)})
    assert len(records(cluster)) == 40
    assert watched(cluster) == before
