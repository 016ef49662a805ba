"""Writes the tables and charts into docs/design-comparison.md."""

from pathlib import Path
from typing import Final

from tools.design_comparison.charts import charts
from tools.design_comparison.comparison import DesignComparison
from tools.design_comparison.tables import tables
from tools.pages.marked import with_parts

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/design-comparison.md"
CHARTS: Final = ROOT / "docs/design-comparison"


def write_page(compared: DesignComparison) -> None:
    """Replace the tables and the line about the runs; write the charts."""
    for name, table in {**tables(compared), "runs": _runs(compared)}.items():
        PAGE.write_text(with_parts(PAGE, {name: table}), encoding="utf-8")
    CHARTS.mkdir(exist_ok=True)
    for name, svg in charts(compared).items():
        (CHARTS / f"{name}.svg").write_text(svg, encoding="utf-8")


def _runs(compared: DesignComparison) -> str:
    command = f"`python -m tools.design_comparison --seed {compared.seed} --write`"
    end = ", after which Ctrl-C ended the run" if compared.was_interrupted else ""
    return f"{command} on {compared.date}, with {compared.runs:,} seeds{end}."
