"""The moves of a partition with their history, made from the facts about the partition."""

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from controller.core.election import UNCLEAN_LEADER
from controller.core.procedures.reassignment.rollback import WAITS as ROLLBACK_WAITS
from controller.core.values import NO_ASSIGNMENT
from controller.core.znodes import REASSIGN_CANCEL, REASSIGN_PARTITIONS_EXTRA
from replay.description.phrases import assignment_in_words, broker_list
from replay.names import partition_named
from replay.why.event_reference import reference_to
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    BrokerChanged,
    CancelZnodeObserved,
    CommandsUnrecorded,
    LeftUnchanged,
    LogEnded,
    MoveCancellation,
    MoveGivenUp,
    NoticeIssued,
    ReassignmentRequested,
    RecordZnodeObserved,
    ReplicaDeletionFact,
    RoleChanged,
    RollbackStep,
    StateWritten,
    TopicChanged,
)
from replay.why.move import Move, MoveEvent, MoveOutcome
from replay.why.move_builder import LOG_ENDED, MoveBuilder, OpenWait, back_on
from replay.why.noted_facts import API
from replay.why.rollback_cause import cancellation_of, probable_cause
from replay.why.rollback_steps import LAST, STORE
from replay.why.sentences import (
    cause_of_rollback,
    change,
    deletion,
    other_controllers,
    sentence,
    unclean_election,
)
from replay.why.subject import NOT_CANCELLED

_FOUND: Final = "cancellation_found"
_GIVEN_UP: Final = "rollback_given_up"
_CANCEL_REMOVED: Final = f"{REASSIGN_CANCEL} was removed"


def moves_of(facts: Iterable[AnyFact], partition: str) -> list[Move]:
    """The moves of a partition, the oldest first."""
    history = _MoveHistory(partition)
    for one in facts:
        if getattr(one, "partition", partition) == partition:
            history.apply(one)
    return history.moves()


