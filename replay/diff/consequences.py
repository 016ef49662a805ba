"""What came of it: how long partitions were offline or led by another, and how they ended."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from replay.diff.messages import Folded, PartitionTimeline, Sample

_NOTED_NS: Final = 50_000_000
_SHOWN: Final = 5


def consequences(base: Folded, head: Folded) -> list[str]:
    """Sentences, each with the partitions that it is true of."""
    courses = {(one.topic, one.partition): one for one in head.courses}
    end_ns = max(base.end_ns, head.end_ns)
    said: dict[str, list[str]] = defaultdict(list)
    for ours in base.courses:
        theirs = courses.get((ours.topic, ours.partition))
        if theirs is not None:
            for text in _of(ours, theirs, end_ns):
                said[text].append(f"{ours.topic}-{ours.partition}")
    return [f"{_names(names)}: {text}" for text, names in said.items()]


def _of(base: PartitionTimeline, head: PartitionTimeline, end_ns: int) -> Iterator[str]:
    ours, theirs = _offline_ns(base.moments, end_ns), _offline_ns(head.moments, end_ns)
    if abs(ours - theirs) >= _NOTED_NS:
        how = "longer" if theirs > ours else "shorter"
        yield (
            f"offline {_seconds(abs(theirs - ours))} {how} with head"
            f" ({_seconds(ours)} with base, {_seconds(theirs)} with head)"
        )
    if not base.moments or not head.moments:
        return
    yield from _led_otherwise(base.moments, head.moments, end_ns)
    last, other = base.moments[-1], head.moments[-1]
    if last.leader != other.leader:
        yield f"ends with {_leader(other)} instead of {_leader(last)}"
    elif last.is_online != other.is_online:
        yield f"ends {'online' if other.is_online else 'offline'} with head"
    if sorted(last.isr) != sorted(other.isr):
        yield f"ends with ISR {list(other.isr)} instead of {list(last.isr)}"
    if last.replicas != other.replicas:
        yield f"ends on brokers {list(other.replicas)} instead of {list(last.replicas)}"
    if last.is_reassigned != other.is_reassigned:
        yield f"its reassignment {'does not end' if other.is_reassigned else 'ends'} with head"


def _led_otherwise(base: Sequence[Sample], head: Sequence[Sample], end_ns: int) -> Iterator[str]:
    """Who led instead of whom for a while; how it ends is told by itself."""
    spent: Counter[tuple[int, int]] = Counter()
    times = sorted({one.time_ns for one in (*base, *head)})
    for begin, end in pairwise([*times, end_ns]):
        ours, theirs = _at(base, begin), _at(head, begin)
        if ours and theirs and ours.is_online and theirs.is_online:
            spent[theirs.leader, ours.leader] += end - begin
    last, other = base[-1].leader, head[-1].leader
    told = [
        f"by {theirs} instead of {ours} for {_seconds(spent_ns)}"
        for (theirs, ours), spent_ns in spent.items()
        if theirs != ours and (theirs, ours) != (other, last) and spent_ns >= _NOTED_NS
    ]
    if told:
        yield f"led {' and '.join(told)}" + (", then as before" if last == other else "")


def _at(moments: Sequence[Sample], time_ns: int) -> Sample | None:
    """The one that was then; None before the first."""
    place = bisect_right(moments, time_ns, key=lambda one: one.time_ns)
    return moments[place - 1] if place else None


def _offline_ns(moments: Sequence[Sample], end_ns: int) -> int:
    """The time in which it was there and had no leader that was."""
    if not moments:
        return 0
    ends = [*(one.time_ns for one in moments[1:]), end_ns]
    return sum(
        end - one.time_ns
        for one, end in zip(moments, ends, strict=True)
        if one.replicas and not one.is_online
    )


def _leader(moment: Sample) -> str:
    return f"leader {moment.leader}" if moment.leader >= 0 else "no leader"


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.1f} s" if ns >= 1_000_000_000 else f"{ns / 1e9:.2f} s"


def _names(names: Iterable[str]) -> str:
    all_names = list(names)
    shown = ", ".join(all_names[:_SHOWN])
    more = len(all_names) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
