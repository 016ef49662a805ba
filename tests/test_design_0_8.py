"""Every sentence of the 0.8 replication design has tests or a reason in docs/rows/design-0.8.md."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/rows/design-0.8.md"
FOLDER = "tests/controller/kafka_0_8"
COUNTS = {"Z": 25, "K": 19, "N": 8, "B": 11}
"""The number of sentences in each section of the document."""

NO_RULE = "no rule: "
REASON_WORDS_MIN = 5
_SENTENCE = re.compile(r"(?m)^- <a id=\"[^\"]+\"></a>\*\*([A-Z])-(\d\d)\*\* ")
_SHOWN_BY = re.compile(r"(?m)^  - ")
_TEST = re.compile(r"`(tests/[^`]+::[^`]+)`")


def rows() -> list[tuple[str, int, str]]:
    """Section, number and what covers each sentence."""
    parts = _SENTENCE.split(PAGE.read_text(encoding="utf-8"))[1:]
    return [
        (section, int(number), _SHOWN_BY.split(text, maxsplit=1)[1])
        for section, number, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


@cache
def functions() -> frozenset[str]:
    """Every test of the folder, without its parameters."""
    return frozenset(
        f"{module.relative_to(ROOT)}::{node.name}"
        for module in (ROOT / FOLDER).rglob("test_*.py")
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
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
