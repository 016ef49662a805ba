"""Pages of docs/ that are drawn from the code: `python -m tools.pages --write` renews them."""

import argparse
import sys
from pathlib import Path

from controller.core import deviations

ROOT = Path(__file__).parents[1]


def deviations_page() -> str:
    """docs/deviations.md."""
    lines = [
        "# Where refold decides better than Kafka",
        "",
        "Drawn from `controller/core/deviations.py` by `python -m tools.pages --write`.",
        '`rules = "kafka"` turns off those that are not marked as always on.',
        "",
    ]
    for one in deviations.ALL:
        lines += [
            f"## {one.name}",
            "",
            f"- Defect: {one.defect}",
            f"- Rule: {one.rule}",
            f"- Source: {one.source}",
            f"- {'Always on.' if one.always else 'Off under Kafka rules.'}",
            "",
        ]
    return "\n".join(lines)


PAGES = {"docs/deviations.md": deviations_page}


def main() -> None:
    """Write the pages, or say which are stale: exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write them instead of comparing")
    write = parser.parse_args().write
    stale = []
    for name, page in PAGES.items():
        path = ROOT / name
        if write:
            path.write_text(page(), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != page():
            stale.append(name)
    if stale:
        sys.exit(f"stale: {', '.join(stale)}; run python -m tools.pages --write")


if __name__ == "__main__":
    main()
