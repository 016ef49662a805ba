"""The functions that are mutated, found in the syntax trees of their modules."""

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from tools.mutations.errors import MutationError
from tools.mutations.settings import MutationSettings

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Function:
    """A function or method of a module; functions inside of it are part of it.

    `name` has the classes that it is in, as `__qualname__` does. Its code object begins on
    `first_line`, which a decorator may hold. `unchanged`: statements that are not mutated.
    """

    unchanged: Collection[str] = ()

    def __init__(self, path: Path, module: str, name: str, tree: ast.Module, node: FunctionNode):
        self.path = path
        self.module = module
        self.name = name
        self.tree = tree
        self.node = node
        self.full_name = f"{module}.{name}"
        self.first_line = min(one.lineno for one in (node, *node.decorator_list))
        last_module = module.rpartition(".")[2]
        self.short_name = f"{last_module}.{name}"
        """The function's name in lists and reports: its module without packages, so that it may
        move.
        """

    def digest(self) -> str:
        """Identifies the code of a function. It stays the same if the function is only moved within
        the tree or formatted."""
        return f"{self.name} {ast.dump(self.node)}"


def read_functions(root: Path, settings: MutationSettings) -> list[Function]:
    """The functions of all modules in scope, each with an unambiguous short name.

    Raises MutationError for a module that does not exist and for a module that cannot be parsed.
    """
    found: list[Function] = []
    for path, module in module_paths(root, settings):
        found += functions_of(path, module, path.read_text(encoding="utf-8"))
    _make_names_unique(found)
    for one in found:
        one.unchanged = settings.unchanged
    return found


def module_paths(root: Path, settings: MutationSettings) -> list[tuple[Path, str]]:
    """The files in scope with their modules. Raises MutationError for a missing one."""
    found: dict[Path, str] = {}
    for name in settings.modules:
        place = root / name.replace(".", "/")
        files = [place.with_suffix(".py")] if place.with_suffix(".py").is_file() else []
        files += sorted(place.rglob("*.py"))
        if not files:
            raise MutationError(f"pyproject.toml, [tool.mutations] modules: there is no {name}")
        for path in files:
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            found[path] = module.removesuffix(".__init__")
    for name in settings.without:
        left = {path: module for path, module in found.items() if not _is_in(module, name)}
        if len(left) == len(found):
            raise MutationError(f"pyproject.toml, [tool.mutations] without: {name} is no module")
        found = left
    return list(found.items())


def _is_in(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def functions_of(path: Path, module: str, text: str) -> list[Function]:
    """The functions of one module's text. Raises MutationError if it cannot be parsed."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise MutationError(f"{path}: {error}") from error
    return [Function(path, module, name, tree, node) for name, node in _walk(tree.body, "")]


def _walk(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, FunctionNode]]:
    for node in body:
        if isinstance(node, FunctionNode):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _walk(node.body, f"{prefix}{node.name}.")


def _make_names_unique(functions: Sequence[Function]) -> None:
    """Functions whose short names are equal get as many packages as needed to differ; properties
    and their setters keep equal names."""
    parts = 2
    while True:
        counts = Counter(one.short_name for one in functions)
        full = Counter(one.full_name for one in functions)
        alike = [one for one in functions if counts[one.short_name] > full[one.full_name]]
        if not alike:
            return
        for one in alike:
            one.short_name = ".".join([*one.module.split(".")[-parts:], one.name])
        parts += 1


def function_named(functions: Sequence[Function], name: str) -> Function:
    """The one function that a list calls `name`: any unambiguous end of its full name.

    Raises MutationError, with what there is, if none or several fit.
    """
    fitting = [one for one in functions if f".{one.full_name}".endswith(f".{name}")]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        end = name.rpartition(".")[2]
        similar = [one.short_name for one in functions if one.node.name == end]
        hint = f"; of that name: {', '.join(similar)}" if similar else ""
        raise MutationError(f"there is no function {name} in scope{hint}")
    raise MutationError(f"{name} is ambiguous: {', '.join(one.full_name for one in fitting)}")
