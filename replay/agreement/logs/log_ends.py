"""Brokers' logs that end although their brokers went on.

A log that was copied earlier than the others, or whose end was lost, shows less than the others do.
Its last line alone is no evidence: a broker that has nothing to do logs nothing. A torn line is
evidence. Other files show that a line must have followed: the logs of other brokers, other logs of
the broker, and its writes.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from replay.stock_clusters.broker_logs.lines import TOGETHER_MS
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    DamagedLines,
    RequestServed,
    StateChangeLogged,
    TornLog,
)
from replay.times import iso_time

CONTROLLER_LOG: Final = "controller.log"
STATE_CHANGE_LOG: Final = "state-change.log"
REQUEST_LOG: Final = "request log"
DELETION: Final = "topic_deletion"
"""The kind of the decisions about a topic that is deleted."""

_LATE_MS: Final = TOGETHER_MS // 2
"""Lines about an event may follow up to this long after the event."""
_LACKS_MS: Final = 300
"""A log lacks a line that should have come this long after its last one. The clocks of brokers and
ZooKeeper differ by less."""
_GOES_ON_MS: Final = 1_000
"""A controller has processed the event of a decision if it decides again this long after it."""
_OF_CONTROLLERS: Final = ("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA")
_AFTER: Final = ("assignment", "election", DELETION)
"""Decisions after which controller.log has a line."""
_BEFORE: Final = ("partition_znode",)
"""Decisions before which it has a line: new topics and partitions."""
_BEFORE_AT_DEBUG: Final = ("partition_state", DELETION)
"""Decisions before which it has a line at level DEBUG."""
_RESPONSE: Final = "response"
_NS: Final = 1_000_000

_Log = tuple[str, int]
"""The kind of a log, and its broker."""


class DamagedPart(Struct, frozen=True):
    """Lines of a broker's log that cannot be parsed, and that were written between two times (wall
    clock, in ms); `to_ms` is None if no line follows."""

    log: str
    broker: int
    from_ms: int
    to_ms: int | None

    @property
    def name(self) -> str:
        """The log and its broker."""
        return f"{self.log} of broker {self.broker}"

    def may_show(self, time_ms: int) -> bool:
        """Whether the lines may have shown something about a time."""
        is_over = self.to_ms is not None and time_ms > self.to_ms + _LATE_MS
        return self.from_ms - _LATE_MS <= time_ms and not is_over


def damaged_parts(damaged: Iterable[DamagedLines]) -> list[DamagedPart]:
    """The damaged parts of brokers' logs, from what an import or a shadow notes about them."""
    return [
        DamagedPart(kind_of_log(one.kind), one.broker, one.from_ms, one.to_ms) for one in damaged
    ]


def kind_of_log(kind: str) -> str:
    """The kind of a log, from the kind of its file (broker_log_kind)."""
    return kind if kind in (CONTROLLER_LOG, STATE_CHANGE_LOG) else REQUEST_LOG


class TruncatedLog(Struct, frozen=True):
    """A log of a broker that ends too early. Its last line is of `ends`, and it should have a line
    of `lacks` (ISO 8601; "" if only the torn last line is evidence). From record `seq` on, it does
    not show everything."""

    log: str
    broker: int
    ends: str
    lacks: str
    seq: int

    @property
    def name(self) -> str:
        """The log and its broker."""
        return f"{self.log} of broker {self.broker}"

    @property
    def note(self) -> str:
        """One sentence that says which end of the log is missing."""
        text = f"the end of the {self.name} is missing: its last line is of {self.ends}"
        if not self.lacks:
            return f"{text}, and the next one is not complete"
        return f"{text}, but other files show that it went on up to {self.lacks}"


class _Lines(Struct):
    """The last lines of a log: their records and times, of the last _LATE_MS. `before` is the last
    record before them."""

    last: deque[tuple[int, int]]
    before: int = 0

    def note(self, seq: int, time_ms: int) -> None:
        self.last.append((seq, time_ms))
        while self.last[0][1] < time_ms - _LATE_MS:
            self.before, _ = self.last.popleft()


