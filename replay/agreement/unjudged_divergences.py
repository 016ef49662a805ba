"""Divergences for which a log does not show enough to say that the controller decided otherwise."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from controller.core.values import counted
from replay.agreement.logs.log_ends import REQUEST_LOG, STATE_CHANGE_LOG, DamagedPart, TruncatedLog
from replay.agreement.results import AgreementResult, Divergence
from replay.stock_clusters.imported_log.api_requests import STOCK_APIS

_WITHOUT_LINE: Final = [one for one in STOCK_APIS if not one.line]
_EVENTS_ONLY_IN_REQUEST_LOG: Final = frozenset(one.event for one in _WITHOUT_LINE)
"""The controller events that only a request log shows."""
_WRITES_OF_THESE_EVENTS: Final = frozenset(kind for one in _WITHOUT_LINE for kind in one.writes)
"""The kinds of writes that such an event leads to."""

_NO_REQUEST_LOG: Final = "the reason is a request, and the broker has no request log"

Log = TypeVar("Log", TruncatedLog, DamagedPart)

Term = tuple[int, int]
"""A broker, and its controller epoch."""


def term_of(one: Divergence) -> Term:
    """The term of the controller that decided."""
    return one.controller, one.epoch


def may_be_requested(one: Divergence) -> bool:
    """Whether the reason may be a request that has no line in controller.log either."""
    is_written_for_it = one.verdict == "missing" and one.kind in _WRITES_OF_THESE_EVENTS
    return one.cause.event in _EVENTS_ONLY_IN_REQUEST_LOG or is_written_for_it


def unseen_of(
    divergences: Iterable[Divergence],
    is_unseen: Callable[[Divergence], bool],
    lost: dict[Term, int],
) -> list[Divergence]:
    """The unseen ones of the divergences of a result.

    After one of them it is unknown what the controller knows, so the later ones of its term belong
    to them as well. `lost` has the record of the first one of each term, and is extended.
    """
    found = []
    for one in divergences:
        if one.explained:
            continue
        if is_unseen(one):
            lost[term_of(one)] = min(one.seq, lost.get(term_of(one), one.seq))
        if one.seq >= lost.get(term_of(one), sys.maxsize):
            found.append(one)
    return found


def remove_divergences(result: AgreementResult, divergences: Sequence[Divergence]) -> int:
    """Remove divergences from a result, and return their number."""
    for one in divergences:
        side = result if one.subject == "decision" else result.requests
        side.count(one.kind, one.cause, one.verdict, -1)
        result.divergences.remove(one)
    return len(divergences)


class BrokersWithLogs(NamedTuple):
    """The brokers that have a log of each kind."""

    request_log: set[int]
    state_change_log: set[int]


def leave_unjudged(
    result: AgreementResult, brokers: BrokersWithLogs, times_ms: Mapping[int, int]
) -> None:
    """Count a divergence as not judged if one of these may explain it: a request to a controller
    without a request log, the missing end of a log, a damaged line. Note the first of each term.

    `times_ms` has the wall clock of the divergences' records, if lines are damaged.
    """
    lost: dict[Term, int] = {}
    incomplete = IncompleteLogs(result.cut_logs, result.damaged_parts, brokers, times_ms)

    def is_unseen(one: Divergence) -> bool:
        is_requested = one.controller not in brokers.request_log and may_be_requested(one)
        return is_requested or incomplete.reason(one) != ""

    received = incomplete.lost_requests(result)
    _note(result, received, incomplete.reason)
    _count_as_unjudged(result, received)
    found = unseen_of(result.divergences, is_unseen, lost)
    _note(result, found, incomplete.reason)
    _count_as_unjudged(result, found)


def _note(
    result: AgreementResult, found: Sequence[Divergence], reason: Callable[[Divergence], str]
) -> None:
    """Note the first divergence of each term that is not judged."""
    by_term: dict[Term, list[Divergence]] = {}
    for one in found:
        by_term.setdefault(term_of(one), []).append(one)
    for (broker, epoch), divergences in by_term.items():
        why = next(filter(None, map(reason, divergences)), _NO_REQUEST_LOG)
        result.notes.append(
            f"not judged: {_divergence_counts(divergences)} of broker {broker} in epoch {epoch}, "
            f"from record {divergences[0].seq} on: {why}"
        )


def _count_as_unjudged(result: AgreementResult, found: Sequence[Divergence]) -> None:
    """Remove divergences from a result, and count them as not judged."""
    remove_divergences(result, found)
    decisions = sum(one.subject == "decision" for one in found)
    result.unjudged += decisions
    result.requests.unjudged += len(found) - decisions


class IncompleteLogs(NamedTuple):
    """The logs that do not show everything."""

    cut: Sequence[TruncatedLog]
    damaged: Sequence[DamagedPart]
    brokers: BrokersWithLogs
    times_ms: Mapping[int, int]

    def reason(self, one: Divergence) -> str:
        """Why the controller may have known or done something that no log shows; "" if the logs
        show everything."""
        cut = self._of_controller(one, [log for log in self.cut if log.seq <= one.seq])
        if cut:
            return f"the end of the {min(cut, key=lambda log: log.seq).name} is missing"
        damaged = self._of_controller(one, self._damaged_near(one))
        if self.has_lost(one):
            damaged = self._damaged_near(one)
        return f"lines of the {damaged[0].name} are damaged" if damaged else ""

    def has_lost(self, one: Divergence) -> bool:
        """Whether a damaged line may be the only trace of a request to a broker. Such a line says
        nothing about what the controller knew."""
        return one.subject == "request" and any(
            (log.log, log.broker) in ((REQUEST_LOG, one.broker), (STATE_CHANGE_LOG, one.controller))
            for log in self._damaged_near(one)
        )

    def lost_requests(self, result: AgreementResult) -> list[Divergence]:
        """The divergences about requests whose only trace may be a damaged line."""
        return [one for one in result.divergences if self.has_lost(one)]

    def _damaged_near(self, one: Divergence) -> list[DamagedPart]:
        time_ms = self.times_ms.get(one.seq)
        return [log for log in self.damaged if time_ms is not None and log.may_show(time_ms)]

    def _of_controller(self, one: Divergence, incomplete: Sequence[Log]) -> list[Log]:
        """The logs that could have explained a divergence.

        Such logs are those of the controller. Without the end of its state-change.log, the request
        logs of the other brokers are the only ones with their responses.
        """
        of_controller = {log.log for log in incomplete if log.broker == one.controller}
        has_responses = (
            one.controller in self.brokers.state_change_log
            and STATE_CHANGE_LOG not in of_controller
        )
        return [
            log
            for log in incomplete
            if log.broker == one.controller or (not has_responses and log.log == REQUEST_LOG)
        ]


def _divergence_counts(found: Sequence[Divergence]) -> str:
    decisions = sum(one.subject == "decision" for one in found)
    counts = ((decisions, "decision"), (len(found) - decisions, "request"))
    return " and ".join(counted(count, noun) for count, noun in counts if count)
