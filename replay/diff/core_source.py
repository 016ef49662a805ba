"""Reads the source of a version's core: functions with their statements, values of modules and
classes, and which lines use which names.

Comments, docstrings, imports and formatting are left out: they decide nothing. So are annotations,
but those of a class with bases: msgspec decodes and checks fields by them.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct, structs

from replay.diff.conditions import Condition, conditions_of
from replay.errors import DiffError

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_BODIES: Final = ("body", "orelse", "finalbody", "handlers", "cases")
_PACKAGE: Final = "controller.core"


class Statement(Struct, frozen=True):
    """A statement, without the statements in it. `key` has its content and the blocks around it."""

    key: str
    first_line: int
    last_line: int
    conditions: tuple[Condition, ...] = ()


class NameUse(Struct, frozen=True):
    """A place that names something of the core: `name` in `file`, or with "" for the file, an
    attribute of any object."""

    file: str
    name: str
    line: int


class Function(Struct, frozen=True):
    """A function or method; functions in it are part of it. `name` is its qualified name."""

    file: str
    name: str
    digest: str
    statements: tuple[Statement, ...]
    uses: tuple[NameUse, ...]


class Value(Struct, frozen=True):
    """A value that a module or class assigns, or the bases and decorators of a class. `calls` are
    the functions that are called to make it."""

    file: str
    name: str
    digest: str
    uses: tuple[NameUse, ...]
    calls: frozenset[str]


_CodeT = TypeVar("_CodeT", Function, Value)


class CoreSource(Struct, frozen=True):
    """All functions and values of a core, in the order of the files and lines."""

    functions: tuple[Function, ...]
    values: tuple[Value, ...]


def read_core(folder: Path) -> CoreSource:
    """Read the source of a core. Raises DiffError for a file that cannot be read or parsed."""
    return read_cores([folder])[0]


def read_cores(folders: Iterable[Path]) -> list[CoreSource]:
    """Read the source of several cores. Most modules are the same in all of them, and are parsed
    once. Raises DiffError for a file that cannot be read or parsed."""
    parsed: dict[tuple[str, bytes], _Module] = {}
    return [_read_source(folder, parsed) for folder in folders]


def _read_source(folder: Path, parsed: "dict[tuple[str, bytes], _Module]") -> CoreSource:
    modules: list[_Module] = []
    for path in sorted(folder.rglob("*.py")):
        try:
            key = path.relative_to(folder).as_posix(), path.read_bytes()
            module = parsed.get(key) or _Module(key[0], ast.parse(key[1]))
        except (OSError, SyntaxError, ValueError) as error:
            raise DiffError(f"{path} cannot be parsed: {error}") from None
        parsed[key] = module
        modules.append(module)
    packages = {one.package: one for one in modules if one.package}
    return CoreSource(
        tuple(
            _with_resolved_uses(function, packages) for one in modules for function in one.functions
        ),
        tuple(_with_resolved_uses(value, packages) for one in modules for value in one.values),
    )


def _with_resolved_uses(one: _CodeT, packages: "Mapping[str, _Module]") -> _CodeT:
    """Return the code with each use of a name that a package imports replaced by the use of the
    imported name."""
    uses = tuple(_use_in_module(use, packages) for use in one.uses)
    return one if uses == one.uses else structs.replace(one, uses=uses)


def _use_in_module(use: NameUse, packages: "Mapping[str, _Module]") -> NameUse:
    file, name = use.file, use.name
    while (package := packages.get(file)) is not None:
        file, name = package.imported.get(name, (package.file, name))
    return use if file == use.file else NameUse(file, name, use.line)


class _Module:
    """The functions and values of one module."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self.file = file
        self.imported = dict(_imports(tree))
        self.functions: list[Function] = []
        self.values: list[Value] = []
        self._add_definitions(tree.body, "")

    @property
    def package(self) -> str:
        """The file that imports from a package name; "" for a module that is not a package."""
        folder, _, name = self.file.rpartition("/")
        return f"{folder}.py" if folder and name == "__init__.py" else ""

    def _add_definitions(
        self, body: Sequence[ast.stmt], prefix: str, *, has_fields: bool = False
    ) -> None:
        assigned: dict[str, list[ast.AST]] = {}
        for node in body:
            if isinstance(node, _FunctionNode):
                self.functions.append(self._function(node, prefix + node.name))
            elif isinstance(node, ast.ClassDef):
                header = [*node.bases, *node.keywords, *node.decorator_list]
                self.values += [self._value(prefix + node.name, header)] if header else []
                self._add_definitions(
                    node.body, f"{prefix}{node.name}.", has_fields=bool(node.bases)
                )
            else:
                for name, value in [*_assignments(node), *(_fields(node) if has_fields else ())]:
                    assigned.setdefault(name, []).append(value)
        self.values += [self._value(prefix + name, nodes) for name, nodes in assigned.items()]

    def _function(self, node: _FunctionNode, name: str) -> Function:
        statements = tuple(_statements(node.body, ""))
        keys = [ast.dump(_header(node)), *(one.key for one in statements)]
        uses = tuple(self._uses(_without_annotations(node)))
        return Function(self.file, name, "\n".join([name, *keys]), statements, uses)

    def _value(self, name: str, nodes: Sequence[ast.AST]) -> Value:
        digest = "\n".join([name, *map(ast.dump, nodes)])
        calls = {
            one.func.id
            for node in nodes
            for one in ast.walk(node)
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)
        }
        return Value(self.file, name, digest, tuple(self._uses(nodes)), frozenset(calls))

    def _uses(self, nodes: Iterable[ast.AST]) -> Iterator[NameUse]:
        for node in nodes:
            for one in ast.walk(node):
                if isinstance(one, ast.Name):
                    file, name = self.imported.get(one.id, (self.file, one.id))
                    yield NameUse(file, name, one.lineno)
                elif isinstance(one, ast.Attribute):
                    yield NameUse("", one.attr, one.end_lineno or one.lineno)


