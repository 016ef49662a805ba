"""Divergences for which a log does not show enough to say that the controller decided otherwise."""

import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from replay.agreement.logs.log_ends import REQUEST_LOG, STATE_CHANGE_LOG, CutLog
from replay.agreement.results import AgreementResult, Divergence
from replay.description.phrases import counted

_NEVER_SHOWN: Final = ("AllocateProducerIds", "AlterPartitionReassignments", "UpdateFeatures")
"""The beginnings of the names of controller events that only a request log shows."""
_WRITTEN_FOR_THEM: Final = ("assignment", "feature", "producer_ids", "reassign_partitions")
"""The kinds of decisions that show such an event."""

Term = tuple[int, int]
"""A broker, and its controller epoch."""


def term_of(one: Divergence) -> Term:
    """The term of the controller that decided."""
    return one.controller, one.epoch


def may_be_requested(one: Divergence) -> bool:
    """Whether the reason may be a request that has no line in controller.log either."""
    is_written_for_it = one.verdict == "missing" and one.kind in _WRITTEN_FOR_THEM
    return one.cause.startswith(_NEVER_SHOWN) or is_written_for_it


def unseen_of(
    result: AgreementResult, is_unseen: Callable[[Divergence], bool], lost: dict[Term, int]
) -> list[Divergence]:
    """The unseen divergences of a result.

    After one of them it is unknown what the controller knows, so the later ones of its term belong
    to them as well. `lost` has the record of the first one of each term, and is extended.
    """
    found = []
    for one in result.divergences:
        if one.explained:
            continue
        if is_unseen(one):
            lost[term_of(one)] = min(one.seq, lost.get(term_of(one), one.seq))
        if one.seq >= lost.get(term_of(one), sys.maxsize):
            found.append(one)
    return found


def leave_out(result: AgreementResult, divergences: Sequence[Divergence]) -> int:
    """Remove divergences from a result, and return their number."""
    for one in divergences:
        side = result if one.subject == "decision" else result.requests
        side.count(one.kind, one.cause, one.verdict, -1)
        result.divergences.remove(one)
    return len(divergences)


class BrokersWith(NamedTuple):
    """The brokers that have a log of each kind."""

    request_log: set[int]
    state_change_log: set[int]


def leave_unjudged(result: AgreementResult, brokers: BrokersWith) -> None:
    """Count divergences as not judged that requests to controllers without a request log may
    explain, or what is missing at the end of a log. Note the first one of each term."""
    lost: dict[Term, int] = {}

    def is_unseen(one: Divergence) -> bool:
        is_requested = one.controller not in brokers.request_log and may_be_requested(one)
        return is_requested or _cut_log(one, result.cut_logs, brokers) is not None

    found = unseen_of(result, is_unseen, lost)
    for term, seq in lost.items():
        of_term = [one for one in found if term_of(one) == term]
        result.notes.append(
            f"not judged: {_counted(of_term)} of broker {term[0]} in epoch {term[1]}, from record"
            f" {seq} on: {_reason(of_term, result.cut_logs, brokers)}"
        )
    leave_out(result, found)
    decisions = sum(one.subject == "decision" for one in found)
    result.unjudged += decisions
    result.requests.unjudged += len(found) - decisions


def _cut_log(one: Divergence, cut: Sequence[CutLog], brokers: BrokersWith) -> CutLog | None:
    """The first log that ends before a divergence and could have explained it.

    Such logs are those of the controller. Without the end of its state-change.log, the request
    logs of the other brokers are the only ones with their responses.
    """
    ended = [log for log in cut if log.seq <= one.seq]
    of_controller = [log for log in ended if log.broker == one.controller]
    has_responses = one.controller in brokers.state_change_log and not any(
        log.log == STATE_CHANGE_LOG for log in of_controller
    )
    others = [] if has_responses else [log for log in ended if log.log == REQUEST_LOG]
    return min([*of_controller, *others], key=lambda log: log.seq, default=None)


def _counted(found: Sequence[Divergence]) -> str:
    decisions = sum(one.subject == "decision" for one in found)
    counts = ((decisions, "decision"), (len(found) - decisions, "request"))
    return " and ".join(counted(count, noun) for count, noun in counts if count)


def _reason(found: Sequence[Divergence], cut: Sequence[CutLog], brokers: BrokersWith) -> str:
    """Why the divergences of a term are not judged."""
    log = next(filter(None, (_cut_log(one, cut, brokers) for one in found)), None)
    if log is not None:
        return f"the end of the {log.name} is missing"
    return "the reason is a request, and the broker has no request log"
