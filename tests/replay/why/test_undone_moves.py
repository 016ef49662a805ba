"""Answers about moves that were rolled back: the cause, and the history of each move."""

from pathlib import Path

import pytest

from controller.core import znodes
from controller.core.triggers import BrokerChange, PartitionReassignmentIsrChange, Trigger
from controller.core.znodes import (
    CANCEL_CONTENT,
    FORCED_CANCEL_CONTENT,
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
)
from replay.logs.decode import records
from replay.logs.open_log import RecordedLog, open_log
from replay.logs.recorded_fold import fold_at_start
from replay.why.explanations.explanation import Explanation
from replay.why.facts import Cause
from replay.why.move import Move
from replay.why.recorded_observer import RecordedFactObserver
from replay.why.subject import Subject
from tests.controller.core.cluster import Cluster, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    entries_json,
    force_all,
    interruptible,
    remove_cancel,
    remove_cancel_quietly,
    set_minimum,
    submit,
    submit_extra,
)
from tests.controller.core.procedures.reassignment.interrupting import request as put_request
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask_for_isr,
    cancel,
    catch_up,
    cluster_of,
    reassign,
)
from tests.controller.core.procedures.reassignment.test_rollback_waiting import (
    only_the_target_in_sync,
)
from tests.controller.core.unreliable import Delivery
from tests.replay.recorded_log import write_log
from tests.replay.why.asked import asked, plain, why
from tests.replay.why.runs import kill_before, next_run

MOVE = {"topic": "t", "partition": 0, "is_reassignment": True}
PARTITION = {"topic": "t", "partition": 0}
ROLLED_BACK = (
    "t-0 is not being reassigned: its move from 2,1,3 to 4,5,2 was rolled back at event N: "
)
CREATED = "/admin/reassign_cancel was created (event N, czxid C)."


@pytest.fixture
def cluster() -> Cluster:
    """A cluster of five brokers with t-0 on 2, 1 and 3, in this order."""
    return interruptible(5, 2, 1, 3)


def first(answer: Explanation) -> str:
    """The first line of the answer, without numbers of events and transactions."""
    known = {one.cancelled.czxid for one in answer.moves if one.cancelled is not None}
    text = plain(answer.answer)
    for czxid in known:
        text = text.replace(f"czxid {czxid}", "czxid C")
    return text


def last_move(answer: Explanation) -> Move:
    """The last move in the answer."""
    return answer.moves[-1]


def texts(move: Move) -> list[str]:
    """The lines of the history."""
    return [one.text for one in move.events]


def steps(move: Move) -> list[int]:
    """The steps of a rollback in the order of the history."""
    return [one.step for one in move.events if one.step]


# Causes of a rollback ---------------------------------------------------------------------------


def test_cancelled_move_has_its_cancellation_and_the_recorded_order(
    cluster: Cluster, tmp_path: Path
) -> None:
    submit(cluster, {T0: [4, 5, 2]})
    catch_up(cluster, 4)
    created = len(cluster.history) + 1
    cancel_all(cluster)
    answer = why(cluster, tmp_path, **MOVE)
    assert first(answer) == ROLLED_BACK + CREATED
    move = last_move(answer)
    assert (move.origin, move.target) == ((2, 1, 3), (4, 5, 2))
    assert move.cancelled is not None
    assert move.cancelled.at.seq == created
    assert (move.cancelled.by, move.cancelled.how) == (REASSIGN_CANCEL, "created")
    assert move.route == znodes.REASSIGN_PARTITIONS


def test_answer_about_the_partition_has_the_cancellation_of_its_move(
    cluster: Cluster, tmp_path: Path
) -> None:
    submit(cluster, {T0: [4, 5, 2]})
    cancel_all(cluster)
    answer = why(cluster, tmp_path, **PARTITION)
    assert first(answer).endswith(
        f"Its move from 2,1,3 to 4,5,2 was rolled back at event N: {CREATED}"
    )
    assert last_move(answer).outcome == "rolled back"


