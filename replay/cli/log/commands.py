"""`refold log`: the app, and the commands verify, stats and copy."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from controller.cli.output import print_result, print_table
from eventstore import copying, stream
from eventstore.errors import LogCorrupt, LogError
from eventstore.statistics import KindCount, Statistics, statistics
from eventstore.verify import VerifyReport, verify
from replay.cli.exit_status import DAMAGED
from replay.cli.log.conventions import Log, local_log, log_errors, open_end, print_note
from replay.cli.log.export import export, import_command
from replay.cli.log.metrics import metrics
from replay.cli.log.mirror import fetch, mirror
from replay.cli.log.show import show, tail
from replay.cli.log.traces import traces
from replay.cli.log_notes import note_unchecked
from replay.cli.options import JsonLines
from replay.cli.progress import LINE_S, progress
from replay.cli.redacted import Redact, redacted_logs
from replay.description.as_json import json_text
from replay.times import iso_time

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(
    help="Verify, show, count, follow, copy, export, import and mirror event logs.\n\n"
    'LOG is the folder of one daemon run, one of its segments, a packed log, an incident, or "-" '
    "for a stream of `refold log copy LOG -`. A log can be read while its daemon writes it.\n\n"
    "Exit status: 0 done; 1 the log is damaged; 2 the log cannot be used (no such file, not a log, "
    "made by a newer refold, no space, wrong arguments).",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command("verify")
def verify_command(log: Log, as_json: JsonLines = False) -> None:
    """Check that no record was changed, moved, removed or duplicated.

    Prints each damage with its file and record, and whether the log is closed. A log is not closed
    if its daemon runs or was killed. Records that are missing at its end cannot be found, except
    commands that an event of the log answers.

    Exit status: 0 sound, 1 damaged, 2 the log cannot be used.
    """
    with log_errors(), local_log(log) as path:
        report = verify(path)
    result = {"sound": report.is_sound, **msgspec.to_builtins(report)}
    print_result(result, lambda: _print_report(log, report), as_json=as_json)
    if not report.is_sound:
        raise typer.Exit(DAMAGED)


def _print_report(log: str, report: VerifyReport) -> None:
    for damage in report.damages:
        _write(f"{damage.file}, {damage.record}: {damage.text}")
    _write(f"{log}: {_summary(report)}")


app.command()(show)
app.command()(tail)


@app.command()
def stats(log: Log, as_json: JsonLines = False) -> None:
    """Count the records by kind; print size, duration, rate and terms.

    This command does not check the records: run `refold log verify` first.
    """
    with log_errors(), local_log(log) as path:
        found = statistics(path)
        if as_json:
            _write(json_text(_stats_object(found)))
        else:
            _print_stats(log, found)
    sys.stdout.flush()
    note_unchecked(log)


@app.command()
def copy(
    log: Log,
    target: Annotated[
        str, typer.Argument(metavar="FOLDER", help='A folder, or "-" for a stream to a pipe.')
    ],
    redact: Redact = False,
) -> None:
    """Copy a log and verify the copy. The daemon may be writing the log.

    The copy is complete or absent. After an interruption, run the command again.

    `refold log copy - FOLDER` makes a log from a stream. With --redact, the copy has the same
    decisions under other names; every command can read it.

    Exit status: 0 done, 1 the copy is damaged, 2 the log cannot be used.
    """
    with log_errors():
        if target == "-":
            if sys.stdout.isatty():
                raise LogError("standard output", "is a terminal: send the stream to a pipe")
            with _source(log, redact=redact) as path:
                stream.send(path, sys.stdout.buffer)
            return
        folder = Path(target)
        with (
            _source(log, redact=redact) as path,
            progress(what="copying", every=1, line_s=LINE_S) as copied,
        ):
            copying.copy_log(path, folder, partial(copied, "copying"))
        report = verify(folder)
        for damage in report.damages:
            raise LogCorrupt(damage.file, damage.text, damage.record)
    print_note(f"{target}: {_summary(report)}")


@contextmanager
def _source(log: str, *, redact: bool) -> Iterator[Path]:
    """The log to copy."""
    with local_log(log) as path:
        if not redact:
            yield path
            return
        with redacted_logs([path]) as other:
            yield other.logs[0]


app.command("export")(export)
app.command("import")(import_command)
app.command("metrics")(metrics)
app.command("traces")(traces)
app.command("mirror")(mirror)
app.command("fetch")(fetch)


def _summary(report: VerifyReport) -> str:
    counted = f"{report.events} events, {report.commands} commands in {report.segments} segment(s)"
    if not report.is_sound:
        return f"damaged; {counted} read"
    if report.closed:
        return f"sound and closed; {counted}"
    why = (
        "a daemon is writing it"
        if report.living
        else "the log was copied while it was written, or its daemon or import did not stop cleanly"
    )
    return f"sound, not closed ({why}); {counted}; {open_end(report.events_without_commands)}"


def _stats_object(found: Statistics) -> dict[str, object]:
    return {
        **msgspec.to_builtins(found),
        "event_count": found.event_count,
        "command_count": found.command_count,
        "duration_s": found.duration_s,
        "events_per_s": _rate(found),
    }


def _rate(found: Statistics) -> float | None:
    return found.event_count / found.duration_s if found.duration_s > 0 else None


def _print_stats(log: str, found: Statistics) -> None:
    print_table(_kinds_table("events", found.events))
    print_table(_kinds_table("commands", found.commands))
    rate = _rate(found)
    state = "closed" if found.closed else "being written" if found.living else "not closed"
    header = found.header
    _write(f"log        {log}, {state}, {found.segments} segment(s), {found.file_bytes:,} bytes")
    _write(f"made by    refold {header.code_version}, core {header.core_fingerprint}")
    _write(f"outcomes   {header.kind}")
    _write(f"cluster    {header.cluster_id}")
    _write(f"terms      {', '.join(map(str, found.terms)) or 'none'}")
    if found.first_ns is not None and found.last_ns is not None:
        span = f"{iso_time(found.first_ns)} to {iso_time(found.last_ns)}"
        _write(f"time       {span}, {found.duration_s:,.3f} s")
    if rate is not None:
        _write(f"rate       {rate:,.1f} events/s")


def _kinds_table(title: str, counts: list[KindCount]) -> "Table":
    from rich.table import Table

    table = Table("kind", title=title, title_justify="left")
    table.add_column("count", justify="right")
    table.add_column("bytes", justify="right")
    for one in counts:
        table.add_row(one.kind, f"{one.count:,}", f"{one.bytes:,}")
    return table


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
