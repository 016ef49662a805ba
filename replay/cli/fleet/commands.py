"""`refold fleet`: the app, and the commands ingest, decode and package."""

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli.output import print_result
from controller.core.values import counted
from controller.escaping import escape_unprintable
from replay.cli.fleet.analysis import analyse, report
from replay.cli.fleet.completeness import INCOMPLETE, print_incomplete
from replay.cli.fleet.live import live
from replay.cli.fleet.options import (
    Conf,
    Master,
    Table,
    fleet_errors,
    local_path,
    settings_of,
    spark_with_progress,
)
from replay.cli.fleet.replay import divergences, replay
from replay.cli.options import Json
from replay.cli.redacted import Redact, redacted_sources
from replay.description.phrases import first_few

if TYPE_CHECKING:
    from replay.fleet.decoding import DecodingResult
    from replay.fleet.ingest import IngestResult

app = typer.Typer(
    help="Analyse the logs of many clusters with Spark, on this machine or with --master on a"
    " Spark cluster.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _fleet(context: typer.Context) -> None:
    """Tables and reports are for this user only, as logs are; Java and its workers inherit that."""
    before = os.umask(0o077)
    context.call_on_close(lambda: os.umask(before))


@app.command()
def ingest(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCES",
            help="Logs, folders that contain logs, archives (.tar, .tar.gz, .tar.xz) of logs or of"
            " a stock cluster's data, folders as for `refold import`, globs.",
        ),
    ] = None,
    *,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", parser=local_path, help="The folder of the table."),
    ],
    replace: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="Data of a stock cluster that replaces the same transactions. Can be repeated.",
        ),
    ] = None,
    redact: Redact = False,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Add logs to a Parquet table, each record once.

    The table is partitioned by cluster and date. Records that are in the table are not read again.
    The command can be killed at any time: run it again. An input that cannot be read is set aside,
    and DIR/set_aside.jsonl has the reason.

    With --redact, the table and everything made from it have other names. Name all logs in one call
    and use a new DIR. Nothing is added if a log cannot be redacted.

    Exit status: 0 done; 1 done, but an input is set aside, or a log of the table is incomplete; 2 a
    source, DIR or Spark cannot be used.
    """
    settings = settings_of(conf)
    named, replacing = sources or [], replace or []
    if not named and not replacing:
        raise typer.BadParameter("name at least one source", param_hint="SOURCES")
    if redact and replacing:
        raise typer.BadParameter("not together with --replace", param_hint="--redact")
    with fleet_errors("ingest", into=out / "records"):
        from replay.fleet.ingest import ingest as ingest_sources
        from replay.fleet.inputs import check_inputs

        check_inputs([*named, *replacing])
        with (
            redacted_sources(named, out) if redact else nullcontext(named) as read,
            spark_with_progress(master, settings, is_brief=True) as (spark, progress),
        ):
            result = ingest_sources(spark, read, out, progress, replacing=replacing)
    print_result(result, lambda: print_ingested(result), as_json=as_json)
    if result.set_aside or result.incomplete:
        raise typer.Exit(INCOMPLETE)


@app.command()
def decode(
    folder: Table,
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
    target: Annotated[
        Path, typer.Argument(metavar="FILE", parser=local_path, help="The .zip file to write.")
    ],
) -> None:
    """Write refold's code as an archive for Spark's --py-files.

    `refold fleet` sends the archive to the executors itself. The packages that refold requires
    must be installed there.

    Exit status: 0 written, 2 FILE cannot be written.
    """
    with fleet_errors("package", "run the command again"):
        from replay.fleet.session import package as write

        write(target)


def print_ingested(result: "IngestResult") -> None:
    """Print what is missing or was passed over, and what was added."""
    print_incomplete(result.examples, result.set_aside, result.logs_with_notes, result.incomplete)
    for one in result.passed_over:
        names = first_few(map(escape_unprintable, one.names), ", ")
        typer.echo(f"passed over: {one.kind}, {counted(one.files, 'file')}: {names}")
    added = "nothing new"
    if result.events or result.commands:
        added = (
            f"{result.events} events and {result.commands} commands of {result.segments} segments,"
            f" {result.logs} logs, {result.clusters} clusters, as batch {result.batch}"
        )
    if result.replaced:
        added += f", replacing {result.replaced} logs of stock clusters"
    typer.echo(
        f"{result.table}: {added}; {result.inputs} inputs, {result.unchanged} unchanged,"
        f" {result.set_aside} set aside, {result.incomplete} logs incomplete;"
        f" {result.seconds:.1f} s"
    )


def _print_decoded(result: "DecodingResult") -> None:
    batches = "1 batch" if result.batches == 1 else f"{result.batches} batches"
    typer.echo(f"{result.table}: {batches} decoded; {result.seconds:.1f} s")
