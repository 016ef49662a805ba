"""`python -m tools.races`: exit 0 when the explorer finds every planted race, 1 if it does not.

All races have one generic scenario and one list of seeds. Each race is searched until it is found,
and then shrunk. The table has how many of the runs contained what the race needs.
"""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tests.races.catalogue import DEFECTS
from tools.races.search import Searchers
from tools.races.table import HEADER, PAGE, RaceRow, line, write_table

_UNUSABLE = 2


def main(
    ids: Annotated[list[str] | None, typer.Argument(help="Races; without: all.")] = None,
    seconds: Annotated[
        float, typer.Option(min=1, help="Processor time of each worker, for each race.")
    ] = 60,
    shrink_seconds: Annotated[float, typer.Option(min=1, help="For each found race.")] = 60,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the list of seeds.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="One JSON object for each race.")] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write the table into docs/races-found.md.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option(help="Save the shrunk runs in this folder.", metavar="FOLDER")
    ] = None,
) -> None:
    """Search each planted race, shrink it, and print a table."""
    unknown = [one for one in ids or () if one not in DEFECTS]
    if unknown:
        typer.echo(f"No such race: {', '.join(unknown)}. Use: {', '.join(DEFECTS)}.", err=True)
        raise typer.Exit(_UNUSABLE)
    there = [one for one in ids or DEFECTS if save is not None and (save / one).exists()]
    if there:
        typer.echo(f"{save} has {', '.join(there)} already: give another folder.", err=True)
        raise typer.Exit(_UNUSABLE)
    rows = []
    if not json:
        typer.echo(HEADER)
    with Searchers(workers) as searchers:
        for id_ in ids or DEFECTS:
            found = searchers.search(id_, seed, seconds)
            shrunk = None
            if found.case is not None and found.violation is not None:
                invariant = found.violation.invariant
                shrunk = searchers.shrink(id_, found.case, invariant, shrink_seconds)
                if save is not None:
                    searchers.save(id_, shrunk.case, save / id_)
            row = RaceRow.from_search(id_, found, shrunk)
            rows.append(row)
            typer.echo(msgspec.json.encode(row).decode() if json else line(row))
            sys.stdout.flush()
    if write:
        write_table(PAGE, rows)
    raise typer.Exit(0 if all(one.found for one in rows) else 1)


typer.run(main)
