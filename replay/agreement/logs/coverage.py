"""The terms of a controller that its broker's logs cover.

Brokers' logs are rotated, and copied at another time than ZooKeeper's data. If a log has not begun
yet or has already ended, its silence means nothing. A session that controller.log does not cover is
compared as if there were no controller.log. state-change.log judges only what it covers.
"""

import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from msgspec import Struct, field

from replay.agreement.broker_requests.comparing import WHOLE_TERM, LogSpan
from replay.agreement.logs.log_ends import LogEnds, TruncatedLog
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    RequestServed,
    StateChangeLogged,
    TornLog,
)
from replay.times import iso_time

_END_MS: Final = 2_000
"""A controller.log may end this long before the last decision, and a state-change.log begin this
long after an election, because the failover reads first."""
_STARTING_MS: Final = 10_000
"""A broker may begin to serve requests this long after it registers."""
_SETTLED_MS: Final = 1_000
"""Near the first and the last line of a state-change.log, the fold may be this far from Kafka."""
_AFTER_LAST_MS: Final = 2_000
"""A controller may still send requests this long after the last transaction."""
_FIRST_CORRELATION: Final = 0
"""A controller's connection to a broker numbers its requests from 0 (NetworkClient)."""
_ELECTED: Final = re.compile(r"successfully elected as the controller\. Epoch incremented to (\d+)")
_ANSWER: Final = "response"
_NS: Final = 1_000_000
_NOT_LOGGED: Final = ("producer_ids", "feature")
"""Decisions without a line; a log may end long before them."""

Key = TypeVar("Key")

Term = tuple[int, int]
"""A broker, and its controller epoch."""


class _Interval(Struct):
    """A time interval, in ms."""

    first: int
    last: int


class _RequestTimes(Struct):
    """Where a log with requests begins and ends.

    `first_ms` and `first` are the time and the record of the first line. `settled` is the first
    record well after it, `before_last` the last record well before the last line, and `last` has
    the records and times of the lines after that.
    """

    first_ms: int
    first: int
    settled: int = sys.maxsize
    before_last: int = 0
    last: deque[tuple[int, int]] = field(default_factory=deque)

    def note(self, seq: int, time_ms: int) -> None:
        """Note the number and time of a line, from which `settled` follows."""
        if time_ms >= self.first_ms + _SETTLED_MS:
            self.settled = min(self.settled, seq)
        self.last.append((seq, time_ms))
        while self.last[0][1] < time_ms - _SETTLED_MS:
            self.before_last, _ = self.last.popleft()


