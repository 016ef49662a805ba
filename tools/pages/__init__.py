"""Pages of docs/ that are drawn from the code: `python -m tools.pages --write` renews them."""

from pathlib import Path
from typing import Final

from controller.settings import reference
from tools.pages import deviations, imports, state_machines

ROOT: Final = Path(__file__).parents[2]

PAGES: Final = {
    "docs/deviations.md": deviations.page,
    "docs/design.md": imports.page,
    "docs/settings.md": reference.page,
    "docs/state_machines.md": state_machines.page,
}
"""What draws each page."""
