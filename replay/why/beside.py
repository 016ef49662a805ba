"""Follows the fold beside a session of a stock controller (replay.stock_clusters.agreement)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, structs

from controller.core import znodes
from controller.core.commands import Choice, Issued, WriteAtomically, WriteZnodes
from controller.core.triggers import ApiCall, Trigger
from replay.cluster_view.of_context import name_of
from replay.description.events import request_in_words
from replay.stock_clusters.agreement.trace.checkpoint import Checkpointed, State
from replay.stock_clusters.agreement.trace.controller_trace import ControllerTrace
from replay.why.facts import AnyFact, Because
from replay.why.following import Following, choice_of
from replay.why.subject import Subject

_NS: Final = 1_000_000


class Decided(Struct, frozen=True):
    """A write that the fold came to, when the log was at record `seq`."""

    seq: int
    path: str
    data: bytes
    rule: str
    choice: Choice | None
    because: Because | None


class Beside(Following, Checkpointed):
    """The facts and the writes of one fold."""

    STATE = (
        "facts",
        "decided",
        "seq",
        "wall_ns",
        "trigger",
        "because",
        "last_issued",
        "rewriting",
        "_asked",
        "_lost",
        "_running",
    )

    def __init__(self, stock: ControllerTrace, subject: Subject) -> None:
        super().__init__(stock.fold.controller, subject)
        self._beside = stock.fold
        self.decided: list[Decided] = []

    def save(self) -> State:
        """Also what is known of ZooKeeper, and of the partition's reassignments."""
        known = structs.replace(
            self.known,
            states=dict(self.known.states),
            assignments=dict(self.known.assignments),
        )
        moves = None if self.moves is None else self.moves.save()
        return {"known": known, "moves": moves, "observer": super().save()}

    def restore(self, state: State) -> None:
        self.known = state["known"]
        if self.moves is not None:
            self.moves.restore(state["moves"])
        super().restore(state["observer"])

    def begins(self, trigger: Trigger) -> None:
        self.at(self._beside.seq, self._beside.now_ms * _NS)
        super().begins(trigger)

    def _just_now(self, trigger: Trigger) -> Because:
        is_call = isinstance(trigger, ApiCall)
        text = request_in_words(trigger.request, self.topic_name) if is_call else ""  # type: ignore[union-attr]
        return Because(self._beside.seq, text, name_of(trigger))

    def issues(self, issued: Issued) -> None:
        self.at(self._beside.seq, self._beside.now_ms * _NS)
        super().issues(issued)
        command = issued.command
        if not isinstance(command, (WriteZnodes, WriteAtomically)):
            return
        for _, one in self._wanted(command.operations):
            key = znodes.state_of(one.path)
            self.decided.append(
                Decided(
                    self._beside.seq,
                    one.path,
                    one.data,
                    issued.reason.rule,
                    choice_of(issued, *key) if key is not None else None,
                    self.because,
                )
            )

    def add(self, kind: type[AnyFact], **fields: object) -> None:
        self.at(self._beside.seq, self._beside.now_ms * _NS)
        super().add(kind, **fields)
