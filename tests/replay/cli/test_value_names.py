"""The names of values in the help."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer

from replay.cli.value_names import name_values

_APP = typer.Typer(rich_markup_mode=None, add_completion=False)


@_APP.command()
def command(
    _logs: Annotated[list[str], typer.Argument(metavar="LOG", help="The logs.")],
    _jobs: Annotated[int, typer.Option("-j", "--jobs", min=1)] = 1,
    _window: Annotated[float, typer.Option("--window")] = 1.0,
    _config: Annotated[Path | None, typer.Option("--config")] = None,
    _only: Annotated[list[str] | None, typer.Option("--only-topic")] = None,
    _at: Annotated[str | None, typer.Option("--at", metavar="TIME")] = None,
    _rules: Annotated[Literal["kafka", "refold"], typer.Option("--rules")] = "kafka",
    _json: Annotated[bool, typer.Option("--json")] = False,
) -> None:
    """Do something."""


def help_of(command: Any) -> str:
    context = command.make_context("command", [], resilient_parsing=True)
    return str(command.get_help(context))


@pytest.mark.parametrize(
    "words",
    [
        "LOG  The logs.",
        "-j, --jobs N ",
        "--window N ",
        "--config PATH",
        "--only-topic ONLY-TOPIC",
        "--at TIME",
        "--rules kafka|refold ",
        "--json\n",
    ],
)
def test_value_has_a_name_that_suits_its_type(words: str) -> None:
    named = typer.main.get_command(_APP)
    name_values(named)
    assert words in help_of(named)


def test_values_of_sub_commands_have_names() -> None:
    group = typer.Typer(rich_markup_mode=None, add_completion=False)
    group.command("first")(command)
    group.command("second")(command)
    named: Any = typer.main.get_command(group)
    name_values(named)
    assert "--config PATH" in help_of(named.commands["second"])


def test_command_of_a_typer_that_shows_no_types_is_not_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    older: Any = typer.main.get_command(_APP)
    for parameter in older.params:
        for one in type(parameter).__mro__:
            if "display_type" in vars(one):
                monkeypatch.delattr(one, "display_type")
    name_values(older)
    assert [one for one in older.params if "display_type" in vars(one)] == []