class _MoveHistory:
    def __init__(self, partition: str) -> None:
        self._partition = partition
        self._moves: list[MoveBuilder] = []
        self._record: RecordZnodeObserved | None = None
        self._assignment = NO_ASSIGNMENT
        self._requests: list[ReassignmentRequested] = []
        self._cancel: list[CancelZnodeObserved] = []
        self._epoch = 0
        self._others: tuple[int, ...] = ()
        self._elected_by: RoleChanged | None = None
        self._state_written: StateWritten | None = None

    def apply(self, fact: AnyFact) -> None:
        """The next fact about the partition, or about the role."""
        match fact:
            case ReassignmentRequested():
                self._requests.append(fact)
            case RecordZnodeObserved():
                self._record_znode_observed(fact)
            case AssignmentWritten():
                self._apply_assignment(fact)
            case MoveGivenUp():
                self._begin_rollback(fact)
            case LeftUnchanged(code=code) if code == ROLLBACK_WAITS:
                self._apply_wait(fact)
            case LeftUnchanged(code=code) if code == _GIVEN_UP:
                self._give_up_rollback(fact)
            case CancelZnodeObserved():
                self._cancel_znode_observed(fact)
            case NoticeIssued(code=code, subject=subject) if code == NOT_CANCELLED:
                if subject == self._partition:
                    self._note_late_cancellation(fact)
            case RollbackStep():
                self._step(fact)
            case ReplicaDeletionFact():
                self._deletion(fact)
            case RoleChanged() | LogEnded():
                self._role(fact)
            case CommandsUnrecorded():
                for move in self._moves:
                    move.add_unrecorded(fact)
            case StateWritten():
                self._state(fact)
            case BrokerChanged(what="gone"):
                self._broker_gone(fact)
            case TopicChanged(code="topic_deletion_started", topic=topic):
                self._topic_deletion_started(fact, topic)
            case _:
                pass

    @property
    def _last(self) -> MoveBuilder | None:
        return self._moves[-1] if self._moves else None

    @property
    def _followed(self) -> MoveBuilder | None:
        move = self._last
        return move if move is not None and move.is_followed else None

    @property
    def _open(self) -> MoveBuilder | None:
        move = self._last
        return move if move is not None and move.is_open else None

    # The beginning of a move ----------------------------------------------------------------------

    def _apply_assignment(self, fact: AssignmentWritten) -> None:
        self._assignment = fact.after
        move = self._open
        if move is not None and move.stored is not None and fact.after.is_being_reassigned:
            # The next move begins before the last step of the rollback.
            move.ended, move = move.stored, None
        if move is not None and not fact.after.is_being_reassigned:
            self._end_move(move, fact)
        elif move is None and fact.after.is_being_reassigned:
            self._begin_move(fact)
        elif move is not None and set(move.target) != set(fact.after.target):
            move.target = fact.after.target
            move.add_event(fact, "target_changed", f"the target becomes {broker_list(move.target)}")

    def _begin_move(self, fact: AssignmentWritten) -> None:
        before, after = fact.before, fact.after
        origin = before.replicas if not before.is_being_reassigned else ()
        record = self._record
        if record is not None and set(record.target) == set(after.target):
            origin = record.originals
        is_found = not fact.rule and not fact.writer
        route, request, asked = self._route(fact, record)
        move = MoveBuilder(
            route,
            request,
            origin or after.origin,
            after.target,
            None if is_found else fact,
            fact,
            has_record=record is not None,
        )
        if asked is not None and asked.because != fact.because:
            text = f"{asked.by} asks for {broker_list(asked.target or ())}"
            move.add_event(asked, "asked", text)
        if is_found:
            if self._others and self._elected_by is not None:
                self._add_others(move, self._elected_by)
            move.add_event(fact, "found", move.found_text)
        else:
            move.add_event(fact, "begun", f"begun {move.in_words}")
        self._moves.append(move)

    def _route(
        self, fact: AssignmentWritten, record: RecordZnodeObserved | None
    ) -> tuple[str, str, ReassignmentRequested | None]:
        """The route, the request in more detail, and the fact about the request."""
        asked = self._last_request_for(fact.after.target)
        route = record.route if record is not None else ""
        if not route and fact.because is not None and fact.because.procedure == API:
            route = API
        if not route and asked is not None:
            route = asked.route
        if asked is not None and not asked.can_lead_to(route):
            asked = None
        if route == API:
            is_known = fact.because is not None and fact.because.procedure == API
            return route, fact.because.text if fact.because and is_known else "", None
        return route, asked.by if asked is not None else "", asked

    def _last_request_for(self, target: tuple[int, ...]) -> ReassignmentRequested | None:
        """The last request for these replicas. For an entry that the controller moved to another
        znode, the request in the znode from which the entry came."""
        asked = [one for one in self._requests if one.target == target and not one.error]
        moved = [one for one in asked if one.route == asked[-1].moved_from]
        return next(reversed(moved or asked), None)

    def _record_znode_observed(self, fact: RecordZnodeObserved) -> None:
        move = self._last
        if fact.how == "removed":
            self._record = None
            if move is not None and move.has_record:
                move.has_record = False
                is_last = move.stored is not None or not move.is_open
                if is_last and fact.epoch != move.epoch:
                    move.add_event(fact, "record_removed", "its record is removed")
                    move.goes_back(fact)
            return
        self._record = fact
        is_known = move is not None and (move.is_followed or move.is_ended_by_others)
        if move is not None and is_known and set(move.target) == set(fact.target):
            self._add_record(move, fact)
        elif fact.how == "found" and self._open is None:
            self._add_earlier_move(fact)

    def _add_record(self, move: MoveBuilder, record: RecordZnodeObserved) -> None:
        move.has_record, move.origin = True, record.originals
        move.route = move.route or record.route
        key, event = move.events[0]
        if event.kind == "found" and key == record.seq:
            move.events[0] = (key, structs.replace(event, text=move.found_text))
        elif record.how == "found":
            move.add_event(record, "record_found", "refold found the record of the move")
        is_begun = move.outcome == "being rolled back" and move.stored is None
        is_by_api = move.cancellation is not None and move.cancellation.by == API
        if record.how == "found" and is_begun and is_by_api:
            # Only the controller that received the request knew of it.
            text = "refold does not know of the cancellation, which no znode records"
            move.give_up_rollback(record, text)

    def _add_earlier_move(self, record: RecordZnodeObserved) -> None:
        """The record of a move that had ended when the log began."""
        replicas = self._assignment.replicas
        if self._assignment.is_being_reassigned or not replicas:
            return
        is_back = set(replicas) == set(record.originals)
        if not is_back and set(replicas) != set(record.target):
            return
        outcome: MoveOutcome = "rolled back" if is_back else "completed"
        move = MoveBuilder(
            record.route,
            record.route,
            record.originals,
            record.target,
            None,
            record,
            outcome=outcome,
            ended=record,
            has_record=True,
        )
        text = f"refold found the record of a move {move.in_words}, which was {outcome} before"
        move.add_event(record, "found", text)
        self._moves.append(move)

    # The rollback of a move -----------------------------------------------------------------------

    def _begin_rollback(self, fact: MoveGivenUp) -> None:
        move = self._last
        if move is None or fact.after.is_being_reassigned:
            return
        if not move.is_open:
            # Another process had completed it, and its record still existed.
            move.ended, move.is_ended_by_others = None, False
        self._add_cancellation(move, fact.cancellation)
        if move.is_waiting:
            # The cancellation is the cause of the rollback, but not of the end of the wait.
            move.stop_waiting(fact, self._unclean_election(move) or fact.why_now)
        move.outcome = "being rolled back"

    def _add_cancellation(self, move: MoveBuilder, cancellation: MoveCancellation | None) -> None:
        if cancellation is None:
            return
        before, move.cancellation = move.cancellation, cancellation
        if before is not None and before.identity == cancellation.identity:
            move.cancellation = before
            move.goes_on_after(_FOUND)
            return
        again = " again" if before is not None else ""
        at = reference_to(cancellation.seq, cancellation.wall_ns)
        event = MoveEvent(at, "cancelled", f"cancelled{again}: {cause_of_rollback(cancellation)}")
        move.events.append((cancellation.seq, event))
        removed = [
            one for one in self._cancel if one.how == "removed" and one.seq > cancellation.seq
        ]
        for one in removed if cancellation.by == REASSIGN_CANCEL else ():
            move.add_event(one, "cancellation_removed", _CANCEL_REMOVED)

    def _unclean_election(self, move: MoveBuilder) -> str:
        """The unclean election that ended a wait; "" if the ISR has changed since, or none did."""
        last = self._state_written
        if last is None or last.code != UNCLEAN_LEADER or last.seq < move.waits[-1].since.seq:
            return ""
        return unclean_election(last)

    def _apply_wait(self, fact: LeftUnchanged) -> None:
        move = self._open
        if move is None:
            return
        self._add_cancellation(move, fact.cancellation)
        move.outcome, move.epoch = "waits to be rolled back", fact.epoch
        if not move.is_waiting or move.waits[-1].why != fact.text:
            if move.is_waiting:
                move.waits[-1].until, move.waits[-1].ended_by = fact, self._unclean_election(move)
            move.waits.append(OpenWait(fact.text, fact))
            move.add_event(fact, "waits", fact.text)

    def _cancel_znode_observed(self, fact: CancelZnodeObserved) -> None:
        self._cancel.append(fact)
        move = self._last
        if move is None or not (move.is_followed or move.is_ended_by_others):
            return
        if move.cancellation is None or move.cancellation.by != REASSIGN_CANCEL:
            return
        if fact.how == "found" and fact.czxid == move.cancellation.czxid:
            if fact.seq != move.cancellation.seq:
                text = f"refold found the cancellation (czxid {fact.czxid})"
                move.add_event(fact, _FOUND, text)
        elif fact.how == "changed":
            forced = ": the rollback is forced" if fact.is_forced else ""
            move.add_event(fact, "cancellation_changed", f"{REASSIGN_CANCEL} was written{forced}")
        elif fact.how == "removed" and move.is_open:
            if move.stored is None and fact.epoch != move.epoch:
                move.give_up_rollback(fact, _CANCEL_REMOVED)
            else:
                # The controller completes the steps that it has begun. A rollback that waits goes
                # on if an entry of the extra znode needs it; else the controller gives it up.
                move.add_event(fact, "cancellation_removed", _CANCEL_REMOVED)

    def _note_late_cancellation(self, fact: NoticeIssued) -> None:
        """The controller found the cancellation of a move that another one had completed."""
        move = self._last
        if move is None or move.is_open or move.outcome != "completed":
            return
        found = next((one for one in reversed(self._cancel) if one.how != "removed"), None)
        if found is not None and move.cancellation is None:
            move.too_late = cancellation_of(found)
        move.add_event(fact, "not_cancelled", fact.text)

    def _give_up_rollback(self, fact: LeftUnchanged) -> None:
        move = self._open
        if move is None or not move.is_waiting or move.cancellation is None:
            return
        cancelled_by = move.cancellation.by
        is_entry = cancelled_by == REASSIGN_PARTITIONS_EXTRA
        what = f"the entry was removed from {cancelled_by}" if is_entry else _CANCEL_REMOVED
        move.give_up_rollback(fact, what)

    def _step(self, fact: RollbackStep) -> None:
        move = self._last
        if move is None:
            return
        if fact.step == 1:
            move.steps = set()
        move.steps.add(fact.step)
        move.epoch = fact.epoch
        if not fact.is_numbered:
            self._unnumbered_step(move, fact)
            return
        text = f"step {fact.step} of {LAST}: {fact.text}"
        if fact.is_empty:
            move.insert_empty_step(fact, text)
            return
        move.add_event(fact, "step", text, step=fact.step, command=fact.command)
        if fact.step == LAST:
            move.goes_back(fact)

    def _unnumbered_step(self, move: MoveBuilder, fact: RollbackStep) -> None:
        """A step of Kafka's cancellation."""
        if not fact.is_empty:
            move.add_event(fact, "step", fact.text, command=fact.command)
        if fact.step == LAST:
            move.goes_back(fact)

    def _deletion(self, fact: ReplicaDeletionFact) -> None:
        move = self._last
        if move is None or fact.broker not in move.removed:
            return
        text, known = deletion(fact), move.pending.get(fact.broker)
        is_repeated = fact.what == "pending" and text == known
        if fact.what == "confirmed":
            move.pending.pop(fact.broker, None)
        else:
            move.pending[fact.broker] = text if fact.what == "pending" else known or ""
        is_undone = move.cancellation is not None or move.outcome == "rolled back"
        if is_repeated or not (is_undone or fact.what == "pending" or known):
            return
        is_of_step = fact.what == "asked" and any(
            event.kind == "step" and key == fact.seq for key, event in move.events
        )
        if not is_of_step:
            again = " again" if fact.what == "asked" else ""
            move.add_event(fact, f"deletion_{fact.what}", f"{text}{again}")

    def _broker_gone(self, fact: BrokerChanged) -> None:
        """The broker has been sent a deletion, and has not confirmed it."""
        if self._last is not None and fact.broker in self._last.pending:
            fields = {name: getattr(fact, name) for name in ("seq", "wall_ns", "epoch", "broker")}
            partition = self._partition
            self._deletion(
                ReplicaDeletionFact(partition=partition, what="pending", is_live=False, **fields)
            )

    # The controller role --------------------------------------------------------------------------

    def _role(self, fact: RoleChanged | LogEnded) -> None:
        move = self._followed
        if isinstance(fact, RoleChanged) and fact.code not in ("elected", "resigned"):
            if fact.code == "failover_done" and move is not None and not move.has_record:
                # A failover sends every broker the metadata, which is the last step.
                move.goes_back(fact)
            return
        if isinstance(fact, LogEnded):
            if move is not None:
                move.add_event(fact, LOG_ENDED, sentence(fact))
        elif fact.code == "resigned":
            if move is not None:
                text = f"{fact.who} lost the role: {fact.text}"
                move.add_event(fact, "role_lost", text)
        else:
            self._apply_election(move, fact)

    def _apply_election(self, move: MoveBuilder | None, fact: RoleChanged) -> None:
        before, self._epoch = self._epoch, fact.epoch
        self._others = tuple(range(before + 1, fact.epoch)) if before else ()
        self._elected_by = fact
        if move is None:
            return
        if self._others:
            self._add_others(move, fact)
        text = f"{fact.who} became controller (controller epoch {fact.epoch})"
        move.add_event(fact, "role_taken", text)

    def _add_others(self, move: MoveBuilder, elected: RoleChanged) -> None:
        text = other_controllers(self._others)
        move.add_event(elected, "other_controllers", text, epochs=self._others, because=None)

    def _state(self, fact: StateWritten) -> None:
        move, self._state_written = self._followed, fact
        if move is not None and move.is_waiting and fact.code == UNCLEAN_LEADER:
            move.add_event(fact, "unclean_leader", unclean_election(fact))
        epoch = fact.after.controller_epoch
        if move is not None and epoch in self._others and not fact.rule:
            text = f"controller epoch {epoch} had written its state: "
            move.add_event(fact, "state_found", text + change(fact.before, fact.after))

    # The end of a move ----------------------------------------------------------------------------

    def _end_move(self, move: MoveBuilder, fact: AssignmentWritten) -> None:
        replicas = fact.after.replicas
        is_found = not fact.rule and not fact.writer
        if set(replicas) == set(move.origin):
            if STORE in move.steps:
                self._apply_stored_originals(move, fact, is_found=is_found)
                return
            move.outcome, text = "rolled back", back_on(replicas)
            if is_found:
                text = f"found on {broker_list(replicas)}: another process wrote that"
        elif set(replicas) == set(move.target):
            move.outcome, text = "completed", f"completed: it is on {broker_list(replicas)}"
            if is_found:
                text = f"found on {broker_list(replicas)}: another controller completed the move"
        else:
            move.outcome, text = "replaced", f"it has {assignment_in_words(fact.after)} instead"
        move.is_ended_by_others = is_found
        move.ended = fact
        move.add_event(fact, move.outcome.replace(" ", "_"), text)

    def _apply_stored_originals(
        self, move: MoveBuilder, fact: AssignmentWritten, *, is_found: bool
    ) -> None:
        """Step 5 is done; the rollback ends with the last step, or when the next controller has
        removed the record."""
        move.stored = fact
        replicas = fact.after.replicas
        if is_found:
            text = f"found on {broker_list(replicas)}: step {STORE} had been written"
            move.add_event(fact, "originals_found", text)
        if LAST in move.steps or (is_found and not move.has_record):
            move.goes_back(fact)

    def _topic_deletion_started(self, fact: TopicChanged, topic: str) -> None:
        move = self._open
        if move is None or topic != partition_named(self._partition)[0]:
            return
        if move.is_waiting:
            move.waits[-1].until, move.waits[-1].ended_by = fact, sentence(fact)
        move.outcome, move.ended = "deleted", fact
        move.add_event(fact, "deleted", f"{sentence(fact)}: the move ends with its topic")

    # The result -----------------------------------------------------------------------------------

    def moves(self) -> list[Move]:
        """All moves, the oldest first."""
        return [self._move(place, one) for place, one in enumerate(self._moves)]

    def _move(self, place: int, move: MoveBuilder) -> Move:
        if move.outcome == "rolled back" and move.cancellation is None:
            later = self._moves[place + 1 :]
            until = later[0].first.seq if later else None
            self._add_cancellation(move, probable_cause(move, until, self._requests, self._cancel))
        return move.build(self._partition)