def _imports(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names that a module imports from the core, with their file and name there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = node.module.removeprefix(_PACKAGE).lstrip(".")
            if node.module.startswith(_PACKAGE):
                for one in node.names:
                    path = f"{inner.replace('.', '/')}.py"
                    yield one.asname or one.name, (path, one.name)


def _assignments(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                for one in ast.walk(target):
                    if isinstance(one, ast.Name):
                        yield one.id, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.AST() as value):
            yield name, value
        case ast.AugAssign(target=ast.Name(id=name)):
            yield name, node
        case _:
            return


def _fields(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    """The type of a field."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id, node.annotation


def _header(node: _FunctionNode) -> ast.AST:
    """The parts of a function's first lines that affect decisions: parameters, default values and
    decorators; and the names that it declares as those of another scope.
    """
    arguments = node.args
    names = [
        *(one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)),
        *(f"*{one.arg}" for one in (arguments.vararg, arguments.kwarg) if one is not None),
        "async" if isinstance(node, ast.AsyncFunctionDef) else "",
        *_scope_declarations(node),
    ]
    defaults = [*arguments.defaults, *(one for one in arguments.kw_defaults if one is not None)]
    parts = [ast.Constant(" ".join(names)), *defaults, *node.decorator_list]
    return ast.List(parts, ast.Load())


def _scope_declarations(node: _FunctionNode) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Global | ast.Nonlocal):
            yield f"{type(one).__name__} {' '.join(one.names)}"


def _statements(body: Sequence[ast.AST], place: str) -> Iterator[Statement]:
    """All statements in a body, in order, each with its first and last line before the statements
    in it. `place` names the blocks around it."""
    for node in body:
        if _decides_nothing(node):
            continue
        inner = {name: getattr(node, name) for name in _BODIES if getattr(node, name, None)}
        first = _first_line(node)
        last = getattr(node, "end_lineno", None) or first
        for one in inner.values():
            last = min(last, max(first, _first_line(one[0]) - 1))
        key = f"{place} {_own_content(node, inner)}"
        yield Statement(key, first, last, tuple(conditions_of(node, inner)))
        for name, one in inner.items():
            yield from _statements(one, f"{place}/{name}")


def _first_line(node: ast.AST) -> int:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    line: int = getattr(node, "lineno", 0)
    return line


def _own_content(node: ast.AST, inner: Iterable[str]) -> str:
    if isinstance(node, _FunctionNode):
        return f"def {node.name} {ast.dump(_header(node))}"
    if isinstance(node, ast.AnnAssign):
        return f"{ast.dump(node.target)} {ast.dump(node.value) if node.value else ''}"
    parts = [
        f"{name}={ast.dump(value) if isinstance(value, ast.AST) else _field_text(value)}"
        for name, value in ast.iter_fields(node)
        if name not in inner
    ]
    return f"{type(node).__name__} {' '.join(parts)}"


def _field_text(value: object) -> str:
    if isinstance(value, list):
        return str([ast.dump(one) for one in value])
    return repr(value)


def _decides_nothing(node: ast.AST) -> bool:
    """Whether a statement has no code: a docstring, a declaration (see `_header`), an import."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.AnnAssign(value=None) | ast.Global() | ast.Nonlocal():
            return True
        case ast.Import() | ast.ImportFrom():
            return True
        case _:
            return False


def _without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    """The statements of a function without the annotations in them."""
    for one in ast.iter_child_nodes(node):
        if isinstance(node, ast.AnnAssign) and one is node.annotation:
            continue
        if one is getattr(node, "returns", None):
            continue
        if isinstance(one, ast.arguments):
            yield from (*one.defaults, *filter(None, one.kw_defaults))
        elif isinstance(one, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _without_annotations(one)
        else:
            yield one
