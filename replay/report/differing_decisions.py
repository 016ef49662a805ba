"""Adds what `refold diff` found in a log: the decisions that differ between two versions."""

import shlex
from pathlib import Path
from typing import Final

from msgspec import Struct

from replay.description.phrases import first_few
from replay.diff.comparing import BASE, HEAD, Instance, Side
from replay.diff.grouping import DecisionDivergence, RootDivergence
from replay.diff.reports import sentences
from replay.errors import ReplayError
from replay.report.command_output import read_output
from replay.report.document import DifferingDecision, Lane, Mark, Report, ReportFinding, Severity
from replay.report.findings import worst_first
from replay.times import iso_time

_AGAIN: Final = "compare again with `refold diff LOG --base ... --format json`"


class _Instance(Struct):
    """A first cause, as `refold diff --format json` writes it."""

    log: str
    first: DecisionDivergence
    followers: list[DecisionDivergence]
    consequences: list[str] | None
    is_later: bool

    def instance(self) -> Instance:
        """The difference as an `Instance` of `refold diff`."""
        root = RootDivergence(self.first, self.followers)
        known = self.consequences is not None
        return Instance(self.log, root, self.consequences or [], not known, self.is_later)


class _Group(Struct):
    title: str
    is_harmless: bool
    accepted: str | None
    instances: list[_Instance]


class _LogResult(Struct):
    log: str
    error: str


class _Diff(Struct):
    base: Side
    head: Side
    groups: list[_Group]
    logs: list[_LogResult]


def add_differing_decisions(report: Report, path: Path) -> None:
    """Add the differing decisions of this log, from the JSON of `refold diff`: findings, a lane,
    and how each of them differs. Raises ReplayError."""
    diff = read_output(path, _Diff, "refold diff LOG --format json")
    name = _name_in(diff, report, path)
    found = [
        (group, one.instance())
        for group in diff.groups
        for one in group.instances
        if one.log == name
    ]
    for _, one in found:
        if not _is_in(report, one):
            where = f"event {one.root.first.seq} at {iso_time(one.root.first.time_ns)}"
            raise ReplayError(f"{path} names {where}, which {report.path} does not have: {_AGAIN}")
    sides = (sentences.version_line(BASE, diff.base), sentences.version_line(HEAD, diff.head))
    count = "" if found else "no decision of this log differs between "
    report.notes.append(
        f"refold diff: {count}{' and '.join(' '.join(one.split()) for one in sides)}."
    )
    if not found:
        return
    options = f"--base {shlex.quote(diff.base.reference)} --head {shlex.quote(diff.head.reference)}"
    look_at = f"refold diff {shlex.quote(report.path)} {options}"
    report.findings = worst_first(
        [*report.findings, *(_finding(group, one, look_at) for group, one in found)]
    )
    marks = [mark for _, one in found for mark in _marks(one.root)]
    marks.sort(key=lambda one: one.wall_ns)
    report.lanes.insert(0, Lane("diff", "differing decisions", [], marks, 1.0))
    every = [each for _, one in found for each in (one.root.first, *one.root.followers)]
    report.differing = [
        DifferingDecision(one.seq, sentences.WHAT[one.what], sentences.of_decision(one))
        for one in sorted(every, key=lambda one: one.place)
    ]


def _name_in(diff: _Diff, report: Report, path: Path) -> str:
    """The name of this log in the comparison, which may have been made in another folder."""
    given = Path(report.path).resolve()
    for one in diff.logs:
        parts = Path(one.log).parts
        if Path(one.log).resolve() == given or given.parts[-len(parts) :] == parts:
            if one.error:
                raise ReplayError(f"{path} has no result for {one.log}: {one.error}")
            return one.log
    names = first_few([one.log for one in diff.logs], ", ") or "no log"
    raise ReplayError(f"{path} compares {names}, not {report.path}: {_AGAIN}")


def _is_in(report: Report, one: Instance) -> bool:
    """Whether the log has the event. A version that has left a log continues in simulated time, and
    a shadow of a stock controller has the times of reads."""
    first = one.root.first
    if one.is_later or not report.is_recorded:
        return first.seq <= report.last_seq
    return report.wall_ns_of(first.seq, iso_time(first.time_ns)) is not None


def _finding(group: _Group, one: Instance, look_at: str) -> ReportFinding:
    first = one.root.first
    parts = [*sentences.details(one), sentences.followers(one), *sentences.outcome(one)]
    severity: Severity = "bad"
    why = ""
    if group.accepted:
        severity, why = "info", f"accepted, {group.accepted}; "
    elif group.is_harmless:
        severity = "info"
    elif one.is_later:
        severity, why = "warning", f"{sentences.AFTER}; "
    text = f"{group.title}, at event {first.seq} ({iso_time(first.time_ns)}): {why}"
    text += "; ".join(one for one in parts if one) + "."
    names = tuple(one.root.partitions)
    at_ns = first.time_ns
    return ReportFinding("differs", severity, text, first.seq, at_ns, at_ns, names, look_at)


def _marks(root: RootDivergence) -> list[Mark]:
    return [
        Mark(
            one.time_ns,
            "follows" if place else "differs",
            f"{sentences.of_decision(one)[0]} {sentences.WHAT[one.what]}",
            one.seq,
        )
        for place, one in enumerate((root.first, *root.followers))
    ]
