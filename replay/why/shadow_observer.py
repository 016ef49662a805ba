"""Observes the shadow fold of a session of a stock controller (replay.agreement)."""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import Struct, structs

from controller.core import znodes
from controller.core.commands import Choice, Issued, WriteAtomically, WriteZnodes
from controller.core.triggers import ApiCall, Trigger, trigger_name
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.checkpoint import AppendOnly, Checkpointed, State
from replay.description.events import request_in_words
from replay.why.fact_observer import FactObserver, choice_of
from replay.why.facts import AnyFact, Cause
from replay.why.subject import Subject

_NS_PER_MS: Final = 1_000_000


class DerivedWrite(Struct, frozen=True):
    """A write that a shadow fold decided at record `seq` of the log."""

    seq: int
    path: str
    rule: str
    choice: Choice | None
    because: Cause | None


class ShadowFactObserver(FactObserver, Checkpointed):
    """Notes the facts and the writes of one shadow fold."""

    STATE: ClassVar[tuple[str, ...]] = (
        "facts",
        "writes",
        "begun_at",
        "seq",
        "wall_ns",
        "trigger",
        "because",
        "last_issued",
        "rewriting",
        "_pending",
        "_lost",
        "_running",
    )

    def __init__(self, trace: ControllerTrace, subject: Subject) -> None:
        super().__init__(trace.fold.controller, subject)
        self._shadow = trace.fold
        self.facts = AppendOnly()
        self.writes: AppendOnly[DerivedWrite] = AppendOnly()
        self.begun_at = 0
        """The record at which the fold first processed a controller event; 0: it has not."""

    def save(self) -> State:
        """The state of the observer, with what is known of ZooKeeper and of the partition's
        reassignments."""
        known = structs.replace(
            self.known,
            states=dict(self.known.states),
            assignments=dict(self.known.assignments),
        )
        moves = None if self.moves is None else self.moves.save()
        return {
            "known": known,
            "moves": moves,
            "role": self._role.save(),
            "observer": super().save(),
        }

    def restore(self, state: State) -> None:
        self.known = state["known"]
        if self.moves is not None:
            self.moves.restore(state["moves"])
        self._role.restore(state["role"])
        super().restore(state["observer"])

    def begins(self, trigger: Trigger) -> None:
        self._move_to_shadow()
        self.begun_at = self.begun_at or self.seq
        super().begins(trigger)

    def ends(self) -> None:
        self._move_to_shadow()
        super().ends()

    def _move_to_shadow(self) -> None:
        """The current event is the last record that the shadow fold has folded."""
        self.move_to(self._shadow.seq, self._shadow.now_ms * _NS_PER_MS)

    def _just_now(self, trigger: Trigger) -> Cause:
        text = ""
        if isinstance(trigger, ApiCall):
            text = request_in_words(trigger.request, self.topic_name)
        return Cause(self._shadow.seq, text, trigger_name(trigger))

    def issues(self, issued: Issued) -> None:
        self._move_to_shadow()
        super().issues(issued)
        command = issued.command
        if not isinstance(command, (WriteZnodes, WriteAtomically)):
            return
        for _, one in self._covered_operations(command.operations):
            key = znodes.partition_of_state(one.path)
            self.writes.append(
                DerivedWrite(
                    self._shadow.seq,
                    one.path,
                    issued.reason.rule,
                    choice_of(issued, *key) if key is not None else None,
                    self.because,
                )
            )

    def add(self, kind: type[AnyFact], **fields: object) -> None:
        self._move_to_shadow()
        super().add(kind, **fields)
