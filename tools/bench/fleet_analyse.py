"""What `refold fleet analyse` takes: of it all, and of each event more.

Bias: of made-up logs (`python -m tools.fleet`), in which partitions fare alike; the time is that of
the whole command, Spark's start included. CPU time is of the command with all that it starts.
Memory is the largest resident set of the driver, its Python and its Java process together; in
local mode Java runs the tasks, too. `python -m tools.bench.fleet_analyse --help`.
"""

import tempfile
import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from tools.bench.fleet_ingest import run_fleet

_MIB = 1 << 20
_US = 1e6


class _Taken(NamedTuple):
    events: int
    seconds: float
    cpu_s: float


def main(
    fewer: Annotated[Path, typer.Argument(help="As `python -m tools.fleet` has made them.")],
    more: Annotated[Path, typer.Argument(help="At least twice as many.")],
    master: Annotated[str, typer.Option(help="Of Spark.")] = "local[2]",
) -> None:
    """Ingest FEWER logs and MORE logs into new tables, and analyse these."""
    first, second = _analyse(fewer, master), _analyse(more, master)
    if second.events < 2 * first.events:
        typer.echo(f"{more} has less than twice as many events as {fewer}", err=True)
        raise typer.Exit(2)
    each_us = (second.cpu_s - first.cpu_s) / (second.events - first.events) * _US
    whole_us = second.cpu_s / second.events * _US
    typer.echo(
        f"each event more: {each_us:.1f} us of CPU time, {each_us / whole_us:.2f} of what one of"
        f" the larger table takes with its share of the start ({whole_us:.1f} us)"
    )


def _analyse(logs: Path, master: str) -> _Taken:
    with tempfile.TemporaryDirectory(dir=logs.absolute().parent) as folder:
        table = Path(folder) / "table"
        ingested, _ = run_fleet(["ingest", str(logs), "--out", str(table), "--master", master])
        start = time.monotonic()
        _, used = run_fleet(["analyse", str(table), "--master", master])
        taken = _Taken(ingested["events"], time.monotonic() - start, used.cpu_s)
    typer.echo(
        f"{taken.events} events and {ingested['commands']} commands: {taken.seconds:.1f} s,"
        f" {taken.cpu_s:.1f} s of CPU time; driver {used.memory / _MIB:,.0f} MiB"
    )
    return taken


if __name__ == "__main__":
    typer.run(main)
