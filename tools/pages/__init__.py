"""Pages made from the code or showing its output: `python -m tools.pages --write` renews them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from controller.settings import reference
from tools.pages import (
    commands,
    dashboard,
    deviations,
    examples,
    imports,
    log_codes,
    manual,
    metrics,
    scenarios,
    state_machines,
)

ROOT: Final = Path(__file__).parents[2]

PAGES: Final[dict[str, Callable[[], str]]] = {
    "docs/commands.md": commands.page,
    "docs/deviations.md": deviations.page,
    "docs/design.md": imports.design_page,
    "docs/layout.md": imports.layout_page,
    "docs/log-codes.md": log_codes.page,
    "docs/metrics.md": metrics.page,
    "docs/monitoring/dashboard.json": dashboard.page,
    "docs/refold.1": manual.page,
    "docs/scenarios.md": scenarios.page,
    "docs/settings.md": reference.page,
    "docs/state-machines.md": state_machines.page,
    **{
        name: partial(examples.with_examples_run, name)
        for name in examples.pages_with_examples(ROOT)
    },
}
"""The function that returns the current text of each page."""
