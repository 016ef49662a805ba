"""`python -m tools.pages [--write]`: renew the made pages, or list those that are out of date."""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.pages import PAGES, ROOT
from tools.pages.examples import ExampleError


def main() -> None:
    """Exit status 1 if a page is out of date, or a command of a page fails."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the pages; do not compare")
    errors = renew(PAGES, ROOT, write=parser.parse_args().write)
    if errors:
        sys.exit("\n".join(errors))


def renew(pages: Mapping[str, Callable[[], str]], root: Path, *, write: bool) -> list[str]:
    """Write the pages below `root`, or compare them. Return the errors for a person to read. A page
    whose command fails is neither written nor compared; the other pages are."""
    stale, errors = [], []
    for name, page in pages.items():
        path = root / name
        try:
            text = page()
        except ExampleError as error:
            errors.append(str(error))
            continue
        if write:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    if errors:
        errors.append(
            "These pages were not changed. If the commands fail because the controller now "
            'decides differently, record the incidents again: see "If a check fails" in '
            "CONTRIBUTING.md."
        )
    if stale:
        errors.append(f"out of date: {', '.join(stale)}; run python -m tools.pages --write")
    return errors


if __name__ == "__main__":
    main()