def test_leader_elected_by_a_rollback_is_explained(tmp_path: Path) -> None:
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    cluster.start_broker(2)
    catch_up(cluster, 2)
    assert first(why(cluster, tmp_path, **PARTITION)).startswith(
        "t-0 has had leader 2 since event N: its move was rolled back, and 3 is not an original "
        "replica; passed over: 1 is not online. "
    )


def test_older_request_for_the_same_replicas_is_not_the_cause(
    cluster: Cluster, tmp_path: Path
) -> None:
    reassign(cluster, 2, 1, 3)
    submit(cluster, {T0: [4, 5, 2]})
    cancel_all(cluster)
    assert first(why(cluster, tmp_path, **MOVE)) == ROLLED_BACK + CREATED


def test_cancellation_found_at_a_failover_is_the_cause(cluster: Cluster, tmp_path: Path) -> None:
    submit(cluster, {T0: [4, 5, 2]})
    cluster.put_quietly(REASSIGN_CANCEL, CANCEL_CONTENT)
    cluster.expire()
    answer = why(cluster, tmp_path, **MOVE)
    assert first(answer) == (ROLLED_BACK + "/admin/reassign_cancel was found (event N, czxid C).")
    written = next(one for one in answer.chain if one.rule == "rollback: store the originals")
    assert written.because is not None
    assert written.because.text.startswith("/admin/reassign_cancel was found, czxid ")


def test_every_link_of_a_rollback_has_the_cancellation_as_its_cause(
    cluster: Cluster, tmp_path: Path
) -> None:
    submit(cluster, {T0: [4, 5, 2]})
    catch_up(cluster, 4)
    created = len(cluster.history) + 1
    cancel_all(cluster)
    chain = why(cluster, tmp_path, **MOVE).chain
    causes = [one.because for one in chain if one.seq > created and one.kind != "notice"]
    assert {one.seq for one in causes if one is not None} == {created}
    assert not any("step 1 of 7" in one.text for one in chain)


@pytest.mark.parametrize("route", ["entry", "request", "api"])
def test_move_has_the_route_by_which_it_was_requested(
    cluster: Cluster, tmp_path: Path, route: str
) -> None:
    path = ""
    if route == "entry":
        submit(cluster, {T0: [4, 5, 2]})
    elif route == "request":
        path = put_request(cluster, {T0: [4, 5, 2]})
    else:
        reassign(cluster, 4, 5, 2)
    cancel(cluster)
    answer = why(cluster, tmp_path, **MOVE)
    assert first(answer) == (
        ROLLED_BACK + "a client asked to cancel it (AlterPartitionReassignments, event N)."
    )
    move = last_move(answer)
    assert (move.route, move.request) == {
        "entry": (znodes.REASSIGN_PARTITIONS, znodes.REASSIGN_PARTITIONS),
        "request": ("/admin/reassignment_requests", path),
        "api": (
            "AlterPartitionReassignments",
            "AlterPartitionReassignments, request 1: t-0 to 4,5,2",
        ),
    }[route]
    begun = next(one for one in move.events if one.kind == "begun")
    assert begun.text == f"begun from 2,1,3 to 4,5,2, by {move.request}"
    assert begun.at == move.begun


def test_move_back_to_the_originals_by_the_api_has_that_request(
    cluster: Cluster, tmp_path: Path
) -> None:
    reassign(cluster, 4, 5, 2)
    reassign(cluster, 2, 1, 3)
    assert first(why(cluster, tmp_path, **MOVE)) == (
        ROLLED_BACK + "a client asked for 2,1,3 (AlterPartitionReassignments, event N)."
    )


def test_conflicting_extra_entry_is_the_cause(cluster: Cluster, tmp_path: Path) -> None:
    submit(cluster, {T0: [4, 2]})
    written = len(cluster.history) + 1
    submit_extra(cluster, {T0: [5, 2]})
    answer = why(cluster, tmp_path, **MOVE)
    assert first(answer) == (
        "The reassignment of t-0 from 2,1,3 to 5,2, begun at event N, has not ended yet, 0 s after "
        "it began: broker 5 blocks it, not in sync, live, but has not caught up. In sync of the "
        "target: 2. Before, its move from "
        "2,1,3 to 4,2 was rolled back at event N: /admin/reassign_partitions_extra asks for 5,2 "
        "(event N)."
    )
    undone, current = answer.moves
    assert undone.cancelled is not None
    assert undone.cancelled.by == REASSIGN_PARTITIONS_EXTRA
    assert undone.cancelled.at.seq == written
    assert undone.cancelled.asks_for == (5, 2)
    assert (current.outcome, current.origin) == ("under way", (2, 1, 3))


