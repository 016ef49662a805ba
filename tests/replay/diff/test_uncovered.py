"""Changes of the core that no log executes, found in small cores."""

from pathlib import Path
from textwrap import dedent

import pytest

from replay.diff.core_source import read_core, read_cores
from replay.diff.uncovered import CoreChanges, UncoveredCode, changes_between, uncovered
from replay.errors import DiffError

FUNCTION = """
def choose(brokers: list[int], limit: int = 3) -> int:
    if len(brokers) > limit:
        return brokers[0]
    return -1
"""
"""The lines are 2 to 5."""


def core(folder: Path, **modules: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(dedent(text), encoding="utf-8")
    return folder


def changes(tmp_path: Path, base: dict[str, str], head: dict[str, str]) -> CoreChanges:
    return changes_between(
        *read_cores([core(tmp_path / "base", **base), core(tmp_path / "head", **head)])
    )


def found(
    tmp_path: Path,
    base: str,
    head: str,
    *lines: int,
    with_base: tuple[int, ...] = (),
) -> list[UncoveredCode]:
    """The uncovered changes of one module of which head executes some lines."""
    source = read_core(core(tmp_path / "head", m=head))
    return uncovered(
        changes_between(read_core(core(tmp_path / "base", m=base)), source),
        source,
        {"m.py": frozenset(with_base)},
        {"m.py": frozenset(lines)},
    )


def test_moved_function_is_not_changed(tmp_path: Path) -> None:
    assert changes(tmp_path, {"a": FUNCTION, "b": ""}, {"a": "", "b": FUNCTION}) == CoreChanges()


def test_base_is_not_measured_if_head_only_replaces_statements(tmp_path: Path) -> None:
    changed = changes(tmp_path, {"a": FUNCTION}, {"a": FUNCTION.replace("-1", "-2")})
    assert changed.removed == ()
    assert len(changed.written) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    if", '    """Choose a broker."""\n    if'),
        ("-> int", "-> float"),
        ("brokers: list[int]", "brokers: tuple[int, ...]"),
        ("    return -1", "    # none\n\n    return (-1)"),
        ("\ndef", "\nimport json\n\n\ndef"),
    ],
)
def test_text_that_decides_nothing_is_not_changed(tmp_path: Path, old: str, new: str) -> None:
    assert old in FUNCTION
    assert changes(tmp_path, {"a": FUNCTION}, {"a": FUNCTION.replace(old, new)}) == CoreChanges()


def test_parameter_that_becomes_keyword_only_is_not_changed(tmp_path: Path) -> None:
    head = FUNCTION.replace("choose(", "choose(*, ")
    assert changes(tmp_path, {"a": FUNCTION}, {"a": head}) == CoreChanges()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("limit: int", "limit: float"),
        ("name: str", "name: bytes"),
        ("-> bool", "-> object"),
        ("    limit", "    rest: int\n    limit"),
        ("    limit", "    import json\n\n    limit"),
    ],
)
def test_annotation_or_import_in_a_function_is_not_changed(
    tmp_path: Path, old: str, new: str
) -> None:
    text = """
def read(path, wanted):
    found, left = [], 0
    limit: int = 3

    def is_wanted(name: str) -> bool:
        return name in wanted

    with open(path) as file:
        found += filter(is_wanted, file)
    return found[:limit]
"""
    assert old in text
    assert changes(tmp_path, {"a": text}, {"a": text.replace(old, new)}) == CoreChanges()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(brokers, limit", "(limit, brokers"),
        ("*rest", "*"),
        ("strict=False", "strict=True"),
        (", **named", ""),
        ("@cached\n", ""),
        ("def", "async def"),
    ],
)
def test_parameter_default_value_or_decorator_that_differs_is_a_changed_function(
    tmp_path: Path, old: str, new: str
) -> None:
    text = "@cached\ndef f(brokers, limit=3, *rest, strict=False, **named):\n    return brokers\n"
    assert found(tmp_path, text, text.replace(old, new)) == [UncoveredCode("m.py", "f", "head")]


def test_changed_function_that_is_not_executed_is_uncovered(tmp_path: Path) -> None:
    head = FUNCTION.replace("-1", "-2")
    assert found(tmp_path, FUNCTION, head) == [UncoveredCode("m.py", "choose", "head")]


def test_changed_branch_that_is_not_executed_has_its_line(tmp_path: Path) -> None:
    head = FUNCTION.replace("brokers[0]", "brokers[-1]")
    assert found(tmp_path, FUNCTION, head, 3, 5) == [UncoveredCode("m.py", "choose", "head", (4,))]


def test_changed_line_that_is_executed_is_covered(tmp_path: Path) -> None:
    assert found(tmp_path, FUNCTION, FUNCTION.replace("brokers[0]", "brokers[-1]"), 3, 4) == []


def test_changed_statement_is_covered_when_one_of_its_lines_is_executed(tmp_path: Path) -> None:
    base = "def f(a, b):\n    return max(\n        a,\n        b,\n    )\n"
    head = base.replace("max", "min")
    assert found(tmp_path / "a", base, head, 2) == []
    assert found(tmp_path / "b", base, head, 4) == []
    assert found(tmp_path / "c", base, head) == [UncoveredCode("m.py", "f", "head")]


def test_new_function_has_the_lines_that_are_not_executed(tmp_path: Path) -> None:
    assert found(tmp_path / "a", "", FUNCTION, 3, 5) == [
        UncoveredCode("m.py", "choose", "head", (4,))
    ]
    assert found(tmp_path / "b", "", FUNCTION, 3, 4, 5) == []


def test_changed_function_without_statements_is_covered(tmp_path: Path) -> None:
    base = 'LIMIT = 1\n\ndef f(a=LIMIT):\n    """Do nothing."""\n'
    assert found(tmp_path, base, base.replace("a=LIMIT", "b=LIMIT")) == []


def test_equal_lines_of_a_long_function_are_not_changed(tmp_path: Path) -> None:
    base = "def f(a):\n    a.clear()\n" + "    a.append(1)\n" * 300
    assert found(tmp_path, base, base.replace("clear", "reverse"), 2) == []


# The other version of a function ------------------------------------------------------------------


def uncovered_of_modules(
    tmp_path: Path, base: dict[str, str], head: dict[str, str], *lines: int
) -> list[UncoveredCode]:
    """The uncovered changes of several modules. Head executes the same lines of each one."""
    source = read_core(core(tmp_path / "head", **head))
    changed = changes_between(read_core(core(tmp_path / "base", **base)), source)
    return uncovered(changed, source, {}, {f"{name}.py": frozenset(lines) for name in head})


def test_function_that_moves_and_changes_has_only_its_changed_line(tmp_path: Path) -> None:
    head = FUNCTION.replace("brokers[0]", "brokers[-1]")
    moved = uncovered_of_modules(tmp_path, {"a": FUNCTION, "b": ""}, {"a": "", "b": head}, 3)
    assert moved == [UncoveredCode("b.py", "choose", "head", (4,))]


def test_changed_function_is_compared_with_the_one_in_its_module(tmp_path: Path) -> None:
    base = {"a": "def choose():\n    return 7\n", "b": FUNCTION}
    head = {"a": "", "b": FUNCTION.replace("brokers[0]", "brokers[-1]")}
    assert uncovered_of_modules(tmp_path, base, head, 3) == [
        UncoveredCode("a.py", "choose", "base"),
        UncoveredCode("b.py", "choose", "head", (4,)),
    ]


def test_changed_function_is_compared_with_the_one_of_its_name(tmp_path: Path) -> None:
    other = "\ndef other(a):\n    return a.other\n"
    changed = FUNCTION.replace("brokers[0]", "brokers[-1]")
    base = {"m": other.replace("a.other", "a.another") + FUNCTION}
    assert uncovered_of_modules(tmp_path, base, {"m": changed + other}, 3, 8) == [
        UncoveredCode("m.py", "choose", "head", (4,))
    ]


def test_one_of_two_equal_functions_that_is_removed_is_changed(tmp_path: Path) -> None:
    base = {"a": FUNCTION, "b": FUNCTION}
    assert uncovered_of_modules(tmp_path, base, {"a": FUNCTION, "b": ""}) == [
        UncoveredCode("b.py", "choose", "base")
    ]


def test_new_function_whose_name_two_removed_ones_have_is_new_as_a_whole(tmp_path: Path) -> None:
    one = "def choose(brokers, limit=3):\n    return brokers\n"
    base = {"a": one, "b": FUNCTION.replace("-1", "-2")}
    assert uncovered_of_modules(tmp_path, base, {"a": "", "b": "", "c": FUNCTION}, 3) == [
        UncoveredCode("a.py", "choose", "base"),
        UncoveredCode("b.py", "choose", "base"),
        UncoveredCode("c.py", "choose", "head", (4, 5)),
    ]


# Removed code -------------------------------------------------------------------------------------


def test_statement_moved_out_of_its_block_is_changed(tmp_path: Path) -> None:
    base = "def f(a):\n    if a:\n        a.append(1)\n        a.append(2)\n"
    head = "def f(a):\n    if a:\n        a.append(1)\n    a.append(2)\n"
    assert found(tmp_path, base, head, 2, 3) == [UncoveredCode("m.py", "f", "head", (4,))]


def test_condition_of_a_changed_branch_is_not_changed(tmp_path: Path) -> None:
    base = "def f(a, b):\n    if a:\n        if b:\n            return 1\n    return 2\n"
    head = base.replace("1", "3")
    assert found(tmp_path, base, head, 2, 5) == [UncoveredCode("m.py", "f", "head", (4,))]


SEVERAL_LINES = """
def choose(brokers):
    if not (
        brokers):
        return (
            -1
        )
    return brokers[0]
"""
"""The condition is in lines 3 and 4, the statement after it in lines 5 to 7."""


@pytest.mark.parametrize(
    ("old", "new", "own_lines", "other_lines"),
    [
        ("brokers):\n        return", "brokers[1:]):\n        return", (3, 4), (5, 6, 7, 8)),
        ("-1", "-2", (5, 6, 7), (3, 4, 8)),
    ],
)
def test_statement_on_several_lines_is_covered_by_each_of_them_without_its_block(
    tmp_path: Path, old: str, new: str, own_lines: tuple[int, ...], other_lines: tuple[int, ...]
) -> None:
    head = SEVERAL_LINES.replace(old, new)
    for line in own_lines:
        assert found(tmp_path / str(line), SEVERAL_LINES, head, line) == []
    changed = UncoveredCode("m.py", "choose", "head", own_lines[:1])
    assert found(tmp_path / "others", SEVERAL_LINES, head, *other_lines) == [changed]


def test_changed_pattern_of_a_case_is_covered_when_it_is_compared(tmp_path: Path) -> None:
    base = "def f(a):\n    match a:\n        case 1:\n            return 2\n    return 3\n"
    head = base.replace("case 1", "case 4")
    assert found(tmp_path / "a", base, head, 2, 3, 5) == []
    assert found(tmp_path / "b", base, head, 2) == [UncoveredCode("m.py", "f", "head", (3,))]


def test_removed_statement_is_uncovered_unless_base_executes_it(tmp_path: Path) -> None:
    head = FUNCTION.replace("    if len(brokers) > limit:\n        return brokers[0]\n", "")
    removed = UncoveredCode("m.py", "choose", "base", (4,))
    assert found(tmp_path / "a", FUNCTION, head, 3, with_base=(3, 5)) == [removed]
    assert found(tmp_path / "b", FUNCTION, head, 3, with_base=(3, 4)) == []


def test_function_with_a_removed_and_a_new_statement_has_both(tmp_path: Path) -> None:
    base = FUNCTION.replace("    if", "    limit.pop()\n    if")
    head = FUNCTION.replace("-1", "-2")
    assert found(tmp_path, base, head, 3, 4, with_base=(4, 5, 6)) == [
        UncoveredCode("m.py", "choose", "base", (3,)),
        UncoveredCode("m.py", "choose", "head", (5,)),
    ]


def test_removed_function_is_uncovered_unless_base_executes_it(tmp_path: Path) -> None:
    assert found(tmp_path / "a", FUNCTION, "") == [UncoveredCode("m.py", "choose", "base")]
    assert found(tmp_path / "b", FUNCTION, "", with_base=(3, 4, 5)) == []


def test_default_value_is_covered_when_the_function_is_executed(tmp_path: Path) -> None:
    head = FUNCTION.replace("limit: int = 3", "limit: int = 4")
    assert found(tmp_path / "a", FUNCTION, head, 3, 5) == []
    assert found(tmp_path / "b", FUNCTION, head) == [UncoveredCode("m.py", "choose", "head")]


# Values -------------------------------------------------------------------------------------------


VALUE = """
FIRST = 1
STEPS = (FIRST, 2)
UNUSED = 5

def run(a):
    if a:
        return STEPS
    return a
"""
"""The function begins in line 6."""


@pytest.mark.parametrize(("old", "new"), [("2)", "3)"), ("FIRST = 1", "FIRST = 4")])
def test_value_is_covered_when_an_executed_line_uses_it(tmp_path: Path, old: str, new: str) -> None:
    name = "STEPS" if old == "2)" else "FIRST"
    head = VALUE.replace(old, new)
    assert found(tmp_path / "a", VALUE, head, 7, 8) == []
    assert found(tmp_path / "b", VALUE, head, 7, 9) == [UncoveredCode("m.py", name, "head")]


def test_value_that_the_core_does_not_use_is_left_out(tmp_path: Path) -> None:
    assert found(tmp_path, VALUE, VALUE.replace("= 5", "= 6")) == []


@pytest.mark.parametrize(
    "function",
    [
        "def f(a: Kind):\n    return a\n",
        "def f(a) -> Kind:\n    return a\n",
        "def f(a):\n    b: Kind = a\n    return b\n",
        "def f(a):\n    try:\n        a()\n    except OSError:\n        b: Kind = a\n",
        "def f(a):\n    match a:\n        case 1:\n            b: Kind = a\n",
    ],
)
def test_value_that_only_annotations_use_is_left_out(tmp_path: Path, function: str) -> None:
    assert found(tmp_path, f"Kind = int\n\n{function}", f"Kind = float\n\n{function}") == []


def test_value_that_an_annotated_variable_is_set_to_is_used(tmp_path: Path) -> None:
    text = "MOST = 1\n\ndef f(a):\n    limit: int = MOST\n    return a < limit\n"
    head = text.replace("= 1", "= 2")
    assert found(tmp_path / "a", text, head, 4) == []
    assert found(tmp_path / "b", text, head) == [UncoveredCode("m.py", "MOST", "head")]


@pytest.mark.parametrize(("imported", "name"), [("LIMIT as MOST", "MOST"), ("LIMIT", "LIMIT")])
def test_value_is_covered_through_an_import(tmp_path: Path, imported: str, name: str) -> None:
    user = f"from controller.core.values import {imported}\n\ndef f():\n    return {name}\n"
    head = read_core(core(tmp_path / "head", values="LIMIT = 2\n", user=user))
    changed = changes_between(
        read_core(core(tmp_path / "base", values="LIMIT = 1\n", user=user)), head
    )
    assert uncovered(changed, head, {}, {"user.py": frozenset({4})}) == []
    assert uncovered(changed, head, {}, {}) == [UncoveredCode("values.py", "LIMIT", "head")]


def test_value_with_the_name_of_one_in_another_package_is_not_used(tmp_path: Path) -> None:
    user = "from values import LIMIT\n\ndef f():\n    return LIMIT\n"
    head = read_core(core(tmp_path / "head", values="LIMIT = 2\n", user=user))
    changed = changes_between(
        read_core(core(tmp_path / "base", values="LIMIT = 1\n", user=user)), head
    )
    assert uncovered(changed, head, {}, {}) == []


def test_default_value_is_used_when_the_function_is_executed(tmp_path: Path) -> None:
    text = "MOST = 1\n\ndef f(limit=MOST):\n    return limit\n"
    head = text.replace("= 1", "= 2")
    assert found(tmp_path / "a", text, head, 4) == []
    assert found(tmp_path / "b", text, head) == [UncoveredCode("m.py", "MOST", "head")]


def test_default_value_is_used_when_part_of_the_function_is_executed(tmp_path: Path) -> None:
    base = FUNCTION.replace("= 3", "= MOST") + "\nMOST = 1\n"
    assert found(tmp_path, base, base.replace("= 1\n", "= 2\n"), 3, 5) == []


def test_value_is_covered_through_several_values(tmp_path: Path) -> None:
    base = "ONE = 1\nTWO = ONE\nTHREE = TWO\nFOUR = THREE\n\ndef f():\n    return FOUR\n"
    head = base.replace("= 1", "= 2")
    assert found(tmp_path / "a", base, head, 7) == []
    assert found(tmp_path / "b", base, head) == [UncoveredCode("m.py", "ONE", "head")]


def test_values_that_are_exchanged_are_changed(tmp_path: Path) -> None:
    base = "LEAST = 1\nMOST = 2\n\ndef f():\n    return LEAST, MOST\n"
    head = base.replace("1", "3").replace("2", "1").replace("3", "2")
    assert found(tmp_path, base, head) == [
        UncoveredCode("m.py", "LEAST", "head"),
        UncoveredCode("m.py", "MOST", "head"),
    ]


def test_functions_that_are_exchanged_are_changed(tmp_path: Path) -> None:
    base = "def f():\n    return 1\n\ndef g():\n    return 2\n"
    head = base.replace("1", "3").replace("2", "1").replace("3", "2")
    assert found(tmp_path, base, head) == [
        UncoveredCode("m.py", "f", "head"),
        UncoveredCode("m.py", "g", "head"),
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [("(Base,", "(Other,"), ("frozen=True", "frozen=False"), ("@ordered", "@unordered")],
)
def test_base_argument_or_decorator_of_a_class_is_covered_when_the_class_is_used(
    tmp_path: Path, old: str, new: str
) -> None:
    text = "@ordered\nclass Limits(Base, frozen=True):\n    pass\n\ndef f():\n    return Limits\n"
    head = text.replace(old, new)
    assert found(tmp_path / "a", text, head, 6) == []
    assert found(tmp_path / "b", text, head) == [UncoveredCode("m.py", "Limits", "head")]


def test_class_without_bases_is_not_a_value(tmp_path: Path) -> None:
    base = "def f():\n    return Limits.MOST\n"
    head = base + "\nclass Limits:\n    MOST = 1\n"
    assert found(tmp_path, base, head) == [UncoveredCode("m.py", "Limits.MOST", "head")]


def test_value_of_a_class_is_covered_by_the_line_of_its_name(tmp_path: Path) -> None:
    text = "class Limits:\n    MOST = 1\n\ndef f(limits):\n    return (limits\n        .MOST)\n"
    head = text.replace("= 1", "= 2")
    assert found(tmp_path / "a", text, head, 6) == []
    assert found(tmp_path / "b", text, head, 5) == [UncoveredCode("m.py", "Limits.MOST", "head")]


def test_function_called_for_a_used_value_is_covered(tmp_path: Path) -> None:
    text = "def table():\n    return [1]\n\nTABLE = table()\n\ndef f():\n    return TABLE\n"
    assert found(tmp_path / "a", text, text.replace("[1]", "[2]"), 7) == []
    assert found(tmp_path / "b", text, text.replace("[1]", "[2]")) == [
        UncoveredCode("m.py", "table", "head")
    ]


def test_function_that_no_used_value_of_its_module_calls_is_uncovered(tmp_path: Path) -> None:
    used = "def table():\n    return [1]\n\nTABLE = table()\n\ndef f():\n    return TABLE\n"
    text = "def table():\n    return [3]\n\ndef other():\n    return 5\n\nLIMIT = 1\n"
    user = "from controller.core.b import LIMIT\n\ndef g():\n    return LIMIT\n"
    base = {"a": used, "b": text, "c": user}
    head = {**base, "b": text.replace("[3]", "[4]").replace("5", "6")}
    assert uncovered_of_modules(tmp_path, base, head, 4, 7) == [
        UncoveredCode("b.py", "other", "head"),
        UncoveredCode("b.py", "table", "head"),
    ]


def test_module_that_cannot_be_parsed_is_named(tmp_path: Path) -> None:
    with pytest.raises(DiffError, match=r"m\.py cannot be parsed"):
        read_core(core(tmp_path / "core", m="def f(:\n"))


def test_new_function_is_not_compared_with_one_that_its_module_still_has(tmp_path: Path) -> None:
    changed = FUNCTION.replace("brokers[0]", "brokers[-1]")
    head = {"a": "def choose():\n    return 7\n", "b": changed}
    assert uncovered_of_modules(tmp_path, {"a": "", "b": FUNCTION}, head, 2, 3) == [
        UncoveredCode("b.py", "choose", "head", (4,)),
    ]


def test_removed_copy_of_a_function_is_named_with_its_module(tmp_path: Path) -> None:
    base = {"a": FUNCTION, "b": FUNCTION}
    assert uncovered_of_modules(tmp_path, base, {"a": "", "b": FUNCTION}) == [
        UncoveredCode("a.py", "choose", "base")
    ]
