"""Records of one request: each is written in a separate transaction, also after a lost reply
(KIP-236 Q-10)."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from controller.core import znodes
from controller.core.commands import Issued, WriteAtomically, ZooKeeperCommand
from controller.core.events import ZnodesWritten
from controller.core.operations import NO_AUTH, OK, Create, Delete
from controller.core.znodes import (
    REASSIGNMENTS,
    Entry,
    Reassignment,
    reassignment_path,
    reassignments_path,
    write_reassignment,
)
from replay.world.outcomes import ZooKeeperOutcome
from tests.controller.core.cluster import Cluster, Seen, reads
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    entries,
    identity,
    record,
    records,
    request,
    request_quietly,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    Name,
    as_text,
    ask,
    assert_no_failures,
    assignment,
    catch_up,
    reassigning,
)
from tests.controller.core.unreliable import Delivery

NAMES: list[Name] = [("t", 0), ("t", 1), ("t", 2), ("u", 0)]
TARGETS: dict[Name, list[int]] = {key: [3, 4] for key in NAMES}
MOVING = "3,4,1,2 adding 3,4 removing 1,2"
LOST = [Delivery.REQUEST_LOST, Delivery.REPLY_LOST]

Begin = Callable[[Cluster, dict[Name, list[int]]], object]


def by_api(cluster: Cluster, targets: dict[Name, list[int]]) -> None:
    """By AlterPartitionReassignments."""
    answer = ask(cluster, *targets.items())
    assert {one.error for one in answer.partitions} == {0}


ROUTES = [request, submit, by_api]


def two_topics() -> Cluster:
    """t with three partitions and u with one, all on [1,2]."""
    cluster = Cluster(1, 2, 3, 4, kip_236_enable=True).start()
    cluster.create_topic("t", {number: [1, 2] for number in range(3)})
    cluster.create_topic("u", {0: [1, 2]})
    return cluster


def written_by(issued: Issued) -> Sequence[Any]:
    """The operations of a write."""
    found: Sequence[Any] = getattr(issued.command, "operations", ())
    return found


def writes_record(name: Name) -> Callable[[Issued], bool]:
    """A predicate that matches the write of a partition's record."""
    path = reassignment_path(*name)
    return lambda issued: any(one.path == path for one in written_by(issued))


def assert_all_move(cluster: Cluster) -> None:
    """All four partitions are being reassigned, each with its record."""
    assert sorted(records(cluster)) == NAMES
    for name in NAMES:
        assert assignment(cluster, name) == MOVING
        found = record(cluster, name)
        assert found is not None
        assert (found.replicas, found.original_replicas) == ((3, 4), (1, 2))
    assert reassigning(cluster) == NAMES
    assert_no_failures(cluster)


def assert_all_end(cluster: Cluster) -> None:
    """All four catch up, and no znode is left."""
    for name in NAMES:
        catch_up(cluster, 3, 4, name=name)
        assert assignment(cluster, name) == "3,4"
    assert_nothing_is_left(cluster)


# Identities -------------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", ROUTES)
def test_records_of_one_request_have_different_czxids(begin: Begin) -> None:
    cluster = two_topics()
    begin(cluster, TARGETS)
    identities = [identity(cluster, name) for name in NAMES]
    assert len({czxid for czxid, _ in identities}) == len(NAMES)
    assert all(czxid == mzxid for czxid, mzxid in identities)
    assert_all_move(cluster)


def test_targets_changed_by_one_request_have_different_mzxids() -> None:
    cluster = two_topics()
    request(cluster, TARGETS)
    before = {name: identity(cluster, name) for name in NAMES}
    request(cluster, {key: [4] for key in NAMES})
    after = {name: identity(cluster, name) for name in NAMES}
    assert [after[name][0] for name in NAMES] == [before[name][0] for name in NAMES]
    assert len({mzxid for _, mzxid in after.values()}) == len(NAMES)
    assert all(czxid != mzxid for czxid, mzxid in after.values())


def test_record_and_topic_are_written_in_one_transaction() -> None:
    cluster = two_topics()
    seen = cluster.seen()
    request(cluster, TARGETS)
    groups = record_writes(seen)
    assert len(groups) == len(NAMES)
    for name, paths in zip(NAMES, groups, strict=True):
        written = [reassignment_path(*name), znodes.topic_path(name[0])]
        # A later write of a topic checks the record of the earlier one.
        checked = [reassignment_path("t", name[1] - 1)] if name[1] else []
        assert paths == ["/controller_epoch", *checked, *written]


def record_writes(seen: Seen) -> list[list[str]]:
    """The paths of each write of a record."""
    return [
        [one.path for one in command.operations]
        for command in seen.commands
        if isinstance(command, WriteAtomically)
        and any(one.path.startswith(f"{REASSIGNMENTS}/") for one in command.operations)
    ]


