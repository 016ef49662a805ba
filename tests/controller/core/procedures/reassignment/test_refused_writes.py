"""Writes of entries and requests that ZooKeeper refuses; entries that do not fit (KB 14.5.1)."""

from collections.abc import Callable

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import Issued, StopReplicaRequest
from controller.core.operations import CreateSequential, Delete
from controller.core.procedures.reassignment import reassign_partitions
from controller.core.znodes import (
    REPLICA_DELETIONS,
    Entry,
    reassignment_path,
    reassignments_path,
    write_entries,
)
from tests.controller.core.cluster import Cluster, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    WriteRejectingCluster,
    cancel_all,
    entries,
    files,
    record,
    request,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    as_text,
    assignment,
    catch_up,
    reassign,
)

MOVING = "3,1,2 adding 3 removing 1,2"


def two_replicas() -> WriteRejectingCluster:
    """t-0 on [1,2]."""
    cluster = WriteRejectingCluster(1, 2, 3, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2]})
    return cluster


def makes_request(issued: Issued) -> bool:
    """Whether this command makes a request of an entry."""
    operations = getattr(issued.command, "operations", ())
    return any(isinstance(one, CreateSequential) for one in operations)


def test_parent_that_is_deleted_before_a_request_is_made_is_created_again() -> None:
    cluster = two_replicas()
    cluster.once(makes_request, lambda: cluster.remove_quietly("/admin/reassignment_requests"))
    submit(cluster, {T0: [3]})
    assert assignment(cluster) == MOVING


def test_request_that_cannot_be_made_is_reported() -> None:
    cluster = two_replicas()
    cluster.refuses = makes_request
    seen = cluster.seen()
    submit(cluster, {T0: [3]})
    assert assignment(cluster) == "1,2"
    [text] = seen.texts_of("procedure_failed")
    assert "/admin/reassignment_requests/request_ cannot be created (ZooKeeper code -102)" in text


def test_originals_that_cannot_be_written_are_reported_and_the_move_begins() -> None:
    cluster = two_replicas()
    cluster.refuses = writes(znodes.REASSIGN_PARTITIONS)
    seen = cluster.seen()
    submit(cluster, {T0: [3]})
    assert seen.texts_of("entries_not_written") == [
        "the znode cannot be written (ZooKeeper code -102)"
    ]
    assert (assignment(cluster), entries(cluster)) == (MOVING, {T0: Entry((3,))})


def test_znode_without_entries_is_deleted() -> None:
    cluster = two_replicas()
    submit(cluster, {})
    assert entries(cluster) is None


@pytest.mark.parametrize(("room", "originals"), [(0, (1, 2)), (-1, None)])
def test_originals_are_left_out_if_they_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, room: int, originals: tuple[int, ...] | None
) -> None:
    cluster = two_replicas()
    size = len(write_entries({T0: Entry((3,), (1, 2))}))
    monkeypatch.setattr(reassign_partitions, "DATA_BYTES_MAX", size + room)
    submit(cluster, {T0: [3]})
    assert (assignment(cluster), entries(cluster)) == (MOVING, {T0: Entry((3,), originals)})
    cancel_all(cluster)
    assert assignment(cluster) == "1,2"


def test_record_that_cannot_be_deleted_is_reported() -> None:
    cluster = two_replicas()
    request(cluster, {T0: [3]})
    cluster.refuses = deletes(reassignment_path(*T0))
    seen = cluster.seen()
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    paths = [reassignment_path(*T0), reassignments_path("t")]
    assert seen.notices() == [("record_not_removed", path) for path in paths]
    cluster.refuses = lambda issued: False
    cluster.expire()
    assert record(cluster) is None


def test_record_that_cannot_be_repaired_is_reported() -> None:
    cluster = two_replicas()
    request(cluster, {T0: [3]})
    path = reassignment_path(*T0)
    cluster.put_quietly(path, b"no record")
    cluster.refuses = writes(path)
    seen = cluster.seen()
    cancel_all(cluster)
    assert ("record_not_mended", path) in seen.notices()


def test_entry_that_cannot_be_removed_fails_the_completion() -> None:
    cluster = two_replicas()
    submit(cluster, {T0: [3]})
    cluster.refuses = writes(znodes.REASSIGN_PARTITIONS)
    seen = cluster.seen()
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    [text] = seen.texts_of("reassignment_failed")
    assert "/admin/reassign_partitions cannot be written (ZooKeeper code -102)" in text
    cluster.refuses = lambda issued: False
    cluster.expire()
    assert (entries(cluster), record(cluster)) == (None, None)


def deletes(path: str) -> Callable[[Issued], bool]:
    """A predicate that matches the deletion of a znode."""
    return lambda issued: any(
        isinstance(one, Delete) and one.path == path
        for one in getattr(issued.command, "operations", ())
    )


def test_replicas_are_not_deleted_if_the_deletion_cannot_be_recorded() -> None:
    cluster = two_replicas()
    assert reassign(cluster, 3) == codes.NONE
    cluster.refuses = lambda issued: any(
        one.path.startswith(f"{REPLICA_DELETIONS}/")
        for one in getattr(issued.command, "operations", ())
    )
    seen = cluster.seen()
    catch_up(cluster, 3)
    assert [code for code, _ in seen.notices()] == ["reassignment_failed"]
    assert "/admin/replica_deletions cannot be written" in seen.texts_of("reassignment_failed")[0]
    stopped = [one for one in seen.commands if isinstance(one, StopReplicaRequest)]
    assert [one for request in stopped for one in request.partitions if one.delete] == []
    assert (1 in files(cluster), 2 in files(cluster)) == (True, True)
    assert assignment_in_zookeeper(cluster) == "3,1,2 adding 3 removing 1,2"


def assignment_in_zookeeper(cluster: Cluster) -> str:
    """As `assignment`, but the controller may know another."""
    return as_text(cluster.topic("t").assignments[0])


# States that cannot be read ---------------------------------------------------------------------


def test_target_that_is_replaced_while_the_state_is_unreadable_is_reported() -> None:
    cluster = two_replicas()
    request(cluster, {T0: [3]})
    path = znodes.state_path(*T0)
    cluster.put_quietly(path, b"no state")
    seen = cluster.seen()
    request(cluster, {T0: [3, 1]})
    # For the drop set, for the catch-up, and for the leader epoch.
    assert seen.notices().count(("unreadable_znode", path)) == 3
    assert assignment(cluster) == "3,1,2 adding 3 removing 2"


def test_reassignment_is_not_refused_because_the_isr_is_unknown() -> None:
    """The reassignment fails when the leader epoch cannot be raised."""
    cluster = two_replicas()
    assert reassign(cluster, 3) == codes.NONE
    cluster.put_quietly(znodes.state_path(*T0), b"no state")
    assert reassign(cluster, 1) == codes.UNKNOWN_SERVER_ERROR
