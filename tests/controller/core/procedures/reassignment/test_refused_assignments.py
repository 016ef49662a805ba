"""Reassignments that are replaced or cancelled while ZooKeeper refuses the write, for example by an
ACL. The replicas that were already stopped or deleted are started again, and the move continues."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import Issued, WriteZnodes, ZooKeeperCommand
from controller.core.events import ZnodesWritten
from controller.core.operations import NO_AUTH
from controller.core.znodes import Entry, deletion_path
from replay.world.outcomes import ZooKeeperOutcome
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.dropping import pending
from tests.controller.core.procedures.reassignment.interrupting import (
    WriteRejectingCluster,
    assert_nothing_is_left,
    cancel_all,
    entries,
    files,
    records,
    remove_cancel,
    submit,
    written_in,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask,
    assignment,
    cancel,
    catch_up,
    reassign,
    reassigning,
)

MOVING = "3,1 adding 3 removing 1"


def paths_of(issued: Issued) -> list[str]:
    """The paths of a write, without the check of /controller_epoch."""
    return written_in([issued])


def writes_topic(issued: Issued) -> bool:
    return znodes.topic_path("t") in paths_of(issued)


def stores_deletion(issued: Issued) -> bool:
    return any(path.startswith(deletion_path("")) for path in paths_of(issued))


refusals = pytest.mark.parametrize("refused", [writes_topic, stores_deletion])
Refusal = Callable[[Issued], bool]


def moving_by_entry() -> WriteRejectingCluster:
    """t-0 moves from broker 1 of 4 to broker 3."""
    cluster = WriteRejectingCluster(1, 2, 3, 4, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    submit(cluster, {T0: [3]})
    assert assignment(cluster) == MOVING
    return cluster


def moving_by_api(**settings: Any) -> WriteRejectingCluster:
    cluster = WriteRejectingCluster(1, 2, 3, 4, **settings)
    cluster.start()
    cluster.create_topic("t", {0: [1], 1: [1]})
    assert reassign(cluster, 3) == codes.NONE
    return cluster


def refuse_none(issued: Issued) -> bool:
    return False


def assert_move_continues(cluster: WriteRejectingCluster) -> None:
    """The refused write has changed nothing, and broker 3 has a replica."""
    assert assignment(cluster) == MOVING
    assert files(cluster) == [1, 3]
    assert reassigning(cluster) == [T0]
    cluster.refuses = refuse_none


def assert_move_ends(cluster: Cluster) -> None:
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert files(cluster) == [3]
    assert pending(cluster) == []


@refusals
def test_replaced_move_continues_to_its_earlier_target(refused: Refusal) -> None:
    cluster = moving_by_entry()
    cluster.refuses = refused
    seen = cluster.seen()
    submit(cluster, {T0: [4]})
    assert all("cannot be written" in one for one in seen.texts_of("reassignment_failed"))
    assert seen.texts_of("reassignment_failed")
    assert_move_continues(cluster)
    assert_move_ends(cluster)


@refusals
def test_move_cancelled_by_the_api_continues(refused: Refusal) -> None:
    cluster = moving_by_api(kip_236_enable=True)
    cluster.refuses = refused
    assert ask(cluster, (T0, None)).error == codes.UNKNOWN_SERVER_ERROR
    assert_move_continues(cluster)
    assert_move_ends(cluster)


def test_without_kip_236_a_cancelled_move_continues() -> None:
    cluster = moving_by_api()
    cluster.refuses = writes_topic
    assert cancel(cluster) == codes.UNKNOWN_SERVER_ERROR
    assert_move_continues(cluster)
    assert_move_ends(cluster)


def rollback_refused(refused: Refusal) -> WriteRejectingCluster:
    """The cancellation of `moving_by_entry` cannot be stored; /admin/reassign_cancel exists."""
    cluster = moving_by_entry()
    cluster.refuses = refused
    cancel_all(cluster)
    assert_move_continues(cluster)
    return cluster


@refusals
def test_refused_rollback_is_done_by_a_later_cancellation(refused: Refusal) -> None:
    """The record and the entry stay until the originals are stored."""
    cluster = rollback_refused(refused)
    assert records(cluster) == [T0]
    assert entries(cluster) == {T0: Entry((3,), (1,))}
    remove_cancel(cluster)
    cancel_all(cluster)
    assert assignment(cluster) == "1"
    assert files(cluster) == [1]
    assert_nothing_is_left(cluster)
    assert pending(cluster) == []


@refusals
def test_refused_rollback_continues_once_the_cancellation_is_deleted(refused: Refusal) -> None:
    cluster = rollback_refused(refused)
    remove_cancel(cluster)
    assert_move_ends(cluster)
    assert_nothing_is_left(cluster)


class TopicRejectingCluster(Cluster):
    """A cluster whose ZooKeeper refuses each write of the znode of t, while `refuses`."""

    refuses = False

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        is_refused = [path == znodes.topic_path("t") for path in paths_of(issued)]
        if not self.refuses or not any(is_refused) or not isinstance(command, WriteZnodes):
            return super().ask_zookeeper(issued, command)
        possible = zip(command.operations, is_refused, strict=True)
        operations = tuple(one for one, no in possible if not no)
        [written] = super().ask_zookeeper(issued, structs.replace(command, operations=operations))
        assert isinstance(written, ZnodesWritten)
        errors, versions = iter(written.errors), iter(written.versions)
        merged = [(NO_AUTH, -1) if no else (next(errors), next(versions)) for no in is_refused]
        return [ZnodesWritten(issued.id, 0, *map(list, zip(*merged, strict=True)))]


def test_rollback_of_one_topic_ends_although_that_of_another_is_refused() -> None:
    cluster = TopicRejectingCluster(1, 2, 3, 4, kip_236_enable=True).start()
    moves = {T0: [3], ("u", 0): [3]}
    for topic, number in moves:
        cluster.create_topic(topic, {number: [1]})
    submit(cluster, moves)
    cluster.refuses = True
    seen = cluster.seen()
    cancel_all(cluster)
    assert assignment(cluster, ("u", 0)) == "1"
    assert assignment(cluster) == MOVING
    assert files(cluster) == [1, 3]
    cluster.refuses = False
    remove_cancel(cluster)
    cancel_all(cluster)
    assert assignment(cluster) == "1"
    assert seen.texts_of("reassignment_completed") == []
    assert_nothing_is_left(cluster)


@pytest.mark.parametrize(
    "later", [lambda cluster: cluster.expire(), lambda cluster: cluster.bounce(3)]
)
def test_complete_move_whose_deletions_cannot_be_stored_completes_later(
    later: Callable[[Cluster], None],
) -> None:
    """Broker 1 keeps its replica until then."""
    cluster = moving_by_entry()
    cluster.refuses = stores_deletion
    catch_up(cluster, 3)
    assert assignment(cluster) == MOVING
    assert files(cluster) == [1, 3]
    cluster.refuses = refuse_none
    later(cluster)
    assert assignment(cluster) == "3"
    assert files(cluster) == [3]
    assert pending(cluster) == []
    assert_nothing_is_left(cluster)


@refusals
def test_successor_carries_out_a_refused_replacement(refused: Refusal) -> None:
    """The entry stays."""
    cluster = moving_by_entry()
    cluster.refuses = refused
    submit(cluster, {T0: [4]})
    assert_move_continues(cluster)
    assert entries(cluster) == {T0: Entry((4,), (1,))}
    cluster.expire()
    assert assignment(cluster) == "4,1 adding 4 removing 1"
    assert files(cluster) == [1, 4]
    assert pending(cluster) == []
