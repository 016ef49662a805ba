"""Measures the outcomes of conditions of the core in a fold.

The functions with these conditions get code that notes each outcome. Otherwise it is the same code
on the same lines. It stays in the process, which gets the same conditions with each log.
"""

import ast
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from replay.diff.conditions import FALSE, TRUE, Place, place_of
from replay.diff.version.executed_lines import CORE
from replay.diff.version.loaded_functions import LoadedFunctions

_NOTE: Final = "_refold_note_outcome"
_PACKAGE: Final = "controller.core"


class ConditionOutcomes:
    """The outcomes of the conditions of one request, by file, in the order of their places."""

    def __init__(self, conditions: Mapping[str, Sequence[Place]]) -> None:
        self._conditions = conditions
        self._outcomes = {file: [0] * len(places) for file, places in conditions.items()}
        for file, places in conditions.items():
            self._instrument(file, places)

    def take(self) -> dict[str, list[int]]:
        """The outcomes since the last call: 0, or the sum of 1 for true and 2 for false."""
        taken = {file: list(outcomes) for file, outcomes in self._outcomes.items()}
        for outcomes in self._outcomes.values():
            outcomes[:] = [0] * len(outcomes)
        return taken

    def is_of(self, conditions: Mapping[str, Sequence[Place]]) -> bool:
        """Whether these are the measured conditions."""
        return conditions == self._conditions

    def _instrument(self, file: str, places: Sequence[Place]) -> None:
        name = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        module = import_module(f"{_PACKAGE}.{name}")
        path = str(CORE / file)
        tree = ast.parse(Path(path).read_bytes())
        _Instrumented(places).visit(tree)
        ast.fix_missing_locations(tree)
        outcomes = self._outcomes[file]

        def note(number: int, value: Any) -> Any:
            outcomes[number] |= TRUE if value else FALSE
            return value

        setattr(module, _NOTE, note)
        LoadedFunctions([path]).replace(compile(tree, path, "exec", dont_inherit=True))


class _Instrumented(ast.NodeTransformer):
    """Notes the outcomes of the expressions with the given places; of the pattern of a case, only
    that it matches."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._numbers = {tuple(place): number for number, place in enumerate(places)}

    def visit(self, node: ast.AST) -> ast.AST:
        number = None
        if isinstance(node, ast.expr):
            number = self._numbers.pop(place_of(node), None)
        visited: ast.AST = super().visit(node)
        if number is not None and isinstance(visited, ast.expr):
            return _note(number, visited, visited)
        return visited

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        number = self._numbers.pop(place_of(node.pattern), None)
        self.generic_visit(node)
        if number is not None:
            matched = _note(number, ast.Constant(value=True), node.pattern)
            node.body.insert(0, ast.copy_location(ast.Expr(matched), node.pattern))
        return node


def _note(number: int, value: ast.expr, at: ast.expr | ast.pattern) -> ast.expr:
    function = ast.Name(_NOTE, ast.Load())
    call = ast.Call(function, [ast.Constant(value=number), value], [])
    for one in (call, function, call.args[0], value):
        ast.copy_location(one, at)
    return call
