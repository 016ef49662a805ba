"""The titles and sentences of a report, for all formats."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from controller.core.values import counted
from replay.description.phrases import first_few
from replay.diff.comparing import BASE, HEAD, Comparison, Group, Instance, Side
from replay.diff.grouping import DecisionDivergence, RootDivergence
from replay.diff.nondeterminism import Nondeterminism
from replay.diff.one_sided import OneSidedCondition
from replay.diff.uncovered import UncoveredCode
from replay.diff.version.decisions import FAILED
from replay.subjects import subject_of
from replay.times import iso_time

_DIFFERENCES_MAX: Final = 8
_UNDISTINGUISHED_MAX: Final = 10
_CODE_MAX: Final = 80
AFTER: Final = "after an earlier difference in the same log"
WHAT: Final = {
    "changed": "decided differently",
    "missing": "no longer decided",
    "new": "newly decided",
    "reordered": "in another order",
}


def title(group: Group) -> str:
    """One line: the rule, the kind of decision, and what differs."""
    first = group.first.root.first
    text = f"{first.general_rule or 'no rule'}: {first.kind} {WHAT[first.what]}"
    parts = group.signature[-1]
    text += f" ({parts})" if parts else ""
    return f"{text}, harmless" if group.is_harmless else text


def extent(group: Group) -> str:
    """The number of logs and partitions."""
    return f"in {counted(len(group.logs), 'log')}, {counted(len(group.partitions), 'partition')}"


def logs_with_earlier_difference(group: Group) -> str:
    """In how many logs another difference comes before; "" if in none."""
    later = len(group.logs) - len(group.first_logs)
    if group.is_later:
        return AFTER
    return f"in {counted(later, 'log')} of these after an earlier difference" if later else ""


def first_cause_place(instance: Instance) -> str:
    """The log and event of the first cause."""
    first = instance.root.first
    return _place_in(instance.log, first)


def _place_in(log: str, one: DecisionDivergence | Nondeterminism) -> str:
    event = ", ".join(each for each in (one.event, one.cause) if each)
    return f"{log}, event {one.seq} at {iso_time(one.time_ns)}" + (f" ({event})" if event else "")


def details(instance: Instance) -> list[str]:
    """The first decision that differs, and its differences."""
    return [*of_decision(instance.root.first), *_failures(instance)]


def of_decision(one: DecisionDivergence) -> list[str]:
    """A decision that differs, and its differences."""
    lines = [f"{one.kind} {one.target}{_partitions(one)}"]
    shown = one.differences[:_DIFFERENCES_MAX]
    lines += [
        f"{each.part}: {_value(each.base)} with base, {_value(each.head)} with head"
        for each in shown
    ]
    if len(one.differences) > len(shown):
        lines.append(f"and {len(one.differences) - len(shown)} more differences in it")
    return [*lines, *one.details]


def _failures(instance: Instance) -> Iterator[str]:
    """Controller events at which only one of the versions failed."""
    for one in instance.root.followers:
        if one.kind == FAILED and one.what in ("new", "missing"):
            yield f"{'head' if one.what == 'new' else 'base'} failed: {one.target}"


def unused(entry: str) -> str:
    """An entry of the accepted changes that matches no difference."""
    return f"accepted, but no longer found: {entry}"


def nondeterminism(comparison: Comparison) -> list[str]:
    """The versions that do not agree with themselves, with the first event of each log."""
    return [of_nondeterminism(one) for one in comparison.nondeterminism]


def of_nondeterminism(one: Nondeterminism) -> str:
    """The first event at which a version does not agree with itself, and both decisions."""
    first, second = one.decisions
    if first == second:
        what = f"{first}, with another content for each hash seed"
    else:
        what = f"{first} with one hash seed, {second} with another"
    return f"{one.side} does not agree with itself: {_place_in(one.log, one)}: {what}"


def coverage(comparison: Comparison) -> list[str]:
    """The changes about which the comparison says nothing, or why they are not known."""
    shown = comparison.undistinguished[:_UNDISTINGUISHED_MAX]
    more = len(comparison.undistinguished) - len(shown)
    return [
        *map(never_executed, comparison.uncovered),
        *map(with_one_outcome, comparison.one_sided),
        *map(without_difference, shown),
        *([f"and {more} more changes executed without a difference"] if more else []),
        *map(not_measured, comparison.unmeasured),
    ]


def not_measured(reason: str) -> str:
    """Why it is not known which changes the logs execute."""
    return f"changed code not measured: {reason}"


def never_executed(one: UncoveredCode) -> str:
    """A change that no log executes."""
    return f"changed and never executed: {_code(one)}"


def with_one_outcome(one: OneSidedCondition) -> str:
    """A changed condition that the logs do not make both true and false."""
    where = _code(UncoveredCode(one.file, one.name, one.side, (one.line,)))
    return f"changed and {one.outcome}: {where}: {_shortened_code(one.condition)}"


def without_difference(one: UncoveredCode) -> str:
    """A change that logs execute, without a difference in any of them."""
    return f"changed and executed without a difference: {_code(one)}"


def _code(one: UncoveredCode) -> str:
    """The file in the core with the function or value, and the lines if others are executed."""
    text = f"{one.file}:{one.name}"
    if one.lines:
        text += (
            f", {'line' if len(one.lines) == 1 else 'lines'} {first_few(map(str, one.lines), ', ')}"
        )
    return text if one.side == HEAD else f"{text} (removed)"


def _shortened_code(code: str) -> str:
    return code if len(code) <= _CODE_MAX else f"{code[: _CODE_MAX - 3]}..."


def effects(group: Group) -> list[str]:
    """Further differences and consequences of the first instance, and the other instances."""
    others = [one for one in group.logs if one != group.first.log]
    lines = [
        followers(group.first),
        *outcome(group.first),
        outcomes_elsewhere(group),
        f"also in {first_few(others, ', ')}" if others else "",
    ]
    return [one for one in lines if one]


def followers(instance: Instance) -> str:
    """The decisions that differ because of the first cause; "" if there are none."""
    kinds = Counter(f"{one.kind} {one.what}" for one in instance.root.followers)
    if not kinds:
        return ""
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"{counted(len(instance.root.followers), 'more decision')} with it: {listed}"


def outcome(instance: Instance) -> list[str]:
    """The requests that only one version accepts, and the consequences. Without any, the sentences
    say what is not simulated."""
    root = instance.root
    if root.first.is_harmless:
        return []
    if instance.consequences:
        return [*root.verdicts, *instance.consequences]
    if instance.is_shadow and root.may_matter:
        unknown = "consequences unknown: a version is too old to derive them from an imported log"
        return [*root.verdicts, unknown]
    return [*root.verdicts, *_not_simulated(root)]


def _not_simulated(root: RootDivergence) -> Iterator[str]:
    if root.to_brokers:
        yield f"brokers' reaction not simulated: {', '.join(root.to_brokers)}"
    if root.to_clients:
        yield f"clients' reaction not simulated: {', '.join(root.to_clients)}"
    if not root.to_brokers and not root.to_clients:
        yield "brokers and clients receive nothing else within the log"


def outcomes_elsewhere(group: Group) -> str:
    """The number of consequences in other places; "" if there are none."""
    others = [one for one in group.instances if one is not group.first]
    count = sum(len(one.consequences) + len(one.root.verdicts) for one in others)
    return f"and {count} more consequences in other places (--format json has all)" if count else ""


def assumptions(comparison: Comparison) -> list[str]:
    """The assumptions that were made after a version left a log."""
    logs: dict[tuple[str, str], list[int]] = defaultdict(list)
    for result in comparison.logs:
        for side, made in zip((BASE, HEAD), result.assumptions, strict=True):
            for text, count in made.items():
                logs[side, text].append(count)
    return [
        f"{side}: {text} ({counted(sum(counts), 'time')} in {counted(len(counts), 'log')})"
        for (side, text), counts in sorted(logs.items())
    ]


def summary(comparison: Comparison) -> str:
    """One line on all logs."""
    events = sum(one.events for one in comparison.logs)
    decisions = sum(one.decisions for one in comparison.logs)
    text = f"{counted(len(comparison.logs), 'log')}, {events:,} events, {decisions:,} decisions: "
    if comparison.errors:
        return text + f"{counted(len(comparison.errors), 'log')} could not be folded"
    unaccepted = comparison.unaccepted()
    later = sum(one.is_later for one in unaccepted)
    harmless = len([one for one in comparison.groups if one.is_harmless and not one.accepted])
    accepted = len([one for one in comparison.groups if one.accepted])
    counts = [counted(len(unaccepted) - later, "difference")] if later < len(unaccepted) else []
    counts += [f"{later} after an earlier difference"] if later else []
    counts += [f"{accepted} accepted"] if accepted else []
    counts += [f"{harmless} harmless"] if harmless else []
    text += ", ".join(counts) or "no difference"
    for which in dict.fromkeys(one.side for one in comparison.nondeterminism):
        text += f"; {which} does not agree with itself"
    if comparison.uncovered:
        text += f"; {counted(len(comparison.uncovered), 'change')} never executed"
    if comparison.one_sided:
        text += f"; {counted(len(comparison.one_sided), 'condition')} with one outcome"
    if comparison.undistinguished:
        count = counted(len(comparison.undistinguished), "change")
        text += f"; {count} executed without a difference"
    return text + ("; changed code not measured" if comparison.unmeasured else "")


def version_line(name: str, version: Side) -> str:
    """One line on a version."""
    core = version.core_fingerprint[:12]
    return f"{name}  {version.reference} (refold {version.code_version}, core {core})"


def _partitions(one: DecisionDivergence) -> str:
    """The partitions that the target of a decision does not name itself."""
    target = subject_of(one.target)
    listed = [name for name in one.partitions if name not in target.names]
    return f" ({first_few(listed, ', ')})" if listed else ""


def _value(text: str | None) -> str:
    return "absent" if text is None else text
