"""Why does a reassignment not end, why was it rolled back, why was its request rejected?"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from controller.core.znodes import REASSIGN_CANCEL
from replay.cluster_view.views import NotInSync, PartitionView, lacking_replicas
from replay.cluster_view.waiting import seconds_between, unfinished_failover
from replay.description.error_names import error_name
from replay.description.phrases import assignment_in_words, broker_list
from replay.times import iso_time
from replay.why.configuration import throttles
from replay.why.explanations.finding import (
    Finding,
    last,
    last_undone,
    pending_deletions,
    undone,
    why_lost,
)
from replay.why.explanations.partition import causes_of_state
from replay.why.facts import (
    AssignmentWritten,
    CancelZnodeObserved,
    LeftUnchanged,
    MoveGivenUp,
    NoticeIssued,
    ReassignmentRequested,
)
from replay.why.history import FactHistory
from replay.why.move import Move
from replay.why.rollback_steps import LAST
from replay.why.sentences import event_and_time, sentence, with_full_stop
from replay.why.subject import NOT_CANCELLED

REFUSALS: Final = {
    "reassignment_refused": "a request for it was rejected",
    "reassignment_failed": "it failed",
    "reassignment_cancelled": "it was cancelled",
}
"""The codes of notices that say why a reassignment, or a request for one, had no effect.

