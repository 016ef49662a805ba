"""Finds the changed conditions of the core that are executed with one outcome only.

A line counts as executed whatever its conditions are. If `len(isr) > 1` becomes `len(isr) > 2`, a
comparison says something about the change only if the logs make it both true and false.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from replay.diff.conditions import FALSE, TRUE, Condition, Place
from replay.diff.core_source import Function, Statement
from replay.diff.uncovered import CoreChanges, Hunk, UncoveredCode

Outcomes = Mapping[str, Mapping[Place, int]]
"""The outcomes of conditions by the file's path in the core."""

_OUTCOME: Final[Mapping[int, Literal["never true", "never false", "never evaluated"]]] = {
    0: "never evaluated",
    TRUE: "never false",
    FALSE: "never true",
}


class OneSidedCondition(Struct, frozen=True):
    """A changed condition that the logs do not make both true and false. `side` is base for a
    condition that head no longer has."""

    file: str
    name: str
    side: Literal["base", "head"]
    line: int
    condition: str
    outcome: Literal["never true", "never false", "never evaluated"]


class ChangedConditions(Struct, frozen=True):
    """The conditions that one hunk removes and those that it adds."""

    hunk: Hunk
    removed: tuple[Condition, ...]
    written: tuple[Condition, ...]


def changed_conditions(changes: CoreChanges) -> list[ChangedConditions]:
    """The conditions of changed statements that only one version has. A condition that moves to
    another statement is in both."""
    old = Counter(one.text for hunk in changes.hunks for one in _conditions(hunk.old))
    new = Counter(one.text for hunk in changes.hunks for one in _conditions(hunk.new))
    removed, written = old - new, new - old
    return [
        ChangedConditions(hunk, _take_counted(hunk.old, removed), _take_counted(hunk.new, written))
        for hunk in changes.hunks
    ]


def _conditions(statements: Sequence[Statement]) -> list[Condition]:
    return [one for statement in statements for one in statement.conditions]


def _take_counted(statements: Sequence[Statement], left: Counter[str]) -> tuple[Condition, ...]:
    """The conditions counted in `left`; each is removed from `left`."""
    taken = []
    for one in _conditions(statements):
        if left[one.text] > 0:
            left[one.text] -= 1
            taken.append(one)
    return tuple(taken)


def places(changed: Sequence[ChangedConditions], side: str) -> dict[str, list[Place]]:
    """The places of the conditions that a version measures, by file."""
    found: dict[str, list[Place]] = {}
    for one in changed:
        function, conditions = (
            (one.hunk.base, one.removed) if side == "base" else (one.hunk.head, one.written)
        )
        if function is not None and conditions:
            found.setdefault(function.file, []).extend(each.place for each in conditions)
    return found


def one_sided(
    changed: Sequence[ChangedConditions],
    with_base: Outcomes | None,
    with_head: Outcomes | None,
    uncovered: Sequence[UncoveredCode],
) -> list[OneSidedCondition]:
    """The changed conditions without both outcomes, except for those in code that is `uncovered`.

    Of a condition that another one replaces, the new one counts. The outcomes of a version that
    does not measure them are None.
    """
    found: list[OneSidedCondition] = []
    for one in changed:
        head = _of_version(one.hunk.head, "head", one.written, with_head, uncovered)
        base = _of_version(one.hunk.base, "base", one.removed, with_base, uncovered)
        is_known = with_head is not None or not one.written
        found += head or (base if is_known else [])
    return sorted(set(found), key=lambda one: (one.file, one.line, one.condition, one.side))


def _of_version(
    function: Function | None,
    side: Literal["base", "head"],
    conditions: Sequence[Condition],
    outcomes: Outcomes | None,
    uncovered: Sequence[UncoveredCode],
) -> list[OneSidedCondition]:
    if function is None or outcomes is None:
        return []
    found = []
    of_file = outcomes.get(function.file, {})
    for one in conditions:
        outcome = of_file.get(one.place, 0)
        is_both = outcome == TRUE | FALSE
        if not is_both and not (outcome == 0 and _is_within(function, one.line, uncovered)):
            found.append(
                OneSidedCondition(
                    function.file, function.name, side, one.line, one.text, _OUTCOME[outcome]
                )
            )
    return found


def _is_within(function: Function, line: int, uncovered: Sequence[UncoveredCode]) -> bool:
    """Whether code that is never executed has the line."""
    return any(
        (one.file, one.name) == (function.file, function.name)
        and (not one.lines or line in one.lines or one.side == "base")
        for one in uncovered
    )
