"""A move that is built from facts, one after the other."""

from typing import Final

from msgspec import Struct, field, structs

from replay.description.phrases import broker_list
from replay.why.event_reference import EventReference, cause_of, reference_to
from replay.why.facts import (
    AssignmentWritten,
    CommandsUnrecorded,
    Fact,
    MoveCancellation,
    RollbackStep,
)
from replay.why.move import CancelledBy, Move, MoveEvent, MoveOutcome, WaitPeriod
from replay.why.rollback_steps import DELETE, LAST
from replay.why.sentences import UNRECORDED, why_rolled_back

LOG_ENDED: Final = "log_ended"
_BY_COMMANDS: Final = ("step", "deletion_asked")
"""The kinds of events that happen when a command is carried out."""


class OpenWait(Struct):
    """A period in which the rollback waits; the fact `until` ends it."""

    why: str
    since: Fact
    until: Fact | None = None
    ended_by: str = ""


class MoveBuilder(Struct):
    """A move to which facts are still added."""

    route: str
    request: str
    origin: tuple[int, ...]
    target: tuple[int, ...]
    begun: Fact | None
    first: Fact
    events: list[tuple[int, MoveEvent]] = field(default_factory=list)
    waits: list[OpenWait] = field(default_factory=list)
    cancellation: MoveCancellation | None = None
    too_late: MoveCancellation | None = None
    """The cancellation that a controller read after another one had completed the move."""
    steps: set[int] = field(default_factory=set)
    went_on_after: set[int] = field(default_factory=set)
    """The events at which a failover found the cancellation, and the rollback went on."""
    pending: dict[int, str] = field(default_factory=dict)
    """By broker, the deletions of replicas that are not confirmed, in words; "" if just sent."""
    outcome: MoveOutcome = "under way"
    stored: AssignmentWritten | None = None
    """The original replicas were written (step 5), and the rollback has not ended."""
    ended: Fact | None = None
    is_ended_by_others: bool = False
    has_record: bool = False
    epoch: int = 0
    """The epoch of the controller that took the last step of the rollback, or found its end."""

    @property
    def is_open(self) -> bool:
        """Whether the end of the move is not written yet."""
        return self.ended is None

    @property
    def is_followed(self) -> bool:
        """Whether later facts belong to the move. Steps 6 and 7 follow when the end is written."""
        is_tidy = LAST in self.steps and not self.has_record
        return self.is_open or (self.outcome == "rolled back" and not is_tidy)

    @property
    def removed(self) -> set[int]:
        """The brokers whose replicas are removed at the end of the move."""
        kept = self.target if self.outcome in ("completed", "under way") else self.origin
        return {*self.origin, *self.target} - set(kept)

    @property
    def is_waiting(self) -> bool:
        """Whether the rollback waits."""
        return bool(self.waits) and self.waits[-1].until is None

    def add_event(self, fact: Fact, kind: str, text: str, **more: object) -> None:
        """Add an event to the history."""
        fields: dict[str, object] = {"because": cause_of(fact), **more}
        at = reference_to(fact.seq, fact.wall_ns)
        self.events.append((fact.seq, MoveEvent(at, kind, text, **fields)))  # type: ignore[arg-type]

    def stop_waiting(self, fact: Fact, ended_by: str) -> None:
        """The rollback waits no longer."""
        self.waits[-1].until, self.waits[-1].ended_by = fact, ended_by
        why = f": {ended_by}" if ended_by else ""
        self.add_event(fact, "goes_on", f"the rollback waits no longer{why}")

    def give_up_rollback(self, fact: Fact, why: str) -> None:
        """The controller gives the rollback up."""
        if self.is_waiting:
            self.waits[-1].until, self.waits[-1].ended_by = fact, why
        self.outcome, self.cancellation = "under way", None
        text = f"{why}: the move to {broker_list(self.target)} continues"
        self.add_event(fact, "rollback_given_up", text)

    def goes_back(self, fact: Fact) -> None:
        """The last step of a rollback is taken, if the originals have been written."""
        if self.stored is None or not self.is_open:
            return
        self.outcome, self.ended = "rolled back", fact
        self.add_event(fact, "rolled_back", back_on(self.stored.after.replicas))

    def insert_empty_step(self, fact: RollbackStep, text: str) -> None:
        """Add a step that had nothing to do. That is known only at the last step; the event belongs
        before that of the next step."""
        begun = max(n for n, (_, event) in enumerate(self.events) if event.step == 1)
        for place in range(begun, len(self.events)):
            key, event = self.events[place]
            is_result = fact.step <= DELETE and event.kind == "deletion_pending"
            if event.step > fact.step or is_result:
                empty = MoveEvent(event.at, "step", text, None, fact.step)
                self.events.insert(place, (key, empty))
                return
        self.add_event(fact, "step", text, step=fact.step)

    def add_unrecorded(self, fact: CommandsUnrecorded) -> None:
        """The log does not have the last commands: mark the events that they caused."""
        log = reference_to(fact.seq, fact.wall_ns).log
        for place, (key, event) in enumerate(self.events):
            is_before = event.at.seq < fact.since or (
                event.at.seq == fact.since
                and bool(event.command)
                and _ordinal(event) < fact.ordinal
            )
            if event.at.log == log and event.kind in _BY_COMMANDS and not is_before:
                text = f"{event.text} ({UNRECORDED})"
                marked = structs.replace(event, text=text, is_recorded=False)
                self.events[place] = (key, marked)

    def goes_on_after(self, kind: str) -> None:
        """The rollback continues after a failover, which the last event of this kind shows."""
        for place, (key, event) in enumerate(self.events):
            if event.kind == kind and key not in self.went_on_after:
                self.went_on_after.add(key)
                self.events[place] = (key, structs.replace(event, text=f"{event.text} and went on"))

    @property
    def in_words(self) -> str:
        """The original replicas, the target and the request, in words."""
        by = self.request or self.route
        goes = f"from {broker_list(self.origin)} to {broker_list(self.target)}"
        return f"{goes}, by {by}" if by else goes

    @property
    def found_text(self) -> str:
        """The text of the event for a move that the controller found under way."""
        return f"found under way {self.in_words}"

    def build(self, partition: str) -> Move:
        """The move as plain values, with its history in the order of the log."""
        # The event that ends a log comes after the other facts about that event of the log.
        self.events.sort(key=lambda one: (one[0], one[1].kind == LOG_ENDED))
        return Move(
            partition,
            self.route,
            self.request,
            self.origin,
            self.target,
            self.outcome,
            _reference(self.begun),
            _cancelled_by(self.cancellation),
            _cancelled_by(self.too_late),
            [
                WaitPeriod(
                    one.why,
                    reference_to(one.since.seq, one.since.wall_ns),
                    _reference(one.until),
                    one.ended_by,
                )
                for one in self.waits
            ],
            _reference(self.ended),
            self.is_ended_by_others,
            [event for _, event in self.events],
        )


def _ordinal(event: MoveEvent) -> int:
    """The number of a command among those of its event."""
    return int(event.command.rpartition(".")[2])


def back_on(replicas: tuple[int, ...]) -> str:
    """The end of a rollback, in words."""
    return f"rolled back: it is on {broker_list(replicas)} again"


def _cancelled_by(one: MoveCancellation | None) -> CancelledBy | None:
    if one is None:
        return None
    at = reference_to(one.seq, one.wall_ns)
    return CancelledBy(one.by, one.how, at, one.czxid, one.asks_for, why_rolled_back(one))


def _reference(fact: Fact | None) -> EventReference | None:
    return reference_to(fact.seq, fact.wall_ns) if fact is not None else None
