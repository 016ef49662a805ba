"""Puts changed code into functions of this process that are imported already."""

import ast
import gc
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType

from tools.mutations.errors import MutationError
from tools.mutations.functions import Function
from tools.mutations.operators import Mutant

_Place = tuple[str, str, int]


class ImportedFunctions:
    """The function objects of modules, found by where their code is.

    A function that a decorator wraps is found as well. Imports the modules.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        for module in modules:
            import_module(module)
        files = {sys.modules[module].__file__ for module in modules}
        self._functions: dict[_Place, list[FunctionType]] = {}
        for one in gc.get_objects():
            if type(one) is FunctionType and one.__code__.co_filename in files:
                self._functions.setdefault(_place(one.__code__), []).append(one)

    def mutate(self, mutant: Mutant) -> None:
        """Make the mutant's change. Raises MutationError if that is impossible."""
        mutant.apply()
        self.recompile(mutant.function)

    def recompile(self, function: Function) -> None:
        """Let the function, and closures that it has returned, run what its syntax tree says.

        Raises MutationError if the process does not have it, or if its closure would change.
        """
        path = str(function.path)
        objects = self._functions.get((path, function.name, function.first_line), [])
        if not objects:
            raise MutationError(f"{function.full_name} is not in the process")
        ast.fix_missing_locations(function.tree)
        code = _code_of(compile(function.tree, path, "exec"), function)
        for one in objects:
            if code.co_freevars != one.__code__.co_freevars:
                raise MutationError(f"{function.full_name}: the change needs another closure")
            one.__code__ = code
        inner = list(_nested(code))
        places = Counter(_place(one) for one in inner)
        for changed in inner:
            for closure in self._functions.get(_place(changed), []):
                before = closure.__code__.co_freevars
                if places[_place(changed)] == 1 and before == changed.co_freevars:
                    closure.__code__ = changed


def replace_value(module: str, name: str, expression: str) -> None:
    """Set a name of a module to an expression, which may use `old`, the value before; also where
    other modules import the name. Raises MutationError for an unknown name."""
    imported = import_module(module)
    if not hasattr(imported, name):
        raise MutationError(f"{module} has no {name}")
    old = getattr(imported, name)
    new = eval(expression, vars(imported) | {"old": old})
    for other in list(sys.modules.values()):
        if vars(other).get(name) is old:
            setattr(other, name, new)


def _place(code: CodeType) -> _Place:
    return str(Path(code.co_filename)), code.co_qualname, code.co_firstlineno


def _code_of(code: CodeType, function: Function) -> CodeType:
    """The function's code within that of its module."""
    for one in _nested(code):
        if one.co_qualname == function.name and one.co_firstlineno == function.first_line:
            return one
    raise MutationError(f"{function.full_name} is not in its module")


def _nested(code: CodeType) -> Iterator[CodeType]:
    """The code objects in a code object, at all depths."""
    waiting = [code]
    while waiting:
        within = [one for one in waiting.pop().co_consts if isinstance(one, CodeType)]
        yield from within
        waiting += within
