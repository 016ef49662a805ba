"""Makes a changed copy of refold's code."""

import ast
import shutil
from pathlib import Path
from typing import Final

from msgspec import Struct

from tools.mutations.functions import Function, functions_of
from tools.mutations.rules import MutationRule, Value, change_tree

_PACKAGES: Final = ("eventstore", "replay")
_CHANGED_PACKAGE: Final = "controller"
_CORE: Final = Path("controller", "core")
_UNCHANGED: Final = "unchanged"


class PlantedChange(Struct, frozen=True):
    """A changed file: its path in the tree and in the core, its text, the changed function or
    value, and the lines of the change."""

    path: Path
    text: str
    name: str
    lines: frozenset[int]

    @property
    def file_in_core(self) -> str:
        """The path that `refold diff` reports."""
        return self.path.relative_to(_CORE).as_posix()


def planted(rule: MutationRule, target: Function | Value, root: Path) -> PlantedChange:
    """The file with the change. Raises MutationError, SyntaxError."""
    text = target.path.read_text(encoding="utf-8")
    path = target.path.relative_to(root)
    if isinstance(target, Value):
        return _with_value(rule, target, path, text)
    return _with_function(rule, target, path, text)


def _with_function(rule: MutationRule, target: Function, path: Path, text: str) -> PlantedChange:
    # The syntax tree is changed, so this is a separate one.
    [function] = [
        one
        for one in functions_of(target.path, target.module, text)
        if one.name == target.name and one.first_line == target.first_line
    ]
    first, last = function.first_line, function.node.end_lineno or function.first_line
    indent = " " * function.node.col_offset
    change_tree(rule, function)
    new = ast.unparse(ast.fix_missing_locations(function.node)).splitlines()
    lines = text.splitlines()
    changed = [indent + line if line else line for line in new]
    lines[first - 1 : last] = changed
    result = "\n".join([*lines, ""])
    return PlantedChange(path, result, target.name, _lines_of_change(result, first, len(new)))


def _lines_of_change(text: str, first: int, count: int) -> frozenset[int]:
    """The lines of a function, without those of the unchanged function in it."""
    lines = set(range(first, first + count))
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name == _UNCHANGED and node.lineno in lines:
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)


def _with_value(rule: MutationRule, target: Value, path: Path, text: str) -> PlantedChange:
    """The value is assigned again, directly after its assignment."""
    lines = text.splitlines()
    end = next(
        node.end_lineno or node.lineno
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and target.name in _targets(node)
    )
    lines.insert(end, f"{target.name} = (lambda old: {rule.becomes})({target.name})")
    return PlantedChange(path, "\n".join([*lines, ""]), target.name, frozenset())


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [one.id for one in targets if isinstance(one, ast.Name)]


def changed_copy(root: Path, folder: Path, change: PlantedChange) -> None:
    """Copy the tree's code to `folder`, with the change. Packages that are never changed are
    links."""
    folder.mkdir(parents=True)
    for name in _PACKAGES:
        (folder / name).symlink_to(root / name)
    shutil.copy(root / "pyproject.toml", folder)
    # With the compiled files, which stay valid because the times of the sources are copied, too.
    shutil.copytree(root / _CHANGED_PACKAGE, folder / _CHANGED_PACKAGE)
    (folder / change.path).write_text(change.text, encoding="utf-8")
