"""`refold fleet analyse`: what the logs tell of their clusters."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.output import print_result, print_table
from replay.cli.fleet.completeness import INCOMPLETE, print_incomplete
from replay.cli.fleet.options import (
    Conf,
    Master,
    Table,
    fleet_errors,
    settings_of,
    task_progress,
)
from replay.cli.moments import From, To, period
from replay.escape_path import escape_path

if TYPE_CHECKING:
    from replay.fleet.analysis.analyse import Analysis


def analyse(
    folder: Table,
    window: Annotated[
        float, typer.Option(min=0, help="Seconds between two events that are a race.")
    ] = 1.0,
    flap_window: Annotated[
        float, typer.Option(min=0, help="Seconds within which a broker that flaps goes.")
    ] = 300.0,
    flap_times: Annotated[int, typer.Option(min=2, help="How often it goes within them.")] = 3,
    stuck_after: Annotated[
        float, typer.Option(min=0, help="Seconds after which a reassignment is stuck.")
    ] = 600.0,
    cluster: Annotated[
        list[str] | None, typer.Option(help="Only this cluster; again for more.")
    ] = None,
    first: From = None,
    last: To = None,
    master: Master = None,
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what the logs tell of their clusters: failovers, outages, leader churn, reassignments,
    races, brokers that flap, zombie controllers.

    Parquet tables below DIR/analysis (docs/fleet.md), in the place of those of before; printed is
    what they come to. With --from and --to: the logs of that time, each of them whole.

    Exit status: 0 done; 1 done, but a log lacks something or is set aside; 2 DIR or Spark cannot be
    used, or Ctrl-C or SIGTERM stopped the command. The previous analysis is then kept.
    """
    begin, end = period(first, last)
    settings = settings_of(conf)
    with fleet_errors("analyse", "the analysis is as it was, run it again"):
        from replay.fleet.analysis.analyse import Options, is_brief
        from replay.fleet.analysis.analyse import analyse as analyse_table
        from replay.fleet.session import spark_session
        from replay.fleet.table import check_table

        check_table(folder)
        options = Options(
            window_s=window,
            flap_s=flap_window,
            flap_times=flap_times,
            stuck_s=stuck_after,
            begin=begin,
            end=end,
            clusters=tuple(cluster or ()),
        )
        with task_progress() as progress:
            progress("starting Spark", 0, None)
            with spark_session(master, settings, is_brief=is_brief(folder)) as spark:
                result = analyse_table(spark, folder, options, progress)
    print_result(result, lambda: _print(result), as_json=as_json)
    if result.incomplete or result.set_aside:
        raise typer.Exit(INCOMPLETE)


def _print(analysis: "Analysis") -> None:
    """Print what is lacking, then the summaries, then where the tables are."""
    from rich.markup import escape
    from rich.table import Table as Grid

    print_incomplete(analysis.examples, analysis.set_aside, [], 0)
    for one in analysis.summaries:
        if not one.rows:
            typer.echo(f"{one.title}: none")
            continue
        table = Grid(*one.columns, title=one.title, title_justify="left")
        for row in one.rows:
            table.add_row(*(escape(_shown(value)) for value in row))
        print_table(table)
    typer.echo(
        f"{analysis.folder}: {analysis.tables['logs']} logs, {len(analysis.tables)} tables,"
        f" {analysis.incomplete} logs incomplete; {analysis.seconds:.1f} s"
    )


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else escape_path(value)
