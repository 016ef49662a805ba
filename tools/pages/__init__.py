"""Pages made from the code or showing its output: `python -m tools.pages --write` renews them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from controller.settings import reference
from tools.pages import deviations, examples, state_machines

ROOT: Final = Path(__file__).parents[2]

PAGES: Final[dict[str, Callable[[], str]]] = {
    "README.md": partial(examples.with_examples_run, "README.md"),
    "docs/deviations.md": deviations.page,
    "docs/settings.md": reference.page,
    "docs/state-machines.md": state_machines.page,
    "docs/tutorial.md": partial(examples.with_examples_run, "docs/tutorial.md"),
    "docs/why.md": partial(examples.with_examples_run, "docs/why.md"),
}
"""The function that returns the current text of each page."""
