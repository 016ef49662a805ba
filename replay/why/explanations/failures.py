"""Failed actions of the controller: the headline of every answer that depends on one."""

from typing import Final

from replay.why.explanations.finding import at
from replay.why.facts import AnyFact, NoticeIssued, RoleChanged
from replay.why.history import History
from replay.why.subject import CONTROLLER_FAILURES, STATE_MACHINE_STUCK

_FAILOVER: Final = "failover_failed"


def failures_of(history: History) -> list[AnyFact]:
    """The failures of the controller in the term in question, oldest first."""
    term = history.subject.term or history.cluster.controller.epoch
    return [one for one in history.facts if one.epoch == term and _is_failure(one)]


def _is_failure(fact: AnyFact) -> bool:
    match fact:
        case NoticeIssued(code=code):
            return code in CONTROLLER_FAILURES
        case RoleChanged(code=code):
            return code == _FAILOVER
    return False


def is_stuck(history: History) -> bool:
    """Whether a state machine of the controller cannot send requests until the term ends."""
    return any(getattr(one, "code", "") == STATE_MACHINE_STUCK for one in failures_of(history))


def headline(history: History) -> str:
    """A sentence about the failures of the controller; "" for none."""
    found = failures_of(history)
    if not found:
        return ""
    first = next(
        (one for one in found if getattr(one, "code", "") == STATE_MACHINE_STUCK), found[0]
    )
    same = [one for one in found if getattr(one, "code", "") == getattr(first, "code", "")]
    what = "could not send requests to brokers" if is_stuck(history) else "failed"
    times = f", {len(same)} times up to event {same[-1].seq}" if len(same) > 1 else ""
    text = str(getattr(first, "text", "")).removesuffix(".")
    return f"The controller of term {first.epoch} {what} at {at(first)}{times}: {text}."