def test_conflicting_extra_entry_found_at_a_failover_is_the_cause(
    cluster: Cluster, tmp_path: Path
) -> None:
    submit(cluster, {T0: [4, 2]})
    cluster.put_quietly(REASSIGN_PARTITIONS_EXTRA, entries_json({T0: [5, 2]}))
    cluster.expire()
    undone = why(cluster, tmp_path, **MOVE).moves[0]
    assert undone.cancelled is not None
    assert undone.cancelled.by == REASSIGN_PARTITIONS_EXTRA


def test_cancellation_removed_before_it_was_read_is_the_cause_of_the_rollback(
    cluster: Cluster, tmp_path: Path
) -> None:
    submit(cluster, {T0: [4, 5, 2]})
    cluster.put_quietly(REASSIGN_CANCEL, CANCEL_CONTENT)
    remove_cancel_quietly(cluster)
    cluster.run()
    answer = why(cluster, tmp_path, **MOVE)
    move = last_move(answer)
    assert plain(answer.answer).startswith(ROLLED_BACK + "/admin/reassign_cancel was created")
    assert "/admin/reassign_cancel was removed" in texts(move)


# Steps -------------------------------------------------------------------------------------------


def test_history_has_the_seven_steps_with_their_times(cluster: Cluster, tmp_path: Path) -> None:
    submit(cluster, {T0: [4, 5, 2]})
    catch_up(cluster, 4)
    cancel_all(cluster)
    move = last_move(why(cluster, tmp_path, **MOVE))
    lines = texts(move)
    for line in (
        "/admin/reassign_partitions asks for 4,5,2",
        "step 1 of 7: the controller takes 2,1,3 as the replicas, in memory",
        "step 4 of 7: brokers 4,5 are sent the deletion of the replica",
        "broker 4 has deleted its replica",
        "broker 5 has deleted its replica",
        "step 5 of 7: 2,1,3 are written to /brokers/topics/t",
        "rolled back: it is on 2,1,3 again",
        "step 6 of 7: its entry is removed from /admin/reassign_partitions",
        "step 7 of 7: brokers 1,2,3,4,5 are sent the new metadata",
    ):
        assert line in lines
    assert sorted(steps(move)) == [1, 2, 3, 4, 5, 6, 7]
    assert all(one.at.time.endswith("Z") for one in move.events)
    seqs = [one.at.seq for one in move.events]
    assert seqs == sorted(seqs)
    stored = next(one for one in move.events if one.step == 5)
    assert stored.command.startswith(f"{stored.at.seq}.")


def test_steps_without_a_command_are_part_of_the_history(cluster: Cluster, tmp_path: Path) -> None:
    submit(cluster, {T0: [4, 5, 2]})
    for broker in (4, 5):
        cluster.stop_broker(broker)
    cancel_all(cluster)
    move = last_move(why(cluster, tmp_path, **MOVE))
    assert sorted(steps(move)) == [1, 2, 3, 4, 5, 6, 7]
    assert "step 3 of 7: no live broker is to be stopped, and none leaves the ISR" in texts(move)


def test_stored_originals_with_a_lost_reply_end_the_move(cluster: Cluster, tmp_path: Path) -> None:
    submit(cluster, {T0: [4, 5, 2]})
    cluster.lose(writes(znodes.topic_path("t")), Delivery.REPLY_LOST)
    cancel_all(cluster)
    answer = why(cluster, tmp_path, **MOVE)
    assert first(answer) == ROLLED_BACK + CREATED
    assert "rolled back: it is on 2,1,3 again" in texts(last_move(answer))


