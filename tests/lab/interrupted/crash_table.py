"""The table procedure x crash point x successor x unclean elections: Markdown and JSON lines."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from tests.lab.interrupted.crash_cell import Cell, Outcome

TABLE_VARIABLE = "REFOLD_CRASH_TABLE"
"""The file to which rows are appended as JSON lines, with a Markdown table next to it (.md)."""

_HEAD = (
    "| procedure | # | crash point | successor | has the role after | unclean | longest stall | "
    "lowest ISR | outcome |\n|---|---|---|---|---|---|---|---|---|\n"
)


def of_column(cell: Cell, *, unclean: bool) -> list[Outcome]:
    """The outcomes of one cell of the table."""
    return [one for one in cell.outcomes if one.topic.unclean is unclean]


def markdown(cells: Sequence[Cell], *, head: bool = True) -> str:
    """One line for each cell of the table, with the worst of its situations."""
    return (_HEAD if head else "") + "".join(
        _line(cell, unclean) for cell in cells for unclean in (False, True)
    )


def _line(cell: Cell, unclean: bool) -> str:
    outcomes = of_column(cell, unclean=unclean)
    wrong = [f"{one.topic.situation.name}: {text}" for one in outcomes for text in one.violations]
    ends = dict.fromkeys(one.end for one in outcomes)
    columns = (
        cell.procedure.key,
        str(cell.point),
        cell.name,
        str(cell.successor),
        f"{cell.successor_seconds:.1f} s",
        "on" if unclean else "off",
        f"{max(one.stall for one in outcomes):.2f} s",
        str(min(one.lowest_isr for one in outcomes)),
        "; ".join(f"**{one}**" for one in wrong) or "; ".join(ends),
    )
    return f"| {' | '.join(columns)} |\n"


def json_lines(cell: Cell) -> str:
    """One line for each partition of a cell."""
    return "".join(
        json.dumps(
            {
                "procedure": cell.procedure.key,
                "point": cell.point,
                "crash_point": cell.name,
                "rule": "" if cell.is_last else cell.counted[-1].rule,
                "successor": str(cell.successor),
                "successor_seconds": round(cell.successor_seconds, 3),
                "unclean": one.topic.unclean,
                "situation": one.topic.situation.name,
                "stall_seconds": round(one.stall, 3),
                "lowest_isr": one.lowest_isr,
                "end": one.end,
                "violations": one.violations,
                "longest_pause_of_watch": round(cell.longest_pause, 3),
            }
        )
        + "\n"
        for one in cell.outcomes
    )


def save(cell: Cell) -> None:
    """Appends a cell to the files of the table, if the environment variable is set."""
    name = os.environ.get(TABLE_VARIABLE)
    if not name:
        return
    path = Path(name)
    with path.open("a") as lines:
        lines.write(json_lines(cell))
    table = path.with_suffix(".md")
    is_new = not table.exists()
    with table.open("a") as rows:
        rows.write(markdown([cell], head=is_new))
