"""Changed conditions that logs do not make both true and false, found in small cores."""

from pathlib import Path
from textwrap import dedent

import pytest

from replay.diff.conditions import FALSE, TRUE
from replay.diff.core_source import CoreSource, read_core
from replay.diff.one_sided import OneSidedCondition, changed_conditions, one_sided, places
from replay.diff.uncovered import UncoveredCode, changes_between, only_executed, uncovered

BOTH = TRUE | FALSE
FUNCTION = """
def choose(brokers, limit):
    if len(brokers) > limit and not brokers[0]:
        return brokers[1]
    return [one for one in brokers if one]
"""


def core(folder: Path, text: str) -> CoreSource:
    folder.mkdir(parents=True)
    (folder / "m.py").write_text(dedent(text), encoding="utf-8")
    return read_core(folder)


def found(
    tmp_path: Path, base: str, head: str, in_base: int = BOTH, in_head: int = BOTH
) -> list[OneSidedCondition]:
    """The one-sided conditions, if all changed ones have the same outcomes in a version."""
    changed = changed_conditions(
        changes_between(core(tmp_path / "base", base), core(tmp_path / "head", head))
    )
    outcomes = [
        {file: dict.fromkeys(each, outcome) for file, each in places(changed, side).items()}
        for side, outcome in (("base", in_base), ("head", in_head))
    ]
    return one_sided(changed, outcomes[0], outcomes[1], [])


def conditions(tmp_path: Path, body: str) -> list[str]:
    """The conditions of a function with one statement."""
    [function] = core(tmp_path / "core", f"def f(a, b, c):\n    {body}\n").functions
    return [one.text for part in function.statements for one in part.conditions]


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("if a and not (b or c > 1): pass", ["a", "b", "c > 1"]),
        ("while a: pass", ["a"]),
        ("while True: pass", []),
        ("return 1 if a else 2", ["a"]),
        ("return a or []", ["a"]),
        ("return a or b == c", ["a", "b == c"]),
        ("return not a", ["a"]),
        ("return {x: 1 for x in a if x not in b}", ["x not in b"]),
        ("return any(x in b for x in a if x)", ["x in b", "x"]),
        ("return any(x for x in a)", ["x"]),
        ("return a(b)", []),
        ("return a(b if c else 1)", ["c"]),
        ("return a > 1 if b else c > 2", ["b", "a > 1", "c > 2"]),
        ("if a if b else c: pass", ["b", "a", "c"]),
        ("if a == (b if c else 1): pass", ["a == (b if c else 1)", "c"]),
        ("return -(1 if a else b)", ["a"]),
        ("return [x for x in (a if b else c)]", ["b"]),
        ("match a:\n        case 1 if b: pass\n        case _: pass", ["case 1", "b"]),
        ("match a:\n        case 1 as x: pass", ["case 1 as x"]),
        ("for x in a:\n        if b > 1: pass", ["b > 1"]),
        ("assert a > 1", []),
        ("def g(x=a > 1): pass", []),
    ],
)
def test_operands_and_filters_of_a_statement_are_conditions(
    tmp_path: Path, body: str, texts: list[str]
) -> None:
    assert conditions(tmp_path, body) == texts


def test_condition_on_several_lines_is_found_by_its_place(tmp_path: Path) -> None:
    [function] = core(tmp_path / "core", "def f(a):\n    return (a\n        > 1)\n").functions
    [condition] = function.statements[-1].conditions
    assert condition.place == (2, 12, 3, 11)
    assert condition.line == 2


@pytest.mark.parametrize(
    ("outcome", "text"), [(TRUE, "never false"), (FALSE, "never true"), (0, "never evaluated")]
)
def test_changed_comparison_with_one_outcome_is_named(
    tmp_path: Path, outcome: int, text: str
) -> None:
    head = FUNCTION.replace("> limit", ">= limit")
    [one] = found(tmp_path, FUNCTION, head, in_base=outcome, in_head=outcome)
    assert (one.file, one.name, one.side, one.line) == ("m.py", "choose", "head", 3)
    assert (one.condition, one.outcome) == ("len(brokers) >= limit", text)


