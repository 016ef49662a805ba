"""`refold fleet analyse` and `refold fleet report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.output import print_result, print_table
from controller.escaping import escape_unprintable
from replay.cli.fleet.completeness import INCOMPLETE, print_incomplete
from replay.cli.fleet.options import (
    Conf,
    Master,
    Table,
    fleet_errors,
    local_path,
    settings_of,
    spark_with_progress,
)
from replay.cli.options import From, Json, To, period

if TYPE_CHECKING:
    from replay.fleet.analysis.analyse import Analysis


def analyse(
    folder: Table,
    window: Annotated[
        float, typer.Option(min=0, help="Two events within this number of seconds are a race.")
    ] = 1.0,
    flap_window: Annotated[
        float,
        typer.Option(min=0, help="The seconds within which failures of a broker are counted."),
    ] = 300.0,
    flap_times: Annotated[
        int,
        typer.Option(
            min=2, help="A broker with this number of failures within --flap-window is flapping."
        ),
    ] = 3,
    stuck_after: Annotated[
        float, typer.Option(min=0, help="A reassignment is stuck after this number of seconds.")
    ] = 600.0,
    cluster: Annotated[
        list[str] | None, typer.Option(help="Only this cluster. Can be repeated.")
    ] = None,
    first: From = None,
    last: To = None,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Find failovers, outages, races and other problems.

    The analysis also finds leader churn, reassignments, flapping brokers and zombie controllers. It
    writes Parquet tables below DIR/analysis (docs/fleet-tables.md), which replace those of the
    previous analysis, and prints a summary. --from and --to select logs by time; a selected log is
    analysed completely.

    Exit status: 0 done; 1 done, but a log is incomplete or an input is set aside; 2 DIR or Spark
    cannot be used, or the command was stopped. Then the previous analysis remains.
    """
    begin, end = period(first, last)
    settings = settings_of(conf)
    with fleet_errors("analyse", "the analysis did not change; run the command again"):
        from replay.fleet.analysis.analyse import AnalysisOptions, is_brief
        from replay.fleet.analysis.analyse import analyse as analyse_table
        from replay.fleet.table import check_table

        check_table(folder)
        options = AnalysisOptions(
            window_s=window,
            flap_s=flap_window,
            flap_times=flap_times,
            stuck_s=stuck_after,
            begin=begin,
            end=end,
            clusters=tuple(cluster or ()),
        )
        brief = is_brief(folder)
        with spark_with_progress(master, settings, is_brief=brief) as (spark, progress):
            result = analyse_table(spark, folder, options, progress)
    print_result(result, lambda: print_analysis(result), as_json=as_json)
    if result.incomplete or result.set_aside:
        raise typer.Exit(INCOMPLETE)


def print_analysis(analysis: "Analysis") -> None:
    """Print what is missing, a table for each topic that has results, and the folder of the
    tables."""
    from rich.markup import escape
    from rich.table import Table as Grid

    print_incomplete(analysis.examples, analysis.set_aside, [], 0)
    for one in analysis.summaries:
        if not one.rows:
            typer.echo(f"{one.title}: none")
            continue
        table = Grid(*one.columns, title=one.title, title_justify="left")
        for row in one.rows:
            table.add_row(*(escape(_cell_text(value)) for value in row))
        print_table(table)
    typer.echo(
        f"{analysis.folder}: {analysis.tables['logs']} logs, {len(analysis.tables)} tables,"
        f" {analysis.incomplete} logs incomplete; {analysis.seconds:.1f} s"
    )


def _cell_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else escape_unprintable(value)


def report(
    folder: Table,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", parser=local_path, help="The .html file to write."
        ),
    ],
    incidents: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="The number of worst incidents to show, half of each kind."
        ),
    ] = 20,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Write the results of an analysis as one HTML file.

    The page needs no network. It has charts and tables of outages, failovers, leaders,
    reassignments, races, flapping brokers and zombie controllers, the replays by other versions,
    and the events of single incidents.

    Exit status: 0 written; 1 written, but a log is incomplete or an input is set aside; 2 DIR has
    no analysis, or FILE or Spark cannot be used.
    """
    settings = settings_of(conf)
    with fleet_errors("report", "nothing was written; run the command again"):
        from replay.fleet.analysis.analyse import is_brief
        from replay.fleet.report.write import check_target, write_report
        from replay.fleet.session import spark_session
        from replay.fleet.table import check_table

        check_target(output)
        check_table(folder)
        with spark_session(master, settings, is_brief=is_brief(folder)) as spark:
            page = write_report(spark, folder, output, incidents)
    typer.echo(
        f"{output}: {page.size / 1e6:.1f} MB; {page.incomplete} logs incomplete,"
        f" {page.set_aside} inputs set aside"
    )
    if page.incomplete or page.set_aside:
        raise typer.Exit(INCOMPLETE)
