"""Compares two reports: what both logs show, in their time, and what only one of them shows.

The changes of each partition, broker and topic are aligned by their content. Neither event numbers
nor clocks need to agree: one log may be that of a run of `refold what-if` or `refold explore`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from statistics import median_low
from typing import Final

from msgspec import Struct

from controller.core.values import counted
from replay.report.document import (
    ClusterChange,
    Lane,
    LogComparison,
    OfflineTime,
    Report,
    UnmatchedChange,
)
from replay.times import iso_time, nanoseconds_of

_EXACT_MAX: Final = 1000
"""More changes of one subject than this are aligned by those that are not frequent."""

_NOT_SHOWN: Final = 'A "-" marks the offline time of a log that does not show this time.'

_Pair = tuple[ClusterChange, ClusterChange]


def compare(first: Report, second: Report) -> None:
    """Align the second report with the first, and note the differences in it."""
    second.lanes = _in_order_of(first.lanes, second.lanes)
    branch = _branch(first, second)
    if branch is None:
        pairs, only_first, only_second = _aligned(first.changes, second.changes)
        second.shift_ns = _shift(pairs, only_second, first, second)
        since_ns = min(0, second.shift_ns)
    else:
        since_ns = branch.begins_ns[0] - first.begin_ns
        second.shift_ns = since_ns - (branch.begins_ns[1] - second.begin_ns)
        pairs, only_first, only_second = _aligned_after(since_ns, first, second)
    both = _shown_by_both(since_ns, first, second)
    differences = sorted(
        [
            *(_difference(one, 0, first) for one in _comparable_changes(only_first, first, second)),
            *(
                _difference(one, 1, second)
                for one in _comparable_changes(only_second, second, first)
            ),
        ],
        key=lambda one: one.at_ns,
    )
    offline = _offline(first, second, since_ns, both)
    sentences = [
        _about_branch(branch, (first, second), both),
        _about_changes(pairs, differences, branch, both),
        _NOT_SHOWN if any(None in (one.first_s, one.second_s) for one in offline) else "",
    ]
    second.comparison = LogComparison(
        sentence=" ".join(filter(None, sentences)),
        pairs=[(one.seq, other.seq) for one, other in pairs],
        differences=differences,
        offline=offline,
        branch=(branch.log, since_ns) if branch is not None else None,
    )


class _Period(Struct, frozen=True):
    """A period in ns since the first log's first event; empty if it ends before it begins."""

    begin_ns: int
    end_ns: int


def _shown_by_both(since_ns: int, first: Report, second: Report) -> _Period:
    end_ns = min(one.until_ns - one.origin_ns for one in (first, second))
    return _Period(max(since_ns, 0, second.shift_ns), end_ns)


class _Branch(Struct, frozen=True):
    """Log number `log` continues the other one after its event `seq`, which happened at
    `begins_ns`, a wall clock for each log."""

    log: int
    seq: int
    begins_ns: tuple[int, int]


def _branch(first: Report, second: Report) -> _Branch | None:
    """Where one of the logs continues the other one, as the run of `refold what-if` says."""
    for log, (run, other) in ((1, (second, first)), (0, (first, second))):
        if run.continues is None:
            continue
        point = run.continues.branch
        wall_ns = other.wall_ns_of(point.seq, point.time)
        if wall_ns is not None:
            in_run_ns = nanoseconds_of(point.begin)
            begins_ns = (wall_ns, in_run_ns) if log else (in_run_ns, wall_ns)
            return _Branch(log, point.seq, begins_ns)
    return None


def _aligned_after(
    since_ns: int, first: Report, second: Report
) -> tuple[list[_Pair], list[ClusterChange], list[ClusterChange]]:
    """The changes after a branch, aligned. A later log of a run begins after the branch."""
    begin_ns = _shown_by_both(since_ns, first, second).begin_ns
    later = [_split(one.changes, one.origin_ns + begin_ns) for one in (first, second)]
    (before_first, after_first), (before_second, after_second) = later
    pairs, *only = _aligned(after_first, after_second)
    return (
        pairs,
        _without_repeated_changes(only[0], after_first, before_second),
        _without_repeated_changes(only[1], after_second, before_first),
    )


def _split(
    changes: Iterable[ClusterChange], at_ns: int
) -> tuple[list[ClusterChange], list[ClusterChange]]:
    """The changes up to a time, and those after it."""
    parts: tuple[list[ClusterChange], list[ClusterChange]] = ([], [])
    for one in changes:
        parts[one.wall_ns > at_ns].append(one)
    return parts


def _without_repeated_changes(
    only: Iterable[ClusterChange], after: Iterable[ClusterChange], before: Iterable[ClusterChange]
) -> list[ClusterChange]:
    """The changes in `only`, without those that lead to a state that the other log has `before` the
    branch: a run may set up a little more or less of the cluster than the log had reached."""
    was = {one.subject: one.text for one in before}
    first = {one.subject: one for one in reversed(list(after))}
    return [
        one for one in only if one is not first[one.subject] or was.get(one.subject) != one.text
    ]


def _in_order_of(first: Sequence[Lane], second: Iterable[Lane]) -> list[Lane]:
    """The lanes of the second log in the order of the first; the sort is stable for the others."""
    groups = {one.group: place for place, one in enumerate(reversed(first))}
    places = {(one.group, one.name): place for place, one in enumerate(first)}
    return sorted(
        second,
        key=lambda one: (
            -groups.get(one.group, 0),
            places.get((one.group, one.name), len(places)),
        ),
    )


