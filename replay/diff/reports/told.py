"""What is said of a comparison, whatever the format: titles and sentences."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from replay.diff.comparing import BASE, HEAD, Comparison, Group, Instance, Side
from replay.diff.grouping import Divergence
from replay.diff.version.decided import FAILED
from replay.subjects import subject_of
from replay.times import iso_time

_DIFFERENCES_MAX: Final = 8
_NAMES_MAX: Final = 5
_WHAT: Final = {
    "changed": "decided otherwise",
    "missing": "not decided any more",
    "new": "decided newly",
    "reordered": "in another order",
}


def title(group: Group) -> str:
    """One line: what differs, by which rule."""
    first = group.first.root.first
    text = f"{first.rule or 'no rule'}: {first.kind} {_WHAT[first.what]}"
    parts = group.signature[-1]
    text += f" ({parts})" if parts else ""
    return f"{text}, harmless" if group.is_harmless else text


def counted(group: Group) -> str:
    """How far it goes."""
    logs, partitions = len(group.logs), len(group.partitions)
    return f"in {number(logs, 'log')}, {number(partitions, 'partition')}"


def where(instance: Instance) -> str:
    """The first cause: log and event."""
    first = instance.root.first
    event = ", ".join(one for one in (first.event, first.cause) if one)
    time = iso_time(first.time_ns)
    return f"{instance.log}, event {first.seq} at {time}" + (f" ({event})" if event else "")


def details(instance: Instance) -> list[str]:
    """The first decision that differs, and how."""
    first = instance.root.first
    lines = [f"{first.kind} {first.target}{_partitions(first)}"]
    shown = first.differences[:_DIFFERENCES_MAX]
    lines += [
        f"{one.part}: {_said(one.base)} with base, {_said(one.head)} with head" for one in shown
    ]
    if len(first.differences) > len(shown):
        lines.append(f"and {len(first.differences) - len(shown)} more parts of it")
    return [*lines, *first.details, *_failures(instance)]


def _failures(instance: Instance) -> Iterator[str]:
    """Controller events that only one of the versions failed at: the rest of each was dropped."""
    for one in instance.root.followers:
        if one.kind == FAILED and one.what in ("new", "missing"):
            yield f"{'head' if one.what == 'new' else 'base'} failed: {one.target}"


def followers(instance: Instance) -> str:
    """What follows from it; empty if nothing does."""
    kinds = Counter(f"{one.kind} {one.what}" for one in instance.root.followers)
    if not kinds:
        return ""
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{number(len(instance.root.followers), 'more decision')} with it: {listed}"


def outcome(instance: Instance) -> list[str]:
    """What came of it. What brokers do with requests in another order is not simulated."""
    if not instance.root.may_matter:
        return []
    if instance.is_beside:
        return ["what comes of it is not known: a version is too old to tell it of an imported log"]
    if instance.root.partitions and not instance.consequences:
        return ["no consequence seen: its partitions are led by the same and as long"]
    return instance.consequences


def outcomes_elsewhere(group: Group) -> str:
    """How much came of it in its other places; empty if nothing did."""
    count = sum(len(outcome(one)) for one in group.instances[1:] if one.consequences)
    return f"and {count} more in its other places (--format json has all)" if count else ""


def elsewhere(group: Group) -> str:
    """The other logs; empty if there are none."""
    return f"also in {names(group.logs[1:])}" if len(group.logs) > 1 else ""


def supposed(comparison: Comparison) -> list[str]:
    """The assumptions that were made where a version left a log."""
    logs: dict[tuple[str, str], list[int]] = defaultdict(list)
    for result in comparison.logs:
        for side, assumptions in zip((BASE, HEAD), result.assumptions, strict=True):
            for text, count in assumptions.items():
                logs[side, text].append(count)
    return [
        f"{side}: {text} ({number(sum(counts), 'time')} in {number(len(counts), 'log')})"
        for (side, text), counts in sorted(logs.items())
    ]


def summary(comparison: Comparison) -> str:
    """One line on all."""
    events = sum(one.events for one in comparison.logs)
    decisions = sum(one.decisions for one in comparison.logs)
    text = f"{number(len(comparison.logs), 'log')}, {events:,} events, {decisions:,} decisions: "
    if comparison.errors:
        return text + f"{number(len(comparison.errors), 'log')} could not be folded"
    left = len(comparison.left())
    harmless = len([one for one in comparison.groups if one.is_harmless and not one.accepted])
    accepted = len([one for one in comparison.groups if one.accepted])
    told = [number(left, "difference")] if left else []
    told += [f"{accepted} accepted"] if accepted else []
    told += [f"{harmless} harmless"] if harmless else []
    return text + (", ".join(told) or "no difference")


def side(name: str, version: Side) -> str:
    """Which version it is."""
    core = version.core_fingerprint[:12]
    return f"{name}  {version.reference} (refold {version.code_version}, core {core})"


def number(count: int, noun: str) -> str:
    """ "1 log", "2 logs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def names(found: Sequence[str]) -> str:
    """Some of them, and how many more."""
    shown = ", ".join(found[:_NAMES_MAX])
    more = len(found) - _NAMES_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _partitions(one: Divergence) -> str:
    inside: Iterable[str] = one.partitions
    state = subject_of(one.target)
    listed = [name for name in inside if name not in state.names]
    return f" ({names(listed)})" if listed else ""


def _said(text: str | None) -> str:
    return "not there" if text is None else text
