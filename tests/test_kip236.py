"""Every sentence of KIP-236 has tests or a reason in docs/rows/kip-236.md."""

import ast
import re
from functools import cache
from pathlib import Path

from tools.mutations.settings import read_settings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/rows/kip-236.md"
CORE = "tests/controller/core"
FOLDERS = (CORE, "tests/controller/operator/reassignment", "tests/lab/interrupted")
COUNTS = {"M": 13, "P": 6, "C": 29, "E": 8, "Q": 27, "F": 6, "D": 17, "X": 5}
"""The number of sentences in each section of the document."""

NO_RULE = "no rule: "
REASON_WORDS_MIN = 5
_SENTENCE = re.compile(r"(?m)^- <a id=\"[^\"]+\"></a>\*\*([A-Z])-(\d\d)\*\* ")
_SHOWN_BY = re.compile(r"(?m)^  - ")
_TEST = re.compile(r"`(tests/[^`]+::[^`]+)`")


def rows() -> list[tuple[str, int, str]]:
    """Section, number and text of each sentence."""
    parts = _SENTENCE.split(PAGE.read_text(encoding="utf-8"))[1:]
    return [
        (section, int(number), _SHOWN_BY.split(text, maxsplit=1)[1])
        for section, number, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


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


def test_every_sentence_is_there_once_and_in_order() -> None:
    expected = [
        (section, number + 1) for section, count in COUNTS.items() for number in range(count)
    ]
    assert [(section, number) for section, number, _ in rows()] == expected


def test_every_sentence_has_tests_that_exist_or_a_reason() -> None:
    without = [row for row in rows() if not _TEST.search(row[2]) and not row[2].startswith(NO_RULE)]
    assert without == []
    named = {name for _, _, text in rows() for name in _TEST.findall(text)}
    assert named - functions() == set()


def test_reason_has_several_words() -> None:
    reasons = [text.removeprefix(NO_RULE) for _, _, text in rows() if text.startswith(NO_RULE)]
    assert [one for one in reasons if len(one.split()) < REASON_WORDS_MIN] == []


def test_tests_that_the_page_names_are_checked_by_mutation_testing() -> None:
    """`make mutations` requires that every test in CORE that the page names notices a mutant."""
    settings = read_settings(ROOT)
    assert any(PAGE.relative_to(ROOT).match(pattern) for pattern in settings.pages)
    assert CORE in settings.tests
