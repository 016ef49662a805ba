"""Every page has short lines, is listed in the index, and has links that lead somewhere."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tools.pages import ROOT

COLUMNS = 120
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


def tokens_of(page: Path) -> list[Token]:
    return MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8"))


def links_of(page: Path) -> Iterator[str]:
    for token in tokens_of(page):
        for child in token.children or ():
            if child.type == "link_open":
                yield str(child.attrs["href"])


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of `page`, and those written as HTML."""
    tokens = tokens_of(page)
    found = set(re.findall(r'<a (?:id|name)="([^"]+)">', page.read_text(encoding="utf-8")))
    for token, content in itertools.pairwise(tokens):
        if token.type == "heading_open":
            text = "".join(child.content for child in content.children or ())
            found.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    return found


def can_be_wrapped(line: str) -> bool:
    return " " in line.strip().removeprefix("- ")


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_lines_outside_of_tables_and_code_are_short(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    free = {
        number
        for token in tokens_of(page)
        if token.type in ("table_open", "fence", "code_block", "html_block") and token.map
        for number in range(*token.map)
    }
    long = [
        at + 1
        for at, line in enumerate(lines)
        if len(line) > COLUMNS and at not in free and can_be_wrapped(line)
    ]
    assert not long


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in links_of(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_there = target.exists() and (not anchor or anchor in anchors_of(target))
        if not is_there:
            broken.append(link)
    assert not broken


def test_index_lists_every_page_of_docs() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links_of(index)}
    folders = (".", "rows", "runbooks")
    pages = {page for one in folders for page in (index.parent / one).glob("*.md")}
    assert sorted(map(names, pages - listed - {index})) == []
