"""`refold import`: a log of what a stock cluster's ZooKeeper and brokers left behind."""

from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn

from controller.cli.output import is_lost, print_result
from eventstore.errors import LogError
from replay.cli.ending import unwound_by_sigterm
from replay.cli.moments import From, To, period
from replay.cli.progress import progress
from replay.errors import ReplayError
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.imports.records import remove_log
from replay.stock_clusters.imports.report import ImportResult
from replay.times import iso_time

_UNUSABLE: Final = 2
_NS: Final = 1_000_000

UTC: Final = "UTC"
Chroot = Annotated[
    str | None, typer.Option(help="Of the Kafka cluster, if the ZooKeeper has several.")
]
Zone = Annotated[str, typer.Option(help="The time zone of the brokers' logs, as Europe/Paris.")]

_COLUMNS: Final = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="import")
def import_command(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder, .tar.gz or .tar.xz with a ZooKeeper's data (version-2) in it, and the"
            " brokers' logs if there."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="LOG", help="The folder of the new log.")],
    chroot: Chroot = None,
    first: From = None,
    last: To = None,
    zone: Zone = UTC,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Make a world-backed log of SOURCE, for refold agree and what else reads logs.

    What was before --from goes into the log's first state. Where a file is damaged its good part
    is imported, and said where that ends.

    Exit status: 0 done, 2 the source cannot be used or the log cannot be written.
    """
    selection = selection_of(chroot, first, last, zone)
    is_new = not out.exists()
    try:
        with (
            unwound_by_sigterm(),
            progress(*_COLUMNS, every=1) as report,
        ):
            result = import_source(source, out, selection, report)
    except (LogError, ReplayError) as error:
        typer.echo(f"refold import: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    print_result(result, lambda: _print(result, source), as_json=as_json)
    if is_lost():
        # Nobody was told what it lacks: it has to be imported again.
        remove_log(out, is_new=is_new)


def _print(result: ImportResult, source: Path) -> None:
    for text in (*result.damages, *result.gaps, *result.notes):
        typer.echo(text)
    kinds = (
        ("decisions", result.by_kind),
        ("warm", result.warm_by_kind),
        ("inputs", result.inputs_by_kind),
        ("broker logs", result.broker_events),
    )
    for what, by_kind in kinds:
        if by_kind:
            listed = ", ".join(f"{kind} {count}" for kind, count in by_kind.items())
            typer.echo(f"{what}: {listed}")
    times = ""
    if result.from_ms is not None and result.to_ms is not None:
        times = f", {iso_time(result.from_ms * _NS)} to {iso_time(result.to_ms * _NS)}"
    typer.echo(
        f"{source}: {_counted(result.transactions, 'transaction')} behind zxid"
        f" {result.from_zxid:#x}{times}, {_counted(result.sessions, 'session')},"
        f" {_counted(result.terms, 'term')}, {_counted(result.decisions, 'decision')}"
        f" ({result.warm} more warm) of the cluster under {result.chroot or '/'}"
    )
    typer.echo(f"{result.log}: {_counted(result.events, 'event')}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def selection_of(chroot: str | None, first: str | None, last: str | None, zone: str) -> Selection:
    """What of a source the options ask for. Raises typer.BadParameter."""
    return Selection(_chroot(chroot), *period(first, last), _zone(zone))


def _chroot(text: str | None) -> str | None:
    """A chroot as paths begin with it: "" for that of a cluster without one."""
    if text is None:
        return None
    if not text.startswith("/"):
        raise typer.BadParameter(f"{text} does not begin with /", param_hint="--chroot")
    return text.rstrip("/")


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise typer.BadParameter(
            f"{name} is no time zone; write it as Europe/Paris", param_hint="--zone"
        ) from None
