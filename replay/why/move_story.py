"""The moves of a partition with their stories, made from the facts about the partition."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import structs

from controller.core.procedures.reassignment.rollback import WAITS as ROLLBACK_WAITS
from controller.core.values import NO_ASSIGNMENT
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
)
from replay.description.phrases import assignment, listed
from replay.subjects import partition_named
from replay.why.event_reference import reference_to
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    CancelKnown,
    Cancellation,
    Fact,
    LeftUnchanged,
    LogEnded,
    MoveGivenUp,
    ReassignmentRequested,
    RecordKnown,
    ReplicaDeletion,
    RoleChanged,
    RollbackStep,
    StateWritten,
    TopicChanged,
)
from replay.why.move import Move, StoryLine
from replay.why.move_draft import Draft, DraftWait
from replay.why.noted_facts import API
from replay.why.rollback_steps import DELETE, LAST, STORE
from replay.why.sentences import cause_of_rollback, change, deletion, sentence

_FOUND: Final = "cancellation_found"


def moves_of(facts: Iterable[AnyFact], partition: str) -> list[Move]:
    """The moves of a partition, the oldest first."""
    builder = _StoryBuilder(partition)
    for one in facts:
        if getattr(one, "partition", partition) == partition:
            builder.take(one)
    return builder.moves()


class _StoryBuilder:
    def __init__(self, partition: str) -> None:
        self._partition = partition
        self._drafts: list[Draft] = []
        self._record: RecordKnown | None = None
        self._assignment = NO_ASSIGNMENT
        self._requests: list[ReassignmentRequested] = []
        self._cancel: list[CancelKnown] = []
        self._epoch = 0
        self._others: tuple[int, ...] = ()
        self._elected_by: RoleChanged | None = None

    def take(self, fact: AnyFact) -> None:
        """The next fact about the partition, or about the role."""
        match fact:
            case ReassignmentRequested():
                self._requests.append(fact)
            case RecordKnown():
                self._record_known(fact)
            case AssignmentWritten():
                self._assigned(fact)
            case MoveGivenUp():
                self._given_up(fact)
            case LeftUnchanged(code=code) if code == ROLLBACK_WAITS:
                self._waits(fact)
            case CancelKnown():
                self._cancel_known(fact)
            case RollbackStep():
                self._step(fact)
            case ReplicaDeletion():
                self._deletion(fact)
            case RoleChanged() | LogEnded():
                self._role(fact)
            case StateWritten():
                self._state(fact)
            case TopicChanged(code="topic_deletion_started", topic=topic):
                self._topic_deletion_started(fact, topic)
            case _:
                pass

    @property
    def _draft(self) -> Draft | None:
        return self._drafts[-1] if self._drafts else None

    @property
    def _followed(self) -> Draft | None:
        draft = self._draft
        return draft if draft is not None and draft.is_followed else None

    @property
    def _open(self) -> Draft | None:
        draft = self._draft
        return draft if draft is not None and draft.is_open else None

    # The beginning of a move ----------------------------------------------------------------------

    def _assigned(self, fact: AssignmentWritten) -> None:
        self._assignment = fact.after
        draft = self._open
        if draft is not None and not fact.after.is_being_reassigned:
            self._ends(draft, fact)
        elif draft is None and fact.after.is_being_reassigned:
            self._begins(fact)
        elif draft is not None and set(draft.target) != set(fact.after.target):
            draft.target = fact.after.target
            draft.add_line(fact, "target_changed", f"the target becomes {listed(draft.target)}")

    def _begins(self, fact: AssignmentWritten) -> None:
        before, after = fact.before, fact.after
        origin = before.replicas if not before.is_being_reassigned else ()
        record = self._record
        if record is not None and set(record.target) == set(after.target):
            origin = record.originals
        is_found = not fact.rule and not fact.writer
        route, request, asked = self._route(fact, record)
        draft = Draft(
            route,
            request,
            origin or after.origin,
            after.target,
            None if is_found else fact,
            fact,
            has_record=record is not None,
        )
        if asked is not None and asked.because != fact.because:
            draft.add_line(asked, "asked", f"{asked.via} asks for {listed(asked.target or ())}")
        if is_found:
            if self._others and self._elected_by is not None:
                self._add_others(draft, self._elected_by)
            draft.add_line(fact, "found", draft.found_text)
        else:
            draft.add_line(fact, "begun", f"begun {draft.goes}")
        self._drafts.append(draft)

    def _route(
        self, fact: AssignmentWritten, record: RecordKnown | None
    ) -> tuple[str, str, ReassignmentRequested | None]:
        """The route, the request in more detail, and the fact about the request."""
        asked = self._asked_for(fact.after.target)
        route = record.route if record is not None else ""
        if not route and fact.because is not None and fact.because.procedure == API:
            route = API
        if not route and asked is not None:
            is_request = asked.via.startswith(REASSIGNMENT_REQUESTS)
            route = REASSIGNMENT_REQUESTS if is_request else asked.via
        if asked is not None and not asked.via.startswith(route):
            asked = None
        if route == API:
            is_known = fact.because is not None and fact.because.procedure == API
            return route, fact.because.text if fact.because and is_known else "", None
        return route, asked.via if asked is not None else "", asked

    def _asked_for(self, target: tuple[int, ...]) -> ReassignmentRequested | None:
        since = [one for one in self._requests if one.target == target and not one.error]
        return since[-1] if since else None

    def _record_known(self, fact: RecordKnown) -> None:
        draft = self._draft
        if fact.how == "removed":
            self._record = None
            if draft is not None and draft.has_record:
                draft.has_record = False
                if not draft.is_open and fact.epoch != draft.epoch:
                    draft.add_line(fact, "record_removed", "its record is removed")
            return
        self._record = fact
        is_known = draft is not None and (draft.is_followed or draft.is_ended_by_others)
        if draft is not None and is_known and set(draft.target) == set(fact.target):
            self._has_record(draft, fact)
        elif fact.how == "found" and self._open is None:
            self._left_over(fact)

    def _has_record(self, draft: Draft, record: RecordKnown) -> None:
        draft.has_record, draft.origin = True, record.originals
        draft.route = draft.route or record.route
        key, line = draft.lines[0]
        if line.kind == "found" and key == record.seq:
            draft.lines[0] = (key, structs.replace(line, text=draft.found_text))
        elif record.how == "found":
            draft.add_line(record, "record_found", "refold found the record of the move")

    def _left_over(self, record: RecordKnown) -> None:
        """The record of a move that had ended when the log began."""
        replicas = self._assignment.replicas
        if self._assignment.is_being_reassigned or not replicas:
            return
        is_back = set(replicas) == set(record.originals)
        if not is_back and set(replicas) != set(record.target):
            return
        draft = Draft(
            record.route,
            record.route,
            record.originals,
            record.target,
            None,
            record,
            outcome="rolled back" if is_back else "completed",
            ended=record,
            has_record=True,
        )
        how = "rolled back" if is_back else "completed"
        text = f"refold found the record of a move {draft.goes}, which was {how} before"
        draft.add_line(record, "found", text)
        self._drafts.append(draft)

    # The rollback of a move -----------------------------------------------------------------------

    def _given_up(self, fact: MoveGivenUp) -> None:
        draft = self._draft
        if draft is None or fact.after.is_being_reassigned:
            return
        if not draft.is_open:
            # Another process had completed it, and its record still existed.
            draft.ended, draft.is_ended_by_others = None, False
        self._cancelled(draft, fact.cancellation)
        if draft.is_waiting:
            # The cancellation is the cause of the rollback, but not of the end of the wait.
            ended_by = fact.begun_by.text if fact.begun_by is not None else ""
            self._stop_waiting(draft, fact, ended_by)
        draft.outcome = "being rolled back"

    def _cancelled(self, draft: Draft, cancellation: Cancellation | None) -> None:
        if cancellation is None:
            return
        before, draft.cancellation = draft.cancellation, cancellation
        if before is not None and _identity(before) == _identity(cancellation):
            draft.cancellation = before
            self._went_on(draft)
            return
        again = " again" if before is not None else ""
        at = reference_to(cancellation.seq, cancellation.wall_ns)
        line = StoryLine(at, "cancelled", f"cancelled{again}: {cause_of_rollback(cancellation)}")
        draft.lines.append((cancellation.seq, line))
        removed = [
            one for one in self._cancel if one.how == "removed" and one.seq > cancellation.seq
        ]
        for one in removed if cancellation.by == REASSIGN_CANCEL else ():
            draft.add_line(one, "cancellation_removed", f"{REASSIGN_CANCEL} was removed")

    def _went_on(self, draft: Draft) -> None:
        """The rollback goes on after a failover that found the cancellation."""
        for place, (key, line) in enumerate(draft.lines):
            if line.kind == _FOUND and key not in draft.went_on_after:
                draft.went_on_after.add(key)
                draft.lines[place] = (key, structs.replace(line, text=f"{line.text} and went on"))

    def _waits(self, fact: LeftUnchanged) -> None:
        draft = self._open
        if draft is None:
            return
        self._cancelled(draft, fact.cancellation)
        draft.outcome = "waits to be rolled back"
        if not draft.is_waiting or draft.waits[-1].why != fact.text:
            if draft.is_waiting:
                draft.waits[-1].until = fact
            draft.waits.append(DraftWait(fact.text, fact))
            draft.add_line(fact, "waits", fact.text)

    def _stop_waiting(self, draft: Draft, fact: Fact, ended_by: str) -> None:
        draft.waits[-1].until, draft.waits[-1].ended_by = fact, ended_by
        because = f", because of {ended_by}" if ended_by else ""
        draft.add_line(fact, "goes_on", f"the rollback waits no longer{because}")

    def _cancel_known(self, fact: CancelKnown) -> None:
        self._cancel.append(fact)
        draft = self._draft
        if draft is None or not (draft.is_followed or draft.is_ended_by_others):
            return
        if draft.cancellation is None or draft.cancellation.by != REASSIGN_CANCEL:
            return
        if fact.how == "found" and fact.czxid == draft.cancellation.czxid:
            if fact.seq != draft.cancellation.seq:
                text = f"refold found the cancellation (czxid {fact.czxid})"
                draft.add_line(fact, _FOUND, text)
        elif fact.how == "changed":
            forced = ": the rollback is forced" if fact.is_forced else ""
            draft.add_line(fact, "cancellation_changed", f"{REASSIGN_CANCEL} was written{forced}")
        elif fact.how == "removed" and draft.is_open:
            if draft.is_waiting or fact.epoch != draft.epoch:
                self._given_up_rollback(draft, fact)
            else:
                # The controller completes the steps that it has begun.
                draft.add_line(fact, "cancellation_removed", f"{REASSIGN_CANCEL} was removed")

    def _given_up_rollback(self, draft: Draft, fact: CancelKnown) -> None:
        text = f"{REASSIGN_CANCEL} was removed"
        if draft.is_waiting:
            draft.waits[-1].until, draft.waits[-1].ended_by = fact, text
        draft.outcome, draft.cancellation = "under way", None
        text += f": the move to {listed(draft.target)} goes on"
        draft.add_line(fact, "rollback_given_up", text)

    def _step(self, fact: RollbackStep) -> None:
        draft = self._draft
        if draft is None:
            return
        if fact.step == 1:
            draft.steps = set()
        draft.steps.add(fact.step)
        draft.epoch = fact.epoch
        text = f"step {fact.step} of {LAST}: {fact.text}"
        if not fact.is_empty:
            draft.add_line(fact, "step", text, step=fact.step, command=fact.command)
            return
        # An empty step is known only at the last step; its line belongs before the next step's.
        begun = max(n for n, (_, line) in enumerate(draft.lines) if line.step == 1)
        for place in range(begun, len(draft.lines)):
            key, line = draft.lines[place]
            if line.step > fact.step:
                empty = StoryLine(line.at, "step", text, None, fact.step)
                draft.lines.insert(place, (key, empty))
                return
        draft.add_line(fact, "step", text, step=fact.step)

    def _deletion(self, fact: ReplicaDeletion) -> None:
        draft = self._draft
        if draft is None or (draft.cancellation is None and draft.outcome != "rolled back"):
            return
        is_of_step = fact.what == "asked" and any(
            line.step == DELETE and key == fact.seq for key, line in draft.lines
        )
        if not is_of_step and fact.broker not in draft.origin:
            again = " again" if fact.what == "asked" else ""
            draft.add_line(fact, f"deletion_{fact.what}", f"{deletion(fact)}{again}")

    # The controller role --------------------------------------------------------------------------

    def _role(self, fact: RoleChanged | LogEnded) -> None:
        if isinstance(fact, RoleChanged) and fact.code not in ("elected", "resigned"):
            return
        draft = self._followed
        if isinstance(fact, LogEnded):
            if draft is not None:
                draft.add_line(fact, "log_ended", sentence(fact))
        elif fact.code == "resigned":
            if draft is not None:
                draft.add_line(
                    fact, "role_lost", f"broker {fact.broker} lost the role: {fact.text}"
                )
        else:
            self._elected(draft, fact)

    def _elected(self, draft: Draft | None, fact: RoleChanged) -> None:
        before, self._epoch = self._epoch, fact.epoch
        self._others = tuple(range(before + 1, fact.epoch)) if before else ()
        self._elected_by = fact
        if draft is None:
            return
        if self._others:
            self._add_others(draft, fact)
        text = f"broker {fact.broker} became controller (controller epoch {fact.epoch})"
        draft.add_line(fact, "role_taken", text)

    def _add_others(self, draft: Draft, elected: RoleChanged) -> None:
        text = _other_controllers(self._others)
        draft.add_line(elected, "other_controllers", text, epochs=self._others, because=None)

    def _state(self, fact: StateWritten) -> None:
        draft = self._followed
        epoch = fact.after.controller_epoch
        if draft is not None and epoch in self._others and not fact.rule:
            text = f"controller epoch {epoch} had written its state: "
            draft.add_line(fact, "state_found", text + change(fact.before, fact.after))

    # The end of a move ----------------------------------------------------------------------------

    def _ends(self, draft: Draft, fact: AssignmentWritten) -> None:
        replicas = fact.after.replicas
        is_found = not fact.rule and not fact.writer
        if set(replicas) == set(draft.origin):
            draft.outcome, text = "rolled back", f"rolled back: it is on {listed(replicas)} again"
            if is_found and STORE in draft.steps:
                text = f"found on {listed(replicas)}: step {STORE} had been written"
            elif is_found:
                text = f"found on {listed(replicas)}: another process wrote that"
        elif set(replicas) == set(draft.target):
            draft.outcome, text = "completed", f"completed: it is on {listed(replicas)}"
            if is_found:
                text = f"found on {listed(replicas)}: another controller completed the move"
        else:
            draft.outcome, text = "replaced", f"it has {assignment(fact.after)} instead"
        draft.is_ended_by_others = is_found
        draft.ended = fact
        draft.add_line(fact, draft.outcome.replace(" ", "_"), text)

    def _topic_deletion_started(self, fact: TopicChanged, topic: str) -> None:
        draft = self._open
        if draft is None or topic != partition_named(self._partition)[0]:
            return
        if draft.is_waiting:
            draft.waits[-1].until, draft.waits[-1].ended_by = fact, sentence(fact)
        draft.outcome, draft.ended = "deleted", fact
        draft.add_line(fact, "deleted", f"{sentence(fact)}: the move ends with its topic")

    # The result -----------------------------------------------------------------------------------

    def moves(self) -> list[Move]:
        """All moves, the oldest first."""
        return [self._move(place, one) for place, one in enumerate(self._drafts)]

    def _move(self, place: int, draft: Draft) -> Move:
        if draft.outcome == "rolled back" and draft.cancellation is None:
            later = self._drafts[place + 1 :]
            until = later[0].first.seq if later else None
            self._cancelled(draft, _cause_of(draft, until, self._requests, self._cancel))
        return draft.finished(self._partition)


def _identity(one: Cancellation) -> tuple[object, ...]:
    """What distinguishes a cancellation from another one of the same move."""
    return (one.by, one.czxid, one.asks_for)


def _other_controllers(epochs: tuple[int, ...]) -> str:
    if len(epochs) == 1:
        return f"another controller had the role: controller epoch {epochs[0]} lies between"
    return (
        f"other controllers had the role: controller epochs {epochs[0]} to {epochs[-1]} lie between"
    )


# The cause of a rollback that this log's daemon did not do --------------------------------------


def _cause_of(
    draft: Draft,
    until: int | None,
    asked: Sequence[ReassignmentRequested],
    cancel: Sequence[CancelKnown],
) -> Cancellation | None:
    """The request, entry or cancellation that probably undid a move; `until` is the event at which
    the next move begins.

    `asked` are the requests for the partition, `cancel` the facts about /admin/reassign_cancel.
    """
    ended = draft.ended
    assert ended is not None, "a rolled back move has ended"
    asked = [
        one
        for one in asked
        if one.seq >= draft.first.seq and (until is None or one.seq < until) and not one.error
    ]
    ends = [one for one in asked if one.target is None or set(one.target) == set(draft.origin)]
    # The answer to a request follows its result.
    near = [one for one in ends if one.because is not None and one.because == ended.because]
    if near:
        return _of_request(near[0])
    in_effect = _cancel_in_effect(draft, cancel)
    if in_effect is not None:
        return in_effect
    others = [one for one in asked if one.via == REASSIGN_PARTITIONS_EXTRA]
    found = ends or others
    return _of_request(found[-1]) if found else None


def _cancel_in_effect(draft: Draft, cancel: Sequence[CancelKnown]) -> Cancellation | None:
    if draft.route not in ("", REASSIGN_PARTITIONS):
        return None
    assert draft.ended is not None, "a rolled back move has ended"
    is_over = draft.ended is draft.first
    found: CancelKnown | None = None
    for one in cancel:
        if one.seq > draft.ended.seq and not (is_over and found is None):
            break
        if one.how in ("created", "found"):
            found = found or one
        elif one.how == "removed":
            found = None
    if found is None:
        return None
    is_created = found.how == "created"
    how: Literal["created", "found"] = "created" if is_created else "found"
    return Cancellation(REASSIGN_CANCEL, how, found.seq, found.wall_ns, found.czxid)


def _of_request(asked: ReassignmentRequested) -> Cancellation:
    seq = asked.because.seq if asked.because is not None and asked.via == API else asked.seq
    return Cancellation(asked.via, "asked", seq, asked.wall_ns, asks_for=asked.target)