def test_records_of_one_request_are_written_concurrently() -> None:
    """All writes are issued before the first reply."""
    cluster = two_topics()
    seen = cluster.seen()
    request(cluster, TARGETS)
    slices = [
        sum(isinstance(one.command, WriteAtomically) for one in commands)
        for _, commands in seen.history
    ]
    assert max(slices) == len(NAMES)


# Lost replies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("delivery", LOST)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("begin", ROUTES)
def test_lost_reply_to_one_of_several_records_is_resolved(
    begin: Begin, name: Name, delivery: Delivery
) -> None:
    cluster = two_topics()
    cluster.lose(writes_record(name), delivery)
    begin(cluster, TARGETS)
    assert_all_move(cluster)
    assert all(czxid == mzxid for czxid, mzxid in (identity(cluster, one) for one in NAMES))
    assert_all_end(cluster)


@pytest.mark.parametrize("delivery", LOST)
def test_record_with_a_lost_reply_is_written_once_with_its_decision(delivery: Delivery) -> None:
    cluster = two_topics()
    path = znodes.topic_path("u")
    before = cluster.version(path)
    cluster.lose(writes_record(("u", 0)), delivery)
    seen = cluster.seen()
    request(cluster, TARGETS)
    assert before is not None
    assert cluster.version(path) == before + 1
    writes = [
        one
        for _, commands in seen.history
        for one in commands
        if any(each.path == path for each in written_by(one))
    ]
    assert [one.reason.choices[0].topic for one in writes] == ["u"] * len(writes)
    assert len(writes) == (1 if delivery is Delivery.REPLY_LOST else 2)


def test_topic_that_is_deleted_when_a_reply_is_lost_does_not_affect_the_others() -> None:
    cluster = two_topics()
    is_first = writes_record(("u", 0))
    cluster.once(is_first, lambda: cluster.remove_quietly(znodes.topic_path("u")))
    cluster.lose(is_first, Delivery.REPLY_LOST)
    seen = cluster.seen()
    request(cluster, TARGETS)
    assert sorted(records(cluster)) == NAMES[:3]
    assert [assignment(cluster, name) for name in NAMES[:3]] == [MOVING] * 3
    assert len(seen.texts_of("reassignment_failed")) <= 1


class RecordRejectingCluster(Cluster):
    """A cluster whose ZooKeeper rejects every write of the record of t-0 while `refuses`."""

    refuses = True

    def ask_zookeeper(self, issued: Issued, command: ZooKeeperCommand) -> list[ZooKeeperOutcome]:
        if self.refuses and writes_record(("t", 0))(issued):
            path = reassignment_path("t", 0)
            operations = written_by(issued)
            errors = [NO_AUTH if one.path == path else OK for one in operations]
            return [ZnodesWritten(issued.id, 0, errors, [-1] * len(operations))]
        return super().ask_zookeeper(issued, command)


@pytest.mark.parametrize("checks_topic_versions", [True, False])
def test_assignment_whose_record_cannot_be_written_is_not_stored(
    checks_topic_versions: bool,
) -> None:
    """Without versions, the write of another partition of the topic stores it, too. It is restored
    before the request ends."""
    cluster = RecordRejectingCluster(
        1, 2, 3, 4, kip_236_enable=True, checks_topic_versions=checks_topic_versions
    ).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    seen = cluster.seen()
    stored: list[str] = []
    cluster.once(
        lambda issued: any(isinstance(one, Delete) for one in written_by(issued)),
        lambda: stored.append(as_text(cluster.topic("t").assignments[0])),
    )
    request(cluster, {("t", 0): [3, 4], ("t", 1): [3, 4]})
    assert stored == ["1,2"]
    assert records(cluster) == [("t", 1)]
    assert [assignment(cluster, ("t", one)) for one in (0, 1)] == ["1,2", MOVING]
    assert len(seen.texts_of("reassignment_failed")) == 1


