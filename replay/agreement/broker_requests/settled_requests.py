"""The requests of a term that need no further comparison, while the term continues."""

from collections.abc import Iterable, Sequence
from typing import Final

from replay.agreement.broker_requests.comparing import LogSpan, TermRequests, compare_term
from replay.agreement.broker_requests.sent_request import SentRequest, agrees

_KEPT_MAX: Final = 5_000
"""With more requests of a term than this that are not settled, all are compared at once."""


def settled_requests(
    fold: Sequence[SentRequest],
    logged: Sequence[SentRequest],
    span: LogSpan,
    *,
    has_log: bool,
) -> tuple[TermRequests, list[SentRequest], list[SentRequest]]:
    """The result for the settled requests, and the others of the fold and of state-change.log.

    Settled are the first requests in each broker's queue if both sides agree on them; without
    state-change.log (`has_log`) all, which no log confirms.
    """
    result = TermRequests()
    if not has_log:
        for one in fold:
            result.tally_of(one).unjudged += 1
        return result, [], []
    if len(fold) + len(logged) > _KEPT_MAX:
        return compare_term(fold, logged, None, span=span), [], []
    if span.begins:
        for one in fold:
            result.tally_of(one).unjudged += one.seq < span.settled
        fold = [one for one in fold if one.seq >= span.settled]
        logged = [one for one in logged if one.seq >= span.settled]
    agreed = [pair for broker in _brokers(fold) for pair in _agreed_pairs(broker, fold, logged)]
    for refold, _ in agreed:
        result.tally_of(refold).agreed += 1
    done = {id(one) for pair in agreed for one in pair}
    return (
        result,
        [one for one in fold if id(one) not in done],
        [one for one in logged if id(one) not in done],
    )


def _brokers(requests: Iterable[SentRequest]) -> list[int]:
    return sorted({one.broker for one in requests})


def _agreed_pairs(
    broker: int, fold: Iterable[SentRequest], logged: Iterable[SentRequest]
) -> list[tuple[SentRequest, SentRequest]]:
    """The first requests of a broker's queue, as far as both sides agree."""
    found = []
    refold = (one for one in fold if one.broker == broker)
    stock = (one for one in logged if one.broker == broker)
    for one, other in zip(refold, stock, strict=False):
        if other.lines is not None or not agrees(one, other):
            break
        found.append((one, other))
    return found
