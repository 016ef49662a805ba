"""docs/design.md: which folder imports which, drawn from the code into the page."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "design.md"
PACKAGES: Final = ("controller", "eventstore", "replay")
_DIAGRAM: Final = re.compile(r"(<!-- imports: [^>]*-->\n)(.*?)(<!-- end of imports -->)", re.DOTALL)

Imports = Mapping[str, frozenset[str]]
"""The folders that each folder imports."""


def page() -> str:
    """docs/design.md with the diagram as the code is now."""
    text = PAGE.read_text(encoding="utf-8")
    return _DIAGRAM.sub(lambda found: f"{found[1]}\n{diagram(imports())}\n\n{found[3]}", text)


def imports() -> Imports:
    """Every import between two folders. Modules directly in a package count as one folder."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    found: dict[str, set[str]] = {}
    for module in graph.modules:
        folder = _folder(module)
        imported = found.setdefault(folder, set())
        imported |= {_folder(one) for one in graph.find_modules_directly_imported_by(module)}
        imported.discard(folder)
    return {folder: frozenset(imported) for folder, imported in found.items()}


def diagram(found: Imports) -> str:
    """A fenced Mermaid flow chart; an import that follows from others is left out."""
    boxes = [f'    {_name(one)}["{one.replace(".", "/")}"]' for one in sorted(found)]
    arrows = [
        f"    {_name(one)} --> {_name(other)}"
        for one in sorted(found)
        for other in sorted(found[one])
        if not _follows(found, one, other)
    ]
    return "\n".join(["```mermaid", "flowchart TD", *boxes, *arrows, "```"])


def _folder(module: str) -> str:
    parts = module.split(".")
    if parts[0] == "eventstore" or not (ROOT / Path(*parts[:2])).is_dir():
        return parts[0]
    return ".".join(parts[:2])


def _name(folder: str) -> str:
    return folder.replace(".", "_")


def _follows(found: Imports, one: str, other: str) -> bool:
    """Whether a third folder that `one` imports, and that does not import `one` back, reaches
    `other`."""
    return any(
        other in reached and one not in reached
        for third in found[one] - {other}
        for reached in [_reached(found, third)]
    )


def _reached(found: Imports, folder: str) -> frozenset[str]:
    """All that a folder imports, directly or through others."""
    reached: set[str] = set()
    waiting = [folder]
    while waiting:
        new = found[waiting.pop()] - reached
        reached |= new
        waiting += new
    return frozenset(reached)