def _aligned(
    first: Iterable[ClusterChange], second: Iterable[ClusterChange]
) -> tuple[list[_Pair], list[ClusterChange], list[ClusterChange]]:
    """The changes that both have, in the order of the first, and those that only one has."""
    here, there = _by_subject(first), _by_subject(second)
    pairs: list[_Pair] = []
    only: tuple[list[ClusterChange], list[ClusterChange]] = ([], [])
    for subject in sorted(here.keys() | there.keys()):
        mine, others = here[subject], there[subject]
        is_long = max(len(mine), len(others)) > _EXACT_MAX
        texts = ([one.text for one in mine], [one.text for one in others])
        matcher = SequenceMatcher(None, *texts, autojunk=is_long)
        for what, begin, end, begin_there, end_there in matcher.get_opcodes():
            if what == "equal":
                pairs += zip(mine[begin:end], others[begin_there:end_there], strict=True)
            else:
                only[0].extend(mine[begin:end])
                only[1].extend(others[begin_there:end_there])
    return sorted(pairs, key=lambda pair: (pair[0].wall_ns, pair[0].seq)), *only


def _by_subject(changes: Iterable[ClusterChange]) -> defaultdict[str, list[ClusterChange]]:
    found: defaultdict[str, list[ClusterChange]] = defaultdict(list)
    for one in changes:
        found[one.subject].append(one)
    return found


def _shift(
    pairs: Sequence[_Pair], only_second: Iterable[ClusterChange], first: Report, second: Report
) -> int:
    """How much later the second log begins: by the changes before its first difference, whose
    distances are the same in both."""
    until_ns = min((one.wall_ns for one in only_second), default=second.end_ns)
    before = [pair for pair in pairs if pair[1].wall_ns <= until_ns] or pairs
    # Brokers fail at the same times in both; what the controller does then takes its time.
    before = [pair for pair in before if pair[0].is_of_broker] or before
    shifts = [
        (one.wall_ns - first.begin_ns) - (other.wall_ns - second.begin_ns) for one, other in before
    ]
    return median_low(shifts) if shifts else 0


def _comparable_changes(
    changes: Iterable[ClusterChange], of: Report, other: Report
) -> Iterator[ClusterChange]:
    """The changes during the other log: it cannot show what was before or after it."""
    end_ns = other.until_ns - other.origin_ns
    for one in changes:
        if other.shift_ns <= one.wall_ns - of.origin_ns <= end_ns:
            yield one


def _difference(one: ClusterChange, log: int, report: Report) -> UnmatchedChange:
    at_ns = one.wall_ns - report.origin_ns
    return UnmatchedChange(log, one.seq, at_ns, iso_time(one.wall_ns), one.subject, one.text)


def _about_branch(branch: _Branch | None, logs: tuple[Report, Report], both: _Period) -> str:
    """Which log continues the other one, and which part of it the compared log shows."""
    if branch is None:
        return ""
    run, other = "BA" if branch.log else "AB"
    continues = f"{run} continues {other} after event {branch.seq}; only later changes are compared"
    of_run = logs[branch.log].continues
    if of_run is None or of_run.count == 1:
        return f"{continues}."
    shown = f"{both.begin_ns / 1e9:+.3f} s to {both.end_ns / 1e9:+.3f} s"
    if both.end_ns <= both.begin_ns:
        shown = "none of the time after this event: compare another one"
    return f"{continues}. {run} is one of {of_run.count} logs of its run, and shows {shown}."


def _about_changes(
    pairs: Sequence[_Pair],
    differences: Sequence[UnmatchedChange],
    branch: _Branch | None,
    both: _Period,
) -> str:
    """How many changes are in both logs, and the first one that is not."""
    if branch is not None and both.end_ns <= both.begin_ns:
        return ""
    if branch is None and not pairs:
        return (
            "Both logs have no change of a partition, broker or topic in common: "
            "they are aligned at their first events."
        )
    same = (
        f"{counted(len(pairs), 'change')} of partitions, brokers and topics "
        f"{'is' if len(pairs) == 1 else 'are'} in both logs"
    )
    if not differences:
        return f"{same}, and none is in only one of them."
    one = differences[0]
    name = "AB"[one.log]
    return (
        f"{same}, {len(differences)} in only one. The first difference is event {one.seq} of "
        f"{name}, at {one.at_ns / 1e9:+.3f} s: {one.subject}: {one.text}, only in {name}."
    )


def _offline(first: Report, second: Report, since_ns: int, both: _Period) -> list[OfflineTime]:
    """The partitions that were offline in either log since `since_ns`, the largest change first,
    then those that were offline only while one of the logs shows nothing."""
    end_ns = max(one.until_ns - one.origin_ns for one in (first, second))
    compared, whole = (
        [_offline_seconds(one, period) for one in (first, second)]
        for period in (both, _Period(since_ns, end_ns))
    )
    found = []
    for name in sorted(whole[0].keys() | whole[1].keys()):
        seconds = [one.get(name, 0.0) for one in compared]
        if any(seconds):
            found.append(OfflineTime(name, *seconds))
        else:
            found.append(OfflineTime(name, *(one.get(name) for one in whole)))
    return sorted(found, key=_by_change)


def _by_change(one: OfflineTime) -> tuple[bool, float]:
    is_compared = None not in (one.first_s, one.second_s)
    return not is_compared, -abs((one.first_s or 0) - (one.second_s or 0))


def _offline_seconds(report: Report, period: _Period) -> dict[str, float]:
    """How long each partition was offline during a period, of those that were."""
    totals: defaultdict[str, float] = defaultdict(float)
    for one in report.outages:
        is_open = one.end_ns == report.end_ns and not one.end_seq
        ended_ns = (report.until_ns if is_open else one.end_ns) - report.origin_ns
        begun_ns = one.begin_ns - report.origin_ns
        seconds = (min(ended_ns, period.end_ns) - max(begun_ns, period.begin_ns)) / 1e9
        if seconds > 0:
            totals[one.partition] += seconds
    return totals
