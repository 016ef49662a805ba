"""Every statement of the failover article has tests or a reason in docs/rows/failover.md."""

import ast
from functools import cache

import pytest

from tests.sentences import ROOT, assert_complete, assert_reasons, assert_shown, named_tests, rows

PAGE = ROOT / "docs/rows/failover.md"
FOLDERS = ("tests/lab", "tests/controller", "tests/replay")
COUNTS = {"B": 4, "C": 8, "Z": 10, "F": 14, "K": 7, "T": 7}
"""The number of statements in each section of the article."""


def test_every_statement_is_there_once_and_in_order() -> None:
    assert_complete(PAGE, COUNTS)


def test_every_statement_has_tests_that_exist_or_a_reason() -> None:
    assert_shown(PAGE, FOLDERS)


def test_reason_has_several_words() -> None:
    assert_reasons(PAGE)


@pytest.mark.parametrize("section", COUNTS)
def test_half_of_the_statements_of_each_section_are_shown_by_real_servers(section: str) -> None:
    shown = [
        one
        for one in rows(PAGE)
        if one.section == section and any(map(runs_servers, named_tests(one)))
    ]
    assert 2 * len(shown) >= COUNTS[section]


def runs_servers(test: str) -> bool:
    """Whether a test has the marker `lab`."""
    module, _, name = test.partition("::")
    return name in _lab_tests(module)


@cache
def _lab_tests(module: str) -> frozenset[str]:
    """The tests of a module with the marker `lab`, or all if the module has it."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    has_all = any(
        isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "pytestmark"
        and "pytest.mark.lab" in ast.unparse(node.value)
        for node in tree.body
    )
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (has_all or "pytest.mark.lab" in map(ast.unparse, node.decorator_list))
    )
