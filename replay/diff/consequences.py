"""Consequences of a difference: how long partitions were offline or led by another broker, and
their states at the end."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from controller.core.values import NO_LEADER, format_brokers
from replay.description import phrases
from replay.diff.messages import Folded, PartitionTimeline, Sample

_REPORTED_NS: Final = 50_000_000
"""Shorter differences are left out."""


def consequences(base: Folded, head: Folded) -> list[str]:
    """One sentence for each consequence, with its partitions."""
    of_head = {(one.topic, one.partition): one for one in head.timelines}
    end_ns = max(base.end_ns, head.end_ns)
    partitions: dict[str, list[str]] = defaultdict(list)
    for ours in base.timelines:
        theirs = of_head.get((ours.topic, ours.partition))
        if theirs is not None:
            for text in _of_partition(ours, theirs, end_ns):
                partitions[text].append(f"{ours.topic}-{ours.partition}")
    return [f"{phrases.some(names, ', ')}: {text}" for text, names in partitions.items()]


def _of_partition(base: PartitionTimeline, head: PartitionTimeline, end_ns: int) -> Iterator[str]:
    ours, theirs = _offline_ns(base.samples, end_ns), _offline_ns(head.samples, end_ns)
    if abs(ours - theirs) >= _REPORTED_NS:
        how = "longer" if theirs > ours else "shorter"
        yield (
            f"offline {_seconds(abs(theirs - ours))} {how} with head"
            f" ({_seconds(ours)} with base, {_seconds(theirs)} with head)"
        )
    if not base.samples or not head.samples:
        return
    yield from _other_leaders(base.samples, head.samples, end_ns)
    last, other = base.samples[-1], head.samples[-1]
    if last.leader != other.leader:
        yield f"ends with {_leader(other)} instead of {_leader(last)}"
    elif last.is_online != other.is_online:
        yield f"ends {'online' if other.is_online else 'offline'} with head"
    if sorted(last.isr) != sorted(other.isr):
        yield f"ends with ISR {format_brokers(other.isr)} instead of {format_brokers(last.isr)}"
    if last.replicas != other.replicas:
        replicas = format_brokers(other.replicas)
        yield f"ends on brokers {replicas} instead of {format_brokers(last.replicas)}"
    if last.is_reassigned != other.is_reassigned:
        yield f"its reassignment {'does not end' if other.is_reassigned else 'ends'} with head"


def _other_leaders(base: Sequence[Sample], head: Sequence[Sample], end_ns: int) -> Iterator[str]:
    """The leaders that head has for a time instead of those of base. The leader at the end is a
    separate sentence."""
    spent: Counter[tuple[int, int]] = Counter()
    times = sorted({one.time_ns for one in (*base, *head)})
    for begin, end in pairwise([*times, end_ns]):
        ours, theirs = _at(base, begin), _at(head, begin)
        if ours and theirs and ours.is_online and theirs.is_online:
            spent[theirs.leader, ours.leader] += end - begin
    last, other = base[-1].leader, head[-1].leader
    found = [
        f"by {theirs} instead of {ours} for {_seconds(spent_ns)}"
        for (theirs, ours), spent_ns in spent.items()
        if theirs != ours and (theirs, ours) != (other, last) and spent_ns >= _REPORTED_NS
    ]
    if found:
        yield f"led {' and '.join(found)}" + (", then as before" if last == other else "")


def _at(samples: Sequence[Sample], time_ns: int) -> Sample | None:
    """The sample that was valid at a time; None before the first."""
    place = bisect_right(samples, time_ns, key=lambda one: one.time_ns)
    return samples[place - 1] if place else None


def _offline_ns(samples: Sequence[Sample], end_ns: int) -> int:
    """The time in which the partition existed and had no live leader."""
    if not samples:
        return 0
    ends = [*(one.time_ns for one in samples[1:]), end_ns]
    return sum(
        end - one.time_ns
        for one, end in zip(samples, ends, strict=True)
        if one.replicas and not one.is_online
    )


def _leader(sample: Sample) -> str:
    return phrases.leader(max(sample.leader, NO_LEADER))


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.1f} s" if ns >= 1_000_000_000 else f"{ns / 1e9:.2f} s"
