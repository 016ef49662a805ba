"""Every row of docs/rows has tests, which notice the removal of a rule, or a reason."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tools.mutations.settings import read_settings

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs/rows/scenarios.md", ROOT / "docs/rows/units.md")
COUNTS = {
    "CI": 54,
    "CF": 1,
    "PS": 22,
    "RS": 45,
    "PA": 13,
    "TD": 4,
    "CC": 18,
    "CX": 10,
    "EM": 6,
    "KC": 1,
    "SU": 43,
    "OB": 16,
}
"""The number of rows in each table."""

ROWS = {f"{table}-{number:02}" for table, count in COUNTS.items() for number in range(1, count + 1)}
FOLDERS = ("tests/controller/core", "tests/controller/zookeeper")
"""The folders with the tests of rows."""

DOES_NOT_APPLY = "does not apply: "
REASON_WORDS_MIN = 6
_ROW = re.compile(r"\| ([A-Z]{2}-\d\d) \| [^|]+ \| ([^|]+) \|")
_TEST = re.compile(r"`(tests/[^`]+::[^`]+)`")
_CARRIED = re.compile(r"(?<![A-Z])([A-Z]{2})[_-](\d\d)(?!\d)")
_CASE = re.compile(r'"[A-Z]{2}-\d\d[^"]*"\)')
"""The id of a row as the id of a test's parameters."""
_ELSEWHERE = re.compile(r"\bissue \d|\bKB \d|\b[\w-]+\.md\b")
"""References that a reader without other documents does not understand."""


def entries() -> list[tuple[str, str]]:
    """The rows of both pages, with their last column."""
    lines = [line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines()]
    return [found.groups() for line in lines if (found := _ROW.fullmatch(line))]


def shown_by(row: str, text: str) -> list[str]:
    """The named tests that have the row's id in their name or in the id of their parameters."""
    return [name for name in _TEST.findall(text) if row in rows_of(name)]


def rows_of(name: str) -> set[str]:
    """The rows whose ids are in the name of a test."""
    carried = _CARRIED.findall(name.partition("::")[2])
    return {f"{table}-{number}" for table, number in carried} & ROWS


@cache
def functions() -> frozenset[str]:
    """Every test of the folders, without its parameters."""
    return frozenset(
        f"{module.relative_to(ROOT)}::{node.name}"
        for folder in FOLDERS
        for module in (ROOT / folder).rglob("test_*.py")
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


@cache
def cases() -> frozenset[str]:
    """The tests with rows in their parameters, as pytest names them."""
    modules = [
        str(module.relative_to(ROOT))
        for folder in FOLDERS
        for module in (ROOT / folder).rglob("test_*.py")
        if _CASE.search(module.read_text(encoding="utf-8"))
    ]
    options = ["--collect-only", "-q", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *modules]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return frozenset(line for line in found.stdout.splitlines() if "[" in line)


def test_number_of_rows_is_233() -> None:
    assert len(ROWS) == 233


def test_every_row_is_on_one_page() -> None:
    assert sorted(row for row, _ in entries()) == sorted(ROWS)


def test_tests_that_a_page_names_exist() -> None:
    named = {name for _, text in entries() for name in _TEST.findall(text)}
    assert named - functions() - cases() == set()


def test_every_applicable_row_has_a_test_with_its_id() -> None:
    applying = [entry for entry in entries() if not entry[1].startswith(DOES_NOT_APPLY)]
    assert [row for row, text in applying if not shown_by(row, text)] == []


def test_every_test_with_a_row_is_named_on_the_page() -> None:
    named = {row: shown_by(row, text) for row, text in entries()}
    unnamed = {
        (row, name)
        for name in functions() | cases()
        for row in rows_of(name)
        if not {name, name.partition("[")[0]} & set(named.get(row, ()))
    }
    assert sorted(unnamed) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_of_rows_are_checked_by_mutation_testing(page: Path) -> None:
    """`make mutations` requires that every test that the page names notices a mutant."""
    settings = read_settings(ROOT)
    assert any(page.relative_to(ROOT).match(pattern) for pattern in settings.pages)
    assert set(FOLDERS) <= set(settings.tests)


def test_reason_has_several_words() -> None:
    reasons = {
        row: _TEST.sub("", text.removeprefix(DOES_NOT_APPLY))
        for row, text in entries()
        if text.startswith(DOES_NOT_APPLY)
    }
    assert [row for row, why in reasons.items() if len(why.split()) < REASON_WORDS_MIN] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_row_is_understandable_without_other_documents(page: Path) -> None:
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert [line for line in rows if _ELSEWHERE.search(line)] == []
