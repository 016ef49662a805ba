"""`refold fleet`: the logs of many clusters, on Spark."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from controller.cli.fleet_analysis import print_analysis
from controller.cli.moments import From, To, period
from controller.cli.output import OutputFault
from controller.cli.progress import bar
from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.fleet.ingest import IngestResult

_SET_ASIDE: Final = 1
_UNUSABLE: Final = 2
_NEEDED: Final = ("pyspark", "py4j", "pyarrow")

app = typer.Typer(
    help="The logs of many clusters, on Spark: on this machine, or by --master on a cluster.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Master = Annotated[
    str | None,
    typer.Option(
        help="Of Spark: local[N], spark://HOST:PORT, yarn, k8s://URL. Else $MASTER, else local[*]."
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark's; again for more."),
]


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
    with fleet_errors("ingest"):
        from replay.fleet.ingest import ingest as bring_in
        from replay.fleet.session import spark_session

        with _progress() as progress:
            progress("starting Spark", 0, 0)
            with spark_session(master, settings) as spark:
                result = bring_in(spark, sources, out, progress)
    with suppress(OutputFault):
        if as_json:
            typer.echo(msgspec.json.encode(result).decode())
        else:
            _print(result)
    if result.set_aside:
        raise typer.Exit(_SET_ASIDE)


@app.command()
def analyse(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What `ingest` made.")],
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

    Exit status: 0 done, 2 DIR or Spark cannot be used; then the analysis of before is left.
    """
    begin, end = period(first, last)
    settings = settings_of(conf)
    with fleet_errors("analyse"):
        from replay.fleet.analysis.analysing import Options
        from replay.fleet.analysis.analysing import analyse as analyse_table
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
        with _progress() as progress:
            progress("starting Spark", 0, 0)
            with spark_session(master, settings) as spark:
                result = analyse_table(spark, folder, options, progress)
    with suppress(OutputFault):
        if as_json:
            typer.echo(msgspec.json.encode(result).decode())
        else:
            print_analysis(result)


@app.command()
def package(
    target: Annotated[Path, typer.Argument(metavar="FILE", help="The archive to write, a .zip.")],
) -> None:
    """Write refold's code as an archive for executors, for spark-submit's --py-files.

    `refold fleet` gives it to the executors by itself; what refold needs they must have.
    """
    with fleet_errors("package"):
        from replay.fleet.session import package as write

        write(target)


def settings_of(conf: list[str] | None) -> dict[str, str]:
    """Settings of Spark's as options give them. Raises typer.BadParameter."""
    settings: dict[str, str] = {}
    for one in conf or ():
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{one} is not NAME=VALUE", param_hint="--conf")
        settings[name] = value
    return settings


@contextmanager
def fleet_errors(command: str) -> Iterator[None]:
    """A clear line and an exit status in the place of a traceback."""
    try:
        yield
    except ReplayError as error:
        text = str(error)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        text = f"needs {error.name}: pip install 'refold[fleet]'"
    except OSError as error:
        text = f"{error.filename or 'a file'}: {error.strerror or error}"
    except KeyboardInterrupt:
        text = "stopped: nothing was added, run it again"
    else:
        return
    typer.echo(f"refold fleet {command}: {text}", err=True)
    raise typer.Exit(_UNUSABLE)


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with bar(*columns, TextColumn("tasks"), what="") as show:

        def tell(what: str, done: int, total: int) -> None:
            show(what, done, total or None)

        yield tell


def _print(result: "IngestResult") -> None:
    for one in result.examples:
        typer.echo(f"set aside: {one.path}: {one.reason}")
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
