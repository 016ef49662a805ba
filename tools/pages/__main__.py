"""`python -m tools.pages [--write]`: write the drawn pages, or say which are stale."""

import argparse
import sys

from tools.pages import PAGES, ROOT


def main() -> None:
    """Exit status 1 where a page is stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=__doc__)
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