class LogEnds:
    """Filled in a first reading of a log, in the order of its records."""

    def __init__(self) -> None:
        self._lines: dict[_Log, _Lines] = {}
        self._lacks_ms: dict[_Log, int] = {}
        """The latest time of which a log should have a line."""
        self._torn: set[_Log] = set()
        self._with_responses: set[int] = set()
        """Controllers whose state-change.log has brokers' responses."""
        self._with_controllers_requests: set[int] = set()
        self._undecided: dict[int, deque[tuple[int, list[_Log]]]] = {}
        """By session: the times of its last decisions, and the logs with a line about each."""

    def note_controllers_line(self, seq: int, time_ms: int, line: ControllerLogged) -> None:
        """Add a line of controller.log."""
        self._note((CONTROLLER_LOG, line.broker), seq, time_ms)

    def note_state_change(
        self, seq: int, time_ms: int, line: StateChangeLogged, *, has_debug: bool
    ) -> None:
        """Add a line of state-change.log. A broker whose response it shows has logged the
        request. At level DEBUG (`has_debug`) controller.log has a line for each event."""
        self._note((STATE_CHANGE_LOG, line.broker), seq, time_ms)
        if line.what == _RESPONSE:
            self._with_responses.add(line.broker)
            for broker in line.brokers:
                if broker in self._with_controllers_requests:
                    self._expect((REQUEST_LOG, broker), time_ms)
        elif has_debug and line.epoch:
            self._expect((CONTROLLER_LOG, line.broker), time_ms)

    def note_served(self, seq: int, time_ms: int, served: RequestServed) -> None:
        """Add a line of a request log. It shows nothing about the log of the controller: a broker
        that was paused or unreachable receives requests much later."""
        self._note((REQUEST_LOG, served.broker), seq, time_ms)
        if served.api in _OF_CONTROLLERS:
            self._with_controllers_requests.add(served.broker)

    def note_decision(
        self, session: int, broker: int, what: str, time_ms: int, *, has_debug: bool
    ) -> None:
        """Add a decision of a broker's session. The line of its event comes before it, and so do
        the responses after which topics are deleted. Other lines are only expected once a later
        decision shows that the controller finished the event."""
        if what in _BEFORE or (has_debug and what in _BEFORE_AT_DEBUG):
            self._expect((CONTROLLER_LOG, broker), time_ms)
        if what == DELETION and broker in self._with_responses:
            self._expect((STATE_CHANGE_LOG, broker), time_ms)
        logs: list[_Log] = []
        if what == "partition_state":
            logs.append((STATE_CHANGE_LOG, broker))
        if what in _AFTER:
            logs.append((CONTROLLER_LOG, broker))
        waiting = self._undecided.setdefault(session, deque())
        while waiting and waiting[0][0] <= time_ms - _GOES_ON_MS:
            before_ms, expected = waiting.popleft()
            for log in expected:
                self._expect(log, before_ms)
        waiting.append((time_ms, logs))

    def note_torn(self, torn: Iterable[TornLog]) -> None:
        """Add the logs that have no end."""
        self._torn.update((kind_of_log(one.kind), one.broker) for one in torn)

    def unserved_from(self, broker: int) -> int:
        """The record from which on a broker's request log may lack requests, because their
        responses would come after its last line."""
        lines = self._lines.get((REQUEST_LOG, broker))
        return 0 if lines is None else lines.before + 1

    @property
    def cut(self) -> list[TruncatedLog]:
        """The logs that end too early."""
        found = []
        for (kind, broker), lines in sorted(self._lines.items()):
            lacks_ms = self._lacks_ms.get((kind, broker), 0)
            ends_ms = lines.last[-1][1]
            goes_on = lacks_ms > ends_ms + _LACKS_MS
            if goes_on or (kind, broker) in self._torn:
                lacks = iso_time(lacks_ms * _NS) if goes_on else ""
                ends = iso_time(ends_ms * _NS)
                found.append(TruncatedLog(kind, broker, ends, lacks, lines.before + 1))
        return found

    def _note(self, log: _Log, seq: int, time_ms: int) -> None:
        if log not in self._lines:
            self._lines[log] = _Lines(deque())
        self._lines[log].note(seq, time_ms)

    def _expect(self, log: _Log, time_ms: int) -> None:
        self._lacks_ms[log] = max(time_ms, self._lacks_ms.get(log, 0))
