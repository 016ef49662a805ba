"""Every row of the scenario tables (kafka-controller-behaviour.md, section 17) is accounted for."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

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
"""How many rows each table has."""

ROWS = {f"{table}-{number:02}" for table, count in COUNTS.items() for number in range(1, count + 1)}
_ROW = re.compile(r"\| *([A-Z]{2}-\d\d) *\| *(.+?) *\|")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)")


def entries(page: Path) -> list[tuple[str, str]]:
    """The rows of a page and what it says of them."""
    return [found.groups() for line in page.read_text().splitlines() if (found := _ROW.match(line))]


@cache
def functions_in(module: str) -> frozenset[str]:
    path = ROOT / module
    if not path.is_file():
        return frozenset()
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in nodes if isinstance(node, functions))


def test_there_are_233_rows() -> None:
    assert len(ROWS) == 233


def test_every_row_is_on_one_page() -> None:
    listed = [row for page in PAGES for row, _ in entries(page)]
    assert sorted(listed) == sorted(ROWS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tests_that_a_page_names_exist(page: Path) -> None:
    named = _TEST.findall(page.read_text(encoding="utf-8"))
    assert named
    assert [one for one in named if one[1] not in functions_in(one[0])] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_row_has_a_test_or_a_reason(page: Path) -> None:
    reasons = ("issue ", "does not apply: ")
    bare = [
        row
        for row, text in entries(page)
        if not _TEST.search(text) and not text.startswith(reasons)
    ]
    assert bare == []
