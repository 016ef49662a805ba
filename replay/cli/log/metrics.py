"""`refold log metrics`: the metrics of the daemon that wrote a log, at a moment or over time."""

import sys
from collections.abc import Iterator
from typing import Annotated, Final

import typer
from rich.table import Table

from controller.cli.output import print_result, print_table
from controller.core.metric_table import METRICS
from controller.core.metrics_observer import MetricsObserver, Sample
from controller.exposition import TimedSample, openmetrics_text
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.cli.exit_status import DAMAGED, errors_in_one_line
from replay.cli.log_notes import note_unchecked
from replay.cli.options import At, Json, Log, log_position
from replay.logs.decode import decode_recorded, require_recorded, time_of
from replay.logs.open_log import open_reader, seq_at
from replay.logs.recorded_fold import fold_at_start, fold_event

_NS_PER_S = 1_000_000_000
_EVERY_S: Final = 15.0


def metrics(
    log: Log,
    at: At = None,
    openmetrics: Annotated[
        bool,
        typer.Option("--openmetrics", help="Print the values over time, in OpenMetrics format."),
    ] = False,
    every: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="With --openmetrics: the time between. Default: 15.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the metrics that Prometheus would have read at a moment.

    The metrics are counted from the first event of LOG on. With --openmetrics the values are
    printed for every 15 seconds up to the moment: promtool tsdb create-blocks-from openmetrics
    reads them.

    Exit status: 0 done, 1 the log is damaged, 2 the log cannot be used.
    """
    if openmetrics and as_json:
        raise typer.BadParameter("not with --openmetrics", param_hint="--json")
    if every is not None and not openmetrics:
        raise typer.BadParameter("only with --openmetrics", param_hint="--every")
    position = log_position(at, "--at")
    with errors_in_one_line("log", DAMAGED), open_reader(log) as reader:
        require_recorded(reader.header)
        last = seq_at(reader, *position)
        if openmetrics:
            found = _over_time(reader, last, every or _EVERY_S)
            sys.stdout.write(openmetrics_text(METRICS, found))
            sys.stdout.flush()
        else:
            time = time_of(reader, last)
            values = list(_samples_after(reader, last))
            result = {
                "seq": last,
                "time": time,
                "metrics": [
                    {"name": one.name, "labels": dict(one.labels), "value": one.value}
                    for one in values
                ],
            }
            print_result(result, lambda: _print(last, time, values), as_json=as_json)
    note_unchecked(log)


def _samples_after(reader: LogReader, last: int) -> Iterator[Sample]:
    """The values after an event."""
    fold = fold_at_start(reader)
    metered = fold.controller.observer = MetricsObserver(fold.controller)
    for record in reader.events(EventFilter(last_seq=last)):
        fold_event(fold, decode_recorded(record))
    yield from metered.samples()


def _over_time(reader: LogReader, last: int, every_s: float) -> Iterator[TimedSample]:
    """The values at regular times, and at the end."""
    fold = fold_at_start(reader)
    metered = fold.controller.observer = MetricsObserver(fold.controller)
    every_ns = int(every_s * _NS_PER_S)
    begin_ns = wall_ns = next_ns = 0
    for record in reader.events(EventFilter(last_seq=last)):
        event = decode_recorded(record)
        # The monotonic clock counts: the wall clock may be set back.
        begin_ns = begin_ns or event.wall_ns - event.mono_ns
        wall_ns = begin_ns + event.mono_ns
        next_ns = next_ns or wall_ns
        # Between two events only the ages of what waits change.
        while next_ns < wall_ns:
            yield from _timed_samples(metered, next_ns - begin_ns, next_ns)
            next_ns += every_ns
        fold_event(fold, event)
    if wall_ns:
        yield from _timed_samples(metered, wall_ns - begin_ns, wall_ns)


def _timed_samples(metered: MetricsObserver, mono_ns: int, wall_ns: int) -> Iterator[TimedSample]:
    for sample in metered.samples(mono_ns):
        yield TimedSample(sample, wall_ns / _NS_PER_S)


def _print(seq: int, time: str, values: list[Sample]) -> None:
    typer.echo(f"after event {seq}, {time}")
    table = Table("metric", "value")
    for one in values:
        labels = ",".join(f'{key}="{value}"' for key, value in one.labels)
        table.add_row(one.name + (f"{{{labels}}}" if labels else ""), f"{one.value:g}")
    print_table(table)
