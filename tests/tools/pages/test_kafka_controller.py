"""Each page of docs/kafka-controller explains at its head the marks and abbreviations that it uses,
so that it can be read alone."""

import re
from pathlib import Path
from typing import Final

import pytest

from tools.pages import ROOT

PAGES: Final = sorted((ROOT / "docs/kafka-controller").glob("*.md"))
_CODE: Final = re.compile(r"`[^`]*`")
_MARK: Final = re.compile(r"\[[RWGQ]\]")
_ABBREVIATION: Final = re.compile(r"\b(?:RS|ORS|TRS|AR|RR|CAS|IBP)\b|(?<![\w.])[ev](?= -?\d)")


@pytest.mark.parametrize("page", PAGES, ids=lambda one: one.name)
def test_marks_and_abbreviations_are_explained_before_they_are_used(page: Path) -> None:
    text = " ".join(_CODE.sub("", page.read_text(encoding="utf-8")).split())
    unexplained = []
    for name in sorted({*_MARK.findall(text), *_ABBREVIATION.findall(text)}):
        first = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text)
        assert first is not None
        if not re.match(r" = |, | \| | assigned| \(assigned\)", text[first.end() :]):
            unexplained.append(name)
    assert unexplained == []