def test_entry_whose_record_cannot_be_written_is_removed() -> None:
    cluster = RecordRejectingCluster(1, 2, 3, 4, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    submit(cluster, {("t", 0): [3, 4], ("t", 1): [3, 4]})
    assert entries(cluster) == {("t", 1): Entry((3, 4), (1, 2))}
    assert reassigning(cluster) == [("t", 1)]


def test_assignments_whose_replies_were_lost_are_not_undone_while_another_is_written() -> None:
    """Found by refold explore."""
    cluster = two_topics()
    stored: list[Sequence[bool]] = []
    first_writes = iter(NAMES)

    def lose(issued: Issued) -> Delivery:
        assignments = cluster.topic("t").assignments
        stored.append([assignments[number].is_being_reassigned for number in range(3)])
        is_record = any(writes_record(name)(issued) for name in NAMES)
        return Delivery.REPLY_LOST if is_record and next(first_writes, ()) else Delivery.ANSWERED

    cluster.delivery = lose
    request(cluster, TARGETS)
    assert_all_move(cluster)
    assert stored == sorted(stored)


@pytest.mark.parametrize("delivery", LOST)
@pytest.mark.parametrize("name", NAMES)
def test_lost_reply_to_one_of_several_changed_targets_is_resolved(
    name: Name, delivery: Delivery
) -> None:
    cluster = two_topics()
    request(cluster, {key: [4] for key in NAMES})
    cluster.lose(writes_record(name), delivery)
    request(cluster, TARGETS)
    assert_all_move(cluster)
    assert_all_end(cluster)


@pytest.mark.parametrize(
    ("name", "delivery"),
    [
        *((name, Delivery.SESSION_OVER_AFTER) for name in NAMES),
        # In the simulation, writes issued after the end of a session are carried out in the next
        # one.
        (NAMES[-1], Delivery.SESSION_OVER),
    ],
)
def test_session_that_ends_at_one_of_several_records_loses_none(
    name: Name, delivery: Delivery
) -> None:
    """The request exists until all have started."""
    cluster = two_topics()
    cluster.lose(writes_record(name), delivery)
    request(cluster, TARGETS)
    assert_all_move(cluster)
    assert len({identity(cluster, one)[0] for one in NAMES}) == len(NAMES)
    assert_all_end(cluster)


def test_role_lost_at_one_of_several_records_leaves_the_rest_to_the_next_controller() -> None:
    cluster = two_topics()
    sessions: list[int] = []
    cluster.once(writes_record(("t", 1)), lambda: sessions.append(cluster.seize_role(9)))
    request(cluster, TARGETS)
    assert not cluster.is_active
    assert records(cluster) == [("t", 0)]
    cluster.leave_role(sessions[0])
    assert_all_move(cluster)


# Records of other clients -----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "content", [b"garbage", b"", write_reassignment(Reassignment((4,), 9, True, (2, 1)))]
)
def test_record_created_by_a_client_before_does_not_prevent_the_start(
    name: Name, content: bytes
) -> None:
    cluster = two_topics()
    for parent in (reassignments_path("t"), reassignments_path("u")):
        cluster.ask(Create(parent, b""))
    cluster.ask(Create(reassignment_path(*name), content))
    seen = cluster.seen()
    request(cluster, TARGETS)
    assert_all_move(cluster)
    assert len(seen.texts_of("reassignment_begun")) == len(NAMES)
    assert_all_end(cluster)


def test_record_created_by_a_client_before_is_rolled_back_with_the_others() -> None:
    cluster = two_topics()
    cluster.ask(Create(reassignments_path("t"), b""))
    cluster.ask(Create(reassignment_path("t", 1), b"garbage"))
    submit(cluster, TARGETS)
    cancel_all(cluster)
    assert {assignment(cluster, name) for name in NAMES} == {"1,2"}
    assert_nothing_is_left(cluster)


@pytest.mark.parametrize("parent", [reassignments_path("t"), REASSIGNMENTS])
def test_parent_znodes_deleted_before_the_records_are_created_again(parent: str) -> None:
    cluster = two_topics()
    request(cluster, {("t", 0): [3, 4]})
    cluster.once(writes_record(("t", 1)), lambda: cluster.remove_quietly(parent))
    request(cluster, {name: [3, 4] for name in NAMES[1:]})
    assert sorted(records(cluster)) == NAMES[1:]
    assert {assignment(cluster, name) for name in NAMES} == {MOVING}


def test_deleted_topic_is_refused_and_the_others_of_the_request_start() -> None:
    cluster = two_topics()
    cluster.once(writes_record(("t", 0)), lambda: cluster.remove_quietly(znodes.topic_path("u")))
    seen = cluster.seen()
    request(cluster, TARGETS)
    assert sorted(records(cluster)) == NAMES[:3]
    assert [assignment(cluster, name) for name in NAMES[:3]] == [MOVING] * 3
    assert len(seen.texts_of("reassignment_failed")) <= 1


def test_topic_that_disappears_while_its_record_is_written_fails_the_move() -> None:
    cluster = two_topics()
    path = znodes.topic_path("t")

    def change_twice() -> None:
        cluster.change_topic_quietly("t", {number: [1, 2] for number in range(4)})
        cluster.once(reads(path), lambda: cluster.remove_quietly(path))

    cluster.once(writes_record(NAMES[0]), change_twice)
    seen = cluster.seen()
    request(cluster, {NAMES[0]: [3, 4]})
    [text] = seen.texts_of("reassignment_failed")
    assert f"{path} was changed by another client and cannot be read" in text
    assert records(cluster) == []


def test_failover_completes_a_move_whose_new_target_cannot_be_recorded() -> None:
    """Broker 3, the present target, has caught up."""
    cluster = RecordRejectingCluster(1, 2, 3, 4, kip_236_enable=True)
    cluster.refuses = False
    cluster.start()
    cluster.create_topic("t", {0: [1]})
    request(cluster, {NAMES[0]: [3]})
    cluster.refuses = True
    with OtherControllersTerm(cluster):
        cluster.set_isr("t", 0, [1, 3])
        request_quietly(cluster, {NAMES[0]: [3, 4]})
    assert assignment(cluster, NAMES[0]) == "3"
