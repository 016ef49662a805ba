"""Compares the fold's requests in one term with the requests in Kafka's logs.

Each broker has its own queue (KB 12.1), so only the order within a broker's queue counts.
state-change.log has all queued requests. A request log has the requests that its broker served: of
each registration (broker epoch) the beginning of the queue, because the requests that were still
queued when the broker went away were dropped. A request that was sent again over a new connection
may be logged twice (KB 12.1.3, 12.1.4).
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from replay.agreement.broker_requests.alignment import Pair, align
from replay.agreement.broker_requests.sent_request import (
    KINDS,
    SentRequest,
    agrees,
    differences,
)
from replay.agreement.broker_requests.unknown_calls import (
    NO_UNKNOWN_CALLS,
    UnknownCalls,
)
from replay.agreement.cause import FoldCause

Item = TypeVar("Item")
Key = TypeVar("Key")

DIFFERS: Final = "differs"
MISSING: Final = "missing"
EXTRA: Final = "extra"

_PHRASES_MAX: Final = 3
_LOOKED_AT: Final = 100
"""How many unpaired requests are searched for a match."""

OTHER_PLACE: Final = "sent at another position in the broker's queue"
NOT_SERVED: Final = "not served by the broker, although later requests were"


class LogSpan(NamedTuple):
    """The part of a term's requests that a log covers, from its first record to its last.

    `begins`: the log lacks the first requests. Then the fold is level with the log from record
    `settled` on.
    """

    first: int = 0
    last: int = sys.maxsize
    begins: bool = False
    settled: int = 0


WHOLE_TERM: Final = LogSpan()


class RequestDivergence(Struct, frozen=True):
    """A divergence: `what` is DIFFERS, MISSING (only Kafka sent the request) or EXTRA (only the
    fold did). `details` are phrases, for DIFFERS only."""

    what: str
    refold: SentRequest | None
    stock: SentRequest | None
    details: tuple[str, ...] = ()

    @property
    def request(self) -> SentRequest:
        """The fold's request, or Kafka's if the fold sent none."""
        request = self.refold or self.stock
        assert request is not None, "a difference has a side"
        return request

    @property
    def text(self) -> str:
        """The difference in one sentence, without record numbers."""
        request = self.request
        to = f"{request.kind} to broker {request.broker}"
        if self.what == DIFFERS:
            return f"{to}: {_some(self.details, '; ')}"
        whose = "Kafka sent it, the fold did not" if self.what == MISSING else "Kafka sent none"
        if request.partitions is None:
            return f"{to} of {request.size} partitions: {whose}"
        names = _some([one.name for one in request.partitions], ", ") or "no partitions"
        return f"{to} of {names}: {whose}"


class RequestTally(Struct):
    """Counts of requests. `unjudged` are requests of the fold that no log can confirm, and
    `repeated` are requests that a broker served twice."""

    agreed: int = 0
    differs: int = 0
    missing: int = 0
    extra: int = 0
    unjudged: int = 0
    repeated: int = 0


class TermRequests(Struct):
    """The result for one term. The differences are by broker, in the order of its queue."""

    by_cause: dict[tuple[str, FoldCause], RequestTally] = field(default_factory=dict)
    """By kind, and by the event and rule that the fold was processing."""
    differences: list[RequestDivergence] = field(default_factory=list)

    def tally_of(self, request: SentRequest) -> RequestTally:
        """The tally that counts a request."""
        return self.by_cause.setdefault((request.kind, request.cause), RequestTally())

    @property
    def by_kind(self) -> dict[str, RequestTally]:
        """The counts by kind."""
        return {
            kind: _sum(tally for (of, _), tally in self.by_cause.items() if of == kind)
            for kind in KINDS
        }

    @property
    def total(self) -> RequestTally:
        """The counts of all kinds together."""
        return _sum(self.by_cause.values())


def _sum(tallies: Iterable[RequestTally]) -> RequestTally:
    columns = [asdict(tally) for tally in tallies]
    return RequestTally(
        **{name: sum(one[name] for one in columns) for name in RequestTally.__struct_fields__}
    )


class _MatchedRequest(Struct):
    """A request of the fold, and its counterpart in each log.

    `is_moved`: the counterpart is at another position. `is_passed_over`: the broker served later
    requests, but not this one.
    """

    refold: SentRequest
    logged: SentRequest | None = None
    served: SentRequest | None = None
    is_moved: bool = False
    is_passed_over: bool = False

    @property
    def kafka(self) -> list[SentRequest]:
        """The requests of the stock controller that correspond to this one, at most one from each
        log."""
        return [one for one in (self.logged, self.served) if one is not None]

    def details(self) -> tuple[str, ...]:
        """The differences from both logs."""
        kafka = [one for one in self.kafka if not agrees(self.refold, one)]
        phrases = [phrase for one in kafka for phrase in differences(self.refold, one)]
        if self.logged is not None and self.logged.lines is not None:
            number = f"{self.logged.lines} lines of {self.logged.size} partitions"
            phrases.append(f"state-change.log has {number}")
        if self.is_moved and not phrases:
            phrases.append(OTHER_PLACE)
        if self.is_passed_over:
            phrases.append(NOT_SERVED)
        return tuple(dict.fromkeys(phrases))


def compare_term(
    fold: Sequence[SentRequest],
    logged: Sequence[SentRequest] | None,
    served: Mapping[int, Sequence[SentRequest]] | None,
    *,
    is_cut: bool = False,
    span: LogSpan = WHOLE_TERM,
    served_spans: Mapping[int, LogSpan] = MappingProxyType({}),
    unknown_calls: UnknownCalls = NO_UNKNOWN_CALLS,
) -> TermRequests:
    """Compare one term of one controller.

    `fold` and `logged` are in the order of sending; `logged` is None without state-change.log.
    `served` has the brokers with a request log, each in the order of that log. `span` is the part
    of the term that `logged` covers, `served_spans` the parts that `served` covers. `is_cut`: the
    controller may have died before it sent the last requests.
    """
    result = TermRequests()
    refold = _items_by_key(fold, _broker)
    sent = _items_by_key(logged or (), _broker)
    logs = served or {}
    for broker in sorted({*refold, *sent, *logs}):
        queue = _Queue(
            refold.get(broker, []), fold, logged is not None, is_cut, span, unknown_calls
        )
        if logged is not None:
            queue.find_logged(sent.get(broker, []))
        if broker in logs:
            queue.find_served(logs[broker], served_spans.get(broker, WHOLE_TERM))
        queue.judge(result)
    return result


class _Queue:
    """The fold's requests to one broker, out of those to all."""

    def __init__(
        self,
        refold: Iterable[SentRequest],
        sent_to_all: Sequence[SentRequest],
        is_log_there: bool,
        is_cut: bool,
        span: LogSpan,
        unknown_calls: UnknownCalls,
    ) -> None:
        self._found = [_MatchedRequest(one) for one in refold]
        self._sent_to_all = sent_to_all
        self._span = span
        self._is_cut = is_cut
        self._unknown_calls = unknown_calls
        self._is_log_there = is_log_there
        self._missing: list[SentRequest] = []
        self._repeated: list[SentRequest] = []

    def find_logged(self, logged: Sequence[SentRequest]) -> None:
        """Pair the requests with state-change.log, which has every request."""
        found = self._requests_within(self._span)
        for i, j in self._align(found, logged, is_beginning=False):
            if i is None and j is not None:
                self._missing.append(logged[j])
            elif i is not None and j is not None:
                found[i].logged = logged[j]
        left = [(one.refold, one) for one in found if one.logged is None]
        for stock in self._take_missing():
            other = _take(left, stock)
            if other is None:
                self._missing.append(stock)
            else:
                other.logged, other.is_moved = stock, True
        self._found = _in_log_order(self._found)

    def _requests_within(self, span: LogSpan, earlier: int = 0) -> list[_MatchedRequest]:
        """The requests that may be in a log.

        Of the requests before the log begins, these are the last `earlier` ones.
        """
        if not span.begins:
            return self._found
        first = sum(one.refold.seq < span.first for one in self._found)
        return self._found[max(first - earlier, 0) :]

    def find_served(self, served: Sequence[SentRequest], span: LogSpan = WHOLE_TERM) -> None:
        """Pair the requests with a request log, which has the beginning of each registration's
        queue."""
        missing_of_log = self._take_missing()
        within = self._requests_within(span, sum(one.seq < span.settled for one in served))
        refold_of = _items_by_key(within, lambda one: one.refold.broker_epoch)
        served_of = _items_by_key(served, lambda one: one.broker_epoch)
        if None in refold_of or None in served_of:
            # A request from before a broker registered again may be served after later requests.
            refold_of = {None: within}
            served_of = {None: sorted(served, key=lambda one: one.broker_epoch or 0)}
        for epoch in {**refold_of, **served_of}:
            self._find_served(refold_of.get(epoch, ()), served_of.get(epoch, ()))
        self._place_served(within)
        self._missing = [one for one in self._missing if one.seq >= span.settled]
        known_after = max(span.first, span.settled)
        for one in within:
            one.is_passed_over = one.is_passed_over and one.refold.seq >= known_after
        self._merge_missing(missing_of_log)
        self._move_extra()

    def _find_served(self, found: Sequence[_MatchedRequest], served: Sequence[SentRequest]) -> None:
        pairs = self._align(found, served, is_beginning=True)
        for i, j in pairs:
            if i is not None and j is not None:
                found[i].served = served[j]
            elif j is not None:
                left = self._repeated if _is_repeated(served, j) else self._missing
                left.append(served[j])
        for i in _passed_over_places(pairs, served):
            found[i].is_passed_over = True

    def _place_served(self, within: Iterable[_MatchedRequest]) -> None:
        """Pair unpaired requests of both sides, at another position or of another registration."""
        left = [(one.refold, one) for one in within if one.served is None]
        for stock in self._take_missing():
            found = _take(left, replace(stock, broker_epoch=None))
            if found is None:
                self._missing.append(stock)
            else:
                found.served, found.is_moved, found.is_passed_over = stock, True, False

    def _merge_missing(self, of_log: Iterable[SentRequest]) -> None:
        """Add the requests that only state-change.log has to the missing ones of the request log.

        A request that both logs have and the fold lacks is one request; the request log has more
        details. A request of the fold that was paired with it is released if state-change.log
        disagrees.
        """
        left = [(one, one) for one in of_log]
        for request in self._missing:
            _take(left, request)
        for found in self._found:
            served, logged = found.served, found.logged
            if served and logged and not agrees(logged, served) and _take(left, served):
                self._missing.append(served)
                found.served = None
        self._missing = [*(one for one, _ in left), *self._missing]

    def _move_extra(self) -> None:
        """Of several requests that are equal in state-change.log, the unserved one is extra."""
        left = [(one.logged, one) for one in self._found if one.is_passed_over and one.logged]
        for found in self._found:
            if found.logged is None and found.served is not None:
                other = _take(left, found.refold)
                if other is not None:
                    found.logged, other.logged = other.logged, None

    def _take_missing(self) -> list[SentRequest]:
        missing, self._missing = self._missing, []
        return missing

    def _align(
        self, found: Sequence[_MatchedRequest], kafka: Sequence[SentRequest], *, is_beginning: bool
    ) -> list[Pair]:
        refold = [one.refold for one in found]
        return align(refold, kafka, agrees, self._are_alike, is_beginning=is_beginning)

    def _are_alike(self, refold: SentRequest, stock: SentRequest) -> bool:
        return _are_similar(refold, stock) and self._unknown_calls.may_be_same(refold, stock)

    def judge(self, result: TermRequests) -> None:
        """Count each request once. Requests that unlogged API calls may have caused are not
        judged."""
        sent = [place for place, one in enumerate(self._found) if one.logged or one.served]
        end = max(sent, default=-1) if self._is_cut else len(self._found)
        for place, found in enumerate(self._found):
            if place > end or self._unknown_calls.may_add(found.refold, found.kafka):
                result.tally_of(found.refold).unjudged += 1
            else:
                self._judge(found, result, is_logged=self._is_logged(found))
        for request in self._missing:
            is_known = request.seq >= self._span.settled
            if not is_known or self._unknown_calls.may_cause(request, self._sent_to_all):
                result.tally_of(request).unjudged += 1
                continue
            result.tally_of(request).missing += 1
            result.differences.append(RequestDivergence(MISSING, None, request))
        for request in self._repeated:
            result.tally_of(request).repeated += 1

    def _is_logged(self, found: _MatchedRequest) -> bool:
        """Whether state-change.log would have the request, if it was sent."""
        first, last, _, settled = self._span
        is_within = max(first, settled) <= found.refold.seq <= last
        return self._is_log_there and (found.logged is not None or is_within)

    def _judge(self, found: _MatchedRequest, result: TermRequests, *, is_logged: bool) -> None:
        refold = found.refold
        tally = result.tally_of(refold)
        stock = found.logged if is_logged else found.served
        if stock is not None:
            details = found.details()
            if details:
                tally.differs += 1
                result.differences.append(RequestDivergence(DIFFERS, refold, stock, details))
            else:
                tally.agreed += 1
        elif is_logged or found.is_passed_over:
            tally.extra += 1
            result.differences.append(RequestDivergence(EXTRA, refold, None))
        else:
            tally.unjudged += 1


