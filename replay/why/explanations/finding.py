"""The parts of an explanation, and how they are found in a history."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from controller.core.events import ANSWERS, REFUSES, SILENT
from replay.cluster_view.views import PartitionView
from replay.description.phrases import broker_list, capitalized
from replay.why.facts import AddressProbed, AnyFact, BrokerChanged, Fact, StateWritten
from replay.why.history import FactHistory
from replay.why.move import Move
from replay.why.sentences import pending_deletion, sentence

_PROBED: Final = {
    ANSWERS: "its address has answered since event {0}",
    REFUSES: "no process has listened on its address since event {0}",
    SILENT: "its address has not answered since event {0}, so it hangs or cannot be reached",
}
"""The results of probes of a lost broker's address, in words."""
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


def being_undone(history: FactHistory, view: PartitionView) -> Move | None:
    """The reassignment under way, if it is cancelled: it waits to be rolled back, or is rolled back
    just now."""
    moves = history.moves() if view.is_being_reassigned else []
    return moves[-1] if moves and moves[-1].is_undone else None


def undone(move: Move) -> str:
    """When and why a move was rolled back: the predicate of a sentence about it."""
    goes = f"from {broker_list(move.origin)} to {broker_list(move.target)}"
    why = f": {move.cancelled.text}" if move.cancelled is not None else ""
    if move.was_over_before:
        return f"{goes} had been rolled back before this log begins{why}."
    if not why:
        why = ": another process wrote that" if move.is_ended_by_others else ""
    return f"{goes} was rolled back at {move.ended}{why}."


def pending_deletions(history: FactHistory, view: PartitionView) -> str:
    """Sentences about the replicas that the partition no longer has and that brokers have not
    deleted yet; "" for none. During a reassignment, brokers have some time to confirm."""
    found = [
        one
        for one in history.cluster.replica_deletions
        if one.partition == view.name and (one.is_late or not view.is_being_reassigned)
    ]
    texts = [pending_deletion(one.broker, is_live=one.is_live) for one in found]
    return "".join(f" {capitalized(text)}." for text in texts)


def last(facts: Iterable[AnyFact], kind: type[_F], until: int | None = None) -> _F | None:
    """The last fact of a kind, up to an event."""
    found = None
    for one in facts:
        if isinstance(one, kind) and (until is None or one.seq <= until):
            found = one
    return found


def state_changes(history: FactHistory, partition: str) -> list[StateWritten]:
    """The changes of a partition's leader and ISR."""
    return [
        one for one in history.facts if isinstance(one, StateWritten) and one.partition == partition
    ]


def loss_of(history: FactHistory, broker: int, until: int | None = None) -> BrokerChanged | None:
    """The loss of a broker that has not registered again: its registration was gone, or else the
    last that was heard of it. A lost broker may still ask for a controlled shutdown."""
    found = None
    for one in history.facts:
        if not isinstance(one, BrokerChanged) or one.broker != broker or _is_after(one, until):
            continue
        if one.what == "registered":
            found = None
        elif found is None or found.what != "gone":
            found = one
    return found


def _is_after(fact: Fact, until: int | None) -> bool:
    return until is not None and fact.seq > until


def why_lost(history: FactHistory, broker: int, until: int | None = None) -> str:
    """Why a broker is not registered, with the event; "" if unknown."""
    found = loss_of(history, broker, until)
    if found is None:
        return ""
    return f"{sentence(found)} (event {found.seq}){around_loss(history, found, until)}"


def around_loss(history: FactHistory, loss: BrokerChanged, until: int | None = None) -> str:
    """Text about the controlled shutdown that a broker had requested before it was lost, and about
    what its address has answered since, up to an event; "" if nothing is known."""
    asked = probed = None
    for one in history.facts:
        if _is_after(one, until):
            continue
        match one:
            case BrokerChanged(broker=loss.broker, what=what) if one.seq < loss.seq:
                asked = one if what == "shutting down" else None
            case AddressProbed(broker=loss.broker, result=result) if one.seq > loss.seq:
                probed = probed if probed and probed.result == result else one
            case _:
                pass
    text = f", after it asked for a controlled shutdown (event {asked.seq})" if asked else ""
    if probed is not None and probed.result in _PROBED:
        text += f"; {_PROBED[probed.result].format(probed.seq)}"
    return text
