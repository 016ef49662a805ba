"""The mutation operators: what is changed in a function, one place at a time.

Text is left alone: strings, annotations, assertions. Decorators and default values are left alone,
too, because they are evaluated when a module is imported.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from tools.mutations.functions import Function

_TEXT_MAX: Final = 96
_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLS: Final = {"all": "any", "any": "all", "max": "min", "min": "max"}
_COLLECTION_METHODS: Final = frozenset({"add", "append", "discard", "extend", "pop", "update"})
_UNUSED_FIELDS: Final = frozenset(
    {"annotation", "args", "decorator_list", "returns", "type_params"}
)
"""Fields of functions inside of a function, and annotations, that hold nothing to mutate."""


class Edit(NamedTuple):
    """A place in a syntax tree, an element of a list if `place` is set, and what replaces it."""

    parent: ast.AST
    field: str
    place: int | None
    new: ast.AST | list[ast.stmt]


class Mutant(NamedTuple):
    """One change to a function. `key` identifies it within the function without line numbers: the
    operator, the changed code in normal form, and a number where equal code is changed again.

    `lines` are those of the changed code, or of a statement that runs only where the change makes
    a difference. `around` are those of the changed statement, without the blocks of a compound one.
    """

    function: Function
    key: str
    lines: range
    around: range
    edit: Edit

    @property
    def name(self) -> str:
        """The function and the key, for people."""
        return f"{self.function.short_name}: {self.key}"

    def apply(self) -> None:
        """Change the function's syntax tree, permanently."""
        parent, field, place, new = self.edit
        if place is None:
            setattr(parent, field, new)
        elif isinstance(new, list):
            getattr(parent, field)[place : place + len(new)] = new
        else:
            getattr(parent, field)[place] = new


_NO_STATEMENT: Final = ast.Pass()
_LEAVING: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class _Found(NamedTuple):
    operator: str
    text: str
    node: ast.AST
    edit: Edit
    around: ast.AST = _NO_STATEMENT
    """The statement."""


def mutants_of(function: Function) -> list[Mutant]:
    """Every mutant of a function, in the order of the code."""
    found: list[_Found] = []
    unchanged = _lines_unchanged(function)
    for index, statement in enumerate(function.node.body):
        found += _visit(function.node, "body", index, statement)
    for index in range(len(function.node.body) - 1):
        found += _swaps(function.node, "body", index)
    counts: Counter[str] = Counter()
    after = _after_guards(function.node)
    mutants = []
    for one in found:
        nodes = one.edit.new if isinstance(one.edit.new, list) else [one.node]
        if any(getattr(node, "lineno", 0) in unchanged for node in nodes):
            continue
        key = f"{one.operator}: {_shortened(one.text)}"
        counts[key] += 1
        if counts[key] > 1:
            key = f"{key} (#{counts[key]})"
        lines = _lines(_only_if_different(one, after) or one.node)
        mutants.append(Mutant(function, key, lines, _lines(one.around), one.edit))
    return mutants


def _after_guards(function: ast.AST) -> dict[ast.If, ast.stmt]:
    """The statement after each `if` whose block does not continue there: it runs only if the
    condition does not hold."""
    found = {}
    for node in ast.walk(function):
        for _, block in ast.iter_fields(node):
            for guard, following in pairwise(block) if isinstance(block, list) else ():
                if isinstance(guard, ast.If) and isinstance(guard.body[-1], _LEAVING):
                    found[guard] = following
    return found


def _only_if_different(found: _Found, after: Mapping[ast.If, ast.stmt]) -> ast.AST | None:
    """A statement that runs only where a condition has another value than the changed one."""
    parent = found.edit.parent
    if not isinstance(parent, ast.If | ast.While):
        return None
    if found.operator == "never":
        return parent.body[0]
    if found.operator == "always" and isinstance(parent, ast.If):
        return parent.orelse[0] if parent.orelse else after.get(parent)
    return None


def _lines_unchanged(function: Function) -> set[int]:
    """The lines of the statements that are not mutated, and of an `if` that has nothing else."""
    begin = tuple(function.unchanged)
    lines: set[int] = set()
    for node in ast.walk(function.node) if begin else ():
        body = node.body if isinstance(node, ast.If) and not node.orelse else [node]
        if isinstance(node, ast.stmt) and all(ast.unparse(one).startswith(begin) for one in body):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    if len(text) <= _TEXT_MAX:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    return f"{text[: _TEXT_MAX - 10]} ... {digest}"


def _lines(node: ast.AST) -> range:
    first: int = getattr(node, "lineno", 0)
    last: int = getattr(node, "end_lineno", None) or first
    body: list[ast.stmt] = getattr(node, "body", None) or []
    if isinstance(node, ast.stmt) and body:
        last = max(first, body[0].lineno - 1)
    return range(first, last + 1)


