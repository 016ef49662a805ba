"""The table of planted races, in Markdown."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from tools.races.search import RaceSearchResult, ShrunkCase

_COLUMNS: Final = (
    "race",
    "found",
    "invariant",
    "strategy",
    "runs",
    "seconds",
    "inputs",
    "runs with what it needs",
    "violations without it",
    "broken instead",
)
HEADER: Final = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"


PAGE: Final = Path(__file__).parents[2] / "docs" / "races-found.md"
_TABLE: Final = re.compile(r"^\| race \|.*?(?=^\Z|^[^|])", re.MULTILINE | re.DOTALL)


class RaceRow(Struct):
    """One race. `inputs`: after shrinking; `text`: the violation of the shrunk run; `instead`: the
    violations that do not show the race, by invariant."""

    id: str
    found: bool
    invariant: str
    strategy: str
    runs: int
    seconds: float
    inputs: int | None
    reached: int
    others: dict[str, int]
    instead: dict[str, int]
    subject: str = ""
    text: str = ""

    @classmethod
    def from_search(
        cls, id_: str, searched: RaceSearchResult, shrunk: ShrunkCase | None
    ) -> "RaceRow":
        """The row of a race."""
        violation = shrunk.violation if shrunk is not None else searched.violation
        return cls(
            id_,
            violation is not None,
            violation.invariant if violation is not None else "",
            searched.case.strategy if searched.case is not None else "",
            searched.runs,
            round(searched.seconds, 1),
            len(shrunk.case.inputs) if shrunk is not None else None,
            searched.reached,
            searched.others,
            searched.instead,
            violation.subject if violation is not None else "",
            violation.text if violation is not None else "",
        )


def line(row: RaceRow) -> str:
    """The line of a race."""
    cells = (
        row.id,
        _verdict(row),
        row.invariant,
        row.strategy,
        str(row.runs),
        f"{row.seconds:.1f}",
        "" if row.inputs is None else str(row.inputs),
        str(row.reached),
        _counts(row.others),
        _counts(row.instead),
    )
    return f"| {' | '.join(cells)} |"


def _verdict(row: RaceRow) -> str:
    if row.found or not row.instead:
        return "yes" if row.found else "no"
    return f"no: {', '.join(sorted(row.instead))} broken instead"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def write_table(page: Path, rows: Sequence[RaceRow]) -> None:
    """Replace the table of a page."""
    table = "\n".join([HEADER, *map(line, rows)])
    text = page.read_text(encoding="utf-8")
    page.write_text(_TABLE.sub(lambda _: f"{table}\n", text), encoding="utf-8")
