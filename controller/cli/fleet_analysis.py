"""What `refold fleet analyse` prints: a small table a topic."""

from typing import TYPE_CHECKING, Any

import typer

from controller.cli.output import print_table

if TYPE_CHECKING:
    from replay.fleet.analysis.analysing import Analysis


def print_analysis(analysis: "Analysis") -> None:
    """The topics with something to tell, then where the tables are."""
    from rich.markup import escape
    from rich.table import Table

    for one in analysis.summaries:
        if not one.rows:
            typer.echo(f"{one.title}: none")
            continue
        table = Table(*one.columns, title=one.title, title_justify="left")
        for row in one.rows:
            table.add_row(*(escape(_shown(value)) for value in row))
        print_table(table)
    typer.echo(
        f"{analysis.folder}: {analysis.tables['logs']} logs, {len(analysis.tables)} tables;"
        f" {analysis.seconds:.1f} s"
    )


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else str(value)
