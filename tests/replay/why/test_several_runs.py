"""Logs of several runs are read as one: one run begins a rollback, and another ends it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from controller.core import znodes
from controller.core.commands import Issued, WriteAtomically, WriteZnodes
from controller.core.znodes import reassignment_path
from replay.errors import ReplayError
from replay.why.explain import explain_runs
from replay.why.explanations.explanation import Explanation
from replay.why.runs import logs_of, open_runs, parts_of
from replay.why.subject import Subject
from tests.controller.core.cluster import Cluster, topic_json, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    cancel_quietly,
    interruptible,
    remove_cancel_quietly,
    submit,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, catch_up
from tests.controller.core.procedures.reassignment.test_begun_elsewhere import begin_elsewhere
from tests.controller.core.procedures.reassignment.test_rollback_waiting import (
    only_the_target_in_sync,
)
from tests.replay.recorded_log import with_an_impossible_outcome, write_log
from tests.replay.why.asked import asked, plain
from tests.replay.why.runs import end_session, kill_before, next_run, set_state, stock_term, store

LogOf = Callable[[str], Path]

MOVE = Subject("t", 0, is_reassignment=True)


def moving() -> Cluster:
    """A cluster in which t-0 moves from 2, 1 and 3 to 4, 5 and 2, and 4 has caught up."""
    cluster = interruptible(5, 2, 1, 3)
    submit(cluster, {T0: [4, 5, 2]})
    catch_up(cluster, 4)
    return cluster


def ask(*logs: Path, subject: Subject = MOVE, wall_ns: int | None = None) -> Explanation:
    """The answer from several logs, or from a folder of logs."""
    with open_runs(logs_of([str(one) for one in logs])) as several:
        return explain_runs(parts_of(several, wall_ns), subject)


def history_of(answer: Explanation) -> list[tuple[str, str]]:
    """The history of the last move without steps and deletions on brokers; lines with logs."""
    kept = (one for one in answer.moves[-1].events if not one.kind.startswith(("step", "deletion")))
    return [(one.at.log, one.text) for one in kept]


def test_move_completed_by_a_stock_controller_has_the_cancellation_that_was_too_late(
    tmp_path: Path,
) -> None:
    cluster = moving()
    end_session(cluster)

    def completes() -> None:
        cluster.set_isr("t", 0, (4, 5, 2))
        cluster.change_topic_quietly("t", {0: (4, 5, 2)})
        cancel_quietly(cluster)

    stock_term(cluster, 9, completes)
    store(tmp_path, cluster, next_run(cluster).start())
    answer = ask(tmp_path)
    [move] = answer.moves
    assert (move.outcome, move.cancelled) == ("completed", None)
    assert move.too_late is not None
    assert plain(answer.answer) == (
        "t-0 is not being reassigned: its move from 2,1,3 to 4,5,2 was completed by another "
        "controller, found at event N of run-2. The cancellation was too late: "
        f"/admin/reassign_cancel was found (event N of run-2, czxid {move.too_late.czxid})."
    )
    assert history_of(answer)[-1] == (
        "run-2",
        "the reassignment to 4,5,2, requested by /admin/reassign_partitions, has ended: an earlier "
        "controller completed it, and /admin/reassign_cancel does not undo it; of brokers 1,3, "
        "those that were not alive then may still have the partition's files: find them with "
        "`refold reassign --list-strays`",
    )
    of_second_run = [one for one in answer.chain if one.log == "run-2" and "t-0" in one.text]
    assert [one.because for one in of_second_run] == [None] * len(of_second_run)
    assert any("does not undo" in one.text for one in of_second_run)


# One history ------------------------------------------------------------------------------------


def test_rollback_across_a_crash_and_a_stock_term_has_one_history(tmp_path: Path) -> None:
    cluster = moving()
    kill_before(cluster, writes(znodes.topic_path("t")), lambda: cancel_all(cluster))

    def elects() -> None:
        state = cluster.leadership("t", 0)
        changed = structs.replace(
            state, leader=1, leader_epoch=state.leader_epoch + 1, controller_epoch=cluster.epoch()
        )
        set_state(cluster, znodes.write_state(changed))

    epoch = cluster.leadership("t", 0).leader_epoch + 1
    stock_term(cluster, 9, elects)
    store(tmp_path, cluster, next_run(cluster).start())
    answer = ask(tmp_path)
    [move] = answer.moves
    assert move.cancelled is not None
    czxid = move.cancelled.czxid
    assert plain(answer.answer).replace(str(czxid), "C") == (
        "t-0 is not being reassigned: its move from 2,1,3 to 4,5,2 was rolled back at event N of "
        "run-2: /admin/reassign_cancel was created (event N of run-1, czxid C). Meanwhile another "
        "controller had the role: controller epoch 2."
    )
    assert history_of(answer) == [
        ("run-1", "/admin/reassign_partitions asks for 4,5,2"),
        ("run-1", "begun from 2,1,3 to 4,5,2, by /admin/reassign_partitions"),
        ("run-1", f"cancelled: /admin/reassign_cancel was created, czxid {czxid}"),
        ("run-1", "the log ends here (not closed)"),
        ("run-2", "another controller had the role: controller epoch 2 lies between"),
        ("run-2", "broker 1000 became controller (controller epoch 3)"),
        (
            "run-2",
            "controller epoch 2 had written its state: leader 2 -> 1, ISR 2,1,3, leader epoch "
            f"{epoch}",
        ),
        ("run-2", "refold found the record of the move"),
        ("run-2", f"refold found the cancellation (czxid {czxid}) and went on"),
        ("run-2", "rolled back: it is on 2,1,3 again"),
    ]
    steps = [(one.at.log, one.step) for one in move.events if one.step]
    assert sorted(steps) == [
        *[("run-1", step) for step in (1, 2, 3, 4, 5)],
        *[("run-2", step) for step in (1, 2, 3, 4, 5, 6, 7)],
    ]
    between = next(one for one in move.events if one.epochs)
    assert (between.kind, between.epochs) == ("other_controllers", (2,))


def test_end_of_a_log_follows_the_other_facts_of_its_last_event(tmp_path: Path) -> None:
    """The last event is the creation of the cancellation; the next run learns what it cancelled."""
    cluster = moving()
    kill_before(cluster, lambda issued: True, lambda: cancel_all(cluster))
    answer = ask(*store(tmp_path, cluster, next_run(cluster).start()))
    of_first_run = [text for log, text in history_of(answer) if log == "run-1"]
    czxid = answer.moves[-1].cancelled.czxid  # type: ignore[union-attr]
    assert of_first_run[-2:] == [
        f"cancelled: /admin/reassign_cancel was created, czxid {czxid}",
        "the log ends here (not closed)",
    ]


@pytest.mark.long
def test_rollback_is_explained_wherever_the_daemon_is_killed(tmp_path: Path) -> None:
    """The daemon is killed before each write. Each log explains the move if it has its record."""
    count = len(_writes_of_a_rollback())
    for place in range(count):
        cluster = moving()
        kill_before(cluster, NthWrite(place), partial(cancel_all, cluster))
        is_recorded = cluster.data(reassignment_path(*T0)) is not None
        folder = tmp_path / str(place)
        runs = store(folder, cluster, next_run(cluster).start())
        answer = ask(folder)
        assert "its move from 2,1,3 to 4,5,2 was rolled back at event" in answer.answer
        assert "/admin/reassign_cancel was created (event " in answer.answer
        for run in runs if is_recorded else runs[:1]:
            alone = asked(run, topic="t", partition=0, is_reassignment=True).answer
            assert "in this log" not in alone
            assert "/admin/reassign_cancel was" in alone
            assert "2,1,3" in alone


def _writes_of_a_rollback() -> list[Issued]:
    cluster = moving()
    begun = len(cluster.history)
    cancel_all(cluster)
    commands = [one for _, issued in cluster.history[begun:] for one in issued]
    return [one for one in commands if _is_write(one)]


def _is_write(issued: Issued) -> bool:
    return isinstance(issued.command, WriteZnodes | WriteAtomically)


class NthWrite:
    """Selects one of the writes by its number."""

    def __init__(self, place: int) -> None:
        self._left = place

    def __call__(self, issued: Issued) -> bool:
        if not _is_write(issued):
            return False
        self._left -= 1
        return self._left < 0


def test_move_completed_by_a_stock_controller_is_explained(tmp_path: Path) -> None:
    cluster = moving()
    kill_before(cluster, writes(znodes.topic_path("t")), lambda: cancel_all(cluster))
    stock_term(
        cluster,
        9,
        lambda: cluster.put_quietly(znodes.topic_path("t"), topic_json({0: [4, 5, 2]})),
    )
    store(tmp_path, cluster, next_run(cluster).start())
    answer = ask(tmp_path)
    [move] = answer.moves
    assert ("run-2", "found on 4,5,2: another controller completed the move") in history_of(answer)
    is_rolled_back = move.outcome == "rolled back"
    how = "was rolled back at event" if is_rolled_back else "was completed by another controller"
    assert f"its move from 2,1,3 to 4,5,2 {how}" in answer.answer
    assert "/admin/reassign_cancel was created" in answer.answer
    alone = asked(tmp_path / "run-2", topic="t", partition=0, is_reassignment=True).answer
    assert "its move from 2,1,3 to 4,5,2" in alone
    assert is_rolled_back or " had been completed before this log begins. The canc" in alone


def begun_by_a_stock_controller(tmp_path: Path, *, is_younger: bool) -> Explanation:
    """A stock controller began the move of t-0 from 1 and 2 to 3 and 4 between two runs of the
    daemon; the entry is younger or older than /admin/reassign_cancel."""
    cluster = interruptible(4, 1, 2)
    if is_younger:
        cancel_all(cluster)
    cluster.zookeeper.end_session(cluster.session)

    def begins() -> None:
        submit_quietly(cluster, {T0: [3, 4]})
        if not is_younger:
            cancel_quietly(cluster)
        begin_elsewhere(cluster)

    stock_term(cluster, 9, begins)
    store(tmp_path, cluster, next_run(cluster).start())
    return ask(tmp_path)


def test_rollback_of_a_stock_controllers_move_has_its_term(tmp_path: Path) -> None:
    answer = begun_by_a_stock_controller(tmp_path, is_younger=False)
    czxid = answer.moves[-1].cancelled.czxid  # type: ignore[union-attr]
    assert history_of(answer) == [
        ("run-2", "another controller had the role: controller epoch 2 lies between"),
        ("run-2", "found under way from 1,2 to 3,4, by /admin/reassign_partitions"),
        ("run-2", f"cancelled: /admin/reassign_cancel was found, czxid {czxid}"),
        ("run-2", "rolled back: it is on 1,2 again"),
    ]


def test_younger_move_that_a_stock_controller_began_is_not_cancelled(tmp_path: Path) -> None:
    answer = begun_by_a_stock_controller(tmp_path, is_younger=True)
    assert answer.moves[-1].cancelled is None
    assert history_of(answer) == [
        ("run-2", "another controller had the role: controller epoch 2 lies between"),
        ("run-2", "found under way from 1,2 to 3,4, by /admin/reassign_partitions"),
    ]
    assert answer.answer.endswith(
        "/admin/reassign_cancel does not cancel it, but it ends only when that znode is removed."
    )


def test_rollback_that_waits_in_two_runs_waits_since_the_first(tmp_path: Path) -> None:
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    cluster.zookeeper.end_session(cluster.session)
    second = next_run(cluster).start()
    second.start_broker(2)
    catch_up(second, 2)
    store(tmp_path, cluster, second)
    [move] = ask(tmp_path).moves
    assert move.outcome == "rolled back"
    [waited] = move.waited
    assert waited.since.log == "run-1"
    assert waited.until is not None
    assert waited.until.log == "run-2"


def test_cancellation_removed_between_runs_is_reported(tmp_path: Path) -> None:
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    cluster.zookeeper.end_session(cluster.session)
    remove_cancel_quietly(cluster)
    store(tmp_path, cluster, next_run(cluster).start())
    [move] = ask(tmp_path).moves
    assert (move.outcome, move.cancelled) == ("under way", None)
    assert ("run-2", "/admin/reassign_cancel was removed: the move to 3,4 continues") in history_of(
        ask(tmp_path)
    )


def test_answer_from_several_runs_has_events_and_logs(tmp_path: Path) -> None:
    cluster = moving()
    kill_before(cluster, writes(znodes.topic_path("t")), lambda: cancel_all(cluster))
    store(tmp_path, cluster, next_run(cluster).start())
    answer = ask(tmp_path, subject=Subject("t", 0))
    assert plain(answer.answer).startswith("t-0 has had leader 2 since event N of run-1: ")
    assert " was rolled back at event N of run-2: " in plain(answer.answer)
    assert {one.log for one in answer.chain} == {"run-1", "run-2"}
    stored = next(one for one in answer.chain if one.rule == "rollback: store the originals")
    assert stored.log == "run-2"
    assert stored.because is not None
    assert stored.because.log == "run-1"


# Inputs -----------------------------------------------------------------------------------------


def test_logs_are_read_in_order_of_time(tmp_path: Path) -> None:
    cluster = moving()
    kill_before(cluster, writes(znodes.topic_path("t")), lambda: cancel_all(cluster))
    first, second = store(tmp_path, cluster, next_run(cluster).start())
    assert ask(second, first).answer == ask(first, second, first).answer == ask(tmp_path).answer


def test_time_selects_an_event_of_several_logs(tmp_path: Path) -> None:
    cluster = moving()
    kill_before(cluster, writes(znodes.topic_path("t")), lambda: cancel_all(cluster))
    store(tmp_path, cluster, next_run(cluster).start())
    between = (cluster.now_ms + 1) * 1_000_000
    answer = ask(tmp_path, wall_ns=between)
    assert answer.log == "run-1"
    assert "is being rolled back to 2,1,3" in answer.answer
    with pytest.raises(ReplayError, match="the logs begin later than that"):
        ask(tmp_path, wall_ns=1)


def test_role_of_several_runs_is_that_of_the_last_run(tmp_path: Path) -> None:
    cluster = moving()
    cluster.zookeeper.end_session(cluster.session)
    store(tmp_path, cluster, next_run(cluster).start())
    assert plain(ask(tmp_path, subject=Subject()).answer).startswith(
        "Broker 1000 has been controller of term 2 since event N of run-2"
    )


def test_stock_term_between_two_runs_is_explained_from_both_sides(tmp_path: Path) -> None:
    cluster = moving()
    kill_before(cluster, writes(znodes.topic_path("t")), lambda: cancel_all(cluster))
    stock_term(cluster, 9)
    store(tmp_path, cluster, next_run(cluster).start())
    write = "command 3.0, which created /controller and set /controller_epoch to 3."
    between = "after term 2 of another controller"
    assert plain(ask(tmp_path, subject=Subject(term=1)).answer).endswith(
        f" Broker 1000 took over with term 3 at event N of run-2, {between}, by {write}"
    )
    assert plain(ask(tmp_path, subject=Subject(term=3)).answer).endswith(
        f" Broker 1000 replaced broker 1000 (term 1), {between}, with {write}"
    )
    assert plain(ask(tmp_path, subject=Subject(term=2)).answer) == (
        "Term 2 was that of a controller that does not write these logs, such as a broker of the "
        "cluster. Before it, broker 1000 had term 1, which began at event N of run-1. Broker 1000 "
        f"took over with term 3 at event N of run-2, by {write}"
    )
    with pytest.raises(ReplayError, match=r"no term 4 .*; this log has 1,3"):
        ask(tmp_path, subject=Subject(term=4))


def test_folder_of_runs_is_replaced_by_its_logs(tmp_path: Path) -> None:
    cluster = moving()
    runs = store(tmp_path, cluster)
    assert logs_of([str(tmp_path)]) == [str(one) for one in runs]
    assert logs_of([str(runs[0]), str(tmp_path)]) == [str(runs[0])]
    assert logs_of(["-"]) == ["-"]


def test_logs_of_two_clusters_are_refused(tmp_path: Path) -> None:
    cluster = moving()
    [first] = store(tmp_path, cluster)
    other = write_log(tmp_path / "other", cluster, cluster_id="another")
    with pytest.raises(ReplayError, match="the logs are of several clusters"):
        ask(first, other)


def test_imported_log_among_several_is_refused(tmp_path: Path, log_of: LogOf) -> None:
    [first] = store(tmp_path, moving())
    imported = log_of("reassign-5")
    with pytest.raises(ReplayError, match="is an imported log: only --term reads it"):
        ask(first, imported)


def test_run_that_cannot_be_folded_does_not_affect_the_others(tmp_path: Path) -> None:
    cluster = moving()
    cluster.zookeeper.end_session(cluster.session)
    first, second = tmp_path / "run-1", tmp_path / "run-2"
    write_log(second, next_run(cluster).start())
    write_log(first, with_an_impossible_outcome(cluster), fingerprint="0" * 24)
    answer = ask(tmp_path)
    assert any(one.startswith("run-1: recorded by core 0000") for one in answer.notes)
    assert answer.moves[-1].target == (4, 5, 2)


# Commands that the log of a killed daemon does not have -----------------------------------------


UNRECORDED = "the log has no stored commands from here on: it is not known whether this was done"


def killed_after_deciding(tmp_path: Path) -> tuple[Cluster, Path]:
    """The daemon decides steps 4 and 5 of a rollback in one event, and is killed before it stores
    or carries out these commands."""
    cluster = moving()
    kill_before(cluster, writes(znodes.topic_path("t")), lambda: cancel_all(cluster))
    before = cluster.history[-1][0].seq - 1
    return cluster, write_log(tmp_path / "run-1", cluster, close=False, commands_until=before)


def steps_of(answer: Explanation) -> list[tuple[str, int, bool]]:
    """The steps of the last move: the log, the number, and whether the text has the caveat."""
    steps = [one for one in answer.moves[-1].events if one.step]
    assert all(one.is_recorded is (UNRECORDED not in one.text) for one in steps)
    return [(one.at.log, one.step, one.is_recorded) for one in steps]


def test_step_whose_command_the_log_does_not_have_is_not_reported_as_done(tmp_path: Path) -> None:
    _, log = killed_after_deciding(tmp_path)
    answer = ask(log)
    assert steps_of(answer) == [
        ("run-1", 1, True),
        ("run-1", 2, True),
        ("run-1", 3, True),
        ("run-1", 4, False),
        ("run-1", 5, False),
    ]
    assert any("has no stored commands from event" in one for one in answer.notes)


def test_step_is_reported_twice_only_with_the_caveat(tmp_path: Path) -> None:
    cluster, log = killed_after_deciding(tmp_path)
    second = write_log(tmp_path / "run-2", next_run(cluster).start())
    steps = steps_of(ask(log, second))
    assert sorted(one for one in steps if one[1] in (4, 5)) == [
        ("run-1", 4, False),
        ("run-1", 5, False),
        ("run-2", 4, True),
        ("run-2", 5, True),
    ]
