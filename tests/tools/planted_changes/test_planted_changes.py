"""Planted changes: the changed copy of the code, and what a comparison with it shows."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.mutations.errors import MutationError
from tools.mutations.functions import functions_of
from tools.mutations.rules import MutationRule, Value
from tools.planted_changes.planting import PlantedChange, changed_copy, planted
from tools.planted_changes.verdicts import PlantedOutcome, Verdict, outcome_of, table

ROOT = Path(__file__).parents[3]
MODULE = '''"""A rule."""

STEPS = (1, 2)


class Rule:
    # A comment.
    def limit(self, count: int) -> int:
        """The limit."""
        if count < 3:
            return 3
        return count


def after() -> int:
    return 1
'''
CHANGE = PlantedChange(Path("controller/core/election.py"), "", "imbalanced", frozenset({7, 8}))
RULE = MutationRule(rule="a rule", function="election.imbalanced", mutant="m", diff="preferred")


def group(base: str, head: str = "", *, is_harmless: bool = False) -> dict[str, Any]:
    return {"base_rule": base, "head_rule": head or base, "is_harmless": is_harmless}


def report(*groups: dict[str, Any], **lists: Any) -> dict[str, Any]:
    names = ("uncovered", "one_sided", "undistinguished", "errors", "nondeterminism")
    return {"groups": list(groups), **{name: lists.get(name, []) for name in names}}


def uncovered(*lines: int, name: str = "imbalanced", side: str = "head") -> dict[str, Any]:
    return {"file": "election.py", "name": name, "side": side, "lines": list(lines)}


def one_sided(line: int) -> dict[str, Any]:
    return {"file": "election.py", "name": "imbalanced", "side": "head", "line": line}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the module in controller/core."""
    for name in ("controller/core", "eventstore", "replay"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "controller/core/rule.py").write_text(MODULE)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def plant(tree: Path, rule: MutationRule) -> PlantedChange:
    path = tree / "controller/core/rule.py"
    if rule.value:
        return planted(rule, Value(path, "controller.core.rule", rule.value), tree)
    functions = functions_of(path, "controller.core.rule", MODULE)
    [target] = [one for one in functions if one.name == rule.function]
    return planted(rule, target, tree)


# The changed copy ---------------------------------------------------------------------------------


def test_mutant_changes_one_place_of_the_function(tree: Path) -> None:
    rule = MutationRule(rule="r", function="Rule.limit", mutant="compare: count < 3 -> count <= 3")
    change = plant(tree, rule)
    assert change.text == MODULE.replace("count < 3", "count <= 3")
    assert change.file_in_core == "rule.py"


def test_expression_is_replaced_where_the_function_has_it(tree: Path) -> None:
    rule = MutationRule(rule="r", function="Rule.limit", expression="count<3", becomes="count != 3")
    change = plant(tree, rule)
    assert change.text == MODULE.replace("count < 3", "count != 3")
    with pytest.raises(MutationError, match="has 0 times 'count > 3'"):
        plant(
            tree, MutationRule(rule="r", function="Rule.limit", expression="count > 3", becomes="0")
        )


def test_body_calls_the_unchanged_function(tree: Path) -> None:
    rule = MutationRule(rule="r", function="Rule.limit", body="return unchanged(self, count) + 1")
    content: dict[str, Any] = {}
    change = plant(tree, rule)
    exec(change.text, content)
    assert content["Rule"]().limit(1) == 4
    assert content["after"]() == 1


def test_lines_of_the_unchanged_function_are_not_the_change(tree: Path) -> None:
    change = plant(tree, MutationRule(rule="r", function="Rule.limit", result="result + 1"))
    lines = change.text.splitlines()
    changed = [lines[number - 1].strip() for number in sorted(change.lines)]
    assert changed[0].startswith("def limit")
    assert [one for one in changed if "result" in one] == [
        "result = unchanged(self, count)",
        "return result + 1",
    ]
    assert "return count" not in changed


def test_value_is_replaced_after_its_assignment(tree: Path) -> None:
    change = plant(tree, MutationRule(rule="r", value="STEPS", becomes="old[::-1]"))
    content: dict[str, Any] = {}
    exec(change.text, content)
    assert content["STEPS"] == (2, 1)


