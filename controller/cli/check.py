"""Checks whether a take-over would succeed, for `refold check`."""

import asyncio
from typing import Final

import typer
from rich.table import Table
from rich.text import Text

from controller import structured_log
from controller.cli.output import print_result, print_table
from controller.operator.checks import check_all
from controller.operator.probes import probe_all
from controller.operator.start_checks import CheckResult
from controller.settings.settings import LoadedSettings

_ERRORS: Final = 1
_COULD_NOT_CHECK: Final = 2
_COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "red"}


def check_take_over(loaded: LoadedSettings, *, as_json: bool) -> None:
    """Check whether `refold run` with these settings would succeed, and print the results.

    Raises typer.Exit with the exit status if there are errors, or if the check is not possible.
    """
    settings, warnings = loaded
    structured_log.configure(settings.messages)
    status = asyncio.run(probe_all(settings))
    results = [CheckResult("settings", "warning", warning) for warning in warnings]
    results += check_all(settings, status)
    print_result({"findings": results}, lambda: _print(results), as_json=as_json)
    if status.zookeeper.cluster is None:
        raise typer.Exit(_COULD_NOT_CHECK)
    if any(one.level == "error" for one in results):
        raise typer.Exit(_ERRORS)


def _print(results: list[CheckResult]) -> None:
    table = Table("check", "result", "finding", "what to do")
    for one in results:
        level = Text(one.level, _COLOURS[one.level])
        table.add_row(one.check, level, Text(one.text), Text(one.advice))
    print_table(table)
    counts = [f"{sum(one.level == level for one in results)} {level}" for level in _COLOURS]
    typer.echo(", ".join(counts))
