"""Replica deletions that a tool requests below /admin/replica_deletions, and changes by clients
to the records (`refold reassign --delete-strays`; KB 7.7.1)."""

import pytest

from controller.core import znodes
from controller.core.operations import CreateSequential, Delete
from controller.core.znodes import (
    DELETION_PREFIX,
    REPLICA_DELETIONS,
    ReplicaDeletion,
    deletion_path,
    write_deletion,
)
from replay.world.broker.log import Log
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.dropping import (
    ask_for_deletion,
    dead_target,
    deletions,
    known_deletions,
    pending,
    stopped,
)
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    cancel_all,
    files,
    half_way,
    interruptible,
    remove_cancel,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, assert_no_failures


def with_stray() -> Cluster:
    """Broker 3 has files of t-0, which is on [1,2], and no record of them exists."""
    cluster = interruptible(3, 1, 2)
    cluster.broker(3).disk.logs[T0] = Log(cluster.topic("t").topic_id)
    return cluster


def test_requested_deletion_is_carried_out_and_removed() -> None:
    cluster = with_stray()
    seen = cluster.seen()
    child = ask_for_deletion(cluster, 3, T0)
    assert child == "requested_0000000000"
    assert stopped(seen, 3) == [T0]
    assert files(cluster) == [1, 2]
    assert pending(cluster) == []
    assert seen.notices() == []


def test_requested_deletion_waits_for_a_dead_broker() -> None:
    cluster = with_stray()
    cluster.stop_broker(3)
    child = ask_for_deletion(cluster, 3, T0)
    assert list(deletions(cluster)) == [child]
    cluster.expire()
    assert list(deletions(cluster)) == [child]
    cluster.start_broker(3)
    assert files(cluster) == [1, 2]
    assert pending(cluster) == []


def test_deletion_requested_without_a_controller_is_carried_out() -> None:
    cluster = with_stray()
    with OtherControllersTerm(cluster):
        cluster.ask(CreateSequential(DELETION_PREFIX, write_deletion(ReplicaDeletion(3, (T0,)))))
    assert files(cluster) == [1, 2]
    assert pending(cluster) == []


def test_requested_deletion_of_an_assigned_replica_is_refused() -> None:
    cluster = with_stray()
    seen = cluster.seen()
    ask_for_deletion(cluster, 1, T0)
    assert stopped(seen, 1) == []
    assert files(cluster) == [1, 2, 3]
    assert pending(cluster) == []


def test_requested_deletion_may_name_a_deleted_topic() -> None:
    cluster = interruptible(3, 1, 2)
    cluster.broker(3).disk.logs["gone", 4] = Log()
    seen = cluster.seen()
    ask_for_deletion(cluster, 3, ("gone", 4))
    assert stopped(seen, 3) == [("gone", 4)]
    assert ("gone", 4) not in cluster.broker(3).logs
    assert pending(cluster) == []
    assert cluster.fold.controller.context.known_topics() == ["t"]
    assert_no_failures(cluster)


@pytest.mark.parametrize(
    "content", [b"garbage", b"", b'{"version":1,"broker":"x","partitions":{}}']
)
def test_unreadable_deletion_is_removed_with_a_notice(content: bytes) -> None:
    cluster = with_stray()
    seen = cluster.seen()
    path = cluster.ask(CreateSequential(DELETION_PREFIX, content)).path
    cluster.run()
    assert deletions(cluster) == {}
    assert seen.notices() == [("unreadable_znode", path)]
    assert f"the znode is deleted; its content was {content.decode()!r}" in seen.texts()[0]


def test_empty_deletion_is_removed() -> None:
    cluster = with_stray()
    ask_for_deletion(cluster, 3)
    assert deletions(cluster) == {}


def test_record_deleted_by_a_client_is_not_requested_again() -> None:
    cluster = dead_target()
    for child in deletions(cluster):
        cluster.ask(Delete(deletion_path(child), -1))
    cluster.run()
    assert known_deletions(cluster) == {}
    seen = cluster.seen()
    cluster.start_broker(6)
    assert stopped(seen, 6) == []


def test_deleted_parent_znode_is_created_again() -> None:
    cluster = half_way(4)
    cluster.stop_broker(6)
    cluster.remove_quietly(REPLICA_DELETIONS)
    cancel_all(cluster)
    assert pending(cluster) == [ReplicaDeletion(6, (T0,))]
    cluster.start_broker(6)
    assert pending(cluster) == []
    child = ask_for_deletion(cluster, 6, T0)
    assert child.startswith("requested_")
    assert deletions(cluster) == {}


def test_deleted_topic_removes_its_recorded_replicas() -> None:
    """A broker with only a recorded deletion of the topic gets the request nevertheless."""
    cluster = dead_target()
    remove_cancel(cluster)
    cluster.put("/admin/delete_topics/t", b"")
    assert cluster.data(znodes.topic_path("t")) is None
    assert pending(cluster) == [ReplicaDeletion(6, (T0,))]
    cluster.start_broker(6)
    assert files(cluster) == []
    assert pending(cluster) == []
