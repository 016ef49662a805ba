"""`refold fleet`: the logs of many clusters, on Spark."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from controller.cli.output import print_result
from replay.cli.fleet.analysis import analyse
from replay.cli.fleet.live import live
from replay.cli.fleet.options import Conf, Master, fleet_errors, settings_of, task_progress
from replay.cli.fleet.replay import divergences, replay
from replay.cli.fleet.report import report
from replay.escape_path import escape_path

if TYPE_CHECKING:
    from replay.fleet.decoding import Decoded
    from replay.fleet.ingest import IngestResult

_SET_ASIDE: Final = 1

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
        list[str],
        typer.Argument(
            metavar="SOURCES",
            help="Logs, folders with logs below them, archives (.tar, .tar.gz, .tar.xz) of logs or"
            " of a stock cluster's data, folders as `refold import` takes them, globs.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the table.")],
    master: Master = None,
    conf: Conf = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Bring logs into a Parquet table by cluster and date, each record once.

    What is in the table is not read again; of a log that grew, only what is new. It may be killed
    at any time: run it again. What cannot be read is set aside: DIR/set_aside.jsonl says why.

    Exit status: 0 done, 1 something was set aside, 2 a source, DIR or Spark cannot be used.
    """
    settings = settings_of(conf)
    with fleet_errors("ingest", into=out / "records"):
        from replay.fleet.ingest import ingest as bring_in
        from replay.fleet.inputs import check_inputs
        from replay.fleet.session import spark_session

        check_inputs(sources)
        with task_progress() as progress:
            progress("starting Spark", 0, None)
            with spark_session(master, settings, is_brief=True) as spark:
                result = bring_in(spark, sources, out, progress)
    print_result(result, lambda: _print(result), as_json=as_json)
    if result.set_aside:
        raise typer.Exit(_SET_ASIDE)


@app.command()
def decode(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `ingest` made.")],
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
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write, a .zip.")],
) -> None:
    """Write refold's code as an archive for executors, for spark-submit's --py-files.

    `refold fleet` gives it to the executors by itself; what refold needs they must have.
    """
    with fleet_errors("package", "run it again"):
        from replay.fleet.session import package as write

        write(target)


def _print(result: "IngestResult") -> None:
    for one in result.examples:
        is_named = one.reason.startswith(one.path)
        told = one.reason if is_named else f"{one.path}: {one.reason}"
        typer.echo(f"set aside: {escape_path(told)}")
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
