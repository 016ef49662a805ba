"""Write the logs of a fleet: `python -m tools.fleet --help`."""

import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Annotated

import typer

from eventstore.folders import run_folder
from tools.fleet.histories import GeneratedHistory, simulated_history, write_log

_BEGUN_MS = 1_790_000_000_000
_APART_MS = 6 * 3600 * 1000


def main(
    folder: Annotated[Path, typer.Argument(help="The folder to create.")],
    logs: Annotated[int, typer.Option(help="Number of logs.")] = 10_000,
    events: Annotated[int, typer.Option(help="Events per log.")] = 2000,
    clusters: Annotated[int, typer.Option(help="Number of clusters.")] = 100,
    histories: Annotated[int, typer.Option(help="Number of different histories.")] = 20,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
) -> None:
    """Write logs to FOLDER/cluster-N/run-.... Exit status: 2 if FOLDER exists already."""
    if folder.exists():
        typer.echo(f"{folder} exists already: name another folder", err=True)
        raise typer.Exit(2)
    start = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        begun = [_BEGUN_MS + number * _APART_MS for number in range(histories)]
        computed = list(pool.map(simulated_history, repeat(events), begun, range(histories)))
        write = partial(_write, folder, clusters, logs)
        of_each = [range(number, logs, histories) for number in range(histories)]
        written = sum(pool.map(write, computed, of_each))
    commands = sum(len(one.commands) for one in computed) / histories
    typer.echo(
        f"{folder}: {written} logs with {events} events and {commands:.0f} commands each,"
        f" {time.monotonic() - start:.0f} s"
    )


def _write(
    folder: Path, clusters: int, logs: int, history: GeneratedHistory, numbers: range
) -> int:
    for number in numbers:
        cluster = f"cluster-{number * clusters // logs:03d}"
        run = run_folder(folder / cluster, history.begun_ms * 1_000_000 + number)
        write_log(run, history, cluster, number)
    return len(numbers)


if __name__ == "__main__":
    typer.run(main)
