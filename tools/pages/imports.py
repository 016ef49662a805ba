"""Diagrams that are drawn from the imports of the code.

docs/layout.md shows which folder imports which, docs/design.md the spine of replay.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import grimp

from tools.pages.marked import with_parts

ROOT: Final = Path(__file__).parents[2]
LAYOUT_PAGE: Final = ROOT / "docs" / "layout.md"
DESIGN_PAGE: Final = ROOT / "docs" / "design.md"
PACKAGES: Final = {
    "replay": "commands that read logs: replay, why, report, explore",
    "controller": "the daemon, its decisions, the tools of an operator",
    "eventstore": "event logs: segments, chain, snapshots",
}

Imports = Mapping[str, frozenset[str]]
"""The boxes that each box imports."""

SPINE: Final[Mapping[str, Mapping[str, str]]] = {
    "Records": {
        "eventstore": "the records of a log",
        "replay.stock_clusters": "files of stock clusters: refold import",
    },
    "Open": {"replay.logs.open_log": "opens any log"},
    "Fold": {
        "replay.logs.recorded_fold": "folds a recorded log",
        "replay.shadow_folds": "folds an imported log",
    },
    "Products": {
        "replay.verify": "refold replay",
        "replay.why": "refold why",
        "replay.inspect": "refold inspect",
        "replay.listing": "refold events, decisions",
        "replay.diff": "refold diff",
        "replay.incidents": "refold new-incident",
        "replay.kafka_text": "refold log show --format kafka",
        "replay.export": "refold log export",
        "replay.redaction": "refold log export --redact",
        "replay.report": "refold report",
        "replay.shadow": "refold run --mode shadow",
        "replay.fleet": "refold fleet",
        "replay.explore": "refold explore",
        "replay.health": "refold health",
        "replay.migration": "refold check --migration",
        "replay.what_if": "refold what-if",
        "replay.index": "the index of a log",
        "replay.debug": "refold debug",
    },
}
"""The boxes of the spine in their groups, and what each one does."""


def layout_page() -> str:
    """docs/layout.md with the diagrams as the code is now."""
    return with_parts(LAYOUT_PAGE, {"rooms": room_diagram(), "imports": diagram(imports())})


def design_page() -> str:
    """docs/design.md with the spine of replay as the code is now."""
    return with_parts(DESIGN_PAGE, {"spine": spine_diagram(spine_imports())})


def imports() -> Imports:
    """Every import between two folders.

    A module directly in a package has its own box if it imports a folder. The other modules of the
    package have one box, with the name of the package.
    """
    return _imports_between(_folder)


def spine_imports() -> Imports:
    """Every import between two boxes of the spine."""
    return _imports_between(_spine_box)


def room_diagram() -> str:
    """A Mermaid flow chart of all imports between the packages."""
    found = _imports_between(lambda module: module.partition(".")[0])
    boxes = [f'    {one}["{one}<br/>{what}"]' for one, what in PACKAGES.items()]
    arrows = [f"    {one} --> {other}" for one in PACKAGES for other in sorted(found[one])]
    return "\n".join(["```mermaid", "flowchart TD", *boxes, *arrows, "```"])


def diagram(found: Imports) -> str:
    """A fenced Mermaid flow chart; an import that follows from others is left out."""
    boxes = [f'    {_name(one)}["{_path(one)}"]' for one in sorted(found)]
    arrows = [f"    {_name(one)} --> {_name(other)}" for one, other in _arrows(found)]
    return "\n".join(["```mermaid", "flowchart TD", *boxes, *arrows, "```"])


def spine_diagram(found: Imports) -> str:
    """A Mermaid diagram of the imports between the modules of the spine, in groups. An arrow leads
    from a box to one that imports it."""
    lines = ["```mermaid", "flowchart LR"]
    for group, boxes in SPINE.items():
        lines.append(f"    subgraph {group}")
        lines += [
            f'        {_name(one)}["{one.replace(".", "/")}<br/>{what}"]'
            for one, what in boxes.items()
        ]
        lines.append("    end")
    lines += [f"    {_name(other)} --> {_name(one)}" for one, other in _arrows(found)]
    return "\n".join([*lines, "```"])


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def _imports_between(box_of: Callable[[str], str | None]) -> Imports:
    """The imports between the boxes that `box_of` puts modules into; None: into no box."""
    graph = _graph()
    found: dict[str, set[str]] = {}
    for module in graph.modules:
        box = box_of(module)
        if box is None:
            continue
        others = {box_of(one) for one in graph.find_modules_directly_imported_by(module)}
        found.setdefault(box, set()).update(one for one in others if one not in (None, box))
    return {box: frozenset(imported) for box, imported in found.items()}


def _folder(module: str) -> str:
    package, *inner = module.split(".")
    if package == "eventstore" or not inner:
        return package
    box = f"{package}.{inner[0]}"
    return box if _is_folder(box) or _imports_a_folder(box) else package


def _imports_a_folder(module: str) -> bool:
    imported = _graph().find_modules_directly_imported_by(module)
    return any(_is_folder(".".join(one.split(".")[:2])) for one in imported)


def _is_folder(box: str) -> bool:
    return (ROOT / Path(*box.split("."))).is_dir()


def _path(box: str) -> str:
    path = box.replace(".", "/")
    return f"{path}.py" if (ROOT / f"{path}.py").exists() else path


def _spine_box(module: str) -> str | None:
    boxes = [one for boxes in SPINE.values() for one in boxes]
    return next((one for one in boxes if f"{module}.".startswith(f"{one}.")), None)


def _name(box: str) -> str:
    return box.replace(".", "_")


def _arrows(found: Imports) -> list[tuple[str, str]]:
    """The imports that do not follow from others."""
    return [
        (one, other)
        for one in sorted(found)
        for other in sorted(found[one])
        if not _follows(found, one, other)
    ]


def _follows(found: Imports, one: str, other: str) -> bool:
    """Whether a third box that `one` imports, and that does not import `one` back, reaches
    `other`."""
    return any(
        other in reached and one not in reached
        for third in found[one] - {other}
        for reached in [_transitive_imports(found, third)]
    )


def _transitive_imports(found: Imports, box: str) -> frozenset[str]:
    """All that a box imports, directly or through others."""
    reached: set[str] = set()
    waiting = [box]
    while waiting:
        new = found[waiting.pop()] - reached
        reached |= new
        waiting += new
    return frozenset(reached)
