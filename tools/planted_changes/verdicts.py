"""The verdict of a comparison about a planted change, and all verdicts as a table."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from tools.mutations.rules import MutationRule
from tools.planted_changes.planting import PlantedChange


class PlantedOutcome(StrEnum):
    """The outcome for a change."""

    FOUND = "found"
    FAILED = "FAILED"
    FALSE_ALARM = "FALSE ALARM"
    OTHER_RULE = "OTHER RULE"
    MISSED = "MISSED"
    UNCOVERED = "named as uncovered"
    ONE_SIDED = "named as one-sided"
    UNDISTINGUISHED = "named without difference"
    CLEAN = "clean"


_NAMED: Final = {
    "uncovered": PlantedOutcome.UNCOVERED,
    "one_sided": PlantedOutcome.ONE_SIDED,
    "undistinguished": PlantedOutcome.UNDISTINGUISHED,
}
"""The outcomes by the part of the report that names the change."""
_GOOD: Final = (PlantedOutcome.FOUND, PlantedOutcome.CLEAN, *_NAMED.values())
_CHANGE_MAX: Final = 78
_WIDTH: Final = max(len(one.value) for one in PlantedOutcome)


class Verdict(Struct, frozen=True):
    """The outcome for one change. `rules` are the rules that differ, `logs` those that were
    compared, `error` is why the comparison failed."""

    change: str
    place: str
    expected: str
    outcome: PlantedOutcome
    rules: tuple[str, ...] = ()
    logs: int = 0
    seconds: float = 0
    error: str = ""

    @property
    def is_good(self) -> bool:
        """Whether `refold diff` has done what is expected."""
        return self.outcome in _GOOD


def outcome_of(
    rule: MutationRule, change: PlantedChange, report: dict[str, Any], *, is_innocuous: bool
) -> tuple[PlantedOutcome, tuple[str, ...]]:
    """The outcome of a comparison, whose `report` is `refold diff --format json`, and the rules
    that differ. An innocuous change may cause harmless reorderings. A version that never stops is
    found by the error that names it, and one that does not agree with itself by that."""
    groups = [one for one in report["groups"] if not one["is_harmless"]]
    rules = tuple(dict.fromkeys(map(_rule_of, groups)))
    if not is_innocuous and any(rule.diff in one for one in (*rules, *report["errors"])):
        return PlantedOutcome.FOUND, rules
    if report["nondeterminism"]:
        return (PlantedOutcome.FALSE_ALARM if is_innocuous else PlantedOutcome.FOUND), rules
    if report["errors"] and not groups:
        return PlantedOutcome.FAILED, rules
    if is_innocuous:
        return (PlantedOutcome.FALSE_ALARM if groups else PlantedOutcome.CLEAN), rules
    if groups:
        return PlantedOutcome.OTHER_RULE, rules
    for part, outcome in _NAMED.items():
        if any(_names(one, change) for one in report[part]):
            return outcome, rules
    return PlantedOutcome.MISSED, rules


def _rule_of(group: dict[str, Any]) -> str:
    """The rule of both versions, or each version's."""
    rules = dict.fromkeys((group["base_rule"], group["head_rule"]))
    return " / ".join(filter(None, rules))


def _names(code: dict[str, Any], change: PlantedChange) -> bool:
    lines: Sequence[int] = code["lines"] if "lines" in code else [code["line"]]
    is_same = code["file"] == change.file_in_core and code["name"] == change.name
    if code["side"] == "base":
        return bool(is_same)
    return bool(is_same and (not lines or not change.lines.isdisjoint(lines)))


def table(verdicts: Sequence[Verdict]) -> str:
    """One line for each change, the details of those that are not found, and the counts."""
    width = min(_CHANGE_MAX, max(len(one.change) for one in verdicts))
    lines = [f"{'change':{width}}  {'outcome':{_WIDTH}}  rules that differ"]
    for one in verdicts:
        row = f"{one.change[:width]:{width}}  {one.outcome.value:{_WIDTH}}  {'; '.join(one.rules)}"
        lines.append(row.rstrip())
    bad = [one for one in verdicts if not one.is_good]
    lines += ["", *(_detail(one) for one in bad)] if bad else []
    counts = Counter(one.outcome.value for one in verdicts)
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
    return "\n".join([*lines, "", f"{len(verdicts)} changes: {summary}"])


def _detail(verdict: Verdict) -> str:
    text = f"{verdict.outcome.value}: {verdict.change} ({verdict.place})"
    if verdict.expected:
        text += f", expected: {verdict.expected}"
    return f"{text}; {verdict.error}" if verdict.error else text
