"""`python -m tools.design_comparison`: the 0.8 design and the controller, with the same faults."""

import datetime
import os
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from replay.errors import ReplayError
from tools.design_comparison.broker_failure import CASES, measure_failure
from tools.design_comparison.comparison import DesignComparison, compare
from tools.design_comparison.page import write_page
from tools.design_comparison.tables import tables

_UNUSABLE = 2


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the list of seeds.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    partitions: Annotated[
        list[int] | None, typer.Option(min=10, help="Measure one broker's failure with these.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--from", help="Use the JSON of an earlier run; run nothing.", metavar="FILE"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write tables and charts into docs/.")
    ] = False,
) -> None:
    """Compare both designs and print tables. Ctrl-C ends early, with the seeds so far."""
    if results is not None:
        try:
            compared = msgspec.json.decode(results.read_bytes(), type=DesignComparison)
        except (OSError, msgspec.DecodeError) as error:
            typer.echo(f"{results} is not the output of --json: {error}", err=True)
            raise typer.Exit(_UNUSABLE) from error
    else:
        compared = _compare_designs(seeds, seed, workers, partitions or [10, 100, 1000])
    if write:
        write_page(compared)
    if json:
        typer.echo(msgspec.json.encode(compared).decode())
    else:
        for name, text in tables(compared).items():
            typer.echo(f"\n{name}\n\n{text}")


def _compare_designs(
    seeds: int, seed: int, workers: int, partitions: list[int]
) -> DesignComparison:
    def progress(done: int) -> None:
        end = "\n" if done == seeds else ""
        print(f"\rseeds: {done} of {seeds}", end=end, file=sys.stderr, flush=True)  # noqa: T201

    try:
        compared = compare(seed, seeds, workers, progress)
    except ReplayError as error:
        typer.echo(f"\n{error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    compared.date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    try:
        for count in [] if compared.was_interrupted else partitions:
            for case in CASES:
                typer.echo(f"broker failure: {case}, {count} partitions", err=True)
                compared.failures.append(measure_failure(case, count))
    except KeyboardInterrupt:
        compared.was_interrupted = True
    return compared


if __name__ == "__main__":
    typer.run(main)
