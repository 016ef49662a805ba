"""The table procedure x crash point x successor x unclean elections: JSON lines and Markdown."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.lab.interrupted.crash_cell import Cell, Outcome

TABLE_VARIABLE = "REFOLD_CRASH_TABLE"
"""The file to which rows are appended as JSON lines, with a Markdown table next to it (.md)."""

Row = dict[str, Any]
"""The fate of one partition after one crash."""


def of_column(cell: Cell, *, unclean: bool) -> list[Outcome]:
    """The outcomes of one cell of the table."""
    return [one for one in cell.outcomes if one.topic.unclean is unclean]


def rows(cell: Cell) -> list[Row]:
    """One row for each partition of a cell."""
    return [
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
        for one in cell.outcomes
    ]


def markdown(found: Iterable[Row]) -> str:
    """One line for each crash point. Each cell has the longest stall of a producer and the smallest
    ISR of its partitions, or the violations."""
    cells: dict[tuple[str, int], dict[tuple[str, bool], list[Row]]] = {}
    for row in found:
        line = cells.setdefault((row["procedure"], row["point"]), {})
        line.setdefault((row["successor"], row["unclean"]), []).append(row)
    columns = sorted({column for line in cells.values() for column in line})
    heads = [f"{who}, unclean {'on' if unclean else 'off'}" for who, unclean in columns]
    text = f"| procedure | # | crash point | {' | '.join(heads)} |\n|{'---|' * (3 + len(heads))}\n"
    for (procedure, point), line in sorted(cells.items()):
        name = next(iter(line.values()))[0]["crash_point"]
        each = [_cell(line[column]) if column in line else "" for column in columns]
        text += f"| {' | '.join((procedure, str(point), name, *each))} |\n"
    return text


def _cell(found: list[Row]) -> str:
    wrong = [f"**{row['situation']}: {text}**" for row in found for text in row["violations"]]
    stall = max(row["stall_seconds"] for row in found)
    return "; ".join(wrong) or f"{stall:.2f} s, {min(row['lowest_isr'] for row in found)}"


def save(cell: Cell) -> None:
    """Append a cell to the lines, and write the table of all lines, if the environment variable is
    set."""
    name = os.environ.get(TABLE_VARIABLE)
    if not name:
        return
    path = Path(name)
    with path.open("a") as lines:
        lines.writelines(f"{json.dumps(row)}\n" for row in rows(cell))
    found = [json.loads(line) for line in path.read_text().splitlines()]
    path.with_suffix(".md").write_text(markdown(found))