def test_changed_comparison_with_both_outcomes_is_not_named(tmp_path: Path) -> None:
    assert found(tmp_path, FUNCTION, FUNCTION.replace("> limit", ">= limit")) == []


@pytest.mark.parametrize(
    ("old", "new", "condition"),
    [
        (" and not brokers[0]", "", "brokers[0]"),
        (" if one]", "]", "one"),
    ],
)
def test_removed_operand_or_filter_is_named_for_base(
    tmp_path: Path, old: str, new: str, condition: str
) -> None:
    [one] = found(tmp_path, FUNCTION, FUNCTION.replace(old, new), in_base=TRUE)
    assert (one.side, one.condition, one.outcome) == ("base", condition, "never false")


def test_condition_of_a_removed_function_is_named_for_base(tmp_path: Path) -> None:
    names = [one.condition for one in found(tmp_path, FUNCTION, "", in_base=TRUE)]
    assert names == ["brokers[0]", "len(brokers) > limit", "one"]


def test_condition_that_moves_to_another_function_is_not_changed(tmp_path: Path) -> None:
    head = FUNCTION.replace("len(brokers) > limit and not brokers[0]", "is_over(brokers, limit)")
    head += "\ndef is_over(brokers, limit):\n    return len(brokers) > limit and not brokers[0]\n"
    [one] = found(tmp_path, FUNCTION, head, in_head=TRUE)
    assert one.condition == "is_over(brokers, limit)"


def test_condition_that_is_written_more_often_is_named_once_for_each_new_place(
    tmp_path: Path,
) -> None:
    base = "def f(a):\n    return a > 1\n"
    head = "def f(a):\n    b = a > 1\n    c = a > 1\n    return a > 1, b, c\n"
    assert [one.line for one in found(tmp_path, base, head, in_head=TRUE)] == [2, 3]


def test_version_without_changed_conditions_measures_nothing(tmp_path: Path) -> None:
    base = "def f(a):\n    return a\n"
    head = "def f(a):\n    return a > 1\n"
    changed = changed_conditions(
        changes_between(core(tmp_path / "base", base), core(tmp_path / "head", head))
    )
    assert places(changed, "base") == {}
    assert list(places(changed, "head")) == ["m.py"]


def test_one_sided_condition_of_base_is_named_if_its_replacement_has_both_outcomes(
    tmp_path: Path,
) -> None:
    head = FUNCTION.replace("> limit", ">= limit")
    [one] = found(tmp_path, FUNCTION, head, in_base=TRUE)
    assert (one.side, one.condition) == ("base", "len(brokers) > limit")


def test_condition_of_base_is_left_out_if_its_replacement_is_not_measured(tmp_path: Path) -> None:
    def named(folder: Path, head: str) -> list[str]:
        changed = changed_conditions(
            changes_between(core(folder / "base", FUNCTION), core(folder / "head", head))
        )
        return [one.condition for one in one_sided(changed, {}, None, [])]

    assert named(tmp_path / "replaced", FUNCTION.replace("> limit", ">= limit")) == []
    removed = FUNCTION.replace(" and not brokers[0]", "")
    assert named(tmp_path / "removed", removed) == ["brokers[0]"]


def test_condition_with_one_outcome_in_code_that_base_never_executes_is_named(
    tmp_path: Path,
) -> None:
    head = FUNCTION.replace("> limit", ">= limit")
    changed = changed_conditions(
        changes_between(core(tmp_path / "base", FUNCTION), core(tmp_path / "head", head))
    )
    outcomes = {file: dict.fromkeys(each, TRUE) for file, each in places(changed, "head").items()}
    never = [UncoveredCode("m.py", "choose", "base", (3,))]
    [one] = one_sided(changed, {}, outcomes, never)
    assert (one.side, one.outcome) == ("head", "never false")


def test_condition_in_a_line_that_is_never_executed_is_left_out(tmp_path: Path) -> None:
    head = FUNCTION.replace("> limit", ">= limit")
    changed = changed_conditions(
        changes_between(core(tmp_path / "base", FUNCTION), core(tmp_path / "head", head))
    )
    never = [UncoveredCode("m.py", "choose", "head", (3,))]
    assert one_sided(changed, {}, {}, never) == []
    assert one_sided(changed, None, None, []) == []


