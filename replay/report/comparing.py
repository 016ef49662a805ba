"""Compares two sides, each a log or all logs of a saved run: what both show, in their time, and
what only one of them shows.

The changes of each partition, broker and topic are aligned by their content. Neither event numbers
nor clocks need to agree: one side may be a run of `refold what-if` or `refold explore`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from statistics import median_low
from typing import Final

from msgspec import Struct

from controller.core.values import counted
from replay.report.compared_side import ComparedSide
from replay.report.document import (
    ClusterChange,
    EventOfLog,
    Lane,
    LogComparison,
    OfflineTime,
    Report,
    UnmatchedChange,
    letter_of,
)
from replay.times import iso_time, nanoseconds_of, seconds_of

_EXACT_MAX: Final = 1000
"""More changes of one subject than this are aligned by those that are not frequent."""

_NOT_SHOWN: Final = 'A "-" marks the offline time of a log that does not show this time.'

_ELAPSED: Final = "Elapsed times count from the first event of A."
_Pair = tuple[ClusterChange, ClusterChange]


def compare(first: Sequence[Report], second: Sequence[Report]) -> None:
    """Align the second side with the first, and note the differences in its last report."""
    sides = (ComparedSide(first, 0), ComparedSide(second, len(first)))
    branch = _branch(*sides)
    if branch is None:
        pairs, *only = _aligned(sides[0].changes, sides[1].changes)
        sides[1].move(_shift(pairs, only[1], *sides))
        since_ns = min(0, sides[1].shift_ns)
    else:
        since_ns = branch.begins_ns[0] - sides[0].origin_ns
        sides[1].move(since_ns - (branch.begins_ns[1] - sides[1].origin_ns))
        pairs, *only = _aligned_after(since_ns, *sides)
    for report in second:
        report.lanes = _in_order_of(first[0].lanes, report.lanes)
    both = _shown_by_both(since_ns, *sides)
    differences = sorted(
        [
            *(_difference(one, sides[0]) for one in _comparable_changes(only[0], *sides)),
            *(_difference(one, sides[1]) for one in _comparable_changes(only[1], *sides[::-1])),
        ],
        key=lambda one: one.at_ns,
    )
    offline = _offline(*sides, since_ns, both)
    sentences = [
        _about_branch(branch, sides, both),
        _about_changes(pairs, differences, branch, sides, both),
        _ELAPSED if differences else "",
        _NOT_SHOWN if any(None in (one.first_s, one.second_s) for one in offline) else "",
    ]
    second[-1].comparison = LogComparison(
        sentence=" ".join(filter(None, sentences)),
        pairs=[
            (EventOfLog(one.log, one.seq), EventOfLog(other.log, other.seq)) for one, other in pairs
        ],
        differences=differences,
        offline=offline,
        branch=(branch.side, since_ns) if branch is not None else None,
        second=len(first),
    )


class _Period(Struct, frozen=True):
    """A period in ns since the first log's first event; empty if it ends before it begins."""

    begin_ns: int
    end_ns: int


def _shown_by_both(since_ns: int, first: ComparedSide, second: ComparedSide) -> _Period:
    end_ns = min(one.until_ns - one.origin_ns for one in (first, second))
    return _Period(max(since_ns, 0, second.shift_ns), end_ns)


class _Branch(Struct, frozen=True):
    """ComparedSide number `side` continues the other one after the event `after`, which happened at
    `begins_ns`, a wall clock for each side."""

    side: int
    after: EventOfLog
    begins_ns: tuple[int, int]


def _branch(first: ComparedSide, second: ComparedSide) -> _Branch | None:
    """Where one side continues the other one, as the run of `refold what-if` says."""
    for side, (run, other) in ((1, (second, first)), (0, (first, second))):
        if run.continues is None:
            continue
        point = run.continues.branch
        found = other.wall_ns_of(point.seq, point.time)
        if found is not None:
            log, wall_ns = found
            in_run_ns = nanoseconds_of(point.begin)
            begins_ns = (wall_ns, in_run_ns) if side else (in_run_ns, wall_ns)
            return _Branch(side, EventOfLog(log, point.seq), begins_ns)
    return None


