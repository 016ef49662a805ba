"""The findings of reports as plain values, for `refold report --json`."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from replay.report.document import LogComparison, Outage, Report, ReportFinding
from replay.report.reading import Procedure
from replay.times import iso_time, seconds_of


class ReportSummary(Struct, frozen=True):
    """The findings of a report. Times are in ISO 8601, durations in seconds."""

    path: str
    first_seq: int
    begin: str
    last_seq: int
    end: str
    notes: list[str]
    findings: list[dict[str, Any]]
    outages: list[dict[str, Any]]
    failovers: list[dict[str, Any]]


class Summaries(Struct, frozen=True, omit_defaults=True):
    """One log, all logs of one run, or the logs of two sides that are compared."""

    reports: list[ReportSummary]
    comparison: LogComparison | None = None


def summary_of(reports: Sequence[Report]) -> Summaries:
    """The summaries of all reports."""
    return Summaries([_summary(one) for one in reports], reports[-1].comparison)


def _summary(report: Report) -> ReportSummary:
    return ReportSummary(
        path=report.path,
        first_seq=report.first_seq,
        begin=iso_time(report.begin_ns),
        last_seq=report.last_seq,
        end=iso_time(report.end_ns),
        notes=report.notes,
        findings=[_finding(one) for one in report.findings],
        outages=[_outage(one) for one in report.outages],
        failovers=[_failover(one, report.end_ns) for one in report.failovers],
    )


def _finding(one: ReportFinding) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "severity": one.severity,
        "text": one.text,
        "seq": one.seq,
        "begin": iso_time(one.begin_ns),
        "end": iso_time(one.end_ns),
        "subjects": one.subjects,
        "look_at": one.look_at,
    }


def _outage(one: Outage) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "seq": one.seq,
        "begin": iso_time(one.begin_ns),
        "end_seq": one.end_seq or None,
        "end": iso_time(one.end_ns),
        "seconds": one.seconds,
        "leader": one.leader,
    }


def _failover(one: Procedure, end_ns: int) -> dict[str, Any]:
    return {
        "seq": one.seq,
        "begin": iso_time(one.begin_ns),
        "seconds": seconds_of((one.end_ns or end_ns) - one.begin_ns),
        "steps": [
            {
                "text": step.text,
                "rule": step.rule,
                "seq": step.seq,
                "seconds": seconds_of((step.end_ns or end_ns) - step.begin_ns),
            }
            for step in one.steps
        ],
    }
