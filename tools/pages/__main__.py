"""`python -m tools.pages [--write]`: renew the made pages, or list those that are out of date."""

import argparse
import sys

from tools.pages import PAGES, ROOT


def main() -> None:
    """Exit status 1 if a page is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the pages; do not compare")
    write = parser.parse_args().write
    stale = []
    for name, page in PAGES.items():
        path = ROOT / name
        if write:
            path.write_text(page(), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != page():
            stale.append(name)
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}; run python -m tools.pages --write")


if __name__ == "__main__":
    main()
