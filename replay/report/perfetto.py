"""Writes a report as a trace: ui.perfetto.dev and chrome://tracing open it.

The format is the Trace Event Format's JSON. Each group of lanes is a process, each lane a thread.
Times are microseconds since the first event. Slices of a thread must nest, so spans that overlap
are on several threads with the same name.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from replay.report.document import Lane, Mark, Report, Span, letter_of
from replay.times import iso_time

MARKER: Final = '"generator":"refold report"'
"""By this a file is recognized as a trace of a report, which may be written again."""
_PROCESSES: Final = {
    "controller": "Controller",
    "broker": "Brokers",
    "session": "ZooKeeper sessions",
    "reassignment": "Reassignments",
    "partition": "Partitions",
    "log": "Log",
    "counts": "Partitions that are not well",
    "diff": "Decisions that differ (refold diff)",
}
_EVENTS, _DECISIONS, _FAILOVERS = 1, 2, 3
"""The threads of the process "Log"."""
_FLOW_BITS: Final = 48

_Entry = dict[str, Any]


def trace_of(reports: Sequence[Report]) -> str:
    """The content of the file. Each report has its own processes, in the same trace."""
    entries: list[_Entry] = []
    for number, report in enumerate(reports):
        entries += _Trace(report, number, len(reports) > 1).entries()
    about = {
        "generator": "refold report",
        "logs": [one.path for one in reports],
        "begin": [iso_time(one.begin_ns) for one in reports],
    }
    document = {"otherData": about, "displayTimeUnit": "ms", "traceEvents": entries}
    return msgspec.json.encode(document).decode() + "\n"


class _Trace:
    """The entries of one report."""

    def __init__(self, report: Report, number: int, is_named: bool) -> None:
        self._report = report
        self._name = f" ({letter_of(number)}: {report.path})" if is_named else ""
        self._pids = {
            group: number * len(_PROCESSES) + place
            for place, group in enumerate(_PROCESSES, start=1)
        }
        self._number = number

    def entries(self) -> Iterator[_Entry]:
        """Names first, then lanes, the log and the counts."""
        for place, (group, name) in enumerate(_PROCESSES.items()):
            pid = self._pids[group]
            yield _metadata("process_name", pid, 0, {"name": name + self._name})
            yield _metadata("process_sort_index", pid, 0, {"sort_index": place})
        tid = 0
        for lane in self._report.lanes:
            for place, spans in enumerate(_tracks_of_spans(lane.spans)):
                tid += 1
                yield from self._lane(lane, spans, [] if place else lane.marks, tid)
        yield from self._log()
        for one in self._report.counts:
            values = {"offline": one.offline, "under-replicated": one.under_replicated}
            yield self._entry("C", "partitions", "counts", 0, one.wall_ns, values)

    def _lane(
        self, lane: Lane, spans: list[Span], marks: Iterable[Mark], tid: int
    ) -> Iterator[_Entry]:
        pid = self._pids[lane.group]
        yield _metadata("thread_name", pid, tid, {"name": lane.name})
        yield _metadata("thread_sort_index", pid, tid, {"sort_index": tid})
        for span in spans:
            args = {"event": span.seq, "state": span.state}
            name = span.text or span.state
            entry = self._entry("X", name, lane.group, tid, span.begin_ns, args)
            yield entry | {"dur": (span.end_ns - span.begin_ns) / 1000}
        for mark in marks:
            args = {"event": mark.seq, "kind": mark.kind}
            yield self._entry("i", mark.text, lane.group, tid, mark.wall_ns, args) | {"s": "t"}

    def _log(self) -> Iterator[_Entry]:
        """Events and decisions as slices, with flows from causes; failovers with their steps."""
        pid = self._pids["log"]
        names = {_EVENTS: "events", _DECISIONS: "decisions", _FAILOVERS: "failovers"}
        for tid, name in names.items():
            yield _metadata("thread_name", pid, tid, {"name": name})
        causes = {one.because.seq for one in self._report.decisions if one.because is not None}
        for event in self._report.events:
            listed = event.listed
            args = {"event": listed.seq, "time": listed.time, "kind": listed.kind}
            args["subjects"] = ", ".join(listed.subjects)
            entry = self._entry("X", listed.text, "log", _EVENTS, event.wall_ns, args)
            flow = {"bind_id": self._flow(listed.seq), "flow_out": True}
            yield entry | {"dur": 0} | (flow if listed.seq in causes else {})
        for one in self._report.decisions:
            decision, because = one.listed, one.because
            args = {"event": decision.seq, "time": decision.time, "rule": decision.rule}
            args |= {"subjects": ", ".join(decision.subjects), "verdict": decision.verdict}
            args["why"] = f"{because.procedure}: {because.text}" if because is not None else ""
            entry = self._entry("X", decision.text, "log", _DECISIONS, one.wall_ns, args)
            flow = {} if because is None else {"bind_id": self._flow(because.seq)}
            yield entry | {"dur": 0} | flow | ({"flow_in": True} if flow else {})
        for each in self._report.failovers:
            end_ns = each.end_ns or self._report.end_ns
            steps = [(step.text, step.begin_ns, step.end_ns or end_ns) for step in each.steps]
            for name, begin_ns, until_ns in [(each.name, each.begin_ns, end_ns), *steps]:
                args = {"event": each.seq, "epoch": each.epoch}
                entry = self._entry("X", name, "log", _FAILOVERS, begin_ns, args)
                yield entry | {"dur": (until_ns - begin_ns) / 1000}

    def _flow(self, seq: int) -> str:
        """The number of the flow from an event. Perfetto reads only numbers here."""
        return hex(self._number << _FLOW_BITS | seq)

    def _entry(
        self, phase: str, name: str, group: str, tid: int, wall_ns: int, args: dict[str, Any]
    ) -> _Entry:
        at_us = (wall_ns - self._report.origin_ns) / 1000
        pid = self._pids[group]
        return dict(ph=phase, name=name, cat=group, pid=pid, tid=tid, ts=at_us, args=args)


def _metadata(name: str, pid: int, tid: int, args: _Entry) -> _Entry:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _tracks_of_spans(spans: list[Span]) -> list[list[Span]]:
    """The spans in as few lists as needed so that those of a list nest; at least one list."""
    tracks: list[_Track] = [_Track()]
    for span in sorted(spans, key=lambda one: (one.begin_ns, -one.end_ns)):
        if not any(one.add_if_nested(span) for one in tracks):
            tracks.append(_Track([span], [span.end_ns]))
    return [one.spans for one in tracks]


class _Track(Struct):
    """Spans that nest. `ends` are the ends of those that are under way."""

    spans: list[Span] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add_if_nested(self, span: Span) -> bool:
        """Add the span if it nests."""
        while self.ends and self.ends[-1] <= span.begin_ns:
            self.ends.pop()
        if self.ends and span.end_ns > self.ends[-1]:
            return False
        self.spans.append(span)
        self.ends.append(span.end_ns)
        return True
