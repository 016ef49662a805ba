"""Writes a report as Markdown, for a ticket: findings, outages and failovers; no time line."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from controller.core.values import counted
from replay.report.document import LogComparison, Report, letter_of, title_of
from replay.times import iso_time

MARKER: Final = "<!-- generator: refold report -->"
"""By this a file is recognized as a report, which may be written again."""
_ROWS_MAX: Final = 50
_STEPS: Final = 5
_SPECIAL: Final = re.compile(r"([\\`*\[\]<>|#&~])")


def markdown_of(reports: Sequence[Report]) -> str:
    """The content of the file."""
    lines = [MARKER]
    if reports[-1].comparison is not None:
        lines += _comparison(reports, reports[-1].comparison)
    for one in reports:
        lines += _lines(one)
    return "\n".join(lines) + "\n"


def _comparison(reports: Sequence[Report], found: LogComparison) -> Iterator[str]:
    yield f"# {_text(title_of(reports))}"
    yield ""
    names = [f"{letter_of(log)} is {_text(one.path)}" for log, one in enumerate(reports)]
    yield f"{', '.join(names)}. {_text(found.sentence)}"
    if found.differences:
        yield from ("", "| only in | event | elapsed | what |", "|---|---|---|---|")
        for one in found.differences[:_ROWS_MAX]:
            what = _text(f"{one.subject}: {one.text}")
            yield f"| {letter_of(one.log)} | {one.seq} | {one.at_ns / 1e9:+.3f} s | {what} |"
        yield from _more(len(found.differences), "difference")
    if found.offline:
        sides = (range(found.second), range(found.second, len(reports)))
        heads = (f"offline in {', '.join(map(letter_of, one))}" for one in sides)
        yield from ("", f"| partition | {' | '.join(heads)} |", "|---|---|---|")
        for each in found.offline[:_ROWS_MAX]:
            cells = (_text(each.partition), _seconds(each.first_s), _seconds(each.second_s))
            yield f"| {' | '.join(cells)} |"
    yield ""


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3f} s"


def _lines(report: Report) -> Iterator[str]:
    seconds = (report.end_ns - report.begin_ns) / 1e9
    yield f"# {_text(report.path)}"
    yield ""
    yield (
        f"{iso_time(report.begin_ns)} to {iso_time(report.end_ns)}, {seconds:.3f} s; events "
        f"{report.first_seq} to {report.last_seq}; {_text(report.recorded_by)}"
    )
    yield from _section("What happened")
    for one in report.findings[:_ROWS_MAX]:
        look_at = f" Look at: {_code(one.look_at)}" if one.look_at else ""
        yield f"- **{_text(one.severity)}, {_text(one.kind)}**: {_text(one.text)}{look_at}"
    if not report.findings:
        yield "- Nothing unusual happened."
    yield from _more(len(report.findings), "finding")
    for note in report.notes:
        yield f"- {_text(note)}"
    yield from _outages(report)
    yield from _failovers(report)
    yield ""


def _outages(report: Report) -> Iterator[str]:
    if not report.outages:
        return
    yield from _section("Partitions that were offline")
    yield "| partition | from | event | seconds | until event | last leader |"
    yield "|---|---|---|---|---|---|"
    longest = sorted(report.outages, key=lambda one: -one.seconds)[:_ROWS_MAX]
    for one in longest:
        until = one.end_seq or "the end of the log"
        leader = "none" if one.leader < 0 else one.leader
        cells = (_text(one.partition), iso_time(one.begin_ns), one.seq, f"{one.seconds:.3f}")
        yield "| " + " | ".join(map(str, (*cells, until, leader))) + " |"
    yield from _more(len(report.outages), "outage")


def _failovers(report: Report) -> Iterator[str]:
    if not report.failovers:
        return
    yield from _section("Failovers and their longest steps")
    for one in report.failovers[:_ROWS_MAX]:
        end_ns = one.end_ns or report.end_ns
        name = f"{_text(one.name)}, epoch {one.epoch}"
        took = f"{(end_ns - one.begin_ns) / 1e6:.1f} ms, {counted(len(one.steps), 'step')}"
        yield f"- event {one.seq}, {iso_time(one.begin_ns)}: {name}, {took}"
        timed = [((step.end_ns or end_ns) - step.begin_ns, step) for step in one.steps]
        for took_ns, step in sorted(timed, key=lambda each: -each[0])[:_STEPS]:
            yield f"  - {took_ns / 1e6:.1f} ms from event {step.seq}: {_text(step.text)}"
    yield from _more(len(report.failovers), "failover")


def _section(title: str) -> Iterator[str]:
    yield from ("", f"## {title}", "")


def _more(count: int, noun: str) -> Iterator[str]:
    if count > _ROWS_MAX:
        yield ""
        yield f"{counted(count - _ROWS_MAX, f'more {noun}')}: see `refold report` as HTML."


def _text(text: str) -> str:
    """A text in which nothing is markup, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """A command as code. A backtick cannot be escaped in code, so such a command is text."""
    return _text(text) if "`" in text else f"`{text}`"
