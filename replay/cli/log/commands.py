"""`refold log`: verify, show, stats, tail, copy; what else there is has modules of its own."""

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from controller.cli.output import OutputFault, print_table
from eventstore import copying, stream
from eventstore.errors import LogCorrupt, LogError
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord
from eventstore.statistics import KindCount, Statistics, statistics
from eventstore.verify import VerifyReport, verify
from replay.cli.kinds import demand_kinds
from replay.cli.log import rendering as rendering
from replay.cli.log.export import export, import_command
from replay.cli.log.folder import DAMAGED, local_log, log_errors
from replay.cli.log.mirror import fetch, mirror
from replay.cli.moments import moment
from replay.description.as_json import command_object, event_object
from replay.logs.packed import log_at
from replay.logs.subject_index import SubjectsOfRecords
from replay.times import iso_time

if TYPE_CHECKING:
    from rich.table import Table

TERM_MAX: Final = 2**31 - 1
_FOLLOW_S: Final = 0.2

app = typer.Typer(
    help="Verify, show, count, follow, copy, export, import and mirror event logs.\n\n"
    'LOG is the folder of one daemon run, one segment of it, a packed log, an incident, or "-": a '
    "stream made by `refold log copy LOG -`. A log may be read while its daemon writes it.\n\n"
    "Exit codes: 0 done; 1 the log is damaged; 2 it cannot be used (not there, not a log, made by "
    "a newer refold, no space, wrong arguments).",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

Log = Annotated[
    str, typer.Argument(metavar="LOG", help='Folder, segment, a packed log, incident, or "-".')
]
Json = Annotated[bool, typer.Option("--json", help="JSON, one object a line.")]
WithCommands = Annotated[bool, typer.Option("--commands", help="Each event's commands too.")]


class Format(StrEnum):
    """In whose words a log is shown."""

    KAFKA = "kafka"


InFormat = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="As Kafka's controller.log and state-change.log would read. Only --from and --to.",
    ),
]


@app.command("verify")
def verify_command(log: Log, as_json: Json = False) -> None:
    """Check that no record was changed, moved, removed or doubled.

    Exit code 0: sound, and said whether the log is closed (a daemon that was killed leaves it
    open); 1: damaged, each damage on a line with its file and record; 2: unusable.
    """
    with log_errors(), local_log(log) as path:
        report = verify(path)
    with suppress(OutputFault):
        if as_json:
            _write(rendering.json_text({"sound": report.is_sound, **msgspec.to_builtins(report)}))
        else:
            for damage in report.damages:
                _write(f"{damage.file}, {damage.record}: {damage.text}")
            _write(f"{log}: {_summary(report)}")
    if not report.is_sound:
        raise typer.Exit(DAMAGED)


