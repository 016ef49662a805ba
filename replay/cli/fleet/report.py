"""`refold fleet report`: what an analysis found, as one page."""

from pathlib import Path
from typing import Annotated

import typer

from replay.cli.fleet.completeness import INCOMPLETE
from replay.cli.fleet.options import (
    Conf,
    Master,
    Table,
    fleet_errors,
    local_path,
    settings_of,
)


def report(
    folder: Table,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", parser=local_path, help="The page to write, an .html."
        ),
    ],
    incidents: Annotated[
        int, typer.Option(min=1, max=100, help="How many that weigh most, half of either kind.")
    ] = 20,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Write what `refold fleet analyse` found as one HTML file that opens anywhere, offline too.

    Charts and tables of outages, failovers, leaders, reassignments, races, flapping brokers and
    zombie controllers; of replays by other versions, where there are some; and the way down to the
    events of single incidents.

    Exit status: 0 written; 1 written, but a log is incomplete or an input is set aside; 2 DIR has
    no analysis, or FILE or Spark cannot be used.
    """
    settings = settings_of(conf)
    with fleet_errors("report", "nothing was written, run it again"):
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
