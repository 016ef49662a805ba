"""docs/deviations.md: the named deviations, and the tests that show what each of them changes.

A section of a test module that is headed by a deviation's name holds its tests.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from controller.core.deviations import ALL

ROOT: Final = Path(__file__).parents[2]
COLUMNS: Final = 120
_SECTION: Final = re.compile(r"# `?(.+?)`? -{3,}")
_TEST: Final = re.compile(r"(?:async )?def (test_\w+)")


def page() -> str:
    """The page."""
    lines = [
        "# Where refold decides differently from Kafka",
        "",
        "refold avoids known defects of Kafka's controller. This page lists each deviation with",
        "the defect, refold's rule and the source. To decide as Kafka does, start the daemon with",
        "",
        "    refold.rules=kafka",
        "",
        'Deviations marked "Always on" apply in both cases: without them the cluster would be',
        "harmed, or the daemon could not be its controller. The tests of a deviation show what is",
        "decided with it and, if it can be turned off, without it.",
        "",
        "Generated from `controller/core/deviations.py` by `python -m tools.pages --write`.",
        "",
    ]
    shown = shown_by_section()
    for one in ALL:
        lines += [
            f"## `{one.name}`",
            "",
            *_item(f"Defect: {one.defect}"),
            *_item(f"Rule: {one.rule}"),
            *_item(f"Source: {one.source}"),
            *_item("Always on." if one.always else "Off with refold.rules=kafka."),
            "- Shown by:",
            *(f"  - `{test}`" for test in shown.get(one.name, ())),
            "",
        ]
    return "\n".join(lines)


def _item(text: str) -> list[str]:
    return textwrap.wrap(f"- {text}", COLUMNS, subsequent_indent="  ", break_on_hyphens=False)


def shown_by_section() -> dict[str, list[str]]:
    """The tests of tests/controller/core below each heading, as pytest names them."""
    sections: dict[str, list[str]] = {}
    for module in sorted((ROOT / "tests/controller/core").rglob("test_*.py")):
        for section, test in _tests_of(module):
            sections.setdefault(section, []).append(f"{module.relative_to(ROOT)}::{test}")
    return sections


def _tests_of(module: Path) -> Iterator[tuple[str, str]]:
    section = ""
    for line in module.read_text(encoding="utf-8").splitlines():
        if heading := _SECTION.fullmatch(line):
            section = heading[1]
        elif test := _TEST.match(line):
            yield section, test[1]
