"""The requests of one term of one controller: the fold's beside those that Kafka's logs show.

Each broker has a queue of its own (KB 12.1), so the order counts broker by broker. state-change.log
has all that was queued. A request log has what its broker served: of each registration (broker
epoch) the beginning of the queue, for what was still queued when the broker went away was dropped;
and a request that was sent again over a new connection may be there twice (KB 12.1.3, 12.1.4).
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from replay.stock_clusters.agreement.broker_requests.alignment import Pair, align
from replay.stock_clusters.agreement.broker_requests.told import KINDS, Told, agrees, differences
from replay.stock_clusters.agreement.broker_requests.unknown_calls import (
    NO_UNKNOWN_CALLS,
    UnknownCalls,
)

Item = TypeVar("Item")
Key = TypeVar("Key")

DIFFERS: Final = "differs"
MISSING: Final = "missing"
EXTRA: Final = "extra"

_PHRASES_MAX: Final = 3
_LOOKED_AT: Final = 100
"""How many of those left over are looked at for the one that another one may be."""

OTHER_PLACE: Final = "sent in another place of the broker's queue"
NOT_SERVED: Final = "not served by the broker, though later ones were"


class Reach(NamedTuple):
    """How far a log tells of what a term has sent, which may have been copied by itself: from its
    first record to its last one.

    `begins`: it lacks the first requests. Then the fold is where the log is from `settled` on.
    """

    first: int = 0
    last: int = sys.maxsize
    begins: bool = False
    settled: int = 0


WHOLE: Final = Reach()


class Difference(Struct, frozen=True):
    """Where the two do not agree: `what` is DIFFERS, MISSING (only Kafka sent it) or EXTRA (only
    the fold did). `details` are phrases, for DIFFERS only."""

    what: str
    ours: Told | None
    theirs: Told | None
    details: tuple[str, ...] = ()

    @property
    def told(self) -> Told:
        """The fold's request, or Kafka's where the fold has none."""
        told = self.ours or self.theirs
        assert told is not None, "a difference has a side"
        return told

    @property
    def text(self) -> str:
        """All in one sentence, without the numbers of the records."""
        told = self.told
        to = f"{told.kind} to broker {told.broker}"
        if self.what == DIFFERS:
            return f"{to}: {_some(self.details, '; ')}"
        whose = "Kafka sent it, the fold did not" if self.what == MISSING else "Kafka sent none"
        if told.partitions is None:
            return f"{to} of {told.size} partitions: {whose}"
        names = _some([one.name for one in told.partitions], ", ") or "no partitions"
        return f"{to} of {names}: {whose}"


class Tally(Struct):
    """How many requests of a kind; `unjudged` are those of the fold that no log could have, and
    `repeated` those that a broker served twice."""

    agreed: int = 0
    differs: int = 0
    missing: int = 0
    extra: int = 0
    unjudged: int = 0
    repeated: int = 0


class TermRequests(Struct):
    """What came of the comparison; the differences by broker, in the order of its queue."""

    by_cause: dict[tuple[str, str], Tally] = field(default_factory=dict)
    """By kind, and what the fold was at."""
    differences: list[Difference] = field(default_factory=list)

    def tally_of(self, told: Told) -> Tally:
        """Where a request is counted."""
        return self.by_cause.setdefault((told.kind, told.cause), Tally())

    @property
    def by_kind(self) -> dict[str, Tally]:
        """Whatever the fold was at."""
        return {
            kind: _sum(tally for (of, _), tally in self.by_cause.items() if of == kind)
            for kind in KINDS
        }

    @property
    def total(self) -> Tally:
        """All kinds together."""
        return _sum(self.by_cause.values())


def _sum(tallies: Iterable[Tally]) -> Tally:
    columns = [asdict(tally) for tally in tallies]
    return Tally(**{name: sum(one[name] for one in columns) for name in Tally.__struct_fields__})


class _Found(Struct):
    """A request of the fold, and which one it is in each log.

    `is_moved`: it has another place there; `is_passed_over`: its broker served later ones, and not
    this one.
    """

    ours: Told
    logged: Told | None = None
    served: Told | None = None
    is_moved: bool = False
    is_passed_over: bool = False

    @property
    def kafka(self) -> list[Told]:
        """What the logs have."""
        return [one for one in (self.logged, self.served) if one is not None]

    def details(self) -> tuple[str, ...]:
        """What differs, by both logs."""
        kafka = [one for one in self.kafka if not agrees(self.ours, one)]
        phrases = [phrase for one in kafka for phrase in differences(self.ours, one)]
        if self.logged is not None and self.logged.lines is not None:
            number = f"{self.logged.lines} lines of {self.logged.size} partitions"
            phrases.append(f"state-change.log has {number}")
        if self.is_moved and not phrases:
            phrases.append(OTHER_PLACE)
        if self.is_passed_over:
            phrases.append(NOT_SERVED)
        return tuple(dict.fromkeys(phrases))


def compare_term(
    fold: Sequence[Told],
    logged: Sequence[Told] | None,
    served: Mapping[int, Sequence[Told]] | None,
    *,
    is_cut: bool = False,
    reach: Reach = WHOLE,
    served_reach: Mapping[int, Reach] = MappingProxyType({}),
    unknown_calls: UnknownCalls = NO_UNKNOWN_CALLS,
) -> TermRequests:
    """Compare one term of one controller; `is_cut`: it may have died before it sent the last ones;
    `reach` is that of `logged` over the term, `served_reach` that of `served`.

    `fold` and `logged` are in the order of sending, `logged` None without state-change.log;
    `served` has those brokers that have a request log, each in the order of that log.
    """
    result = TermRequests()
    ours = _grouped(fold, _broker)
    sent = _grouped(logged or (), _broker)
    logs = served or {}
    for broker in sorted({*ours, *sent, *logs}):
        queue = _Queue(ours.get(broker, []), logged is not None, is_cut, reach, unknown_calls)
        if logged is not None:
            queue.find_logged(sent.get(broker, []))
        if broker in logs:
            queue.find_served(logs[broker], served_reach.get(broker, WHOLE))
        queue.judge(result)
    return result


class _Queue:
    """What the fold sends to one broker."""

    def __init__(
        self,
        ours: Iterable[Told],
        is_log_there: bool,
        is_cut: bool,
        reach: Reach,
        unknown_calls: UnknownCalls,
    ) -> None:
        self._found = [_Found(one) for one in ours]
        self._reach = reach
        self._is_cut = is_cut
        self._unknown_calls = unknown_calls
        self._is_log_there = is_log_there
        self._missing: list[Told] = []
        self._repeated: list[Told] = []

    def find_logged(self, logged: Sequence[Told]) -> None:
        """Every request is in the log, and no other."""
        found = self._within(self._reach)
        for i, j in self._align(found, logged, is_beginning=False):
            if i is None and j is not None:
                self._missing.append(logged[j])
            elif i is not None and j is not None:
                found[i].logged = logged[j]
        left = [(one.ours, one) for one in found if one.logged is None]
        for theirs in self._take_missing():
            other = _take(left, theirs)
            if other is None:
                self._missing.append(theirs)
            else:
                other.logged, other.is_moved = theirs, True
        self._found = _in_log_order(self._found)

    def _within(self, reach: Reach, earlier: int = 0) -> list[_Found]:
        """Those that may be in a log: of those sent before it begins as many of the last ones as it
        has lines before it is `settled`."""
        if not reach.begins:
            return self._found
        first = sum(one.ours.seq < reach.first for one in self._found)
        return self._found[max(first - earlier, 0) :]

    def find_served(self, served: Sequence[Told], reach: Reach = WHOLE) -> None:
        """Of each registration the beginning of the queue is in the request log."""
        missing_of_log = self._take_missing()
        within = self._within(reach, sum(one.seq < reach.settled for one in served))
        ours_of = _grouped(within, lambda one: one.ours.broker_epoch)
        served_of = _grouped(served, lambda one: one.broker_epoch)
        if None in ours_of or None in served_of:
            # What a broker was sent before it registered anew may be served after what came then.
            ours_of = {None: within}
            served_of = {None: sorted(served, key=lambda one: one.broker_epoch or 0)}
        for epoch in {**ours_of, **served_of}:
            self._find_served(ours_of.get(epoch, ()), served_of.get(epoch, ()))
        self._place_served(within)
        self._missing = [one for one in self._missing if one.seq >= reach.settled]
        known_behind = max(reach.first, reach.settled)
        for one in within:
            one.is_passed_over = one.is_passed_over and one.ours.seq >= known_behind
        self._missing = self._united(missing_of_log)
        self._mend_extra()

    def _find_served(self, found: Sequence[_Found], served: Sequence[Told]) -> None:
        pairs = self._align(found, served, is_beginning=True)
        for i, j in pairs:
            if i is not None and j is not None:
                found[i].served = served[j]
            elif j is not None:
                left = self._repeated if _is_repeated(served, j) else self._missing
                left.append(served[j])
        for i in _passed_over(pairs, served):
            found[i].is_passed_over = True

    def _place_served(self, within: Iterable[_Found]) -> None:
        """What is left over on both sides may be the same, in another place or registration."""
        left = [(one.ours, one) for one in within if one.served is None]
        for theirs in self._take_missing():
            found = _take(left, replace(theirs, broker_epoch=None))
            if found is None:
                self._missing.append(theirs)
            else:
                found.served, found.is_moved, found.is_passed_over = theirs, True, False

    def _united(self, of_log: Iterable[Told]) -> list[Told]:
        """What both logs have, and the fold lacks, is one request; the request log tells more.

        What was taken for another one of the fold's is it, too, if state-change.log says so.
        """
        left = [(one, one) for one in of_log]
        for told in self._missing:
            _take(left, told)
        for found in self._found:
            served, logged = found.served, found.logged
            if served and logged and not agrees(logged, served) and _take(left, served):
                self._missing.append(served)
                found.served = None
        return [*(one for one, _ in left), *self._missing]

    def _mend_extra(self) -> None:
        """Of several that are alike in state-change.log, the one that was not served is extra."""
        left = [(one.logged, one) for one in self._found if one.is_passed_over and one.logged]
        for found in self._found:
            if found.logged is None and found.served is not None:
                other = _take(left, found.ours)
                if other is not None:
                    found.logged, other.logged = other.logged, None

    def _take_missing(self) -> list[Told]:
        missing, self._missing = self._missing, []
        return missing

    def _align(
        self, found: Sequence[_Found], kafka: Sequence[Told], *, is_beginning: bool
    ) -> list[Pair]:
        ours = [one.ours for one in found]
        return align(ours, kafka, agrees, self._are_alike, is_beginning=is_beginning)

    def _are_alike(self, ours: Told, theirs: Told) -> bool:
        return _alike(ours, theirs) and self._unknown_calls.may_be_same(ours, theirs)

    def judge(self, result: TermRequests) -> None:
        """Count each request once. What may come of calls that nobody knows of cannot be judged."""
        sent = [place for place, one in enumerate(self._found) if one.logged or one.served]
        end = max(sent, default=-1) if self._is_cut else len(self._found)
        for place, found in enumerate(self._found):
            if place > end or self._unknown_calls.may_add(found.ours, found.kafka):
                result.tally_of(found.ours).unjudged += 1
            else:
                self._judge(found, result, is_logged=self._is_logged(found))
        for told in self._missing:
            is_known = told.seq >= self._reach.settled
            if not is_known or self._unknown_calls.may_cause(
                told, (one.ours for one in self._found)
            ):
                result.tally_of(told).unjudged += 1
                continue
            result.tally_of(told).missing += 1
            result.differences.append(Difference(MISSING, None, told))
        for told in self._repeated:
            result.tally_of(told).repeated += 1

    def _is_logged(self, found: _Found) -> bool:
        """Whether state-change.log has it, if it was sent."""
        first, last, _, settled = self._reach
        is_within = max(first, settled) <= found.ours.seq <= last
        return self._is_log_there and (found.logged is not None or is_within)

    def _judge(self, found: _Found, result: TermRequests, *, is_logged: bool) -> None:
        ours = found.ours
        tally = result.tally_of(ours)
        theirs = found.logged if is_logged else found.served
        if theirs is not None:
            details = found.details()
            if details:
                tally.differs += 1
                result.differences.append(Difference(DIFFERS, ours, theirs, details))
            else:
                tally.agreed += 1
        elif is_logged or found.is_passed_over:
            tally.extra += 1
            result.differences.append(Difference(EXTRA, ours, None))
        else:
            tally.unjudged += 1


def _in_log_order(found: Iterable[_Found]) -> list[_Found]:
    """The order that state-change.log tells, for then the request log tells no other one. What it
    lacks stays behind what it was sent after."""
    after = -1
    placed = []
    for one in found:
        if one.logged is None:
            placed.append((after, True, one))
        else:
            placed.append((one.logged.seq, False, one))
            after = after if one.is_moved else one.logged.seq
    return [one for *_, one in sorted(placed, key=itemgetter(0, 1))]


def _alike(ours: Told, theirs: Told) -> bool:
    """Whether they could be the same request, with something in it that differs."""
    if ours.kind != theirs.kind:
        return False
    if not ours.partitions or not theirs.partitions:
        return True
    return not ours.names.isdisjoint(theirs.names)


def _is_repeated(served: Sequence[Told], at: int) -> bool:
    """Whether it came before or comes again over another connection."""
    told = served[at]
    return any(
        told.connection != served[other].connection and agrees(told, served[other])
        for other in (at - 1, at + 1)
        if 0 <= other < len(served)
    )


def _passed_over(pairs: Sequence[Pair], served: Sequence[Told]) -> Iterator[int]:
    """The fold's requests that were not served, though later ones of the same registration were."""
    later: Told | None = None
    waiting: list[int] = []
    for i, j in reversed(pairs):
        if j is not None:
            if later is not None and later.broker_epoch == served[j].broker_epoch:
                yield from waiting
            later, waiting = served[j], []
        elif i is not None and later is not None:
            waiting.append(i)
    yield from waiting


def _take(left: list[tuple[Told, Item]], told: Told) -> Item | None:
    """The first whose request agrees; it is left over no more."""
    for at, (one, item) in enumerate(islice(left, _LOOKED_AT)):
        if agrees(one, told):
            del left[at]
            return item
    return None


def _grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    groups: dict[Key, list[Item]] = {}
    for one in items:
        groups.setdefault(key(one), []).append(one)
    return groups


def _broker(told: Told) -> int:
    return told.broker


def _some(phrases: Sequence[str], separator: str) -> str:
    shown = [*phrases[:_PHRASES_MAX]]
    if len(phrases) > _PHRASES_MAX:
        shown.append(f"and {len(phrases) - _PHRASES_MAX} more")
    return separator.join(shown)
