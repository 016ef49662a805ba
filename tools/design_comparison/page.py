"""Writes the tables and charts into docs/design-comparison.md."""

import re
from pathlib import Path
from typing import Final

from tools.design_comparison.charts import charts
from tools.design_comparison.comparison import DesignComparison
from tools.design_comparison.tables import tables

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/design-comparison.md"
CHARTS: Final = ROOT / "docs/design-comparison"


def write_page(compared: DesignComparison) -> None:
    """Replace the tables and the line about the runs; write the charts."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in {**tables(compared), "runs": _runs(compared)}.items():
        text = with_part(text, name, table)
    PAGE.write_text(text, encoding="utf-8")
    CHARTS.mkdir(exist_ok=True)
    for name, svg in charts(compared).items():
        (CHARTS / f"{name}.svg").write_text(svg, encoding="utf-8")


def with_part(text: str, name: str, part: str) -> str:
    """The page with the text between the marks of a part replaced."""
    mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    assert mark.search(text), f"{PAGE} has no part {name}"
    return mark.sub(lambda found: f"{found[1]}\n{part}\n\n{found[2]}", text)


def _runs(compared: DesignComparison) -> str:
    command = f"`python -m tools.design_comparison --seed {compared.seed} --write`"
    end = ", after which Ctrl-C ended the run" if compared.was_interrupted else ""
    return f"{command} on {compared.date}, with {compared.runs:,} seeds{end}."
