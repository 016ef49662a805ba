"""The table of all metrics in docs/metrics.md."""

from pathlib import Path
from typing import Final

from controller.core.metric_table import Metric
from controller.daemon.log_metrics import DAEMON_METRICS
from tools.pages.marked import with_parts

PAGE: Final = Path(__file__).parents[2] / "docs" / "metrics.md"


def page() -> str:
    """The page, with the table as the daemon's metrics are now."""
    rows = ["| metric | kind | unit | meaning | source |", "|---|---|---|---|---|"]
    return with_parts(PAGE, {"metrics": "\n".join([*rows, *map(_row, DAEMON_METRICS)])})


def _row(metric: Metric) -> str:
    source = metric.source if metric.source == "refold" else f"`{metric.source}`"
    return f"| `{metric.name}` | {metric.kind} | {metric.unit} | {metric.about} | {source} |"
