"""One of two sides that are compared: a log, or all logs of a saved run."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from msgspec import structs

from replay.explore.saved import ContinuingLog
from replay.report.building import put_on_one_clock
from replay.report.cluster_changes import ELECTED
from replay.report.document import ClusterChange, Outage, Report, letter_of
from replay.report.partitions import UNKNOWN


class ComparedSide:
    """The reports of a side. `first` is the place of its first log among the logs of both."""

    def __init__(self, reports: Sequence[Report], first: int) -> None:
        put_on_one_clock(reports)
        self._reports = reports
        self._first = first
        self.changes = list(self._changes())

    @property
    def name(self) -> str:
        """The letters of its logs: "B", or "B and C"."""
        *others, last = (letter_of(self._first + log) for log, _ in enumerate(self._reports))
        return f"{', '.join(others)} and {last}" if others else last

    @property
    def has_several_logs(self) -> bool:
        """Whether the side is a run with several logs."""
        return len(self._reports) > 1

    @property
    def continues(self) -> ContinuingLog | None:
        """Where it continues another log."""
        return self._reports[0].continues

    @property
    def is_whole_run(self) -> bool:
        """Whether it has all logs of its run."""
        return self.continues is None or self.continues.count == len(self._reports)

    @property
    def origin_ns(self) -> int:
        """The wall-clock time of all logs at which the elapsed time is 0."""
        return self._reports[0].origin_ns

    @property
    def shift_ns(self) -> int:
        """How much later its first log begins than that of the other side."""
        return self._reports[0].shift_ns

    @property
    def end_ns(self) -> int:
        """The time of its last event."""
        return max(one.end_ns for one in self._reports)

    @property
    def until_ns(self) -> int:
        """Until when it is known what happened."""
        return max(one.until_ns for one in self._reports)

    def has_log(self, log: int) -> bool:
        """Whether a log, given by its place, is one of this side."""
        return 0 <= log - self._first < len(self._reports)

    def shows(self, one: ClusterChange, at_ns: int) -> bool:
        """Whether its logs can show a change of the other side, at an elapsed time. Between two
        logs of a run there is no controller: the next one does not see which brokers were lost
        meanwhile."""
        if not self.shift_ns <= at_ns <= self.until_ns - self.origin_ns:
            return False
        wall_ns = at_ns + self.origin_ns
        is_between = wall_ns < self._reports[-1].begin_ns and not any(
            each.begin_ns <= wall_ns <= each.end_ns for each in self._reports
        )
        return not (one.is_of_broker and is_between)

    def move(self, by_ns: int) -> None:
        """Let all logs begin later."""
        for one in self._reports:
            one.shift_ns += by_ns

    def wall_ns_of(self, seq: int, time: str) -> tuple[int, int] | None:
        """The log that has event `seq` at this time, and when it happened; None for no log."""
        for log, one in enumerate(self._reports, self._first):
            wall_ns = one.wall_ns_of(seq, time)
            if wall_ns is not None:
                return log, wall_ns
        return None

    def outages(self) -> Iterator[tuple[str, int, int]]:
        """The periods in which partitions were offline, without overlap: partition, begin, end."""
        found = sorted(
            (one.partition, one.begin_ns, self._end_of(one, report))
            for report in self._reports
            for one in report.outages
        )
        until: dict[str, int] = {}
        for partition, begin_ns, end_ns in found:
            begun_ns = max(begin_ns, until.get(partition, begin_ns))
            if end_ns > begun_ns:
                yield partition, begun_ns, end_ns
                until[partition] = end_ns

    def _end_of(self, outage: Outage, report: Report) -> int:
        """When an outage ended. One that a log shows to its end lasts until a later log shows the
        partition: only a controller ends an outage."""
        if outage.end_seq:
            return outage.end_ns
        shown = [
            max(span.begin_ns, outage.end_ns)
            for one in self._reports
            if one is not report
            for lane in one.lanes
            if (lane.group, lane.name) == ("partition", outage.partition)
            for span in lane.spans
            if span.state != UNKNOWN and span.end_ns > outage.end_ns
        ]
        if shown:
            return min(shown)
        return report.until_ns if outage.end_ns == report.end_ns else outage.end_ns

    def _changes(self) -> Iterator[ClusterChange]:
        """The changes in all logs, by their times. A log may begin at any moment, so the first
        election is none of them, and nothing that another log has shown before."""
        found = sorted(
            (
                structs.replace(one, log=log)
                for log, report in enumerate(self._reports, self._first)
                for one in report.changes
            ),
            key=attrgetter("wall_ns"),
        )
        last: dict[str, ClusterChange] = {}
        had_election = False
        for one in found:
            before = last.get(one.subject)
            last[one.subject] = one
            if (one.subject, one.text) == ELECTED:
                if had_election:
                    yield one
                had_election = True
            elif before is None or before.text != one.text or before.log == one.log:
                yield one
