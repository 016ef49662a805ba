"""`python -m tools.diagrams` writes docs/state_machines.md anew."""

from pathlib import Path

from tools.diagrams.state_machines import page

PAGE = Path(__file__).parents[2] / "docs" / "state_machines.md"

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
