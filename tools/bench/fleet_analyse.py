"""Measures `refold fleet analyse`: in total, and for each additional event.

Bias: the logs are generated (`python -m tools.fleet`), with similar partitions. The time is that of
the command, including the start of Spark. CPU time includes all processes that the command starts.
Memory is the peak resident memory of the driver's Python and Java processes together; in local mode
the JVM also runs the tasks. See `python -m tools.bench.fleet_analyse --help`.
"""

import tempfile
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from tools.bench.fleet_ingest import run_fleet

_MIB = 1 << 20
_US = 1e6


class _Measured(NamedTuple):
    events: int
    seconds: float
    cpu_s: float


def main(
    fewer: Annotated[Path, typer.Argument(help="Logs that `python -m tools.fleet` wrote.")],
    more: Annotated[Path, typer.Argument(help="At least twice as many logs.")],
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
) -> None:
    """Ingest FEWER and MORE logs into new tables, and analyse both."""
    first, second = _analyse(fewer, master), _analyse(more, master)
    if second.events < 2 * first.events:
        typer.echo(
            f"{more} has less than twice as many events as {fewer}: name more logs", err=True
        )
        raise typer.Exit(2)
    each_us = (second.cpu_s - first.cpu_s) / (second.events - first.events) * _US
    whole_us = second.cpu_s / second.events * _US
    typer.echo(
        f"each additional event: {each_us:.1f} us of CPU time, {each_us / whole_us:.2f} of the time"
        f" per event of the larger table, including its start ({whole_us:.1f} us)"
    )


def _analyse(logs: Path, master: str) -> _Measured:
    with tempfile.TemporaryDirectory(dir=logs.absolute().parent) as folder:
        table = Path(folder) / "table"
        ingested, _ = run_fleet(["ingest", str(logs), "--out", str(table), "--master", master])
        start = time.monotonic()
        _, used = run_fleet(["analyse", str(table), "--master", master])
        measured = _Measured(ingested["events"], time.monotonic() - start, used.cpu_s)
    typer.echo(
        f"{measured.events} events and {ingested['commands']} commands: {measured.seconds:.1f} s,"
        f" {measured.cpu_s:.1f} s of CPU time; driver {used.memory / _MIB:,.0f} MiB"
    )
    return measured


if __name__ == "__main__":
    typer.run(main)
