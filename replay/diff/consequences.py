"""Consequences of a difference, without the reaction of brokers: how long partitions were offline
or led by another broker, and their states at the end."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from controller.core.values import NO_LEADER, format_brokers
from replay.description import phrases
from replay.diff.messages import FoldedLog, PartitionSample, PartitionTimeline
from replay.names import partition_name

_REPORTED_NS: Final = 50_000_000
"""Shorter differences are left out."""


def consequences(base: FoldedLog, head: FoldedLog) -> list[str]:
    """One sentence for each consequence, with its partitions."""
    head_timelines = {(one.topic, one.partition): one for one in head.timelines}
    end_ns = max(base.end_ns, head.end_ns)
    partitions: dict[str, list[str]] = defaultdict(list)
    for of_base in base.timelines:
        of_head = head_timelines.get((of_base.topic, of_base.partition))
        if of_head is not None:
            for text in _of_partition(of_base, of_head, end_ns):
                partitions[text].append(partition_name(of_base.topic, of_base.partition))
    return [f"{phrases.first_few(names, ', ')}: {text}" for text, names in partitions.items()]


def _of_partition(base: PartitionTimeline, head: PartitionTimeline, end_ns: int) -> Iterator[str]:
    if not base.samples or not head.samples:
        return
    spans = list(_spans(base.samples, head.samples, end_ns))
    yield from _offline(spans)
    last, other = base.samples[-1], head.samples[-1]
    yield from _other_leaders(spans, last.leader, other.leader)
    if _exists(last) and _exists(other):
        yield from _end(last, other)
    elif _exists(last):
        yield f"{'topic deleted' if any(map(_exists, head.samples)) else 'not created'} with head"
    elif _exists(other):
        yield f"{'topic not deleted' if any(map(_exists, base.samples)) else 'created'} with head"


def _end(base: PartitionSample, head: PartitionSample) -> Iterator[str]:
    """How a partition ends that exists with both versions."""
    if base.is_in_deletion != head.is_in_deletion:
        yield f"ends in deletion with {'head' if head.is_in_deletion else 'base'} only"
    elif not base.isr or not head.isr:
        # Its state was not written with a version, so there is nothing to compare.
        if base.isr:
            yield "ends without a leader and ISR with head"
        elif head.isr:
            yield f"ends with {_leader(head)} and ISR {format_brokers(head.isr)} with head only"
    else:
        if base.leader != head.leader:
            yield f"ends with {_leader(head)} instead of {_leader(base)}"
        elif base.is_online != head.is_online:
            yield f"ends {'online' if head.is_online else 'offline'} with head"
        if sorted(base.isr) != sorted(head.isr):
            yield f"ends with ISR {format_brokers(head.isr)} instead of {format_brokers(base.isr)}"
    if base.replicas != head.replicas:
        replicas = format_brokers(head.replicas)
        yield f"ends on brokers {replicas} instead of {format_brokers(base.replicas)}"
    if base.is_reassigned != head.is_reassigned:
        yield f"its reassignment {'does not end' if head.is_reassigned else 'ends'} with head"


Span = tuple[int, PartitionSample, PartitionSample]
"""A time in ns in which neither version's state of a partition changes, and both states."""


def _spans(
    base: Sequence[PartitionSample], head: Sequence[PartitionSample], end_ns: int
) -> Iterator[Span]:
    """The times in which the partition exists, and is not being deleted, with both versions."""
    times = sorted({one.time_ns for one in (*base, *head)})
    for begin, end in pairwise([*times, end_ns]):
        of_base, of_head = _sample_at(base, begin), _sample_at(head, begin)
        if of_base and of_head and _is_in_use(of_base) and _is_in_use(of_head):
            yield end - begin, of_base, of_head


def _offline(spans: Sequence[Span]) -> Iterator[str]:
    """The time without a live leader."""
    of_base = sum(spent_ns for spent_ns, base, _ in spans if not base.is_online)
    of_head = sum(spent_ns for spent_ns, _, head in spans if not head.is_online)
    if abs(of_base - of_head) >= _REPORTED_NS:
        how = "longer" if of_head > of_base else "shorter"
        yield (
            f"offline {_seconds(abs(of_head - of_base))} {how} with head"
            f" ({_seconds(of_base)} with base, {_seconds(of_head)} with head)"
        )


def _other_leaders(spans: Sequence[Span], last: int, other: int) -> Iterator[str]:
    """The leaders that head has for a time instead of those of base. The leaders at the end (`last`
    with base, `other` with head) are a separate sentence."""
    spent: Counter[tuple[int, int]] = Counter()
    for spent_ns, of_base, of_head in spans:
        if of_base.is_online and of_head.is_online:
            spent[of_head.leader, of_base.leader] += spent_ns
    found = [
        f"by {of_head} instead of {of_base} for {_seconds(spent_ns)}"
        for (of_head, of_base), spent_ns in spent.items()
        if of_head != of_base and (of_head, of_base) != (other, last) and spent_ns >= _REPORTED_NS
    ]
    if found:
        yield f"led {' and '.join(found)}" + (", then as before" if last == other else "")


def _exists(sample: PartitionSample) -> bool:
    return bool(sample.replicas)


def _is_in_use(sample: PartitionSample) -> bool:
    return _exists(sample) and not sample.is_in_deletion


def _sample_at(samples: Sequence[PartitionSample], time_ns: int) -> PartitionSample | None:
    """The sample that was valid at a time; None before the first."""
    place = bisect_right(samples, time_ns, key=lambda one: one.time_ns)
    return samples[place - 1] if place else None


def _leader(sample: PartitionSample) -> str:
    return phrases.leader_in_words(max(sample.leader, NO_LEADER))


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.1f} s" if ns >= 1_000_000_000 else f"{ns / 1e9:.2f} s"
