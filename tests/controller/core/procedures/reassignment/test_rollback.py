"""Cancelling by /admin/reassign_cancel: the seven steps, and rollbacks that wait (KB 14.2)."""

from collections.abc import Callable

import msgspec
import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import Issued, LeaderAndIsrRequest, Notice, StopReplicaRequest
from controller.core.configuration import Configuration
from controller.core.operations import OK, CreateSequential
from controller.core.values import Assignment
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    REPLICA_DELETIONS,
    Entry,
    reassignment_path,
    write_entries,
)
from replay.world.requests import Exists
from tests.controller.core.cluster import DAEMON, Cluster, Seen, reads
from tests.controller.core.procedures.reassignment.interrupting import (
    assert_nothing_is_left,
    cancel_all,
    entries,
    files,
    half_way,
    interruptible,
    record,
    remove_cancel,
    request,
    requests,
    submit,
    submit_extra,
    written_in,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    Name,
    as_text,
    ask,
    ask_for_isr,
    assert_no_failures,
    assignment,
    cancel,
    catch_up,
    reassign,
    reassigning,
)

STEPS = (
    "the original replicas are the assignment in memory",
    "an original replica leads, and the others leave the ISR",
    "the other replicas go offline",
    "the other replicas are deleted",
    "the original replicas are the assignment in ZooKeeper",
    "the entry and the record are removed",
    "every broker is informed",
)


def steps_of(seen: Seen) -> dict[int, list[Issued]]:
    """The decisions of each of the seven steps."""
    steps: dict[int, list[Issued]] = {}
    for issued in (one for _, commands in seen.history for one in commands):
        command = issued.command
        if isinstance(command, Notice) and command.code == "rollback":
            steps[int(command.text.split()[1])] = []
        elif steps:
            steps[max(steps)].append(issued)
    return steps


def requests_of(step: list[Issued], kind: type) -> list[int]:
    """The brokers that a step sent a kind of request to."""
    return [one.command.broker for one in step if isinstance(one.command, kind)]


# The originals ----------------------------------------------------------------------------------


def test_originals_are_added_before_a_reassignment_starts() -> None:
    cluster = interruptible(6, 1, 2, 3)
    seen = cluster.seen()
    submit(cluster, {T0: [4, 5, 6]})
    assert entries(cluster) == {T0: Entry((4, 5, 6), (1, 2, 3))}
    written = seen.written()
    assert written.index(znodes.REASSIGN_PARTITIONS) < written.index(znodes.topic_path("t"))
    assert written.index(reassignment_path(*T0)) < written.index(znodes.topic_path("t"))


def test_originals_added_by_the_client_are_kept() -> None:
    cluster = interruptible(6, 1, 2, 3)
    seen = cluster.seen()
    cluster.put(znodes.REASSIGN_PARTITIONS, write_entries({T0: Entry((4, 5, 6), (1, 2, 3))}))
    assert znodes.REASSIGN_PARTITIONS not in seen.written()
    assert entries(cluster) == {T0: Entry((4, 5, 6), (1, 2, 3))}
    assert seen.notices() == []


def test_wrong_originals_are_corrected() -> None:
    cluster = interruptible(6, 1, 2, 3)
    seen = cluster.seen()
    cluster.put(znodes.REASSIGN_PARTITIONS, write_entries({T0: Entry((4, 5, 6), (6, 5, 4))}))
    assert entries(cluster) == {T0: Entry((4, 5, 6), (1, 2, 3))}
    assert seen.texts_of("wrong_originals") == [
        "the entry of t-0 has wrong original replicas 6,5,4: the controller replaces them by 1,2,3"
    ]


def test_originals_of_a_move_under_way_exclude_added_replicas() -> None:
    """Another target of the same entry keeps its originals."""
    cluster = half_way()
    submit(cluster, {T0: [4, 5]})
    assert entries(cluster) == {T0: Entry((4, 5), (1, 2, 3))}
    cancel_all(cluster)
    assert assignment(cluster) == "1,2,3"


# The seven steps --------------------------------------------------------------------------------


def test_seven_steps_are_taken_in_order_and_logged() -> None:
    cluster = half_way(4)
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.texts_of("rollback") == [
        f"step {number} of 7, cancelled by {REASSIGN_CANCEL}: {what}"
        for number, what in enumerate(STEPS, 1)
    ]
    steps = steps_of(seen)
    state = znodes.state_path("t", 0)
    assert written_in(steps[1]) == []
    assert written_in(steps[2]) == [state]
    assert written_in(steps[3]) == []
    assert all(one.startswith(REPLICA_DELETIONS) for one in written_in(steps[4]))
    assert written_in(steps[5]) == [znodes.topic_path("t")]
    assert written_in(steps[6])[:2] == [znodes.REASSIGN_PARTITIONS, reassignment_path(*T0)]
    assert all(one.startswith(REPLICA_DELETIONS) for one in written_in(steps[7]))
    assert_no_failures(cluster)