@app.command()
def show(
    log: Log,
    first: Annotated[
        str | None, typer.Option("--from", help="First number, or time as 2026-11-21T03:59:01.")
    ] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last number, or time.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Kind, as `refold log stats` names it; may be given again."),
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help='"t-0", "t", "broker 3" or a timer. Makes an index once.')
    ] = None,
    channel: Annotated[str | None, typer.Option(help="The connection it came on.")] = None,
    term: Annotated[
        int | None, typer.Option(min=0, max=TERM_MAX, help="The controller epoch.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="End after so many events.")] = None,
    with_commands: WithCommands = False,
    as_json: Json = False,
    as_format: InFormat = None,
) -> None:
    """Show events, one a line. Times are UTC unless they say otherwise. Lines for people are cut
    at 1000 characters, JSON is whole.

    It does not check the records: run `refold log verify` first.
    """
    first_seq, from_ns = moment(first, "--from")
    last_seq, to_ns = moment(last, "--to")
    if _is_after(first_seq, last_seq) or _is_after(from_ns, to_ns):
        raise typer.BadParameter(f"{first} is after --to {last}", param_hint="--from")
    wanted = EventFilter(
        first_seq=first_seq,
        last_seq=last_seq,
        from_ns=from_ns,
        to_ns=to_ns,
        kinds=tuple(kind or ()),
        channel=channel,
        term=term,
        subject=subject,
    )
    if as_format is Format.KAFKA:
        from replay.cli.log.kafka_text import show_kafka_lines

        with log_errors():
            show_kafka_lines(log, wanted, has_more=bool(limit or with_commands or as_json))
        return
    with log_errors(), log_at(log) as path, LogReader.open(path) as reader:
        demand_kinds(reader, wanted.kinds)
        number = 0
        for number, (event, commands) in enumerate(_records(reader, wanted, with_commands), 1):
            _write_record(event, commands, as_json)
            if number == limit:
                break
        if not number and not as_json:
            typer.echo(f"refold log: {log}: no event matches", err=True)


@app.command()
def stats(log: Log, as_json: Json = False) -> None:
    """Count records by kind; say size, duration, rate and terms.

    It does not check the records: run `refold log verify` first.
    """
    with log_errors(), local_log(log) as path:
        found = statistics(path)
        if as_json:
            _write(rendering.json_text(_stats_object(found)))
        else:
            _print_stats(log, found)


@app.command()
def tail(
    log: Log,
    count: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many events.")] = 10,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the log is closed, or Ctrl-C.")
    ] = False,
    with_commands: WithCommands = False,
    as_json: Json = False,
) -> None:
    """Show the last events, and with -f those that come.

    It does not check the records: run `refold log verify` first.
    """
    with log_errors(), log_at(log) as path, LogReader.open(path) as reader:
        shown = max(0, reader.last_seq - count)
        while True:
            closed = reader.closing is not None
            wanted = EventFilter(first_seq=shown + 1)
            for event, commands in _records(reader, wanted, with_commands):
                _write_record(event, commands, as_json)
                shown = event.seq
            sys.stdout.flush()
            if not follow or closed:
                return
            time.sleep(_FOLLOW_S)


@app.command()
def copy(
    log: Log,
    target: Annotated[str, typer.Argument(help='A folder, or "-" for a stream to a pipe.')],
) -> None:
    """Copy a log, also while its daemon writes it, and verify the copy.

    `refold log copy - FOLDER` makes a log of a stream. Exit code 1: the copy is damaged.
    """
    with log_errors():
        if target == "-":
            if sys.stdout.isatty():
                raise LogError("standard output", "is a terminal: send the stream to a pipe")
            with local_log(log) as path:
                stream.send(path, sys.stdout.buffer)
            return
        folder = Path(target)
        with local_log(log) as path:
            copying.copy_log(path, folder)
        report = verify(folder)
        for damage in report.damages:
            raise LogCorrupt(damage.file, damage.text, damage.record)
    _note(f"{target}: {_summary(report)}")


app.command("export")(export)
app.command("import")(import_command)
app.command("mirror")(mirror)
app.command("fetch")(fetch)


def _records(
    reader: LogReader, wanted: EventFilter, with_commands: bool
) -> Iterator[tuple[EventRecord, list[CommandRecord]]]:
    subjects_of = SubjectsOfRecords(reader)
    if with_commands:
        return reader.records(wanted, subjects_of)
    return ((event, []) for event in reader.events(wanted, subjects_of))


def _write_record(event: EventRecord, commands: list[CommandRecord], as_json: bool) -> None:
    if not as_json:
        _write(rendering.event_line(event))
        for command in commands:
            _write(rendering.command_line(command))
        return
    content = event_object(event)
    if commands:
        content["commands"] = [command_object(command) for command in commands]
    _write(rendering.json_text(content))


def _is_after(first: int | None, last: int | None) -> bool:
    return first is not None and last is not None and first > last


def _summary(report: VerifyReport) -> str:
    counted = f"{report.events} events, {report.commands} commands in {report.segments} segment(s)"
    if not report.is_sound:
        return f"damaged; {counted} read"
    if report.closed:
        return f"sound and closed; {counted}"
    made = (
        "it was copied from a log that was being written, or its daemon or import did not stop"
        " cleanly"
    )
    why = "a daemon writes it" if report.living else made
    return f"sound, not closed ({why}); {counted}"


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


def _note(line: str) -> None:
    """Tell a person at a terminal; scripts go by the exit code."""
    if sys.stderr.isatty():
        typer.echo(line, err=True)
