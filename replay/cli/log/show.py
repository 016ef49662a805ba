"""`refold log show` and `refold log tail`: the records of a log, one per line."""

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from enum import StrEnum
from typing import Annotated, Final

import typer

from controller.escaping import escape_unprintable
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord
from replay.cli.kinds import require_kinds, unknown_event_kinds
from replay.cli.log.conventions import Log, log_errors
from replay.cli.log_notes import note_unchecked
from replay.cli.options import FromPosition, JsonLines, Kind, Term, ToPosition, log_positions
from replay.description.as_json import (
    command_object,
    event_object,
    json_text,
    payload_object,
    reason_object,
)
from replay.errors import ReplayError
from replay.logs.packed import log_at
from replay.logs.subject_index import SubjectsOfRecords
from replay.names import is_broker
from replay.times import iso_time

TEXT_CHARACTERS_MAX: Final = 1000
"""Lines for people are cut at this length. JSON is never cut."""
_FOLLOW_S: Final = 0.2

WithCommands = Annotated[
    bool, typer.Option("--commands", help="Show the commands of each event, too.")
]


class LineFormat(StrEnum):
    """Other formats of the lines."""

    KAFKA = "kafka"
    KAFKA_0_8 = "kafka-0.8"


def show(
    log: Log,
    first: FromPosition = None,
    last: ToPosition = None,
    kind: Kind = None,
    subject: Annotated[
        str | None,
        typer.Option(
            help='Only about "t-0", "t", "broker 3" or a timer. The first use creates an index.'
        ),
    ] = None,
    channel: Annotated[str | None, typer.Option(help="Only events of this channel.")] = None,
    term: Term = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The maximum number of events.")] = None,
    with_commands: WithCommands = False,
    as_json: JsonLines = False,
    as_format: Annotated[
        LineFormat | None,
        typer.Option(
            "--format",
            help="kafka: as lines of Kafka's controller.log and state-change.log; kafka-0.8: the"
            " lines of Kafka 0.8 about brokers and sessions. Only with --from and --to.",
        ),
    ] = None,
) -> None:
    """Show events, one per line. Times without a zone are UTC. Lines for people are cut at 1000
    characters; JSON is not cut.

    This command does not check the records: run `refold log verify` first.
    """
    (first_seq, from_ns), (last_seq, to_ns) = log_positions(first, last)
    criteria = EventFilter(
        first_seq=first_seq,
        last_seq=last_seq,
        from_ns=from_ns,
        to_ns=to_ns,
        kinds=tuple(kind or ()),
        channel=channel,
        term=term,
        subject=subject,
    )
    if as_format is not None:
        has_more = bool(limit or with_commands or as_json)
        with log_errors():
            _show_kafka_lines(log, criteria, as_format, has_more=has_more)
        return
    with log_errors(), log_at(log) as path, LogReader.open(path) as reader:
        require_kinds(unknown_event_kinds, reader, criteria.kinds)
        number = 0
        for number, (event, commands) in enumerate(_records(reader, criteria, with_commands), 1):
            _write_record(event, commands, as_json)
            if number == limit:
                break
        if not number and subject is not None:
            _require_subject(reader, subject)
        if not number and not as_json:
            typer.echo(f"refold log: {log}: no event matches", err=True)


def _require_subject(reader: LogReader, subject: str) -> None:
    """Check that the log has something of this name. Raises ReplayError, which names what it
    has."""
    from replay.listing.known_names import KnownNames
    from replay.logs.open_log import open_any_log

    with ExitStack() as stack:
        opened = None
        with suppress(ReplayError):
            # A log that cannot be folded can still be shown.
            opened = stack.enter_context(open_any_log(reader.path))
        known = KnownNames(reader, opened)
    known.require("broker" if is_broker(subject) else "subject", subject)


