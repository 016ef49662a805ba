"""docs/commands.md: every command with its help, and the table of exit statuses."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from typer.main import get_command

from replay.cli.main import app

_WIDTH: Final = 100

_HEAD: Final = """\
# Commands

This page has the `--help` of every command. [index.md](index.md) lists the pages that explain how
to use them.

Generated from the commands by `python -m tools.pages --write`.

## Exit status

| status | meaning for every command |
|---|---|
| 0 | done; a check found nothing |
| 1 | a check found something, or the work could not be completed |
| 2 | wrong arguments, an input that cannot be used, or output that cannot be written |
| 3 | nothing differs, but something could not be judged (`agree`, `run --mode shadow`) |
| 70 | a bug of refold: an unexpected exception. One line names the file that has the traceback |
| 130 | Ctrl-C, if the command does not treat Ctrl-C as its normal end |

The help of each command says what its exit status means exactly.
"""


class Help(NamedTuple):
    """The help of a command, with the words that call it."""

    words: tuple[str, ...]
    text: str


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *map(_section, command_helps())])


def command_helps(width: int = _WIDTH) -> Iterator[Help]:
    """All commands in the order of `refold --help`, each group before its sub-commands."""
    settings: Any = {"max_content_width": width, "terminal_width": width, "color": False}
    return _helps_of(get_command(app), ("refold",), None, settings)


def _helps_of(command: Any, words: tuple[str, ...], parent: Any, settings: Any) -> Iterator[Help]:
    context = command.make_context(words[-1], [], parent=parent, resilient_parsing=True, **settings)
    yield Help(words, command.get_help(context))
    for name in getattr(command, "commands", {}):
        _, found, _ = command.resolve_command(context, [name])
        yield from _helps_of(found, (*words, name), context, settings)


def _section(help: Help) -> str:
    level = "##" if len(help.words) <= 2 else "###"
    return f"{level} {' '.join(help.words)}\n\n```text\n{help.text.strip()}\n```\n"