def test_step_1_is_in_memory_and_later_requests_contain_OAR() -> None:
    cluster = half_way(4)
    seen = cluster.seen()
    cancel_all(cluster)
    sent = [one for one in seen.broker_requests() if isinstance(one, LeaderAndIsrRequest)]
    assert {part.assignment for one in sent for part in one.partitions} == {Assignment((1, 2, 3))}


def test_step_2_keeps_a_leader_in_OAR_with_a_new_epoch() -> None:
    cluster = half_way(4)
    seen = cluster.seen()
    cancel_all(cluster)
    step = steps_of(seen)[2]
    assert requests_of(step, LeaderAndIsrRequest) == [1, 2, 3]
    assert seen.leader_and_isr(2)[0].partitions[0].leadership.leader_epoch == 2
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1,2,3] v 3 ce 1"


def test_step_2_elects_a_leader_in_OAR_in_place_of_another_leader() -> None:
    cluster = half_way(4)
    for broker in (1, 2, 3):
        cluster.stop_broker(broker)
    assert cluster.leadership("t", 0).leader == 4
    for broker in (1, 2, 3):
        cluster.start_broker(broker)
    ask_for_isr(cluster, 4, 2, 3)
    seen = cluster.seen()
    cancel_all(cluster)
    assert requests_of(steps_of(seen)[2], LeaderAndIsrRequest) == [1, 2, 3, 4]
    assert cluster.leadership("t", 0).leader == 2
    assert cluster.leadership("t", 0).isr == (2, 3)
    assert assignment(cluster) == "1,2,3"


def test_step_2_makes_a_leader_outside_of_OAR_follow_in_the_same_batch() -> None:
    """A broker that is only stopped, not deleted, would continue as leader. It ignores a request
    whose replicas do not include it."""
    cluster = half_way(4)
    for broker in (1, 2, 3):
        cluster.stop_broker(broker)
    for broker in (1, 2, 3):
        cluster.start_broker(broker)
    ask_for_isr(cluster, 4, 2, 3)
    seen = cluster.seen()
    cancel_all(cluster)
    [(sent, *_)] = [one.partitions for one in seen.leader_and_isr(4)]
    assert (sent.leadership.leader, sent.leadership.isr) == (2, (2, 3))
    assert sent.leadership.leader_epoch == cluster.leadership("t", 0).leader_epoch
    assert as_text(sent.assignment) == "1,2,3,4 removing 4"
    for broker in (1, 2, 3):
        [(sent, *_)] = [one.partitions for one in seen.leader_and_isr(broker)]
        assert as_text(sent.assignment) == "1,2,3"


def test_steps_2_and_3_shrink_the_isr_and_raise_the_leader_epoch_in_one_write() -> None:
    """An exit between two writes would leave replicas in the ISR that the leader fences."""
    cluster = half_way(4, 5)
    before = cluster.leadership("t", 0)
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.written().count(znodes.state_path("t", 0)) == 1
    after = cluster.leadership("t", 0)
    assert after.isr == (1, 2, 3)
    assert after.leader_epoch == before.leader_epoch + 1


def test_steps_2_and_3_send_the_new_leader_epoch_to_all_originals_in_one_batch() -> None:
    """A stock leader fences followers with an older leader epoch, so that producers with
    acks=all wait."""
    cluster = half_way(4, 5)
    seen = cluster.seen()
    cancel_all(cluster)
    batches = [
        [getattr(one.command, "broker", 0) for one in commands if is_leader_and_isr(one)]
        for _, commands in seen.history
    ]
    assert [brokers for brokers in batches if brokers] == [[1, 2, 3]]


def is_leader_and_isr(issued: Issued) -> bool:
    """Whether the command is a LeaderAndIsr request."""
    return isinstance(issued.command, LeaderAndIsrRequest)


def test_step_3_stops_the_other_replicas_without_deleting_them() -> None:
    cluster = half_way(4, 5)
    seen = cluster.seen()
    cancel_all(cluster)
    step = steps_of(seen)[3]
    stopped = [one.command for one in step if isinstance(one.command, StopReplicaRequest)]
    assert [one.broker for one in stopped] == [4, 5, 6]
    assert not any(part.delete for one in stopped for part in one.partitions)