def tail(
    log: Log,
    count: Annotated[int, typer.Option("-n", "--lines", min=0, help="The number of events.")] = 10,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Continue until the log is closed, or Ctrl-C.")
    ] = False,
    with_commands: WithCommands = False,
    as_json: JsonLines = False,
) -> None:
    """Show the last events, and with -f new events as they are written.

    This command does not check the records: run `refold log verify` first.
    """
    with log_errors(), log_at(log) as path, LogReader.open(path) as reader:
        shown = max(0, reader.last_seq - count)
        while True:
            closed = reader.closing is not None
            criteria = EventFilter(first_seq=shown + 1)
            for event, commands in _records(reader, criteria, with_commands):
                _write_record(event, commands, as_json)
                shown = event.seq
            sys.stdout.flush()
            if not follow or closed:
                break
            time.sleep(_FOLLOW_S)
    note_unchecked(log)


def _records(
    reader: LogReader, criteria: EventFilter, with_commands: bool
) -> Iterator[tuple[EventRecord, list[CommandRecord]]]:
    subjects_of = SubjectsOfRecords(reader)
    if with_commands:
        return reader.records(criteria, subjects_of)
    return ((event, []) for event in reader.events(criteria, subjects_of))


def _write_record(event: EventRecord, commands: list[CommandRecord], as_json: bool) -> None:
    if not as_json:
        sys.stdout.write(f"{escape_unprintable(_event_line(event))}\n")
        for command in commands:
            sys.stdout.write(f"{escape_unprintable(_command_line(command))}\n")
        return
    content = event_object(event)
    if commands:
        content["commands"] = [command_object(command) for command in commands]
    sys.stdout.write(f"{json_text(content)}\n")


def _event_line(record: EventRecord) -> str:
    cause = f" <- {record.cause}" if record.cause is not None else ""
    head = (
        f"{record.seq:>8}  {iso_time(record.wall_ns)}  term {record.term}  "
        f"{record.kind}  {record.channel}{cause}  "
    )
    return _shortened_line(head + json_text(payload_object(record)))


def _command_line(record: CommandRecord) -> str:
    """A command, indented below its event."""
    head = f"{record.cause:>10}.{record.ordinal}  {record.kind}  {record.target}  "
    return _shortened_line(head + json_text(reason_object(record)))


def _shortened_line(line: str) -> str:
    return line if len(line) <= TEXT_CHARACTERS_MAX else f"{line[:TEXT_CHARACTERS_MAX]}..."


# The lines of Kafka's controller ------------------------------------------------------------------


def _show_kafka_lines(
    log: str, criteria: EventFilter, as_format: LineFormat, *, has_more: bool
) -> None:
    """Print Kafka's lines for the events within the bounds of `criteria`.

    `has_more`: whether other options are given, which is an error, as are other criteria.
    """
    from replay.kafka_text.rendering import kafka_lines
    from replay.logs.open_log import open_reader

    bounds = EventFilter(
        first_seq=criteria.first_seq,
        last_seq=criteria.last_seq,
        from_ns=criteria.from_ns,
        to_ns=criteria.to_ns,
    )
    if has_more or criteria != bounds:
        raise typer.BadParameter(
            f"{as_format} can be combined with --from and --to only; use grep to select its lines",
            param_hint="--format",
        )
    any_line = False
    of_0_8 = as_format is LineFormat.KAFKA_0_8
    with open_reader(log) as reader:
        for line in kafka_lines(reader, criteria.last_seq, of_0_8=of_0_8):
            if _is_within(criteria, line.seq, line.wall_ns):
                any_line = True
                sys.stdout.write(f"{escape_unprintable(line.text)}\n")
    if not any_line:
        lines = "none of the five lines of Kafka 0.8" if of_0_8 else "nothing"
        typer.echo(f"refold log: {log}: Kafka's controller would have logged {lines}", err=True)


def _is_within(criteria: EventFilter, seq: int, wall_ns: int) -> bool:
    bounds = (
        (criteria.first_seq, seq),
        (criteria.from_ns, wall_ns),
        (seq, criteria.last_seq),
        (wall_ns, criteria.to_ns),
    )
    return all(low is None or high is None or low <= high for low, high in bounds)