def _in_log_order(found: Iterable[_MatchedRequest]) -> list[_MatchedRequest]:
    """The requests in the order of state-change.log, which also holds for the request log.

    A request that state-change.log lacks stays after the request it was sent after.
    """
    after = -1
    placed = []
    for one in found:
        if one.logged is None:
            placed.append((after, True, one))
        else:
            placed.append((one.logged.seq, False, one))
            after = after if one.is_moved else one.logged.seq
    return [one for *_, one in sorted(placed, key=itemgetter(0, 1))]


def _are_similar(refold: SentRequest, stock: SentRequest) -> bool:
    """Whether both could be the same request with different content."""
    if refold.kind != stock.kind:
        return False
    if not refold.partitions or not stock.partitions:
        return True
    return not refold.names.isdisjoint(stock.names)


def _is_repeated(served: Sequence[SentRequest], at: int) -> bool:
    """Whether the request before or after is the same, over another connection."""
    request = served[at]
    return any(
        request.connection != served[other].connection and agrees(request, served[other])
        for other in (at - 1, at + 1)
        if 0 <= other < len(served)
    )


def _passed_over_places(pairs: Sequence[Pair], served: Sequence[SentRequest]) -> Iterator[int]:
    """The fold's requests that were not served although later ones of the registration were."""
    later: SentRequest | None = None
    waiting: list[int] = []
    for i, j in reversed(pairs):
        if j is not None:
            if later is not None and later.broker_epoch == served[j].broker_epoch:
                yield from waiting
            later, waiting = served[j], []
        elif i is not None and later is not None:
            waiting.append(i)
    yield from waiting


def _take(left: list[tuple[SentRequest, Item]], request: SentRequest) -> Item | None:
    """Remove and return the first item whose request agrees."""
    for at, (one, item) in enumerate(islice(left, _LOOKED_AT)):
        if agrees(one, request):
            del left[at]
            return item
    return None


def _items_by_key(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    groups: dict[Key, list[Item]] = {}
    for one in items:
        groups.setdefault(key(one), []).append(one)
    return groups


def _broker(request: SentRequest) -> int:
    return request.broker


def _some(phrases: Sequence[str], separator: str) -> str:
    shown = [*phrases[:_PHRASES_MAX]]
    if len(phrases) > _PHRASES_MAX:
        shown.append(f"and {len(phrases) - _PHRASES_MAX} more")
    return separator.join(shown)
