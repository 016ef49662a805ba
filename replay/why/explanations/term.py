"""Why was a controller elected, and why did it resign?"""

from typing import Final

from controller.core.triggers import Expire
from replay.cluster_view.views import NO_BROKER
from replay.description.phrases import capitalized
from replay.why.explanations.finding import Finding, last
from replay.why.explanations.takeover import predecessor_sentence, successor_sentence, unseen_term
from replay.why.facts import AnyFact, NoticeIssued, RoleChanged, SessionChanged
from replay.why.history import FactHistory
from replay.why.sentences import event_and_time, silence

_NS: Final = 1_000_000_000


def explain_term(history: FactHistory) -> Finding:
    """Explain why the term in question began and ended; the last term if none is in question."""
    roles = [one for one in history.facts if isinstance(one, RoleChanged)]
    elections = [one for one in roles if one.code == "elected"]
    wanted = history.subject.term
    if wanted is None and elections:
        wanted = elections[-1].epoch
    begun = next((one for one in elections if one.epoch == wanted), None)
    ended = next((one for one in roles if one.code == "resigned" and one.epoch == wanted), None)
    unseen = unseen_term(elections, wanted or 0) if begun is None and ended is None else ""
    if unseen:
        return Finding(unseen, [*roles])
    if begun is None and ended is None:
        return Finding(_without_controller(history, roles), [*roles])
    facts = _facts(history, begun, ended)
    who = (ended or begun or roles[0]).who
    if ended is not None:
        when, reason = event_and_time(ended), _reason_of_end(history, ended)
        first = f"Term {wanted} of {who} ended at {when}: {reason}."
        if begun is not None:
            first += f" It had begun at {event_and_time(begun)}." + predecessor_sentence(
                elections, begun
            )
        first += successor_sentence(elections, ended, ended.epoch)
        return Finding(first, facts)
    assert begun is not None, "one of the two is there"
    why = _why_elected(roles, begun)
    when = event_and_time(begun)
    first = f"{capitalized(who)} has been controller of term {wanted} since {when}{why}."
    unseen_end = _unseen_end(history, elections, begun)
    if unseen_end:
        first = f"{capitalized(who)} became controller of term {wanted} at {when}{why}.{unseen_end}"
    first += predecessor_sentence(elections, begun) + successor_sentence(
        elections, None, begun.epoch
    )
    return Finding(first, facts)


def _unseen_end(history: FactHistory, elections: list[RoleChanged], begun: RoleChanged) -> str:
    """A sentence that no log shows how a term ended; "" for the term of the current controller."""
    if any(one.epoch > begun.epoch for one in elections):
        return " No log shows how the term ended."
    if history.subject.term is not None and history.is_at_end:
        end = f"event {history.cluster.seq} ({history.cluster.time})"
        return f" The log ends at {end}, during this term, and does not show how the term ended."
    return ""


def _why_elected(roles: list[RoleChanged], begun: RoleChanged) -> str:
    before = [one for one in roles if one.code == "resigned" and one.seq <= begun.seq]
    why = f": {begun.because.text}" if begun.because is not None and begun.because.text else ""
    if not before:
        return why
    one = before[-1]
    is_gap = begun.epoch > one.epoch + 1
    between = ", and another controller had held the role since" if is_gap else ""
    return f"{why}; term {one.epoch} of {one.who} had ended at event {one.seq}: {one.text}{between}"


def _without_controller(history: FactHistory, roles: list[RoleChanged]) -> str:
    holder = history.cluster.controller
    if holder.broker != NO_BROKER:
        who = capitalized(holder.name)
        return f"{who} has been controller of term {holder.epoch} since before this log begins."
    found = last(roles, RoleChanged)
    if found is None:
        return "No broker has been controller in this log."
    return f"The log shows no current controller: at {event_and_time(found)} {found.text}."


def _reason_of_end(history: FactHistory, ended: RoleChanged) -> str:
    why, because = ended.text, ended.because
    # The notice of an expired session says the same as its event.
    if because is not None and because.text and because.procedure != Expire.__name__:
        why += f" (event {because.seq}: {because.text})"
    session = [one for one in history.facts if isinstance(one, SessionChanged)]
    why += "".join(silence(one) for one in session if one.seq == ended.seq)
    before = last(session, SessionChanged, ended.seq - 1)
    if before is not None and before.what == "disconnected":
        seconds = (ended.wall_ns - before.wall_ns) / _NS
        why += f"; at event {before.seq}, {seconds:.1f} s before, {before.text}"
    return why


def _facts(
    history: FactHistory, begun: RoleChanged | None, ended: RoleChanged | None
) -> list[AnyFact]:
    first = begun.seq if begun is not None else 0
    until = ended.seq if ended is not None else history.cluster.seq
    return [
        one
        for one in history.facts
        if first <= one.seq <= until and isinstance(one, (RoleChanged, NoticeIssued))
    ]


# Take-overs, and terms of which no log has the role ----------------------------------------------
