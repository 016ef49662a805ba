"""The `refold` commands that the pages show exist, with the options that the pages give them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from typer.core import TyperGroup
from typer.main import get_command

from replay.cli.main import app
from tools.pages import ROOT
from tools.pages.commands import command_helps

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/runbooks/*.md")])
REFOLD = get_command(app)
_OF_80_COLUMNS = 78
"""The help leaves two of the terminal's columns empty."""


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


def code_of(tokens: list[Token]) -> Iterator[str]:
    """The code blocks, with continued lines joined, and the code within sentences."""
    for token in tokens:
        if token.type in ("fence", "code_block"):
            yield from re.sub(r"\\\n[> ]*", "", token.content).splitlines()
        for child in token.children or ():
            if child.type == "code_inline":
                yield child.content


def commands_of(page: Path) -> Iterator[list[str]]:
    """The words after `refold` of each command in `page`."""
    tokens = MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8"))
    for code in code_of(tokens):
        line = re.sub(r"^\$ ", "", code.strip())
        is_error = re.match(r"refold [a-z -]+: ", line)
        if line.startswith("refold ") and not is_error:
            words = shlex.split(re.sub(r"[\[\]|;]", " ", line), comments=True)
            yield words[1:]


def unknown_in(words: list[str]) -> str:
    """The first word that is no command or option; "" if there is none."""
    command: Any = REFOLD
    while isinstance(command, TyperGroup) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        if words[0] not in command.commands:
            return words[0]
        context = command.make_context("refold", [], resilient_parsing=True)
        _, command, words = command.resolve_command(context, words)
    options = {"--help", "-h"}.union(*(one.opts + one.secondary_opts for one in command.params))
    given = (word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word))
    return next((option for option in given if option not in options), "")


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_and_options_exist(page: Path) -> None:
    unknown = [(word, words) for words in commands_of(page) if (word := unknown_in(words))]
    assert unknown == []


def test_missing_command_or_option_is_found() -> None:
    assert unknown_in(["why", "LOG", "--partition", "t-0"]) == ""
    assert unknown_in(["why", "LOG", "--no-such-option"]) == "--no-such-option"
    assert unknown_in(["log", "nothing", "LOG"]) == "nothing"


def test_lists_of_commands_show_each_line_in_whole_on_80_columns() -> None:
    texts = [one.text for one in command_helps(_OF_80_COLUMNS) if "\nCommands:\n" in one.text]
    lines = [line for text in texts for line in text.partition("\nCommands:\n")[2].splitlines()]
    assert len(lines) > len(texts)
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


def test_help_shows_no_types_of_python() -> None:
    typed = [
        (one.words, line)
        for one in command_helps()
        for line in one.text.splitlines()
        if re.search(r" <[^>]+>(?: |$)", line)
    ]
    assert typed == []


def test_help_of_every_command_explains_the_exit_status() -> None:
    texts = {one.words: one.text for one in command_helps()}
    groups = {words[:-1] for words in texts}
    silent = [
        words
        for words, text in texts.items()
        if words not in groups and "xit status" not in text + texts[words[:-1]]
    ]
    assert silent == []
