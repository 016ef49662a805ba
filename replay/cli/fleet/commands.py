"""`refold fleet`: the logs of many clusters, on Spark."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli.output import print_result
from replay.cli.fleet.analysis import analyse
from replay.cli.fleet.completeness import INCOMPLETE, print_incomplete
from replay.cli.fleet.live import live
from replay.cli.fleet.options import (
    Conf,
    Master,
    Table,
    fleet_errors,
    local_path,
    settings_of,
    task_progress,
)
from replay.cli.fleet.replay import divergences, replay
from replay.cli.fleet.report import report
from replay.escape_path import escape_path

if TYPE_CHECKING:
    from replay.fleet.decoding import Decoded
    from replay.fleet.ingest import IngestResult

app = typer.Typer(
    help="The logs of many clusters, on Spark: on this machine, or by --master on a cluster.",
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
        list[str] | None,
        typer.Argument(
            metavar="SOURCES",
            help="Logs, folders with logs below them, archives (.tar, .tar.gz, .tar.xz) of logs or"
            " of a stock cluster's data, folders as `refold import` takes them, globs.",
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
            help="Data of a stock cluster that replaces what the table has of the same"
            " transactions. May be given several times.",
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Collect logs in a Parquet table by cluster and date, each record once.

    Records that the table has are not read again. Ingest may be stopped at any time: run it again.
    Inputs that cannot be read are set aside: DIR/set_aside.jsonl names the reasons.

    Exit status: 0 done; 1 an input is set aside, or a log of the table lacks something; 2 a source,
    DIR or Spark cannot be used.
    """
    settings = settings_of(conf)
    named, replacing = sources or [], replace or []
    if not named and not replacing:
        raise typer.BadParameter("name at least one source", param_hint="SOURCES")
    with fleet_errors("ingest", into=out / "records"):
        from replay.fleet.ingest import ingest as bring_in
        from replay.fleet.inputs import check_inputs
        from replay.fleet.session import spark_session

        check_inputs([*named, *replacing])
        with task_progress() as progress:
            progress("starting Spark", 0, None)
            with spark_session(master, settings, is_brief=True) as spark:
                result = bring_in(spark, named, out, progress, replacing=replacing)
    print_result(result, lambda: _print(result), as_json=as_json)
    if result.set_aside or result.incomplete:
        raise typer.Exit(INCOMPLETE)


@app.command()
def decode(
    folder: Table,
    master: Master = None,
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Decode the records into columns for queries.

    Which znode, broker, topic and partition each is about, leaders and ISRs, errors, rules, and its
    content as JSON: Parquet below DIR/decoded (docs/fleet.md), of what was ingested since the last
    time. `analyse` and `report` do it by themselves.

    Exit status: 0 done, 2 DIR or Spark cannot be used.
    """
    settings = settings_of(conf)
    with fleet_errors("decode", "run it again"):
        from replay.fleet.decoding import decode_table, nothing_to_decode
        from replay.fleet.session import spark_session

        result = nothing_to_decode(folder)
        if result is None:
            with task_progress() as progress:
                progress("starting Spark", 0, None)
                with spark_session(master, settings, is_brief=True) as spark:
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
        Path,
        typer.Argument(metavar="FILE", parser=local_path, help="The archive to write, a .zip."),
    ],
) -> None:
    """Write refold's code as an archive for executors, for spark-submit's --py-files.

    `refold fleet` gives it to the executors by itself; what refold needs they must have.
    """
    with fleet_errors("package", "run it again"):
        from replay.fleet.session import package as write

        write(target)


def _print(result: "IngestResult") -> None:
    print_incomplete(result.examples, result.set_aside, result.logs_with_notes, result.incomplete)
    for one in result.passed_over:
        files = "1 file" if one.files == 1 else f"{one.files} files, such as"
        typer.echo(f"passed over: {one.kind}, {files} {escape_path(one.example)}")
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


def _print_decoded(result: "Decoded") -> None:
    batches = "1 batch" if result.batches == 1 else f"{result.batches} batches"
    typer.echo(f"{result.table}: {batches} decoded; {result.seconds:.1f} s")