def test_step_4_deletes_the_replicas_files() -> None:
    cluster = half_way(4)
    assert files(cluster) == [1, 2, 3, 4, 5, 6]
    seen = cluster.seen()
    cancel_all(cluster)
    step = steps_of(seen)[4]
    stopped = [one.command for one in step if isinstance(one.command, StopReplicaRequest)]
    assert [one.broker for one in stopped] == [4, 5, 6]
    assert all(part.delete for one in stopped for part in one.partitions)
    assert files(cluster) == [1, 2, 3]


def test_steps_5_and_6_leave_no_entry_or_record_in_zookeeper() -> None:
    cluster = half_way(4)
    cancel_all(cluster)
    assert cluster.topic("t").assignments[0] == Assignment((1, 2, 3))
    assert_nothing_is_left(cluster)
    assert reassigning(cluster) == []


def test_step_7_updates_every_broker() -> None:
    cluster = half_way(4)
    seen = cluster.seen()
    cancel_all(cluster)
    step = steps_of(seen)[7]
    assert [getattr(one.command, "broker", 0) for one in step][:6] == [1, 2, 3, 4, 5, 6]
    announced = "t-0 leader 1 e 2 isr [1,2,3] v 3 ce 1 replicas [1,2,3] offline []"
    assert all(announced in seen.requests(broker)[-1] for broker in range(1, 7))


def test_order_of_the_originals_is_restored() -> None:
    """Kafka's cancellation results in [3,2,1] (KB 7.8.2)."""
    cluster = interruptible(4, 1, 2, 3)
    submit(cluster, {T0: [3, 4, 2]})
    assert assignment(cluster) == "3,4,2,1 adding 4 removing 1"
    cancel_all(cluster)
    assert assignment(cluster) == "1,2,3"


def test_all_pending_reassignments_are_rolled_back_step_by_step() -> None:
    cluster = interruptible(6, 1, 2)
    cluster.create_topic("t", {0: [1, 2], 1: [2, 3]})
    cluster.create_topic("u", {0: [3]})
    submit(cluster, {T0: [4, 5], T1: [5, 6], ("u", 0): [6]})
    seen = cluster.seen()
    cancel_all(cluster)
    assert len(seen.texts_of("rollback")) == len(STEPS)
    assert (assignment(cluster), assignment(cluster, T1)) == ("1,2", "2,3")
    assert assignment(cluster, ("u", 0)) == "3"
    assert_nothing_is_left(cluster)


def test_without_pending_reassignments_nothing_is_written() -> None:
    cluster = interruptible(3, 1, 2)
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.written() == []
    assert seen.broker_requests() == []
    assert cluster.ask(Exists(REASSIGN_CANCEL)).error == OK


# While the znode exists -------------------------------------------------------------------------


def test_znode_exists_until_a_client_deletes_it() -> None:
    cluster = half_way(4)
    cancel_all(cluster)
    assert cluster.ask(Exists(REASSIGN_CANCEL)).error == OK
    cluster.expire()
    assert cluster.ask(Exists(REASSIGN_CANCEL)).error == OK


def test_entries_wait_while_the_znode_exists_and_start_afterwards() -> None:
    cluster = interruptible(3, 1, 2)
    cancel_all(cluster)
    seen = cluster.seen()
    submit(cluster, {T0: [3]})
    assert assignment(cluster) == "1,2"
    assert entries(cluster) == {T0: Entry((3,))}
    assert requests(cluster) == []
    assert seen.texts_of("reassignment_waits") == [
        "the reassignment of t-0 waits until /admin/reassign_cancel is deleted"
    ]
    remove_cancel(cluster)
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"


@pytest.mark.parametrize("submitted", [submit_extra, request])
def test_requests_and_extra_entries_wait_while_the_znode_exists(
    submitted: Callable[[Cluster, dict[Name, list[int]]], object],
) -> None:
    cluster = interruptible(3, 1, 2)
    cancel_all(cluster)
    seen = cluster.seen()
    submitted(cluster, {T0: [3]})
    cluster.expire()
    assert assignment(cluster) == "1,2"
    assert seen.texts_of("reassignment_waits") == 2 * [
        "the reassignment of t-0 waits until /admin/reassign_cancel is deleted"
    ]
    remove_cancel(cluster)
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"
    catch_up(cluster, 3)
    assert_nothing_is_left(cluster)


def test_api_requests_are_refused_with_the_reason_while_the_znode_exists() -> None:
    cluster = interruptible(3, 1, 2)
    cancel_all(cluster)
    [answer] = ask(cluster, (T0, [3])).partitions
    assert answer.error == codes.REASSIGNMENT_IN_PROGRESS
    assert answer.message == (
        "/admin/reassign_cancel exists: no reassignment begins until that znode is deleted."
    )
    assert assignment(cluster) == "1,2"