A procedure that ignores requests or rolls reassignments back adds its codes here."""


def explain_reassignment(history: FactHistory) -> Finding:
    """Explain the reassignment of the partition in question."""
    view = history.view()
    if view is None:
        return _without_partition(history)
    moves = history.moves()
    facts = causes_of_state(history, view, moves)
    first, is_over = _answer(history, view, moves)
    if is_over:
        end = max((one.seq for one in facts if _ends(one)), default=history.cluster.seq)
        facts = [one for one in facts if one.seq <= end]
    pending = pending_deletions(history, view)
    return Finding(first + _end_of_earlier(moves) + pending, facts, moves)


def _answer(history: FactHistory, view: PartitionView, moves: Sequence[Move]) -> tuple[str, bool]:
    """The sentences about the last move, and whether the partition is not being reassigned."""
    move = moves[-1] if moves else None
    if move is not None and move.outcome == "deleted":
        return _explain_deleted_topic(view, move), False
    if view.rollback_waits and not view.becoming:
        return _explain_waiting_rollback(view, move), False
    if view.is_being_reassigned:
        return _explain_under_way(history, view, move), False
    return _explain_no_move(history, view, move), True


def _explain_deleted_topic(view: PartitionView, move: Move) -> str:
    return (
        f"{view.name} is not being reassigned: its move from {broker_list(move.origin)} to "
        f"{broker_list(move.target)} ended with its topic {view.topic}, whose deletion began at "
        f"{move.ended}."
    )


def _end_of_earlier(moves: Sequence[Move]) -> str:
    """The end of the move before the last one, if it was undone."""
    before = last_undone(moves)
    if before is None or before is moves[-1]:
        return ""
    return f" Before, its move {undone(before)}"


def _without_partition(history: FactHistory) -> Finding:
    """A request for a partition that does not exist."""
    subject, facts = history.subject, history.facts_about_name()
    asked = last(facts, ReassignmentRequested)
    why = refusal_since(history, 0)
    if not why and asked is not None:
        why = f"{sentence(asked)} at {event_and_time(asked)}, when there was no such partition."
    name = f"{subject.topic}-{subject.partition}"
    unread = unfinished_failover(history.cluster)
    if not why and unread:
        return Finding(f"It is not known whether {name} is being reassigned. {unread}", facts)
    why = why or "there is no such partition, and no request for it."
    return Finding(f"{name} is not being reassigned: {why}", facts)


def _ends(fact: object) -> bool:
    """Whether a fact is about a reassignment; facts after the last such fact are not."""
    if isinstance(fact, NoticeIssued):
        return fact.code in REFUSALS or fact.code == NOT_CANCELLED
    return isinstance(fact, ReassignmentRequested) or _is_of_move(fact)


def refusal_since(history: FactHistory, since: int) -> str:
    """The last request after an event, if it was rejected; "" otherwise."""
    asked = last(history.facts, ReassignmentRequested)
    if asked is not None and asked.error and asked.seq > since:
        what = "cancel it" if asked.target is None else f"move it to {broker_list(asked.target)}"
        why = f": {asked.message}" if asked.message else ""
        return with_full_stop(
            f"at {event_and_time(asked)} a client asked to {what}, "
            f"rejected with {error_name(asked.error)}{why}"
        )
    refusals = (
        one for one in history.facts if isinstance(one, NoticeIssued) and one.code in REFUSALS
    )
    refused = last(refusals, NoticeIssued)
    if refused is not None and refused.seq > since:
        return with_full_stop(
            f"at {event_and_time(refused)} {REFUSALS[refused.code]}: {refused.text}"
        )
    return ""


def _explain_waiting_rollback(view: PartitionView, move: Move | None) -> str:
    """A rollback that waits; the notice at its beginning says for what. The target replicas do not
    matter any more."""
    waits = move.waited[-1] if move is not None and move.waited else None
    status = f"has waited since {waits.since}" if waits is not None else "waits"
    why = f": {move.cancelled.text}" if move is not None and move.cancelled is not None else ""
    return (
        f"The reassignment of {view.name} to {broker_list(view.target)} is cancelled{why}. It "
        f"{status} to go back to {broker_list(_origin(view, move))}: "
        f"{with_full_stop(view.rollback_waits)}"
    )


def _explain_under_way(history: FactHistory, view: PartitionView, move: Move | None) -> str:
    begun = last((one for one in history.facts if _begins(one)), AssignmentWritten)
    since = _begin_of(move, begun)
    origin = broker_list(view.origin)
    name = f"The reassignment of {view.name} from {origin} to {broker_list(view.target)}"
    if view.reassignment_status in ("rolled back", "replaced"):
        instead = _replicas_instead(history, view, move)
        return f"{name}{since} is being {view.reassignment_status}{instead}."
    if move is not None and move.outcome == "being rolled back":
        instead = _replicas_instead(history, view, move)
        return f"{name}{since} is to be rolled back{instead}; it was interrupted."
    live = {one.id: one for one in history.cluster.brokers}
    lacking = {} if view.becoming else lacking_replicas(view, live)
    ignored = refusal_since(history, begun.seq if begun is not None else 0)
    more = (
        _trouble(history) + (f" Then, {ignored}" if ignored else "") + _cancel_znode_text(history)
    )
    if not lacking:
        return f"{name}{since} is about to end: all its replicas are in sync.{more}"
    blocking = "; ".join(_blocks(history, broker, why) for broker, why in lacking.items())
    done = [one for one in view.target if one in view.isr]
    rest = (
        f" In sync of the target: {broker_list(done)}."
        if done
        else " None of its replicas is in sync."
    )
    duration = _duration(history, move)
    slow = throttles(history.configuration, view)
    return f"{name}{since} has not ended yet{duration}: {blocking}.{rest}{slow}{more}"


def _begin_of(move: Move | None, begun: AssignmentWritten | None) -> str:
    """When a move began, or was found under way."""
    if move is not None and move.begun is not None:
        return f", begun at {move.begun},"
    if move is not None and move.events:
        return f", found under way at {move.events[0].at},"
    return f", begun at {event_and_time(begun)}," if begun is not None else ""


def _duration(history: FactHistory, move: Move | None) -> str:
    """How long ago a move began, from its first write to the moment of the question."""
    if move is None or move.begun is None or not history.cluster.time:
        return ""
    seconds = int(seconds_between(move.begun.time, history.cluster.time))
    return f", {max(0, seconds):,} s after it began"


def _cancel_znode_text(history: FactHistory) -> str:
    """Text about /admin/reassign_cancel if it delays the end of a move that is not cancelled."""
    known = last(history.facts, CancelZnodeObserved)
    if known is None or known.how == "removed":
        return ""
    return f" {REASSIGN_CANCEL} does not cancel it, but it ends only when that znode is removed."


def _replicas_instead(history: FactHistory, view: PartitionView, move: Move | None) -> str:
    """The replicas that the partition gets instead, and why."""
    is_rollback = view.reassignment_status != "replaced"
    goes = (
        f" to {broker_list(_origin(view, move))}"
        if is_rollback
        else f" by {broker_list(view.becoming)}"
    )
    given_up = last(history.facts, MoveGivenUp)
    if given_up is None:
        return goes
    goes += f", as decided at event {given_up.seq}"
    if is_rollback and move is not None and move.cancelled is not None:
        return f"{goes}: {move.cancelled.text}"
    because = given_up.because
    return goes if because is None else f"{goes}, because of event {because.seq}: {because.text}"


def _blocks(history: FactHistory, broker: int, why: NotInSync) -> str:
    lost = "" if why.is_live else why_lost(history, broker)
    return f"broker {broker} blocks it, not in sync, {why}" + (f": {lost}" if lost else "")


def _begins(fact: object) -> bool:
    return isinstance(fact, AssignmentWritten) and fact.after.is_being_reassigned


def _origin(view: PartitionView, move: Move | None) -> tuple[int, ...]:
    """The replicas before a move, in their original order."""
    return move.origin if move is not None else view.origin


def _trouble(history: FactHistory) -> str:
    """The last step that failed, if one did after the assignment was written."""
    begun = last(history.facts, AssignmentWritten)
    failed = last(history.facts, LeftUnchanged)
    if failed is not None and (begun is None or failed.seq > begun.seq):
        return f" At event {failed.seq}: {with_full_stop(failed.text)}"
    return ""


def _explain_no_move(history: FactHistory, view: PartitionView, move: Move | None) -> str:
    written = last((one for one in history.facts if _is_of_move(one)), AssignmentWritten)
    since = written.seq if written is not None else 0
    if move is not None and move.ended is not None:
        # A rollback writes the assignment before its last steps.
        since = max(since, move.ended.seq)
    ignored = refusal_since(history, since)
    head = f"{view.name} is not being reassigned"
    if ignored:
        return f"{head}: {ignored}"
    written_last = iso_time(written.wall_ns) if written is not None else ""
    if move is not None and move.outcome == "being rolled back":
        return _steps_left(move)
    if move is not None and move.ended is not None and written_last <= move.ended.time:
        return f"{head}: {_how_it_ended(move, view)}"
    if written is None:
        return f"{head}, and was not in this log."
    return f"{head}: {_rewritten(written)}"


def _is_of_move(fact: object) -> bool:
    return isinstance(fact, AssignmentWritten) and bool(fact.before.replicas)


def _how_it_ended(move: Move, view: PartitionView) -> str:
    if move.outcome == "rolled back":
        return f"its move {undone(move)}{_wait_in_words(move)}{_other_controllers_in_words(move)}"
    goes = f"its move from {broker_list(move.origin)} to {broker_list(move.target)}"
    if move.outcome == "replaced":
        return f"{goes} ended at {move.ended}, when it got replicas {broker_list(view.replicas)}."
    if move.was_over_before:
        return f"{goes} had been completed before this log begins.{_too_late(move)}"
    if move.is_ended_by_others:
        cancelled = f" It had been cancelled: {move.cancelled.text}." if move.cancelled else ""
        ends = f"was completed by another controller, found at {move.ended}."
        return f"{goes} {ends}{cancelled}{_too_late(move)}"
    return f"{goes} ended at {move.ended}, when all of these were in sync."


def _too_late(move: Move) -> str:
    """The cancellation that was read after the end of a move."""
    return f" The cancellation was too late: {move.too_late.text}." if move.too_late else ""


def _steps_left(move: Move) -> str:
    """A rollback that has written the original replicas, and not taken its last step."""
    why = f": {move.cancelled.text}" if move.cancelled is not None else ""
    taken = [one for one in move.events if one.step and one.is_recorded]
    done = f"; step {taken[-1].step} of {LAST} began at {taken[-1].at}" if taken else ""
    return (
        f"The move of {move.partition} from {broker_list(move.origin)} to "
        f"{broker_list(move.target)} is being rolled back{why}. "
        f"It has its original replicas again{done}."
    )


def _wait_in_words(move: Move) -> str:
    """How long the rollback of a move waited, and for what."""
    if not move.waited:
        return ""
    first, until = move.waited[0], move.waited[-1].until
    end = f" until event {until.place}" if until is not None else ""
    return f" The rollback waited from event {first.since.place}{end}: {with_full_stop(first.why)}"


def _other_controllers_in_words(move: Move) -> str:
    """The other controllers during the rollback of a move."""
    lines = takewhile(lambda line: line.at != move.ended, move.events)
    epochs = [str(one) for line in lines for one in line.epochs]
    if not epochs:
        return ""
    name = "epoch" if len(epochs) == 1 else "epochs"
    return f" Meanwhile another controller had the role: controller {name} {', '.join(epochs)}."


def _rewritten(written: AssignmentWritten) -> str:
    """A written assignment that is no move, or follows one."""
    before, after = written.before, written.after
    if not before.is_being_reassigned and set(after.replicas) == set(before.replicas):
        return (
            f"at {event_and_time(written)} its replicas {broker_list(before.replicas)} got "
            f"the order {broker_list(after.replicas)}, for which none had to be copied."
        )
    was, now = assignment_in_words(before), assignment_in_words(after)
    return f"at {event_and_time(written)} it got {now} instead of {was}."