def test_changed_copy_has_the_change_and_the_other_packages(tree: Path) -> None:
    change = plant(tree, MutationRule(rule="r", value="STEPS", becomes="()"))
    changed_copy(tree, tree / "head", change)
    assert (tree / "head/controller/core/rule.py").read_text() == change.text
    assert (tree / "head/replay").is_dir()
    assert (tree / "controller/core/rule.py").read_text() == MODULE


# The outcome --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (report(group("preferred replica leader election")), PlantedOutcome.FOUND),
        (report(group("", "preferred")), PlantedOutcome.FOUND),
        (report(group("broker failure"), uncovered=[uncovered()]), PlantedOutcome.OTHER_RULE),
        (report(uncovered=[uncovered()]), PlantedOutcome.UNCOVERED),
        (report(uncovered=[uncovered(8)]), PlantedOutcome.UNCOVERED),
        (report(uncovered=[uncovered(99, side="base")]), PlantedOutcome.UNCOVERED),
        (report(uncovered=[uncovered(9)]), PlantedOutcome.MISSED),
        (report(uncovered=[uncovered(name="other")]), PlantedOutcome.MISSED),
        (report(one_sided=[one_sided(8)]), PlantedOutcome.ONE_SIDED),
        (report(one_sided=[one_sided(9)]), PlantedOutcome.MISSED),
        (report(undistinguished=[uncovered(7)]), PlantedOutcome.UNDISTINGUISHED),
        (report(undistinguished=[uncovered(7, name="other")]), PlantedOutcome.MISSED),
        (report(nondeterminism=["head"]), PlantedOutcome.FOUND),
        (report(group("preferred", is_harmless=True)), PlantedOutcome.MISSED),
        (report(), PlantedOutcome.MISSED),
        (report(errors=["head failed"]), PlantedOutcome.FAILED),
        (report(errors=["head: preferred never ends"]), PlantedOutcome.FOUND),
        (report(group("preferred"), errors=["head failed"]), PlantedOutcome.FOUND),
    ],
)
def test_planted_change_is_found_named_or_missed(
    found: dict[str, Any], outcome: PlantedOutcome
) -> None:
    assert outcome_of(RULE, CHANGE, found, is_innocuous=False)[0] is outcome


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (report(), PlantedOutcome.CLEAN),
        (report(uncovered=[uncovered()]), PlantedOutcome.CLEAN),
        (report(group("a rule", is_harmless=True)), PlantedOutcome.CLEAN),
        (report(undistinguished=[uncovered()]), PlantedOutcome.CLEAN),
        (report(group("a rule")), PlantedOutcome.FALSE_ALARM),
        (report(nondeterminism=["head"]), PlantedOutcome.FALSE_ALARM),
    ],
)
def test_outcome_of_an_innocuous_change(found: dict[str, Any], outcome: PlantedOutcome) -> None:
    assert outcome_of(RULE, CHANGE, found, is_innocuous=True)[0] is outcome


def test_rules_that_differ_are_named_once_in_both_versions() -> None:
    found = report(group("one", "other"), group("same"), group("same"))
    _, rules = outcome_of(RULE, CHANGE, found, is_innocuous=False)
    assert rules == ("one / other", "same")


def test_table_ends_with_what_is_not_found_and_the_counts() -> None:
    found = Verdict("first", "election.one", "rule", PlantedOutcome.FOUND, ("rule",))
    missed = Verdict("second", "election.other", "expected rule", PlantedOutcome.MISSED)
    assert table([found, missed]).splitlines() == [
        "change  outcome                   rules that differ",
        "first   found                     rule",
        "second  MISSED",
        "",
        "MISSED: second (election.other), expected: expected rule",
        "",
        "2 changes: 1 found, 1 MISSED",
    ]


# The command --------------------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.planted_changes", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_command_finds_a_planted_change() -> None:
    done = run("tests/incidents/unclean-election", "--only", "an unclean leader is rec", "--json")
    assert done.returncode == 0, done.stderr
    [verdict] = json.loads(done.stdout)
    assert verdict["outcome"] == "found"


@pytest.mark.long
def test_command_with_an_unknown_change_exits_with_2() -> None:
    done = run("--only", "no such rule")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == "--only no such rule: no planted change has this text"
