"""Over which of a controller's terms its broker's logs reach: they are rotated, and copied file by
file, at another time than ZooKeeper's.

That a log which has not begun yet, or has ended, says nothing does not mean that nothing was done.
A session that a controller.log does not reach over is compared as if that were not there; of what
state-change.log does not reach over nothing is judged by it.
"""

import re
import sys
from collections import deque
from collections.abc import Iterator
from typing import Final, TypeVar

from msgspec import Struct, field

from replay.stock_clusters.agreement.broker_requests.comparing import WHOLE, Reach
from replay.times import iso_time

_APART_MS: Final = 2_000
"""By how much a controller.log may end before the last decision, and a state-change.log begin
behind an election: the failover reads first."""
_STARTING_MS: Final = 10_000
"""How long after it registers a broker may begin to serve."""
_SETTLED_MS: Final = 1_000
"""How long behind the first line of a state-change.log, or before the last one, the fold may be
elsewhere than Kafka was."""
_BEHIND_MS: Final = 2_000
"""How long behind the last transaction a controller may still tell brokers of it."""
_FIRST_CORRELATION: Final = 0
"""A controller's connection to a broker numbers its requests from 0 on (NetworkClient)."""
_ELECTED: Final = re.compile(r"successfully elected as the controller\. Epoch incremented to (\d+)")
_ANSWER: Final = "response"
_NS: Final = 1_000_000
_LEAVE_NO_LINE: Final = ("producer_ids", "feature")
"""Decisions that a log may end long before."""

Key = TypeVar("Key")

Term = tuple[int, int]
"""A broker, and its controller epoch."""


class _Span(Struct):
    """From when to when, in ms."""

    first: int
    last: int


class _Log(Struct):
    """A log of requests: when it begins, in ms, and its first record; the first one well behind
    that, and the last ones with their times."""

    first_ms: int
    first: int
    settled: int = sys.maxsize
    last: deque[tuple[int, int]] = field(default_factory=deque)

    def take(self, seq: int, time_ms: int) -> None:
        """A line."""
        if time_ms >= self.first_ms + _SETTLED_MS:
            self.settled = min(self.settled, seq)
        self.last.append((seq, time_ms))
        while self.last[0][1] < time_ms - _SETTLED_MS:
            self.last.popleft()