def test_rollback_interrupted_by_the_end_of_the_session_has_one_history(
    cluster: Cluster, tmp_path: Path
) -> None:
    submit(cluster, {T0: [4, 5, 2]})
    cluster.lose(writes(znodes.topic_path("t")), Delivery.SESSION_OVER)
    cancel_all(cluster)
    answer = why(cluster, tmp_path, **MOVE)
    assert first(answer) == ROLLED_BACK + CREATED
    move = last_move(answer)
    lines = [line for line in texts(move) if not line.startswith(("step", "broker 4", "broker 5"))]
    assert move.cancelled is not None
    assert lines[2:] == [
        f"cancelled: /admin/reassign_cancel was created, czxid {move.cancelled.czxid}",
        "broker 1000 lost the role: the ZooKeeper session is over",
        "broker 1000 became controller (controller epoch 2)",
        "refold found the record of the move",
        f"refold found the cancellation (czxid {move.cancelled.czxid}) and went on",
        "rolled back: it is on 2,1,3 again",
    ]


# Waiting ------------------------------------------------------------------------------------------


def test_rollback_that_waited_has_its_cancellation_and_the_end_of_the_wait(
    tmp_path: Path,
) -> None:
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    cluster.start_broker(2)
    catch_up(cluster, 2)
    answer = why(cluster, tmp_path, **MOVE)
    assert first(answer).startswith(
        "t-0 is not being reassigned: its move from 1,2 to 3,4 was rolled back at event N: "
        f"{CREATED} The rollback waited from event N until event N: "
    )
    move = last_move(answer)
    [waited] = move.waited
    assert waited.until is not None
    assert waited.ended_by == "enough original replicas are in sync: 2"
    assert f"the rollback waits no longer: {waited.ended_by}" in texts(move)
    assert "went before" not in str(answer)


@pytest.mark.parametrize("protocol", ["2.6", "3.9"])
def test_end_of_a_wait_names_the_originals_in_sync_and_not_the_watch(
    protocol: str, tmp_path: Path
) -> None:
    """Below protocol 2.7 leaders write the ISR themselves."""
    cluster = interruptible(4, 1, 2, inter_broker_protocol_version=protocol)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3, 4]})
    cluster.stop_broker(2)
    cancel_all(cluster)
    cluster.start_broker(2)
    if protocol == "2.6":
        cluster.set_isr("t", 0, (1, 3, 2))
        cluster.run()
    else:
        ask_for_isr(cluster, 1, 3, 2)
    move = last_move(why(cluster, tmp_path, **MOVE))
    assert move.waited[0].ended_by == "enough original replicas are in sync: 1,2"


def test_end_of_a_wait_names_the_force_of_the_operator(tmp_path: Path) -> None:
    cluster = interruptible(4, 1, 2)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3, 4]})
    catch_up(cluster, 3)
    cluster.stop_broker(2)
    cancel_all(cluster)
    force_all(cluster)
    move = last_move(why(cluster, tmp_path, **MOVE))
    assert move.waited[0].ended_by == (
        "the rollback is forced, and original replicas are in sync: 1"
    )


def test_repeated_attempts_of_a_waiting_rollback_are_reported_once(tmp_path: Path) -> None:
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    since = len(cluster.history)
    for broker in (1, 4):
        cluster.start_broker(broker)
    answer = why(cluster, tmp_path, **MOVE)
    move = last_move(answer)
    assert move.outcome == "waits to be rolled back"
    [waited] = move.waited
    assert waited.since.seq <= since
    assert waited.until is None
    assert first(why(cluster, tmp_path, **PARTITION)).endswith(
        "Its move to 3,4 waits to be rolled back, because /admin/reassign_cancel was created "
        "(event N, czxid C); see --reassignment t-0."
    )


def test_abandoned_rollback_is_reported(tmp_path: Path) -> None:
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    remove_cancel(cluster)
    move = last_move(why(cluster, tmp_path, **MOVE))
    assert (move.outcome, move.cancelled) == ("under way", None)
    assert move.waited[0].ended_by == "/admin/reassign_cancel was removed"
    assert texts(move)[-1] == "/admin/reassign_cancel was removed: the move to 3,4 continues"


