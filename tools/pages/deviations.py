"""docs/deviations.md: the named deviations, and the tests that show what each of them changes.

A section of a test module that is headed by a deviation's name holds its tests.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from controller.core.deviations import ALL

ROOT: Final = Path(__file__).parents[2]
_SECTION: Final = re.compile(r"# (.+?) -{3,}")
_TEST: Final = re.compile(r"(?:async )?def (test_\w+)")


def page() -> str:
    """The page."""
    lines = [
        "# Where refold decides better than Kafka",
        "",
        "Drawn from `controller/core/deviations.py` by `python -m tools.pages --write`.",
        '`rules = "kafka"` turns off those that are not marked as always on. Its tests, in the',
        "sections of tests/controller/core with its name, show what is decided with it and, where "
        "it can be",
        "turned off, without it.",
        "",
    ]
    shown = shown_by_section()
    for one in ALL:
        lines += [
            f"## {one.name}",
            "",
            f"- Defect: {one.defect}",
            f"- Rule: {one.rule}",
            f"- Source: {one.source}",
            f"- {'Always on.' if one.always else 'Off under Kafka rules.'}",
            "- Shown by:",
            *(f"  - `{test}`" for test in shown.get(one.name, ())),
            "",
        ]
    return "\n".join(lines)


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
