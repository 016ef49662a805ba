"""`refold fleet`: the app, and the commands ingest, decode and package."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from controller.cli.output import print_result
from replay.cli.fleet.analysis import analyse, report
from replay.cli.fleet.live import live
from replay.cli.fleet.options import (
    Conf,
    Master,
    fleet_errors,
    settings_of,
    spark_with_progress,
)
from replay.cli.fleet.replay import divergences, replay
from replay.cli.options import Json
from replay.escape_path import escape_path

if TYPE_CHECKING:
    from replay.fleet.decoding import Decoded
    from replay.fleet.ingest import IngestResult

_SET_ASIDE: Final = 1

app = typer.Typer(
    help="Analyse the logs of many clusters with Spark, on this machine or with --master on a"
    " Spark cluster.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _fleet() -> None:
    pass


@app.command()
def ingest(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCES",
            help="Logs, folders that contain logs, archives (.tar, .tar.gz, .tar.xz) of logs or of"
            " a stock cluster's data, folders as for `refold import`, globs.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the table.")],
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Add logs to a Parquet table by cluster and date, each record once.

    Records that are in the table are not read again. The command can be killed at any time: run it
    again. A log that cannot be read is set aside, and DIR/set_aside.jsonl has the reason.

    Exit status: 0 done, 1 a log was set aside, 2 a source, DIR or Spark cannot be used.
    """
    settings = settings_of(conf)
    with fleet_errors("ingest", into=out / "records"):
        from replay.fleet.ingest import ingest as ingest_sources
        from replay.fleet.inputs import check_inputs

        check_inputs(sources)
        with spark_with_progress(master, settings, is_brief=True) as (spark, progress):
            result = ingest_sources(spark, sources, out, progress)
    print_result(result, lambda: _print(result), as_json=as_json)
    if result.set_aside:
        raise typer.Exit(_SET_ASIDE)


@app.command()
def decode(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `ingest` made.")],
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Decode newly ingested records into columns for queries.

    Writes Parquet below DIR/decoded (docs/fleet-tables.md): the znode, broker, topic and partition
    of each record, leaders and ISRs, errors, rules, and the content as JSON. `analyse` and `report`
    do this themselves.

    Exit status: 0 done, 2 DIR or Spark cannot be used.
    """
    settings = settings_of(conf)
    with fleet_errors("decode", "run the command again"):
        from replay.fleet.decoding import decode_table, nothing_to_decode

        result = nothing_to_decode(folder)
        if result is None:
            with spark_with_progress(master, settings, is_brief=True) as (spark, progress):
                result = decode_table(spark, folder, progress)
    print_result(result, lambda: _print_decoded(result), as_json=as_json)


app.command()(analyse)
app.command()(replay)
app.command()(divergences)
app.command()(live)
app.command()(report)


@app.command()
def package(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The .zip file to write.")],
) -> None:
    """Write refold's code as an archive for spark-submit's --py-files.

    `refold fleet` sends the archive to the executors itself. The packages that refold requires
    must be installed there.
    """
    with fleet_errors("package", "run the command again"):
        from replay.fleet.session import package as write

        write(target)


def _print(result: "IngestResult") -> None:
    for one in result.examples:
        is_named = one.reason.startswith(one.path)
        text = one.reason if is_named else f"{one.path}: {one.reason}"
        typer.echo(f"set aside: {escape_path(text)}")
    if result.set_aside > len(result.examples):
        typer.echo(f"set aside: {result.set_aside - len(result.examples)} more")
    added = "nothing new"
    if result.batch is not None:
        added = (
            f"{result.events} events and {result.commands} commands of {result.segments} segments,"
            f" {result.logs} logs, {result.clusters} clusters, as batch {result.batch}"
        )
    typer.echo(
        f"{result.table}: {added}; {result.inputs} inputs, {result.unchanged} unchanged,"
        f" {result.set_aside} set aside; {result.seconds:.1f} s"
    )


def _print_decoded(result: "Decoded") -> None:
    batches = "1 batch" if result.batches == 1 else f"{result.batches} batches"
    typer.echo(f"{result.table}: {batches} decoded; {result.seconds:.1f} s")