@pytest.mark.parametrize(
    ("never", "is_named"),
    [
        (UncoveredCode("m.py", "choose", "head"), False),
        (UncoveredCode("m.py", "choose", "head", (5,)), True),
        (UncoveredCode("m.py", "choose", "base", (5,)), False),
        (UncoveredCode("m.py", "other", "head"), True),
        (UncoveredCode("n.py", "choose", "head"), True),
    ],
)
def test_condition_that_is_never_evaluated_is_named_unless_its_code_is(
    tmp_path: Path, never: UncoveredCode, is_named: bool
) -> None:
    """The lines of code that head no longer has are not those of head."""
    head = FUNCTION.replace("> limit", ">= limit")
    changed = changed_conditions(
        changes_between(core(tmp_path / "base", FUNCTION), core(tmp_path / "head", head))
    )
    assert [one.outcome for one in one_sided(changed, None, {}, [never])] == (
        ["never evaluated"] if is_named else []
    )


# Changes that only logs without a difference execute ----------------------------------------------


def without_difference(
    tmp_path: Path, base: str, head: str, every: tuple[int, ...], differing: tuple[int, ...]
) -> list[UncoveredCode]:
    """The changes without a difference. Both versions execute the lines `every`, and those of
    `differing` in a log with a difference."""
    source = core(tmp_path / "head", head)
    changes = changes_between(core(tmp_path / "base", base), source)
    by_all, by_differing = ({"m.py": frozenset(lines)} for lines in (every, differing))
    return only_executed(
        changes,
        uncovered(changes, source, by_all, by_all),
        uncovered(changes, source, by_differing, by_differing),
    )


def test_change_that_no_differing_log_executes_is_named_with_its_line(tmp_path: Path) -> None:
    head = FUNCTION.replace("> limit", ">= limit")
    [one] = without_difference(tmp_path / "a", FUNCTION, head, (3, 5), ())
    assert one == UncoveredCode("m.py", "choose", "head", (3,))
    [one] = without_difference(tmp_path / "b", FUNCTION, head, (3, 5), (5,))
    assert one == UncoveredCode("m.py", "choose", "head", (3,))
    assert without_difference(tmp_path / "c", FUNCTION, head, (3, 5), (3, 5)) == []


def test_change_that_no_log_executes_is_not_named_again(tmp_path: Path) -> None:
    head = FUNCTION.replace("> limit", ">= limit").replace("brokers[1]", "brokers[2]")
    assert without_difference(tmp_path / "a", FUNCTION, head, (), ()) == []
    [one] = without_difference(tmp_path / "b", FUNCTION, head, (3, 5), ())
    assert one.lines == (3,)


def test_changed_line_that_a_differing_log_executes_is_not_named(tmp_path: Path) -> None:
    head = FUNCTION.replace("> limit", ">= limit").replace("if one]", "if not one]")
    [one] = without_difference(tmp_path, FUNCTION, head, (3, 5), (3,))
    assert one == UncoveredCode("m.py", "choose", "head", (5,))


def test_removed_statement_without_effect_is_named_for_base(tmp_path: Path) -> None:
    base = FUNCTION.replace("    return [", "    limit.pop()\n    return [")
    [one] = without_difference(tmp_path, base, FUNCTION, (3, 5, 6), ())
    assert one == UncoveredCode("m.py", "choose", "base", (5,))


def test_changed_value_that_no_differing_log_uses_is_named(tmp_path: Path) -> None:
    base = "LIMIT = 1\n\ndef f():\n    return LIMIT\n"
    head = base.replace("= 1", "= 2")
    [one] = without_difference(tmp_path / "a", base, head, (4,), ())
    assert one == UncoveredCode("m.py", "LIMIT", "head")
    assert without_difference(tmp_path / "b", base, head, (4,), (4,)) == []
    assert without_difference(tmp_path / "c", base, head, (), ()) == []
