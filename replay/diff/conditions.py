"""Finds the conditions in a statement: what is true or false when the statement is executed.

A condition has no `and`, `or` or `not`: each operand is a condition. The measurement of a version
finds a condition by its place (`replay.diff.version.outcomes`).
"""

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

Place = tuple[int, int, int, int]
"""The first line and column, and the last line and column."""

TRUE: Final = 1
FALSE: Final = 2
"""The outcomes of a condition are the sum of those that it had."""


class Condition(Struct, frozen=True):
    """A condition: its code and its place in the file."""

    text: str
    place: Place

    @property
    def line(self) -> int:
        """The first line."""
        return self.place[0]


def conditions_of(node: ast.AST, inner: Iterable[str]) -> Iterator[Condition]:
    """The conditions of a statement or a case, without those in its bodies, the fields `inner`."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assert):
        return
    finder = _Finder()
    match node:
        case ast.If(test=test) | ast.While(test=test):
            finder.condition(test)
        case ast.match_case(pattern=pattern, guard=guard):
            if not isinstance(pattern, ast.MatchAs) or pattern.pattern is not None:
                finder.found.append(pattern)
            if guard is not None:
                finder.condition(guard)
        case _:
            for name, value in ast.iter_fields(node):
                if name not in inner:
                    finder.visit_all(value)
    for one in finder.found:
        text = ast.unparse(one)
        yield Condition(f"case {text}" if isinstance(one, ast.pattern) else text, place_of(one))


def place_of(node: ast.expr | ast.pattern) -> Place:
    """The place of an expression or pattern."""
    last_line, last_column = node.end_lineno, node.end_col_offset
    return node.lineno, node.col_offset, last_line or node.lineno, last_column or node.col_offset


class _Finder(ast.NodeVisitor):
    """Collects conditions. `visit` is for expressions of any value, `condition` for expressions
    that are true or false."""

    def __init__(self) -> None:
        self.found: list[ast.expr | ast.pattern] = []

    def visit_all(self, value: object) -> None:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.AST):
                self.visit(one)

    def condition(self, node: ast.expr) -> None:
        match node:
            case ast.BoolOp(values=values):
                for one in values:
                    self.condition(one)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.condition(operand)
            case ast.Constant():
                # Such as `while True`: it is never both.
                pass
            case ast.IfExp(test=test, body=body, orelse=orelse):
                for one in (test, body, orelse):
                    self.condition(one)
            case ast.Call(func=ast.Name("all" | "any"), args=[ast.GeneratorExp() as generator]):
                self.condition(generator.elt)
                self.visit_all(generator.generators)
            case _:
                self.found.append(node)
                self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        # The value is that of the last operand, which may be of any type.
        for one in node.values[:-1]:
            self.condition(one)
        self.visit(node.values[-1])

    def visit_Compare(self, node: ast.Compare) -> None:
        self.condition(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.condition(node)
        else:
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.condition(node.test)
        self.visit(node.body)
        self.visit(node.orelse)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("all", "any"):
            self.condition(node)
        else:
            self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.visit(node.iter)
        for one in node.ifs:
            self.condition(one)