def test_cancellation_that_becomes_forced_is_reported(tmp_path: Path) -> None:
    """The daemon reads the content after it has noticed the change."""
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    cluster.put(REASSIGN_CANCEL, FORCED_CANCEL_CONTENT)
    move = last_move(why(cluster, tmp_path, **MOVE))
    assert move.outcome == "waits to be rolled back"
    assert "/admin/reassign_cancel was written: the rollback is forced" in texts(move)


# Causes of procedures -----------------------------------------------------------------------------


def test_interrupted_procedure_keeps_its_cause(cluster: Cluster, tmp_path: Path) -> None:
    """A more urgent controller event may interrupt a long procedure."""
    with open_log(write_log(tmp_path / "log", cluster)) as log:
        assert isinstance(log, RecordedLog)
        fold = fold_at_start(log.reader)
        recording = RecordedFactObserver(fold, Subject("t", 0), log.reader.header)
        for event, _ in records(log.reader):
            recording.fold_event(event)
        recording.begun_by = because
        recording.begins(PartitionReassignmentIsrChange("t", 0))
        recording.begins(BrokerChange())
        assert recording.because == because(BrokerChange())
        recording.ends()
        assert recording.because == because(PartitionReassignmentIsrChange("t", 0))
        recording.ends()
        assert recording.because is None


def because(trigger: Trigger) -> Cause:
    """The cause that the test assigns to a procedure."""
    return Cause(1, "", type(trigger).__name__)


# Logs that begin later ----------------------------------------------------------------------------


def test_log_that_begins_after_the_originals_were_stored_has_the_rollback(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Only the record of the move is left."""
    submit(cluster, {T0: [4, 5, 2]})
    kill_before(cluster, writes(znodes.REASSIGN_PARTITIONS), lambda: cancel_all(cluster))
    answer = asked(write_log(tmp_path / "log", next_run(cluster).start()), **MOVE)
    assert first(answer) == (
        "t-0 is not being reassigned: its move from 2,1,3 to 4,5,2 had been rolled back before "
        "this log begins: /admin/reassign_cancel was found (event N, czxid C)."
    )


def test_log_that_begins_during_a_move_has_the_originals_in_recorded_order(
    tmp_path: Path,
) -> None:
    """The topic's znode already has 4,3,1,2."""
    cluster = interruptible(4, 1, 2, 3)
    submit(cluster, {T0: [4, 3]})
    cluster.zookeeper.end_session(cluster.session)
    second = next_run(cluster).start()
    answer = asked(write_log(tmp_path / "under-way", second), **MOVE)
    assert first(answer).startswith("The reassignment of t-0 from 1,2,3 to 4,3")
    cancel_all(second)
    answer = asked(write_log(tmp_path / "cancelled", second), **MOVE)
    assert first(answer) == (
        "t-0 is not being reassigned: its move from 1,2,3 to 4,3 was rolled back at event N: "
        f"{CREATED}"
    )
    assert texts(last_move(answer))[0] == (
        "found under way from 1,2,3 to 4,3, by /admin/reassign_partitions"
    )


def test_move_completed_by_a_failover_is_in_its_log(tmp_path: Path) -> None:
    """The move has no record, as if kip-236.enable were false."""
    cluster = cluster_of(4, 1, 2, 3)
    reassign(cluster, 4, 2)
    cluster.zookeeper.end_session(cluster.session)
    cluster.set_isr("t", 0, (1, 2, 3, 4))
    answer = asked(write_log(tmp_path / "log", next_run(cluster).start()), **MOVE)
    assert first(answer).startswith("t-0 is not being reassigned: its move from ")
    assert first(answer).endswith(" to 4,2 ended at event N, when all of these were in sync.")


def test_move_by_the_extra_znode_names_it(tmp_path: Path) -> None:
    cluster = interruptible(5, 2, 1, 3)
    submit_extra(cluster, {T0: [4, 5, 2]})
    [move] = why(cluster, tmp_path, **MOVE).moves
    extra = "/admin/reassign_partitions_extra"
    assert (move.route, move.request) == ("/admin/reassign_partitions", extra)
    assert [one.text for one in move.events][:2] == [
        f"{extra} asks for 4,5,2",
        f"begun from 2,1,3 to 4,5,2, by {extra}",
    ]
