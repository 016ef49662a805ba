"""The parts of an explanation, and how they are found in a history."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from replay.cluster_view.views import PartitionView
from replay.description.phrases import listed
from replay.times import iso_time
from replay.why.facts import AnyFact, BrokerChanged, Fact, StateWritten
from replay.why.history import History
from replay.why.move import Move
from replay.why.sentences import pending_deletion, sentence

_F = TypeVar("_F", bound=Fact)


class Finding(NamedTuple):
    """The line that answers the question, and the facts that led to it, oldest first. `moves` are
    the reassignments of the partition in question, oldest first."""

    summary: str
    facts: list[AnyFact]
    moves: Sequence[Move] = ()


def last_undone(moves: Sequence[Move]) -> Move | None:
    """The last move if it was undone, otherwise the one before, which the last one replaced."""
    return next((one for one in reversed(moves[-2:]) if one.is_undone), None)


def being_undone(history: History, view: PartitionView) -> Move | None:
    """The reassignment under way, if it is cancelled: it waits to be rolled back, or is rolled back
    just now."""
    moves = history.moves() if view.is_being_reassigned else []
    return moves[-1] if moves and moves[-1].is_undone else None


def undone(move: Move) -> str:
    """When and why a move was rolled back: the predicate of a sentence about it."""
    goes = f"from {listed(move.origin)} to {listed(move.target)}"
    why = f": {move.cancelled.text}" if move.cancelled is not None else ""
    if move.was_over_before:
        return f"{goes} had been rolled back before this log begins{why}."
    if not why:
        why = ": another process wrote that" if move.is_ended_by_others else ""
    return f"{goes} was rolled back at {move.ended}{why}."


def pending_deletions(history: History, view: PartitionView) -> str:
    """Sentences about the replicas that the partition no longer has and that brokers have not
    deleted yet; "" for none. During a reassignment, brokers have some time to confirm."""
    found = [
        one
        for one in history.cluster.replica_deletions
        if one.partition == view.name and (one.is_late or not view.is_being_reassigned)
    ]
    texts = [pending_deletion(one.broker, is_live=one.is_live) for one in found]
    return "".join(f" {text[0].upper()}{text[1:]}." for text in texts)


def at(fact: Fact) -> str:
    """When something happened."""
    return f"event {fact.seq} ({iso_time(fact.wall_ns)})"


def last(facts: Iterable[AnyFact], kind: type[_F], until: int | None = None) -> _F | None:
    """The last fact of a kind, up to an event."""
    found = None
    for one in facts:
        if isinstance(one, kind) and (until is None or one.seq <= until):
            found = one
    return found


def state_changes(history: History, partition: str) -> list[StateWritten]:
    """The changes of a partition's leader and ISR."""
    return [
        one for one in history.facts if isinstance(one, StateWritten) and one.partition == partition
    ]


def loss_of(history: History, broker: int, until: int | None = None) -> BrokerChanged | None:
    """The last fact about a broker if it is that the broker was lost."""
    about = (
        one for one in history.facts if isinstance(one, BrokerChanged) and one.broker == broker
    )
    found = last(about, BrokerChanged, until)
    return found if found is not None and found.what != "registered" else None


def why_lost(history: History, broker: int, until: int | None = None) -> str:
    """Why a broker is not registered, with the event; "" if unknown."""
    found = loss_of(history, broker, until)
    if found is None:
        return ""
    return f"{sentence(found)} (event {found.seq}){after_shutdown(history, found)}"


def after_shutdown(history: History, loss: BrokerChanged) -> str:
    """Text about the controlled shutdown that a broker had requested before it was lost; "" if it
    had not."""
    asked = None
    for one in history.facts:
        if one.seq < loss.seq and isinstance(one, BrokerChanged) and one.broker == loss.broker:
            asked = one if one.what == "shutting down" else None
    return f", after it asked for a controlled shutdown (event {asked.seq})" if asked else ""
