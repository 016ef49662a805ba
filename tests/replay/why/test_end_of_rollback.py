"""The end of a rollback, and deletions of replicas that brokers have not confirmed."""

from pathlib import Path

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA
from replay.inspect.at import cluster_at
from replay.logs.open_log import open_log
from replay.world.broker.log import Log
from tests.controller.core.cluster import Cluster, by_rule, writes
from tests.controller.core.endpoint import alter_partition, proposal
from tests.controller.core.procedures.elections.electing import (
    configure,
    configure_quietly,
    notify,
)
from tests.controller.core.procedures.reassignment.dropping import (
    ask_for_deletion,
    let_time_pass,
    stopped,
)
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    interruptible,
    remove_cancel,
    request,
    submit,
    submit_extra,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask,
    ask_for_isr,
    catch_up,
)
from tests.controller.core.procedures.reassignment.test_rollback_waiting import (
    only_the_target_in_sync,
    without_a_live_isr_member,
)
from tests.controller.core.procedures.topics.deleting import slow_to_delete
from tests.controller.core.unreliable import Delivery
from tests.replay.recorded_log import write_log
from tests.replay.why.asked import asked, plain, why
from tests.replay.why.runs import end_session, next_run

MOVE = {"topic": "t", "partition": 0, "is_reassignment": True}
PARTITION = {"topic": "t", "partition": 0}
PENDING = (
    "the deletion of the replica on broker 4 is pending: broker 4 is not alive; it is sent again "
    "when the broker returns"
)

UNCLEAN = "an unclean election made original replica 1 leader, which had not been in sync"


@pytest.fixture
def cluster() -> Cluster:
    """t-0 moves from 2, 1 and 3 to 4, 5 and 2; 5 is in sync."""
    cluster = interruptible(5, 2, 1, 3)
    submit(cluster, {T0: [4, 5, 2]})
    catch_up(cluster, 5)
    return cluster


def kinds(log: Path, at: int | None = None) -> list[str]:
    """The kinds of the lines of the last move; a step with its number."""
    events = asked(log, at, **MOVE).moves[-1].events
    return [f"{one.kind} {one.step}" if one.step else one.kind for one in events]


# Waits ------------------------------------------------------------------------------------------


def test_end_of_a_wait_names_an_unclean_election(tmp_path: Path) -> None:
    cluster = without_a_live_isr_member()
    cancel_all(cluster)
    configure(cluster, "topics/t", "true")
    move = why(cluster, tmp_path, **MOVE).moves[-1]
    assert move.outcome == "rolled back"
    assert move.waited[0].ended_by == UNCLEAN
    lines = [one.text for one in move.events]
    assert lines.index(UNCLEAN) < lines.index(f"the rollback waits no longer: {UNCLEAN}")
    assert "enough" not in str(move)


def test_end_of_a_wait_after_an_unclean_election_names_the_originals_that_caught_up(
    tmp_path: Path,
) -> None:
    """The unclean leader alone was not enough."""
    cluster = without_a_live_isr_member()
    cancel_all(cluster)
    config = {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}
    configure_quietly(cluster, "topics/t", {"version": 1, "config": config})
    notify(cluster, {"version": 2, "entity_path": "topics/t"})
    assert why(cluster, tmp_path, **MOVE).moves[-1].outcome == "waits to be rolled back"
    recovered = proposal(cluster, "t", 0, recovery_state=0)
    alter_partition(cluster, 1, recovered)
    assert ask_for_isr(cluster, 1, 2) == codes.NONE
    move = why(cluster, tmp_path, **MOVE).moves[-1]
    assert [one.ended_by for one in move.waited] == [
        UNCLEAN,
        "enough original replicas are in sync: 1,2",
    ]


def waiting_for_both() -> Cluster:
    """The rollback waits for a cancellation, and an entry of the extra znode conflicts."""
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    submit_extra(cluster, {T0: [4]})
    return cluster


