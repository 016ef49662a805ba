"""`refold log show --format kafka`: a log in the lines of Kafka's own controller."""

import sys
from typing import Final

import typer

from eventstore.filters import EventFilter
from replay.errors import ReplayError
from replay.kafka_text.kafka_log import Line
from replay.kafka_text.rendering import kafka_lines
from replay.logs.open_log import open_reader

_UNUSABLE: Final = 2


def show_kafka_lines(log: str, wanted: EventFilter, *, has_more: bool) -> None:
    """Write the lines of the events between `wanted`'s bounds. Nothing else may be asked for, in
    `wanted` or beside it (`has_more`).

    A log that cannot be folded ends with status 2, as with `refold replay`.
    """
    bounds = EventFilter(
        first_seq=wanted.first_seq,
        last_seq=wanted.last_seq,
        from_ns=wanted.from_ns,
        to_ns=wanted.to_ns,
    )
    if has_more or wanted != bounds:
        raise typer.BadParameter(
            "kafka goes with --from and --to only: its lines are for grep and diff",
            param_hint="--format",
        )
    any_line = False
    try:
        with open_reader(log) as reader:
            for line in kafka_lines(reader, wanted.last_seq):
                if _is_between(line, wanted):
                    any_line = True
                    sys.stdout.write(f"{line.text}\n")
    except ReplayError as error:
        typer.echo(f"refold log: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    if not any_line:
        typer.echo(f"refold log: {log}: Kafka's controller would have logged nothing", err=True)


def _is_between(line: Line, wanted: EventFilter) -> bool:
    bounds = (
        (wanted.first_seq, line.seq),
        (wanted.from_ns, line.wall_ns),
        (line.seq, wanted.last_seq),
        (line.wall_ns, wanted.to_ns),
    )
    return all(low is None or high is None or low <= high for low, high in bounds)