class LogCoverage:
    """Filled in a first reading of a log, in the order of its records."""

    def __init__(self) -> None:
        self.has_debug: set[int] = set()
        """Brokers whose controller.log is at level DEBUG or below."""
        self._lines: dict[int, _Interval] = {}
        self._elected: set[Term] = set()
        self._sent: dict[int, _RequestTimes] = {}
        self._served: dict[int, _RequestTimes] = {}
        self._correlation: dict[tuple[int, int], int] = {}
        self._registered_ms: dict[int, int] = {}
        self._sessions: dict[int, _Interval] = {}
        self._terms: dict[Term, _Interval] = {}
        self._first_of: dict[int, Term] = {}
        self._elected_ms: dict[Term, int] = {}
        self._session_of: dict[Term, int] = {}
        self._last_ms = 0
        self._after_last_ms = 0
        self.known_ms = 0
        """Up to this time no transaction is missing."""
        self._ends = LogEnds()

    def note_transaction(self, time_ms: int) -> None:
        """Add a transaction; the lines so far come before it."""
        self._last_ms, self._after_last_ms = time_ms, 0
        self.note_known(time_ms)

    def note_known(self, time_ms: int) -> None:
        """All transactions up to a time are in the log."""
        self.known_ms = max(self.known_ms, time_ms)

    def note_line(self, seq: int, time_ms: int, line: ControllerLogged, *, is_debug: bool) -> None:
        """Add a line of a broker's controller.log, with its record."""
        broker = line.broker
        self._ends.note_controllers_line(seq, time_ms, line)
        elected = _ELECTED.search(line.text)
        if elected is not None:
            self._elected.add((broker, int(elected[1])))
        _extend(self._lines, broker, time_ms)
        if is_debug:
            self.has_debug.add(broker)

    def note_state_change(self, seq: int, time_ms: int, line: StateChangeLogged) -> None:
        """Add a line of a broker's state-change.log, with its record."""
        broker = line.broker
        self._ends.note_state_change(seq, time_ms, line, has_debug=bool(self.has_debug))
        if line.what != _ANSWER and time_ms > self._last_ms + _AFTER_LAST_MS:
            self._after_last_ms = max(self._after_last_ms, time_ms)
        self._sent.setdefault(broker, _RequestTimes(time_ms, seq)).note(seq, time_ms)

    def note_served(self, seq: int, time_ms: int, served: RequestServed) -> None:
        """Add a line of a broker's request log, with its record."""
        broker = served.broker
        self._ends.note_served(seq, time_ms, served)
        self._served.setdefault(broker, _RequestTimes(time_ms, seq)).note(seq, time_ms)

    def note_end(self, torn: Iterable[TornLog], known_ms: int = 0) -> None:
        """Add the logs that have no end, and the time up to which all transactions are known."""
        self._ends.note_torn(torn)
        self.note_known(known_ms)

    def note_controllers(self, broker: int, controller: int, correlation: int) -> None:
        """Add the correlation id of a controller's request to a broker."""
        self._correlation.setdefault((broker, controller), correlation)

    def note_registration(self, broker: int, time_ms: int) -> None:
        """A broker has registered."""
        self._registered_ms.setdefault(broker, time_ms)

    def note_decision(self, session: int, term: Term, what: str, time_ms: int) -> None:
        """Add a decision of a term that began in the log."""
        if what == "election":
            self._session_of[term] = session
            self._first_of.setdefault(session, term)
            self._elected_ms[term] = time_ms
        if what in _NOT_LOGGED or term not in self._session_of:
            return
        # A log may end before its first line at level DEBUG.
        is_debug = bool(self.has_debug)
        self._ends.note_decision(session, term[0], what, time_ms, has_debug=is_debug)
        _extend(self._sessions, session, time_ms)
        if what == "partition_state":
            _extend(self._terms, term, time_ms)

    def has_lines(self, session: int) -> bool:
        """Whether controller.log, if there is one, covers a session from its first election on.

        At level INFO many decisions leave no line, so the end of the log cannot be checked.
        """
        interval = self._sessions.get(session)
        if interval is None:
            return True
        first = self._first_of[session]
        lines = self._lines.get(first[0])
        if lines is None:
            return True
        is_ended = first[0] in self.has_debug and lines.last < interval.last - _END_MS
        return first in self._elected and not is_ended

    def has_lines_of(self, term: Term) -> bool:
        """Whether controller.log, if there is one, covers a term's session."""
        return self.has_lines(self._session_of.get(term, 0))

    def state_changes(self, term: Term) -> LogSpan:
        """The part of a term that state-change.log covers. After each write of a state, brokers are
        sent requests."""
        interval, sent = self._terms.get(term), self._sent.get(term[0])
        if interval is None or sent is None:
            return WHOLE_TERM
        begins = sent.first_ms > min(interval.first, self._elected_ms[term] + _END_MS)
        last, last_ms = sent.last[-1]
        ends = last_ms < interval.last
        return LogSpan(
            sent.first,
            sent.before_last if ends else last,
            begins,
            sent.settled if begins else 0,
        )

    def served(self, term: Term, broker: int) -> LogSpan:
        """The part of a term that a broker's request log covers.

        A broker is sent the live brokers soon after it registers, or at once after an election.
        """
        served, elected_ms = self._served.get(broker), self._elected_ms.get(term)
        if served is None or elected_ms is None:
            return WHOLE_TERM
        is_serving_ms = self._registered_ms.get(broker, 0) + _STARTING_MS
        is_late = served.first_ms > max(elected_ms, is_serving_ms)
        begins = is_late and self._correlation.get((broker, term[0])) != _FIRST_CORRELATION
        return LogSpan(served.first, begins=begins, settled=served.settled if begins else 0)

    def covers(self, term: Term, seq: int) -> bool:
        """Whether a record lies between the first and the last line of state-change.log."""
        sent = self._sent.get(term[0])
        return sent is not None and sent.first <= seq <= sent.last[-1][0]

    def unserved_from(self, broker: int) -> int:
        """The record from which on a broker's request log may lack requests."""
        return self._ends.unserved_from(broker)

    @property
    def cut_logs(self) -> list[TruncatedLog]:
        """The brokers' logs that end too early."""
        return self._ends.cut

    @property
    def is_cut(self) -> bool:
        """Whether controllers were active when transactions are missing."""
        return self._after_last_ms > self.known_ms

    @property
    def notes(self) -> Iterator[str]:
        """The logs that are not used although they exist, and what only a log reports."""
        if self.is_cut:
            end, last = (iso_time(one * _NS) for one in (self._last_ms, self._after_last_ms))
            yield (
                f"state-change.log reports controllers' actions up to {last}, but the last"
                f" transaction is of {end}: the end of the transaction logs is missing; what comes"
                " after it is not judged"
            )
        for broker in sorted(
            {self._first_of[one][0] for one in self._sessions if not self.has_lines(one)}
        ):
            yield (
                f"controller.log of broker {broker} does not cover all its decisions: the sessions"
                " that it does not cover are compared without it"
            )


def _extend(intervals: dict[Key, _Interval], key: Key, time_ms: int) -> None:
    interval = intervals.setdefault(key, _Interval(time_ms, time_ms))
    interval.first, interval.last = min(interval.first, time_ms), max(interval.last, time_ms)
