"""The values of a report. Times are wall-clock times in ns; events are named by their numbers."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct, field

from replay.explore.saved import ContinuingLog
from replay.report.reading import LogExtent, Procedure, TimedDecision, TimedEvent
from replay.times import nanoseconds_of, seconds_of

_NS_PER_MS: Final = 1_000_000

Severity = Literal["bad", "warning", "info"]
Group = Literal["diff", "controller", "broker", "session", "reassignment", "partition"]


def letter_of(log: int) -> str:
    """The letter that names one of several logs in a report."""
    return chr(ord("A") + log)


class ReportFinding(Struct, frozen=True):
    """A sentence about what happened, and where it leads in the time line. `look_at` is the command
    that answers more, "" for none."""

    kind: str
    severity: Severity
    text: str
    seq: int
    begin_ns: int
    end_ns: int
    subjects: tuple[str, ...] = ()
    look_at: str = ""


class Span(Struct, frozen=True):
    """A period on a lane. `state` selects the colour; `seq` is the event that began it."""

    begin_ns: int
    end_ns: int
    state: str
    text: str
    seq: int


class Mark(Struct, frozen=True):
    """A moment on a lane."""

    wall_ns: int
    kind: str
    text: str
    seq: int


class Lane(Struct, frozen=True):
    """One line of the time line. `weight` orders the lanes of a group; a lane of weight 0 has
    nothing to show."""

    group: Group
    name: str
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    weight: float = 0.0


class Outage(Struct, frozen=True):
    """A period without a leader that is registered. `end_seq` is 0 if it lasts to the end of what
    the log shows."""

    partition: str
    seq: int
    begin_ns: int
    end_seq: int
    end_ns: int
    leader: int
    """The last leader, -1 if the partition had none."""

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return seconds_of(self.end_ns - self.begin_ns)


class Count(Struct, frozen=True):
    """The partitions that are not well, from a moment on."""

    wall_ns: int
    offline: int
    under_replicated: int


class CurvePoint(Struct, frozen=True):
    """How likely a bad outcome was after an event, with its limits of confidence."""

    seq: int
    wall_ns: int
    likelihood: float
    low: float
    high: float


class PointOfNoReturn(Struct, frozen=True):
    """A point of no return, as `refold what-if --invariant` found it."""

    condition: str
    points: list[CurvePoint]


class DifferingDecision(Struct, frozen=True):
    """A decision at event `seq` that differs between two versions: `what` differs, and how."""

    seq: int
    what: str
    lines: list[str]


class ClusterChange(Struct, frozen=True):
    """A change of a partition, broker or topic, in words that do not differ between two runs."""

    seq: int
    wall_ns: int
    subject: str
    text: str
    is_of_broker: bool = False
    log: int = 0
    """Which of the compared logs has it: its place in the report."""


class EventOfLog(NamedTuple):
    """An event of one of several logs, which is given by its place in the report."""

    log: int
    seq: int


class UnmatchedChange(Struct, frozen=True):
    """A change that is only in one of two compared sides: in event `seq` of log number `log`.
    `at_ns` is the time since the first log's first event."""

    log: int
    seq: int
    at_ns: int
    time: str
    subject: str
    text: str


class OfflineTime(Struct, frozen=True):
    """How long a partition was offline in each of two sides, in the period that both show. If it
    was offline only while one of the sides shows nothing, that side has None."""

    partition: str
    first_s: float | None
    second_s: float | None


class LogComparison(Struct, frozen=True):
    """How the second of two sides compares with the first. A side is a log, or all logs of a saved
    run. `pairs` are the events that show the same change. `branch` is the side that continues the
    other one (0 or 1), and the time since the first log's first event at which it does so, in ns;
    None if neither does. `second` is the place of the second side's first log."""

    sentence: str
    pairs: list[tuple[EventOfLog, EventOfLog]]
    differences: list[UnmatchedChange]
    offline: list[OfflineTime]
    branch: tuple[int, int] | None = None
    second: int = 1


class Report(LogExtent, kw_only=True):
    """A log as a report. `failovers` are the procedures that took the controller role."""

    notes: list[str]
    findings: list[ReportFinding]
    lanes: list[Lane]
    counts: list[Count]
    outages: list[Outage]
    failovers: list[Procedure]
    events: list[TimedEvent]
    decisions: list[TimedDecision]
    changes: list[ClusterChange]
    futures: PointOfNoReturn | None = None
    differing: list[DifferingDecision] = field(default_factory=list)
    """The findings of `refold diff`."""
    shift_ns: int = 0
    """How much later this log begins than the first log of the report; negative: earlier."""
    continues: ContinuingLog | None = None
    """Where the run of this log continues another one."""
    comparison: LogComparison | None = None

    @property
    def origin_ns(self) -> int:
        """The wall-clock time at which the elapsed time is 0."""
        return self.begin_ns - self.shift_ns

    @property
    def until_ns(self) -> int:
        """Until when it is known what happened. Nothing happens after a run's last event."""
        if self.continues is None or not self.continues.is_last:
            return self.end_ns
        return max(self.end_ns, nanoseconds_of(self.continues.branch.end))

    def wall_ns_of(self, seq: int, time: str) -> int | None:
        """When event `seq` happened; None if no such event happened at this time, to the
        millisecond: the event is one of another log."""
        place = bisect_left(self.events, seq, key=lambda one: one.listed.seq)
        if place == len(self.events) or self.events[place].listed.seq != seq:
            return None
        wall_ns = self.events[place].wall_ns
        return wall_ns if abs(wall_ns - nanoseconds_of(time)) < _NS_PER_MS else None


def title_of(reports: Sequence[Report]) -> str:
    """The logs of a report. If they are compared: one side against the other."""
    paths = [one.path for one in reports]
    found = reports[-1].comparison
    if found is None:
        return ", ".join(paths)
    return " against ".join(map(", ".join, (paths[: found.second], paths[found.second :])))