def test_rollback_that_goes_on_for_an_extra_entry_is_not_given_up(tmp_path: Path) -> None:
    cluster = waiting_for_both()
    remove_cancel(cluster)
    move = why(cluster, tmp_path, **MOVE).moves[-1]
    kinds = [one.kind for one in move.events if one.kind != "asked"]
    assert kinds == ["begun", "cancelled", "waits", "cancelled", "cancellation_removed", "waits"]
    assert move.outcome == "waits to be rolled back"
    assert move.cancelled is not None
    assert move.cancelled.by == REASSIGN_PARTITIONS_EXTRA


def test_rollback_for_an_extra_entry_that_is_removed_is_given_up(tmp_path: Path) -> None:
    cluster = waiting_for_both()
    remove_cancel(cluster)
    cluster.remove(REASSIGN_PARTITIONS_EXTRA)
    move = why(cluster, tmp_path, **MOVE).moves[-1]
    assert (move.outcome, move.cancelled) == ("under way", None)
    why_not = "the entry was removed from /admin/reassign_partitions_extra"
    assert move.waited[-1].ended_by == why_not
    assert move.events[-1].text == f"{why_not}: the move to 3,4 continues"


# The end of a rollback ---------------------------------------------------------------------------


def test_rollback_by_the_api_that_a_failover_ends_is_given_up(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The next controller does not know of the request."""
    cluster.lose(
        by_rule(WriteZnodes, "rollback: leader among the originals"), Delivery.SESSION_OVER
    )
    assert ask(cluster, (T0, None)).error == codes.NOT_CONTROLLER
    answer = why(cluster, tmp_path, **MOVE)
    assert "rolled back" not in plain(answer.answer)
    move = answer.moves[-1]
    assert move.outcome == "under way"
    unknown = "refold does not know of the cancellation, which no znode records"
    assert f"{unknown}: the move to 4,5,2 continues" in [one.text for one in move.events]
    partition = why(cluster, tmp_path, **PARTITION)
    assert "rolled back" not in plain(partition.answer)


def test_end_of_a_rollback_after_a_failover_is_caused_by_the_cancellation(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.lose(
        by_rule(WriteZnodes, "rollback: leader among the originals"), Delivery.SESSION_OVER
    )
    cancel_all(cluster)
    answer = why(cluster, tmp_path, **PARTITION)
    [end] = [one for one in answer.chain if "is on its original replicas" in one.text]
    assert end.because is not None
    assert "/admin/reassign_cancel" in end.because.text


def test_rollback_ends_after_its_last_step(cluster: Cluster, tmp_path: Path) -> None:
    cancel_all(cluster)
    log = write_log(tmp_path / "log", cluster)
    [move] = asked(log, **MOVE).moves
    steps = [one for one in move.events if one.step]
    assert [one.step for one in steps] == [1, 2, 3, 4, 5, 6, 7]
    assert move.ended == steps[-1].at
    assert kinds(log)[-2:] == ["step 7", "rolled_back"]


def test_rollback_is_under_way_while_the_last_steps_are_not_taken(
    cluster: Cluster, tmp_path: Path
) -> None:
    cancel_all(cluster)
    log = write_log(tmp_path / "log", cluster)
    [move] = asked(log, **MOVE).moves
    last = next(one for one in move.events if one.step == 7)
    answer = asked(log, last.at.seq - 1, **MOVE)
    assert plain(answer.answer).startswith(
        "The move of t-0 from 2,1,3 to 4,5,2 is being rolled back: /admin/reassign_cancel was "
        "created (event N, czxid 46). It has its original replicas again; step 6 of 7 began at "
        "event N."
    )
    [move] = answer.moves
    assert (move.outcome, move.ended) == ("being rolled back", None)
    assert "Its rollback has not ended" in asked(log, last.at.seq - 1, **PARTITION).answer


def test_rollback_interrupted_after_step_5_ends_when_the_next_controller_has_finished_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.lose(writes(znodes.REASSIGN_PARTITIONS), Delivery.SESSION_OVER)
    cancel_all(cluster)
    found = kinds(write_log(tmp_path / "log", cluster))
    assert found[found.index("step 6") :][:6] == [
        "step 6",
        "role_lost",
        "role_taken",
        "record_found",
        "record_removed",
        "rolled_back",
    ]


def test_rollback_interrupted_before_step_7_ends_with_the_next_failover(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.lose(writes(znodes.reassignment_path("t", 0)), Delivery.SESSION_OVER)
    cancel_all(cluster)
    found = kinds(write_log(tmp_path / "log", cluster))
    assert "step 7" not in found
    assert found.count("rolled_back") == 1
    assert found.index("rolled_back") > found.index("role_taken")


def test_move_that_begins_after_a_rollback_is_another_one(cluster: Cluster, tmp_path: Path) -> None:
    cancel_all(cluster)
    remove_cancel(cluster)
    submit(cluster, {T0: [4, 5, 2]})
    moves = why(cluster, tmp_path, **MOVE).moves
    assert [one.outcome for one in moves] == ["rolled back", "under way"]


# Deletions that are pending ----------------------------------------------------------------------


def test_deletion_on_a_dead_broker_is_pending_until_the_broker_has_confirmed_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.stop_broker(4)
    cancel_all(cluster)
    log = write_log(tmp_path / "pending", cluster)
    answer = asked(log, **MOVE)
    assert answer.answer.endswith(f" {PENDING[0].upper()}{PENDING[1:]}.")
    assert asked(log, **PARTITION).answer.endswith(f" {PENDING[0].upper()}{PENDING[1:]}.")
    assert kinds(log) == [
        "asked",
        "begun",
        "cancelled",
        "step 1",
        "step 2",
        "step 3",
        "step 4",
        "deletion_pending",
        "step 5",
        "deletion_confirmed",
        "step 6",
        "step 7",
        "rolled_back",
    ]
    texts = [one.text for one in answer.moves[-1].events]
    assert PENDING in texts
    cluster.start_broker(4)
    answer = asked(write_log(tmp_path / "returned", cluster), **MOVE)
    assert "pending" not in answer.answer
    assert [one.text for one in answer.moves[-1].events][-2:] == [
        "broker 4 is sent the deletion of its replica again",
        "broker 4 has deleted its replica",
    ]


def test_pending_deletion_follows_step_4_without_a_request(tmp_path: Path) -> None:
    cluster = interruptible(4, 2, 1, 3)
    submit(cluster, {T0: [4, 2, 1]})
    cluster.stop_broker(4)
    cancel_all(cluster)
    log = write_log(tmp_path / "log", cluster)
    found = kinds(log)
    assert found[found.index("step 3") :][:4] == ["step 3", "step 4", "deletion_pending", "step 5"]


def test_deletion_is_pending_across_a_failover(cluster: Cluster, tmp_path: Path) -> None:
    cluster.stop_broker(4)
    cancel_all(cluster)
    cluster.expire()
    let_time_pass(cluster)
    log = write_log(tmp_path / "failover", cluster)
    assert PENDING[1:] in asked(log, **MOVE).answer
    assert kinds(log).count("deletion_pending") == 1


def test_deletion_found_by_the_next_run_is_pending_in_its_log(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.stop_broker(4)
    cancel_all(cluster)
    end_session(cluster)
    log = write_log(tmp_path / "second", next_run(cluster).start())
    assert asked(log, **MOVE).answer == (
        f"t-0 is not being reassigned, and was not in this log. {PENDING[0].upper()}{PENDING[1:]}."
    )


def test_completed_move_has_the_deletion_on_a_dead_broker(cluster: Cluster, tmp_path: Path) -> None:
    cluster.stop_broker(3)
    catch_up(cluster, 4)
    log = write_log(tmp_path / "log", cluster)
    answer = asked(log, **MOVE)
    assert answer.moves[-1].outcome == "completed"
    assert answer.answer.endswith(
        " The deletion of the replica on broker 3 is pending: broker 3 is not alive; it is sent "
        "again when the broker returns."
    )
    assert "deletion_pending" in kinds(log)


def test_move_under_way_has_the_deletion_of_a_dropped_replica_on_a_dead_broker(
    tmp_path: Path,
) -> None:
    cluster = interruptible(6, 2, 1, 3)
    request(cluster, {T0: [4, 5, 6]})
    cluster.stop_broker(4)
    request(cluster, {T0: [5, 6]})
    log = write_log(tmp_path / "dropped", cluster)
    answer = asked(log, **MOVE)
    assert answer.moves[-1].outcome == "under way"
    assert answer.answer.endswith(f" {PENDING[0].upper()}{PENDING[1:]}.")
    cluster.start_broker(4)
    log = write_log(tmp_path / "returned", cluster)
    assert "deletion" not in asked(log, **MOVE).answer


def test_next_move_has_the_deletion_that_is_left_of_the_move_before(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.stop_broker(4)
    cancel_all(cluster)
    remove_cancel(cluster)
    submit(cluster, {T0: [2, 5]})
    answer = asked(write_log(tmp_path / "log", cluster), **MOVE)
    assert answer.moves[-1].outcome == "under way"
    assert answer.answer.endswith(f" {PENDING[0].upper()}{PENDING[1:]}.")


@pytest.mark.parametrize("is_alive", [True, False])
def test_deleted_stray_is_no_part_of_the_move_that_was_rolled_back(
    cluster: Cluster, tmp_path: Path, is_alive: bool
) -> None:
    """`refold reassign --delete-strays` removes files that an operator has put on broker 4."""
    cancel_all(cluster)
    before = kinds(write_log(tmp_path / "before", cluster))
    assert before[-1] == "rolled_back"
    if not is_alive:
        cluster.stop_broker(4)
    cluster.broker(4).disk.logs[T0] = Log(cluster.topic("t").topic_id)
    seen = cluster.seen()
    ask_for_deletion(cluster, 4, T0)
    if not is_alive:
        let_time_pass(cluster)
        cluster.start_broker(4)
    assert stopped(seen, 4) == [T0]
    assert kinds(write_log(tmp_path / "after", cluster)) == before


def test_unhealthy_has_the_broker_whose_deletion_is_pending(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.stop_broker(4)
    cancel_all(cluster)
    answer = asked(write_log(tmp_path / "gone", cluster), is_unhealthy=True)
    assert answer.answer == "1 root cause; not well: 0 of 1 partition and 1 deletion of replicas."
    [group] = answer.unhealthy
    assert plain(group.cause) == (
        "broker 4 is not registered: the registration of broker 4 is gone (event N)"
    )
    assert group.affected == ["deletion of the replica of t-0 on broker 4"]
    cluster.start_broker(4)
    answer = asked(write_log(tmp_path / "returned", cluster), is_unhealthy=True)
    assert answer.answer == "All partitions are online and in sync."


def test_unhealthy_has_the_deletion_that_a_registered_broker_does_not_confirm(
    cluster: Cluster, tmp_path: Path
) -> None:
    slow_to_delete(cluster, 4)
    cancel_all(cluster)
    log = write_log(tmp_path / "sent", cluster)
    assert asked(log, is_unhealthy=True).answer == "All partitions are online and in sync."
    let_time_pass(cluster)
    answer = asked(write_log(tmp_path / "late", cluster), is_unhealthy=True)
    assert [(one.cause, one.affected) for one in answer.unhealthy] == [
        (
            "broker 4 has not confirmed the deletion of replicas",
            ["deletion of the replica of t-0 on broker 4"],
        )
    ]


def test_inspect_has_the_deletions_of_replicas(cluster: Cluster, tmp_path: Path) -> None:
    cluster.stop_broker(4)
    cancel_all(cluster)
    with open_log(write_log(tmp_path / "log", cluster)) as log:
        [pending] = cluster_at(log, log.reader.last_seq).replica_deletions
    assert (pending.partition, pending.broker, pending.is_live) == ("t-0", 4, False)