class LineCoverage:
    """Filled in a first reading of a log, in the order of its records."""

    def __init__(self) -> None:
        self.has_debug: set[int] = set()
        """Brokers whose controller.log is at level DEBUG or below."""
        self._lines: dict[int, _Span] = {}
        self._elected: set[Term] = set()
        self._sent: dict[int, _Log] = {}
        self._served: dict[int, _Log] = {}
        self._correlation: dict[tuple[int, int], int] = {}
        self._registered_ms: dict[int, int] = {}
        self._sessions: dict[int, _Span] = {}
        self._terms: dict[Term, _Span] = {}
        self._first_of: dict[int, Term] = {}
        self._elected_ms: dict[Term, int] = {}
        self._session_of: dict[Term, int] = {}
        self._last_ms = 0
        self._behind_ms = 0

    def take_transaction(self, time_ms: int) -> None:
        """A transaction of the ZooKeeper's: what was told so far is before it."""
        self._last_ms, self._behind_ms = time_ms, 0

    def take_line(self, broker: int, text: str, time_ms: int, *, is_debug: bool) -> None:
        """A line of a broker's controller.log."""
        elected = _ELECTED.search(text)
        if elected is not None:
            self._elected.add((broker, int(elected[1])))
        _extend(self._lines, broker, time_ms)
        if is_debug:
            self.has_debug.add(broker)

    def take_state_change(self, broker: int, seq: int, time_ms: int, what: str) -> None:
        """A line of a broker's state-change.log, what it tells of, and its record."""
        if what != _ANSWER and time_ms > self._last_ms + _BEHIND_MS:
            self._behind_ms = max(self._behind_ms, time_ms)
        self._sent.setdefault(broker, _Log(time_ms, seq)).take(seq, time_ms)

    def take_served(self, broker: int, seq: int, time_ms: int) -> None:
        """A line of a broker's request log, and its record."""
        self._served.setdefault(broker, _Log(time_ms, seq)).take(seq, time_ms)

    def take_controllers(self, broker: int, controller: int, correlation: int) -> None:
        """It is of a request of a controller's, so numbered on the connection to the broker."""
        self._correlation.setdefault((broker, controller), correlation)

    def take_registration(self, broker: int, time_ms: int) -> None:
        """A broker is there."""
        self._registered_ms.setdefault(broker, time_ms)

    def take_decision(self, session: int, term: Term, what: str, time_ms: int) -> None:
        """A decision of a term that began in the log."""
        if what == "election":
            self._session_of[term] = session
            self._first_of.setdefault(session, term)
            self._elected_ms[term] = time_ms
        if what in _LEAVE_NO_LINE or term not in self._session_of:
            return
        _extend(self._sessions, session, time_ms)
        if what == "partition_state":
            _extend(self._terms, term, time_ms)

    def has_lines(self, session: int) -> bool:
        """Whether a controller.log, if there is one, reaches over a session's terms: from its first
        election on. At level INFO many decisions leave no line: its end does not show then."""
        span = self._sessions.get(session)
        if span is None:
            return True
        first = self._first_of[session]
        lines = self._lines.get(first[0])
        if lines is None:
            return True
        is_ended = first[0] in self.has_debug and lines.last < span.last - _APART_MS
        return first in self._elected and not is_ended

    def has_lines_of(self, term: Term) -> bool:
        """The same of a term."""
        return self.has_lines(self._session_of.get(term, 0))

    def state_changes(self, term: Term) -> Reach:
        """How far a state-change.log, if there is one, reaches over a term: behind each state that
        is written brokers are told of it."""
        span, sent = self._terms.get(term), self._sent.get(term[0])
        if span is None or sent is None:
            return WHOLE
        begins = sent.first_ms > min(span.first, self._elected_ms[term] + _APART_MS)
        last, last_ms = sent.last[-1]
        ends = last_ms < span.last
        return Reach(
            sent.first,
            sent.last[0][0] if ends else last,
            begins,
            sent.settled if begins else 0,
        )

    def served(self, term: Term, broker: int) -> Reach:
        """How far a broker's request log, if there is one, reaches over a term: who registers is
        told who is alive soon, who is there when a controller is elected at once."""
        served, elected_ms = self._served.get(broker), self._elected_ms.get(term)
        if served is None or elected_ms is None:
            return WHOLE
        is_serving_ms = self._registered_ms.get(broker, 0) + _STARTING_MS
        is_late = served.first_ms > max(elected_ms, is_serving_ms)
        begins = is_late and self._correlation.get((broker, term[0])) != _FIRST_CORRELATION
        return Reach(served.first, begins=begins, settled=served.settled if begins else 0)

    def tells_of(self, term: Term, seq: int) -> bool:
        """Whether a state-change.log goes on at a record."""
        sent = self._sent.get(term[0])
        return sent is not None and sent.first <= seq <= sent.last[-1][0]

    @property
    def notes(self) -> Iterator[str]:
        """What is compared as without a log that is there, and what a log tells of that no
        transaction does."""
        if self._behind_ms:
            end, last = (iso_time(one * _NS) for one in (self._last_ms, self._behind_ms))
            yield (
                f"state-change.log tells of what controllers did up to {last}, the last transaction"
                f" is of {end}: the end of the transaction logs is missing, what is behind is not"
                " judged"
            )
        for broker in sorted(
            {self._first_of[one][0] for one in self._sessions if not self.has_lines(one)}
        ):
            yield (
                f"controller.log of broker {broker} does not reach over all that it decided: the"
                " sessions that it does not reach over are compared as without it"
            )


def _extend(spans: dict[Key, _Span], key: Key, time_ms: int) -> None:
    span = spans.setdefault(key, _Span(time_ms, time_ms))
    span.first, span.last = min(span.first, time_ms), max(span.last, time_ms)