def _aligned_after(
    since_ns: int, first: ComparedSide, second: ComparedSide
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
    pairs: Sequence[_Pair],
    only_second: Iterable[ClusterChange],
    first: ComparedSide,
    second: ComparedSide,
) -> int:
    """How much later the second side begins: by the changes before its first difference, whose
    distances are the same in both."""
    until_ns = min((one.wall_ns for one in only_second), default=second.end_ns)
    before = [pair for pair in pairs if pair[1].wall_ns <= until_ns] or pairs
    # Brokers fail at the same times in both; what the controller does then takes its time.
    before = [pair for pair in before if pair[0].is_of_broker] or before
    shifts = [
        (one.wall_ns - first.origin_ns) - (other.wall_ns - second.origin_ns)
        for one, other in before
    ]
    return median_low(shifts) if shifts else 0


def _comparable_changes(
    changes: Iterable[ClusterChange], of: ComparedSide, other: ComparedSide
) -> Iterator[ClusterChange]:
    """The changes that the other side can show: not what was before or after it."""
    return (one for one in changes if other.shows(one, one.wall_ns - of.origin_ns))


def _difference(one: ClusterChange, side: ComparedSide) -> UnmatchedChange:
    at_ns = one.wall_ns - side.origin_ns
    return UnmatchedChange(one.log, one.seq, at_ns, iso_time(one.wall_ns), one.subject, one.text)


def _about_branch(
    branch: _Branch | None, sides: tuple[ComparedSide, ComparedSide], both: _Period
) -> str:
    """Which side continues the other one, and which part of it the compared logs show."""
    if branch is None:
        return ""
    run, other = sides[branch.side], sides[1 - branch.side]
    event = f"event {branch.after.seq}" + (
        f" of {letter_of(branch.after.log)}" if other.has_several_logs else ""
    )
    verb = "continue" if run.has_several_logs else "continues"
    continues = f"{run.name} {verb} {other.name} after {event}; only later changes are compared"
    if run.continues is None or run.is_whole_run:
        return f"{continues}."
    shown = f"{both.begin_ns / 1e9:+.3f} s to {both.end_ns / 1e9:+.3f} s"
    if both.end_ns <= both.begin_ns:
        shown = "none of the time after this event: compare the folder of the run"
    count = run.continues.count
    return f"{continues}. {run.name} is one of {count} logs of its run, and shows {shown}."


def _about_changes(
    pairs: Sequence[_Pair],
    differences: Sequence[UnmatchedChange],
    branch: _Branch | None,
    sides: tuple[ComparedSide, ComparedSide],
    both: _Period,
) -> str:
    """How many changes are in both sides, and the first one that is not."""
    if branch is not None and both.end_ns <= both.begin_ns:
        return ""
    if branch is None and not pairs:
        return (
            "Both logs have no change of a partition, broker or topic in common: "
            "they are aligned at their first events."
        )
    several = "" if any(each.has_several_logs for each in sides) else " logs"
    same = (
        f"{counted(len(pairs), 'change')} of partitions, brokers and topics "
        f"{'is' if len(pairs) == 1 else 'are'} in both{several}"
    )
    if not differences:
        return f"{same}, and none is in only one of them."
    one = differences[0]
    side = next(each for each in sides if each.has_log(one.log))
    return (
        f"{same}, {len(differences)} in only one. The first difference is event {one.seq} of "
        f"{letter_of(one.log)}, at {one.at_ns / 1e9:+.3f} s: {one.subject}: {one.text}, only in "
        f"{side.name}."
    )


def _offline(
    first: ComparedSide, second: ComparedSide, since_ns: int, both: _Period
) -> list[OfflineTime]:
    """The partitions that were offline in either side since `since_ns`, the largest change first,
    then those that were offline only while one of the sides shows nothing."""
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


def _offline_seconds(side: ComparedSide, period: _Period) -> dict[str, float]:
    """How long each partition was offline during a period, of those that were."""
    totals: defaultdict[str, int] = defaultdict(int)
    for partition, begin_ns, end_ns in side.outages():
        begun_ns = max(begin_ns - side.origin_ns, period.begin_ns)
        took_ns = min(end_ns - side.origin_ns, period.end_ns) - begun_ns
        if took_ns > 0:
            totals[partition] += took_ns
    return {name: seconds_of(took_ns) for name, took_ns in totals.items()}
