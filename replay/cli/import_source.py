"""`refold import`: make a log from the files of a stock cluster's ZooKeeper and brokers."""

from datetime import tzinfo
from pathlib import Path
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn

from controller.cli.output import is_lost, print_result
from controller.core.values import counted
from eventstore.errors import LogExists
from eventstore.folders import segments_in
from replay.cli.exit_status import errors_in_one_line, unwound_by_sigterm
from replay.cli.options import From, Json, To, period
from replay.cli.progress import progress
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.imports.records import remove_log
from replay.stock_clusters.imports.report import ImportResult
from replay.times import iso_time

_NS_PER_MS: Final = 1_000_000

UTC: Final = "UTC"
Chroot = Annotated[
    str | None, typer.Option(help="The cluster's chroot, if the ZooKeeper has several clusters.")
]
Zone = Annotated[
    str, typer.Option(help="The time zone of the brokers' logs, such as Europe/Paris.")
]

_COLUMNS: Final = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="import")
def import_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A folder, .tar, .tar.gz or .tar.xz with the data of a ZooKeeper server"
            " (version-2), and optionally the brokers' logs.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="LOG", help="The folder for the new log.")],
    chroot: Chroot = None,
    first: From = None,
    last: To = None,
    zone: Zone = UTC,
    as_json: Json = False,
) -> None:
    """Make an event log from the files of a stock cluster in SOURCE. `refold agree`, `why` and the
    other commands that read logs accept it as an imported log.

    The log begins with the state at --from. The undamaged part of a damaged file is imported, and
    the report says where it ends.

    Exit status: 0 done, 2 the source cannot be used or the log cannot be written, 130 Ctrl-C,
    143 SIGTERM.
    """
    selection = selection_of(chroot, first, last, zone)
    is_new = not out.exists()
    with (
        errors_in_one_line("import"),
        unwound_by_sigterm(),
        progress(*_COLUMNS, every=1) as report,
    ):
        if out.is_dir() and segments_in(out):
            text = "already contains a log: choose another --out, or delete the folder"
            raise LogExists(out, text)
        result = import_source(source, out, selection, report)
    print_result(result, lambda: _print(result, source), as_json=as_json)
    if is_lost():
        # The report with the damages was lost, so the source has to be imported again.
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
    warm = f" ({result.warm} more warm)" if result.warm else ""
    times = ""
    if result.from_ms is not None and result.to_ms is not None:
        times = (
            f", {iso_time(result.from_ms * _NS_PER_MS)} to {iso_time(result.to_ms * _NS_PER_MS)}"
        )
    typer.echo(
        f"{source}: {counted(result.transactions, 'transaction')} after zxid"
        f" {result.from_zxid:#x}{times}, {counted(result.sessions, 'session')},"
        f" {counted(result.terms, 'term')}, {counted(result.decisions, 'decision')}"
        f"{warm} of the cluster under {result.chroot or '/'}"
    )
    typer.echo(f"{result.log}: {counted(result.events, 'event')}")


def selection_of(chroot: str | None, first: str | None, last: str | None, zone: str) -> Selection:
    """The part of a source to import. Raises typer.BadParameter."""
    return Selection(_chroot(chroot), *period(first, last), _zone(zone))


def _chroot(text: str | None) -> str | None:
    """The prefix of the cluster's paths; "" for the root."""
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
            f"{name} is not a time zone; write it as Europe/Paris", param_hint="--zone"
        ) from None
