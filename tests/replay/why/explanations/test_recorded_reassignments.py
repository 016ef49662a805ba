"""Answers about reassignments, from a log of the daemon."""

from pathlib import Path

import pytest

from controller.core import znodes
from replay.errors import ReplayError
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    cancel_quietly,
    interruptible,
    remove_cancel,
    set_minimum,
    submit,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import ask as ask_for
from tests.controller.core.procedures.reassignment.reassigning import (
    ask_for_isr,
    cancel,
    catch_up,
    put_request,
    reassign,
)
from tests.controller.core.procedures.reassignment.test_rollback_waiting import (
    only_the_target_in_sync,
)
from tests.replay.recorded_log import write_log
from tests.replay.why.asked import asked, first, plain, why

T0 = {"topic": "t", "partition": 0}


def test_why_explains_a_reassignment_blocked_by_a_dead_broker(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.start_broker(4)
    cluster.start_broker(5)
    reassign(cluster, 4, 5)
    catch_up(cluster, 4)
    cluster.stop_broker(5)
    assert first(cluster, tmp_path, **T0, is_reassignment=True) == (
        "The reassignment of t-0 from 1,2,3 to 4,5, begun at event N, has not ended yet, 0 s after "
        "it began: broker 5 blocks it, not in sync, not registered: the registration of broker 5 "
        "is gone (event N). "
        "In sync of the target: 4."
    )


def test_why_explains_a_reassignment_blocked_by_a_slow_broker(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.start_broker(4)
    reassign(cluster, 4, 2)
    assert first(cluster, tmp_path, **T0, is_reassignment=True) == (
        "The reassignment of t-0 from 2,1,3 to 4,2, begun at event N, has not ended yet, 0 s after "
        "it began: broker 4 blocks it, not in sync, live, but has not caught up. In sync of the "
        "target: 2."
    )
    assert first(cluster, tmp_path, **T0).endswith(
        "Its reassignment to 4,2, begun at event N, waits for 4 (live, but has not caught "
        "up); see --reassignment t-0."
    )


def test_why_explains_a_cancelled_reassignment(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start_broker(4)
    reassign(cluster, 4, 2)
    cancel(cluster)
    assert first(cluster, tmp_path, **T0, is_reassignment=True) == (
        "t-0 is not being reassigned: its move from 1,2,3 to 4,2 was rolled back at event N: "
        "a client asked to cancel it (AlterPartitionReassignments, event N)."
    )


def answers_after_each_event(cluster: Cluster, folder: Path) -> list[str]:
    """The different answers about the reassignment after each event."""
    log = write_log(folder / "log", cluster)
    found = dict.fromkeys(
        plain(asked(log, seq, **T0, is_reassignment=True).answer)
        for seq in range(_begun(log), len(cluster.history) + 1)
    )
    return list(found)


def _begun(log: Path) -> int:
    chain = asked(log, **T0, is_reassignment=True).chain
    return next(one.seq for one in reversed(chain) if "adding" in one.text)


MOVE = "The reassignment of t-0 from 2,1,3 to 4,2, begun at event N, "
WAITS = (
    "has not ended yet, 0 s after it began: broker 4 blocks it, not in sync, live, but has not "
    "caught up. In sync of the target: 2."
)


def test_why_explains_a_replaced_reassignment(cluster: Cluster, tmp_path: Path) -> None:
    """At no event is the target one that was never requested."""
    cluster.start_broker(4)
    cluster.start_broker(5)
    reassign(cluster, 4, 2)
    replaced_at = len(cluster.history) + 1
    reassign(cluster, 5, 2)
    assert answers_after_each_event(cluster, tmp_path) == [
        f"{MOVE}{WAITS}",
        f"{MOVE}is being replaced by 5,2, as decided at event N, because of event N: "
        "AlterPartitionReassignments, request 2: t-0 to 5,2.",
        "The reassignment of t-0 from 2,1,3 to 5,2, begun at event N, has not ended yet, 0 s after "
        "it began: broker 5 blocks it, not in sync, live, but has not caught up. In sync of the "
        "target: 2.",
    ]
    chain = why(cluster, tmp_path, **T0).chain
    given_up = next(one for one in chain if one.kind == "move_given_up")
    assert given_up.because is not None
    assert given_up.because.seq == replaced_at
    stored = next(one.seq for one in chain if one.kind == "assignment_written")
    assert " to 5,2, begun at" in why(cluster, tmp_path, stored, **T0, is_reassignment=True).answer


def test_why_explains_each_phase_of_a_reassignment(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start_broker(4)
    reassign(cluster, 4, 2)
    catch_up(cluster, 4)
    assert answers_after_each_event(cluster, tmp_path) == [
        f"{MOVE}{WAITS}",
        f"{MOVE}is about to end: all its replicas are in sync.",
        "t-0 is not being reassigned: its move from 1,2,3 to 4,2 ended at event N, when all of "
        "these were in sync.",
    ]


def test_why_explains_each_phase_of_a_rollback(tmp_path: Path) -> None:
    cluster = interruptible(4, 1, 2, 3)
    submit(cluster, {("t", 0): [4, 2]})
    cancel_all(cluster)
    answers = answers_after_each_event(cluster, tmp_path)
    assert [one for one in answers if "rolled back to" in one] == [
        "The reassignment of t-0 from 1,2,3 to 4,2, begun at event N, is being rolled back to "
        "1,2,3, as decided at event N: /admin/reassign_cancel was created (event N, czxid 43)."
    ]
    assert answers[-1].startswith(
        "t-0 is not being reassigned: its move from 1,2,3 to 4,2 was rolled back at event N: "
        "/admin/reassign_cancel was created"
    )


def test_why_explains_a_rollback_that_waits(tmp_path: Path) -> None:
    """A target that is not in sync does not block the rollback: broker 4 could still return."""
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    assert first(cluster, tmp_path, **T0, is_reassignment=True) == (
        "The reassignment of t-0 to 3,4 is cancelled: /admin/reassign_cancel was created (event "
        "N, czxid 46). It has waited since event N to go back to 1,2: 1 of the original replicas "
        "1,2 must be live and in sync, and none is: the rollback waits, and the other replicas "
        "stay."
    )
    remove_cancel(cluster)
    answer = first(cluster, tmp_path, **T0, is_reassignment=True)
    assert "broker 4 blocks it" in answer
    assert answer.endswith(
        "At event N: /admin/reassign_cancel was deleted before the partition was on its original "
        "replicas 1,2 again: the rollback ends, and the reassignment to 3,4 continues."
    )


def test_deletion_of_the_topic_ends_a_rollback_that_waits(tmp_path: Path) -> None:
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    cluster.put(znodes.delete_topic_path("t"), b"")
    remove_cancel(cluster)
    answer = why(cluster, tmp_path, **T0, is_reassignment=True)
    assert plain(answer.answer) == (
        "t-0 is not being reassigned: its move from 1,2 to 3,4 ended with its topic t, whose "
        "deletion began at event N."
    )
    [move] = answer.moves
    assert move.outcome == "deleted"
    assert move.waited[-1].ended_by == "the deletion of t begins"
    ends = "the deletion of t begins: the move ends with its topic"
    assert [one.text for one in move.events if one.at == move.ended] == [ends]
    assert not any("continues" in one.text for one in move.events)


def test_why_explains_an_entry_that_was_cancelled_before_it_began(tmp_path: Path) -> None:
    cluster = interruptible(4, 1, 2)
    submit_quietly(cluster, {("t", 0): [3, 4]})
    cancel_quietly(cluster)
    cluster.run()
    dropped = (
        "the entry with replicas 3,4 is removed from /admin/reassign_partitions, and its "
        "reassignment does not begin: /admin/reassign_cancel was created after the entry."
    )
    assert first(cluster, tmp_path, **T0, is_reassignment=True) == (
        f"t-0 is not being reassigned: at event N it was cancelled: {dropped}"
    )


def test_why_explains_a_reassignment_delayed_by_the_cancel_znode(
    cluster: Cluster, tmp_path: Path
) -> None:
    held_up = (
        " /admin/reassign_cancel does not cancel it, but it ends only when that znode is removed."
    )
    cluster = interruptible(4, 1, 2)
    reassign(cluster, 4, 2)
    cancel_all(cluster)
    assert first(cluster, tmp_path, **T0, is_reassignment=True).endswith(held_up)
    remove_cancel(cluster)
    assert not first(cluster, tmp_path, **T0, is_reassignment=True).endswith(held_up)


def test_refused_cancellation_is_not_a_waiting_rollback(
    tmp_path: Path,
) -> None:
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, 2)
    submit(cluster, {("t", 0): [4, 5, 6]})
    ask_for_isr(cluster, 1, 4, 5)
    cancel(cluster)
    answer = why(cluster, tmp_path, **T0, is_reassignment=True)
    assert "has not ended yet, 0 s after it began: broker 6 blocks it" in answer.answer
    assert "a client asked to cancel it, rejected with INVALID_REPLICA_ASSIGNMENT" in answer.answer
    [move] = answer.moves
    assert (move.outcome, move.waited, move.cancelled) == ("under way", [], None)


def test_why_explains_a_completed_reassignment(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start_broker(4)
    reassign(cluster, 4, 2)
    catch_up(cluster, 4)
    assert first(cluster, tmp_path, **T0, is_reassignment=True) == (
        "t-0 is not being reassigned: its move from 1,2,3 to 4,2 ended at event N, when all of "
        "these were in sync."
    )
    assert first(cluster, tmp_path, **T0) == (
        "t-0 has had leader 4 since event N: the reassignment to 4,2 ended, and 1 does not stay "
        "leader."
    )


def test_why_explains_a_reordering_of_replicas(cluster: Cluster, tmp_path: Path) -> None:
    reassign(cluster, 3, 2, 1)
    assert first(cluster, tmp_path, **T0, is_reassignment=True) == (
        "t-0 is not being reassigned: at event N its replicas 1,2,3 got the order 3,2,1, for which "
        "none had to be copied."
    )


def test_why_explains_a_refused_reassignment(cluster: Cluster, tmp_path: Path) -> None:
    reassign(cluster, 1, 9)
    assert first(cluster, tmp_path, **T0, is_reassignment=True).startswith(
        "t-0 is not being reassigned: at event N a client asked to move it to 1,9, rejected with "
        "INVALID_REPLICA_ASSIGNMENT: "
    )


def test_why_explains_a_refused_request_by_znode(cluster: Cluster, tmp_path: Path) -> None:
    put_request(cluster, {("t", 0): []})
    assert first(cluster, tmp_path, **T0, is_reassignment=True) == (
        "t-0 is not being reassigned: at event N a request for it was rejected: the entry is "
        "removed from /admin/reassign_partitions: The replica list is empty."
    )


def test_why_explains_a_refused_request_during_a_reassignment(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.start_broker(4)
    reassign(cluster, 4, 2)
    reassign(cluster, 1, 9)
    answer = first(cluster, tmp_path, **T0, is_reassignment=True)
    assert (
        "to 4,2, begun at event N, has not ended yet, 0 s after it began: broker 4 blocks it"
        in answer
    )
    assert "Then, at event N a client asked to move it to 1,9, rejected with" in answer


def test_why_explains_a_request_by_znode_for_a_missing_partition(
    cluster: Cluster, tmp_path: Path
) -> None:
    put_request(cluster, {("t", 7): [1, 3], ("gone", 0): [1, 3]})
    dropped = (
        "at event N a request for it was rejected: the entry is removed from "
        "/admin/reassign_partitions: The partition does"
    )
    for topic, number in (("t", 7), ("gone", 0)):
        about = {"topic": topic, "partition": number}
        answer = why(cluster, tmp_path, **about, is_reassignment=True)
        assert plain(answer.answer) == (
            f"{topic}-{number} is not being reassigned: {dropped} not exist."
        )
        assert [one.kind for one in answer.chain] == ["notice", "reassignment_requested"]
        assert first(cluster, tmp_path, **about) == (
            f"There never was a partition {topic}-{number} in this log. At event N: "
            f"{topic}-{number}: the entry is removed from /admin/reassign_partitions: The "
            "partition does not exist."
        )
    answer = first(cluster, tmp_path, topic="gone")
    assert answer.startswith("There never was a topic gone in this log. At event N: ")
    with pytest.raises(ReplayError, match=r"no topic go at .* No earlier event of the log names"):
        why(cluster, tmp_path, topic="go")


def test_why_explains_an_api_request_for_a_missing_partition(
    cluster: Cluster, tmp_path: Path
) -> None:
    ask_for(cluster, (("t", 7), [1, 3]))
    assert first(cluster, tmp_path, topic="t", partition=7, is_reassignment=True).startswith(
        "t-7 is not being reassigned: at event N a client asked to move it to 1,3, rejected with "
        "UNKNOWN_TOPIC_OR_PARTITION"
    )


def test_request_by_znode_is_in_the_chain(cluster: Cluster, tmp_path: Path) -> None:
    cluster.start_broker(4)
    put_request(cluster, {("t", 0): [4, 2]})
    catch_up(cluster, 4)
    chain = why(cluster, tmp_path, **T0, is_reassignment=True).chain
    [request] = [one for one in chain if one.kind == "reassignment_requested"]
    assert request.text == "t-0: a client asked for replicas 4,2 (/admin/reassign_partitions)"
    written = next(one for one in reversed(chain) if one.text.endswith("removing 1,3"))
    assert written.kind == "assignment_written"
    assert written.seq > request.seq
    assert written.because is not None
    assert written.because.procedure == "ZkPartitionReassignment"
