"""`refold check`: checks whether a take-over would succeed."""

import asyncio
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from controller import structured_log
from controller.cli.output import print_result, print_table
from controller.cli.setting_options import with_settings
from controller.operator.checks import check_all
from controller.operator.probes import probe_all
from controller.operator.start_checks import CheckResult
from controller.settings.settings import Loaded

_ERRORS: Final = 1
_COULD_NOT_CHECK: Final = 2
_COLOURS: Final = {"ok": "green", "warning": "yellow", "error": "red"}

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command("check")
@with_settings
def check(
    loaded: Loaded,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check whether `refold run` with the same settings would succeed. Changes nothing.

    Exit status: 0 no errors (warnings are possible), 1 errors, 2 the check was not possible because
    the settings cannot be used or ZooKeeper is not reachable.
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