def test_api_cancellations_are_accepted_while_the_znode_exists() -> None:
    cluster = interruptible(3, 1, 2)
    assert reassign(cluster, 3) == codes.NONE
    cancel_all(cluster)
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"
    assert cancel(cluster) == codes.NONE
    assert assignment(cluster) == "1,2"


def test_request_of_another_route_is_not_cancelled_and_does_not_complete() -> None:
    cluster = interruptible(3, 1, 2)
    request(cluster, {T0: [3]})
    cancel_all(cluster)
    catch_up(cluster, 3)
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"
    remove_cancel(cluster)
    assert assignment(cluster) == "3"
    assert_nothing_is_left(cluster)


def test_znode_created_meanwhile_counts_before_a_reassignment_starts() -> None:
    """onPartitionReassignment reads it. API requests are refused with the reason."""
    cluster = interruptible(3, 1, 2)
    cluster.once(
        reads(znodes.REASSIGN_PARTITIONS), lambda: cluster.put_quietly(REASSIGN_CANCEL, b"")
    )
    assert reassign(cluster, 3) == codes.REASSIGNMENT_IN_PROGRESS
    assert assignment(cluster) == "1,2"


def test_waiting_legacy_requests_are_dropped_with_their_entries() -> None:
    cluster = interruptible(3, 1, 2)
    made = lambda one: any(  # noqa: E731
        isinstance(operation, CreateSequential)
        for operation in getattr(one.command, "operations", ())
    )
    cluster.once(made, lambda: cluster.put_quietly(REASSIGN_CANCEL, b""))
    submit(cluster, {T0: [3]})
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)
    remove_cancel(cluster)
    assert assignment(cluster) == "1,2"


def test_another_cancellation_is_distinguished_from_the_first() -> None:
    cluster = half_way()
    cancel_all(cluster)
    remove_cancel(cluster)
    submit(cluster, {T0: [4]})
    cancel_all(cluster)
    assert assignment(cluster) == "1,2,3"


# Interruptions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", range(1, 8))
@pytest.mark.parametrize("in_sync", [(), (4,), (4, 5)])
def test_controller_that_ends_after_any_step_is_followed_by_one_that_continues(
    step: int, in_sync: tuple[int, ...]
) -> None:
    cluster = half_way(*in_sync)
    sessions: list[int] = []

    def is_next(issued: Issued) -> bool:
        return is_step(step + 1, issued)

    cluster.once(is_next, lambda: sessions.append(cluster.seize_role(9)))
    cancel_all(cluster)
    for session in sessions:
        cluster.leave_role(session)
    assert bool(sessions) == (step < len(STEPS))
    assert cluster.is_active
    assert assignment(cluster) == "1,2,3"
    assert files(cluster) == [1, 2, 3]
    assert set(cluster.leadership("t", 0).isr) == {1, 2, 3}
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def is_step(number: int, issued: Issued) -> bool:
    """Whether this command starts the step."""
    command = issued.command
    return isinstance(command, Notice) and command.text.startswith(f"step {number} of")


def test_isr_changed_by_the_leader_meanwhile_is_respected() -> None:
    cluster = half_way()
    path = znodes.state_path("t", 0)
    cluster.once(
        lambda one: path in written_in([one]), lambda: cluster.set_isr("t", 0, (1, 2, 3, 4))
    )
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.notices() == []
    assert cluster.leadership("t", 0).isr == (1, 2, 3)
    assert assignment(cluster) == "1,2,3"


def test_deleted_partition_only_loses_its_entry() -> None:
    cluster = half_way()
    cluster.remove_topic_znodes("t")
    cancel_all(cluster)
    assert entries(cluster) is None
    assert_no_failures(cluster)


# With the setting off ---------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"kip_236_enable": True, "rules": "kafka"}])
def test_with_the_setting_off_its_znodes_are_ignored(settings: dict[str, object]) -> None:
    cluster = Cluster(1, 2, 3, **settings).start()
    cluster.create_topic("t", {0: [1, 2]})
    submit(cluster, {T0: [3]})
    assert entries(cluster) == {T0: Entry((3,))}
    assert record(cluster) is None
    seen = cluster.seen()
    cancel_all(cluster)
    cluster.put(REASSIGN_PARTITIONS_EXTRA, b"{}")
    assert seen.history == []
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"


def test_log_recorded_without_the_setting_replays_without_it() -> None:
    header = msgspec.to_builtins(Configuration(broker_id=DAEMON, kip_236_enable=True))
    del header["kip_236_enable"]
    assert not msgspec.convert(header, Configuration).has_kip_236