def _visit(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> Iterator[_Found]:
    """The mutants of a node and of all in it."""
    for one in _visit_node(parent, field, index, node):
        is_outermost = isinstance(node, ast.stmt) and one.around is _NO_STATEMENT
        yield one._replace(around=node) if is_outermost else one


def _visit_node(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> Iterator[_Found]:
    if isinstance(node, ast.JoinedStr | ast.Assert) or _is_strict(node):
        return
    if not (_is_condition(parent, field) and _is_negatable(node)):
        for operator in _OPERATORS:
            for kind, text, new in operator(node):
                yield _Found(kind, text, node, Edit(parent, field, index, new))
        if isinstance(node, ast.Compare | ast.List | ast.Set):
            yield from _parts(node)
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for name, value in ast.iter_fields(node):
        if name == "annotation" or (inside and name in _UNUSED_FIELDS):
            continue
        if isinstance(value, ast.AST):
            yield from _condition(node, name, None, value)
            yield from _visit(node, name, None, value)
        elif isinstance(value, list):
            for place, one in enumerate(value):
                if isinstance(one, ast.AST):
                    if name == "ifs":
                        yield from _condition(node, name, place, one)
                    yield from _visit(node, name, place, one)
                    if isinstance(one, ast.stmt) and place + 1 < len(value):
                        yield from _swaps(node, name, place)


def _is_strict(node: ast.AST) -> bool:
    """Whether the node is `strict=True` of `zip`, which is an assertion."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _is_condition(parent: ast.AST, field: str) -> bool:
    return field in ("ifs", "guard") or (
        field == "test" and isinstance(parent, ast.If | ast.IfExp | ast.While)
    )


def _is_negatable(node: ast.AST) -> bool:
    """Whether the operators would only negate it: `always` and `never` do more."""
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and not isinstance(
            node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE
        )
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


_Change = tuple[str, str, ast.AST]


def _change_of_node(kind: str, node: ast.AST, new: ast.AST) -> _Change:
    return kind, f"{ast.unparse(node)} -> {ast.unparse(new)}", new


def _operands(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.BoolOp):
        for place in range(len(node.values)):
            others = [one for other, one in enumerate(node.values) if other != place]
            new = others[0] if len(others) == 1 else ast.BoolOp(node.op, others)
            yield _change_of_node("operand", node, new)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _change_of_node("not", node, node.operand)


def _constants(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield _change_of_node("constant", node, ast.Constant(not node.value))
        elif isinstance(node.value, int):
            yield _change_of_node("constant", node, ast.Constant(node.value + 1))


def _arithmetic(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        if any(map(_is_text, (node.left, node.right))):
            return
        new = ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
        yield _change_of_node("arithmetic", node, new)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _calls(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        other = _CALLS.get(node.func.id)
        if other is not None:
            new = ast.Call(ast.Name(other, ast.Load()), node.args, node.keywords)
            yield _change_of_node("call", node, new)


def _removals(node: ast.AST) -> Iterator[_Change]:
    """Statements with an effect that is not the value of a name."""
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()):
            pass
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            pass
        case ast.AnnAssign(target=ast.Attribute(), value=ast.AST()):
            pass
        case ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Continue() | ast.Break():
            pass
        case ast.Return(value=None):
            pass
        case _:
            return
    yield "remove", ast.unparse(node), ast.Pass()


_OPERATORS: Final[tuple[Callable[[ast.AST], Iterator[_Change]], ...]] = (
    _operands,
    _constants,
    _arithmetic,
    _calls,
    _removals,
)


def _condition(parent: ast.AST, field: str, index: int | None, node: ast.AST) -> Iterator[_Found]:
    """A condition that always holds, and one that never does."""
    if not _is_condition(parent, field) or isinstance(node, ast.Constant):
        return
    word = "while" if isinstance(parent, ast.While) else "if"
    text = f"{word} {ast.unparse(node)}"
    if word == "if":
        yield _Found("always", text, node, Edit(parent, field, index, ast.Constant(True)))
    yield _Found("never", text, node, Edit(parent, field, index, ast.Constant(False)))


def _parts(node: ast.Compare | ast.List | ast.Set) -> Iterator[_Found]:
    """Other comparisons; displays without one of their elements."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            operators = list(node.ops)
            operators[place] = _COMPARISONS[type(operator)]()
            _, text, _ = _change_of_node(
                "compare", node, ast.Compare(node.left, operators, node.comparators)
            )
            yield _Found("compare", text, node, Edit(node, "ops", place, operators[place]))
    elif isinstance(node, ast.Set) or isinstance(node.ctx, ast.Load):
        for place, element in enumerate(node.elts):
            text = f"{ast.unparse(element)} of {ast.unparse(node)}"
            nothing = ast.Starred(ast.Tuple([], ast.Load()), ast.Load())
            yield _Found("element", text, element, Edit(node, "elts", place, nothing))


def _swaps(parent: ast.AST, field: str, index: int) -> Iterator[_Found]:
    """Two calls, one directly after the other, in the other order; unless one of them adds to a
    collection that the other does not name."""
    first, second = getattr(parent, field)[index : index + 2]
    if all(map(_is_call, (first, second))):
        words = [ast.unparse(first), ast.unparse(second)]
        collections = _collection(first), _collection(second)
        if any(
            one and one not in other for one, other in zip(collections, words[::-1], strict=True)
        ):
            return
        text = "; ".join(words)
        yield _Found("swap", text, first, Edit(parent, field, index, [second, first]))


def _collection(statement: ast.AST) -> str:
    """The collection that a call adds to or removes from; empty: none."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method))):
            is_name = isinstance(owner, ast.Name | ast.Attribute)
            return ast.unparse(owner) if is_name and method in _COLLECTION_METHODS else ""
    return ""


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
