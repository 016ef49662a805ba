"""Pages of docs/rows that list the sentences of a document, each with its tests or a reason."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]

_NO_RULE: Final = "no rule: "
_REASON_WORDS_MIN: Final = 5
_SENTENCE: Final = re.compile(r"(?m)^- <a id=\"[^\"]+\"></a>\*\*([A-Z])-(\d\d)\*\* ")
_SHOWN_BY: Final = re.compile(r"(?m)^  - ")
_TEST: Final = re.compile(r"`(tests/[^`]+::[^`]+)`")


class Row(NamedTuple):
    """A sentence: its section and number there, its words, and what shows it."""

    section: str
    number: int
    sentence: str
    text: str


def rows(page: Path) -> list[Row]:
    """The sentences of a page, in order."""
    parts = _SENTENCE.split(page.read_text(encoding="utf-8"))[1:]
    return [
        Row(section, int(number), *_SHOWN_BY.split(text, maxsplit=1))
        for section, number, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def named_tests(row: Row) -> list[str]:
    """The tests that a row names."""
    return _TEST.findall(row.text)


def assert_complete(page: Path, counts: dict[str, int]) -> None:
    """Each sentence is there once and in order. `counts`: the number of sentences by section."""
    expected = [
        (section, number + 1) for section, count in counts.items() for number in range(count)
    ]
    assert [(one.section, one.number) for one in rows(page)] == expected


def assert_shown(page: Path, folders: tuple[str, ...]) -> None:
    """Each sentence has tests that exist in these folders, or a reason."""
    found = rows(page)
    without = [one for one in found if not named_tests(one) and not one.text.startswith(_NO_RULE)]
    assert without == []
    named = {name for one in found for name in named_tests(one)}
    assert named - _functions(folders) == set()


def assert_reasons(page: Path) -> None:
    """Each reason has several words."""
    texts = [one.text for one in rows(page) if one.text.startswith(_NO_RULE)]
    reasons = [text.removeprefix(_NO_RULE) for text in texts]
    assert [one for one in reasons if len(one.split()) < _REASON_WORDS_MIN] == []


@cache
def _functions(folders: tuple[str, ...]) -> frozenset[str]:
    """Every test of the folders, without its parameters."""
    return frozenset(
        f"{module.relative_to(ROOT)}::{node.name}"
        for folder in folders
        for module in (ROOT / folder).rglob("test_*.py")
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )
