"""`python -m tools.agreement`: compare recordings of stock clusters with the fold."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from eventstore.errors import LogError
from replay.errors import ReplayError
from tools.agreement.table import (
    agreement_of,
    agreement_with_fewer_logs,
    fewer_table,
    is_good,
    recordings_in,
    table,
)
from tools.pages.marked import with_parts

ROOT: Final = Path(__file__).parents[2]
RECORDINGS: Final = ROOT / "tests" / "recordings"
_UNUSABLE: Final = 2
PAGE: Final = ROOT / "docs" / "agreement-results.md"


def main(
    recordings: Annotated[
        list[Path] | None,
        typer.Argument(help="Recordings, or folders with them; default: those of the tests."),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the tables into docs/agreement-results.md.")
    ] = False,
    fewer_logs: Annotated[
        bool, typer.Option("--fewer-logs", help="Compare with some of the brokers' logs left out.")
    ] = False,
) -> None:
    """Print a table. Exit status: 1 if a recording does not agree or too much is explained, 2 if
    one cannot be used."""
    chosen = recordings_in(recordings or [RECORDINGS])
    if fewer_logs:
        _compare_with_fewer(chosen, write)
        return
    results = []
    with _unusable_in_one_line(), ProcessPoolExecutor() as pool:
        for result in pool.map(agreement_of, chosen):
            results.append(result)
            verdict = "agrees" if is_good(result) else "DOES NOT AGREE"
            typer.echo(f"{result.source}: {verdict}", err=True)
    drawn = table(results)
    typer.echo(drawn, nl=False)
    if write:
        PAGE.write_text(with_parts(PAGE, {"agreement": drawn.rstrip()}), encoding="utf-8")
    if not all(map(is_good, results)):
        raise typer.Exit(1)


def _compare_with_fewer(chosen: list[Path], write: bool) -> None:
    with _unusable_in_one_line(), ProcessPoolExecutor() as pool:
        found = list(pool.map(agreement_with_fewer_logs, chosen))
    drawn = fewer_table(found)
    typer.echo(drawn, nl=False)
    if write:
        PAGE.write_text(with_parts(PAGE, {"fewer logs": drawn.rstrip()}), encoding="utf-8")


@contextmanager
def _unusable_in_one_line() -> Iterator[None]:
    try:
        yield
    except (LogError, ReplayError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(_UNUSABLE) from None


if __name__ == "__main__":
    typer.run(main)
