"""Why was a controller elected, and why did it resign?"""

from collections.abc import Sequence
from typing import Final

from controller.core import znodes
from controller.core.triggers import Expire
from replay.cluster_view.views import NO_BROKER
from replay.why.explanations.finding import Finding, at, last
from replay.why.facts import AnyFact, NoticeIssued, RoleChanged, SessionChanged
from replay.why.history import History
from replay.why.sentences import silence

_NS: Final = 1_000_000_000


def explain_term(history: History) -> Finding:
    """Explain why the term in question began and ended; the last term if none is in question."""
    roles = [one for one in history.facts if isinstance(one, RoleChanged)]
    elections = [one for one in roles if one.code == "elected"]
    wanted = history.subject.term
    if wanted is None and elections:
        wanted = elections[-1].epoch
    begun = next((one for one in elections if one.epoch == wanted), None)
    ended = next((one for one in roles if one.code == "resigned" and one.epoch == wanted), None)
    unseen = _unseen_term(elections, wanted or 0) if begun is None and ended is None else ""
    if unseen:
        return Finding(unseen, [*roles])
    if begun is None and ended is None:
        return Finding(_without_controller(history, roles), [*roles])
    facts = _facts(history, begun, ended)
    who = (ended or begun or roles[0]).broker
    if ended is not None:
        first = f"Term {wanted} of broker {who} ended at {at(ended)}: {_why(history, ended)}."
        if begun is not None:
            first += f" It had begun at {at(begun)}."
        first += _replaced_by(elections, ended.epoch)
        return Finding(first, facts)
    assert begun is not None, "one of the two is there"
    why = _why_elected(roles, begun)
    first = f"Broker {who} is controller of term {wanted} since {at(begun)}{why}."
    first += _replaced(elections, begun) + _replaced_by(elections, begun.epoch)
    return Finding(first, facts)


def _why_elected(roles: list[RoleChanged], begun: RoleChanged) -> str:
    before = [one for one in roles if one.code == "resigned" and one.seq <= begun.seq]
    why = f": {begun.because.text}" if begun.because is not None and begun.because.text else ""
    if not before:
        return why
    one = before[-1]
    is_gap = begun.epoch > one.epoch + 1
    between = ", and another broker had held the role since" if is_gap else ""
    return (
        f"{why}; term {one.epoch} of broker {one.broker} had ended at event {one.seq}: {one.text}"
        f"{between}"
    )


def _without_controller(history: History, roles: list[RoleChanged]) -> str:
    holder = history.cluster.controller
    if holder.broker != NO_BROKER:
        return f"Broker {holder.broker} is controller of term {holder.epoch} since before this log."
    found = last(roles, RoleChanged)
    if found is None:
        return "No broker has been controller in this log."
    return f"The log shows no current controller: at {at(found)} {found.text}."


def _why(history: History, ended: RoleChanged) -> str:
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


def _facts(history: History, begun: RoleChanged | None, ended: RoleChanged | None) -> list[AnyFact]:
    first = begun.seq if begun is not None else 0
    until = ended.seq if ended is not None else history.cluster.seq
    return [
        one
        for one in history.facts
        if first <= one.seq <= until and isinstance(one, (RoleChanged, NoticeIssued))
    ]


# Take-overs, and terms of which no log has the role ----------------------------------------------


def _replaced_by(elections: Sequence[RoleChanged], term: int) -> str:
    """A sentence about the controller that followed a term; "" if the log shows none."""
    followed = [one for one in elections if one.epoch > term]
    if not followed:
        return ""
    one = min(followed, key=lambda each: each.epoch)
    missing = f", after {_terms(term + 1, one.epoch - 1)}" if one.epoch > term + 1 else ""
    return (
        f" Broker {one.broker} took over with term {one.epoch} at {at(one)}{missing}, {_by(one)}."
    )


def _replaced(elections: Sequence[RoleChanged], begun: RoleChanged) -> str:
    """A sentence about the controller that a new one replaced; "" if the log shows none."""
    before = [one for one in elections if one.epoch < begun.epoch]
    if not before:
        return ""
    one = max(before, key=lambda each: each.epoch)
    between = f", after {_terms(one.epoch + 1, begun.epoch - 1)}" * (begun.epoch > one.epoch + 1)
    return f" It replaced broker {one.broker}, term {one.epoch}{between}, {_by(begun)}."


def _unseen_term(elections: Sequence[RoleChanged], term: int) -> str:
    """The answer about a term between two terms of the logs, which another controller had."""
    before = [one for one in elections if one.epoch < term]
    after = [one for one in elections if one.epoch > term]
    if not before or not after:
        return ""
    one, other = max(before, key=lambda each: each.epoch), min(after, key=lambda each: each.epoch)
    return (
        f"Term {term} was that of a controller that does not write these logs, such as a broker of "
        f"the cluster. Before it, broker {one.broker} had term {one.epoch}, since {at(one)}; after "
        f"it, broker {other.broker} had term {other.epoch}, since {at(other)}."
    )


def _by(elected: RoleChanged) -> str:
    return (
        f"by the write that created {znodes.CONTROLLER} and set {znodes.CONTROLLER_EPOCH} to "
        f"{elected.epoch}"
    )


def _terms(first: int, last: int) -> str:
    which = f"term {first}" if first == last else f"terms {first} to {last}"
    return f"{which} of other controllers"
