"""Failed actions of the controller: the headline of every answer that depends on one."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from replay.why.facts import AnyFact, NoticeIssued, RoleChanged
from replay.why.sentences import event_and_time
from replay.why.subject import CONTROLLER_FAILURES, QUEUE_STUCK, STATE_MACHINE_STUCK

_FAILED: Final = "failover_failed"
_ENDS: Final = (_FAILED, "failover_done")


def failures_in(facts: Iterable[AnyFact], term: int) -> list[AnyFact]:
    """The failures of the controller of a term, oldest first, with the failovers that failed one
    after the other before it. `term` is 0 for the last one."""
    # There may be 100,000 facts about partitions.
    facts = [one for one in facts if isinstance(one, (RoleChanged, NoticeIssued))]
    elected = [one.epoch for one in facts if isinstance(one, RoleChanged) and one.epoch]
    term = term or max(elected, default=0)
    ended = [one.seq for one in facts if _ends(one, term)]
    failed: list[AnyFact] = [*_failed_failovers(facts, term)]
    # What fails after the term fails because of its end.
    failed += [
        one for one in facts if _is_failure(one, term) and one.seq <= min(ended, default=one.seq)
    ]
    return sorted(failed, key=lambda one: one.seq)


def _ends(fact: AnyFact, term: int) -> bool:
    return isinstance(fact, RoleChanged) and (fact.code, fact.epoch) == ("resigned", term)


def _is_failure(fact: AnyFact, term: int) -> bool:
    is_notice = isinstance(fact, NoticeIssued) and fact.code in CONTROLLER_FAILURES
    return is_notice and fact.epoch == term


def _failed_failovers(facts: Sequence[AnyFact], term: int) -> list[RoleChanged]:
    """The failovers that failed in a row up to a term, whose own failover may be under way."""
    ends = [
        one
        for one in facts
        if isinstance(one, RoleChanged) and one.code in _ENDS and one.epoch <= term
    ]
    if not ends or term > ends[-1].epoch + 1:
        return []
    failed = list(takewhile(lambda one: one.code == _FAILED, reversed(ends)))
    return failed[::-1]


def is_stuck(failures: Iterable[AnyFact]) -> bool:
    """Whether a state machine of the controller cannot send requests until the term ends."""
    return any(_code(one) == STATE_MACHINE_STUCK for one in failures)


def changes_nothing(failures: Sequence[AnyFact]) -> bool:
    """Whether no replica catches up because of the failures: brokers are sent no requests, or no
    controller accepts their ISRs."""
    return any(_code(one) in (STATE_MACHINE_STUCK, QUEUE_STUCK, _FAILED) for one in failures)


def headline(failures: Sequence[AnyFact], facts: Sequence[AnyFact]) -> str:
    """Sentences about the failures of the controller; "" for none. `facts` are all facts."""
    if not failures:
        return ""
    if is_stuck(failures):
        stuck = [one for one in failures if _code(one) == STATE_MACHINE_STUCK]
        return _failure_sentence(
            stuck, "could not send requests to brokers"
        ) + _end_of_term_sentence(facts)
    queue = [one for one in failures if _code(one) == QUEUE_STUCK]
    if queue:
        return f"The controller of term {queue[0].epoch} is stuck: {_text(queue[0])}."
    failovers = [one for one in failures if _code(one) == _FAILED]
    if len(failovers) > 1:
        return _in_a_row(failovers)
    if failovers:
        return _failure_sentence(failovers, "failed in its failover")
    code = _code(failures[0])
    return _failure_sentence([one for one in failures if _code(one) == code], "failed")


def _failure_sentence(same: Sequence[AnyFact], what: str) -> str:
    first, times = same[0], ""
    if len(same) > 1:
        times = f", {len(same)} times up to event {same[-1].seq}"
    when = event_and_time(first)
    return f"The controller of term {first.epoch} {what} at {when}{times}: {_text(first)}."


def _end_of_term_sentence(facts: Sequence[AnyFact]) -> str:
    """The end of the term in which the requests were left: the last one of the same controller
    before a change of states first failed."""
    first = next(one for one in facts if _code(one) == STATE_MACHINE_STUCK)
    elected = {
        one.epoch: one.broker
        for one in facts
        if isinstance(one, RoleChanged) and one.code == "elected"
    }
    broker = elected.get(first.epoch)
    lost = [
        one
        for one in facts
        if isinstance(one, RoleChanged)
        and one.code == "resigned"
        and one.seq <= first.seq
        and one.broker == broker
        and one.epoch < first.epoch
    ]
    if not lost:
        return ""
    return (
        f" The requests were left when term {lost[-1].epoch} of the same controller ended at "
        f"{event_and_time(lost[-1])}: {_text(lost[-1])}."
    )


def _in_a_row(failovers: Sequence[AnyFact]) -> str:
    first, last = failovers[0], failovers[-1]
    text = (
        f"{len(failovers)} failovers in a row have failed, those of terms {first.epoch} to "
        f"{last.epoch}; the first at {event_and_time(first)}: {_text(first)}; "
        f"the last at {event_and_time(last)}"
    )
    return f"{text}." if _text(first) == _text(last) else f"{text}: {_text(last)}."


def _code(fact: AnyFact) -> str:
    return getattr(fact, "code", "")


def _text(fact: AnyFact) -> str:
    return str(getattr(fact, "text", "")).removesuffix(".")
