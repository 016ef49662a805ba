"""Puts changed code into functions of this process that are imported already."""

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from types import CodeType

from replay.diff.version.loaded_functions import LoadedFunctions, nested_code
from tools.mutations.errors import MutationError
from tools.mutations.functions import Function
from tools.mutations.operators import Mutant


class ImportedFunctions:
    """The function objects of modules, found by where their code is.

    A function that a decorator wraps is found as well. Imports the modules.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        for module in modules:
            import_module(module)
        files = [sys.modules[module].__file__ or "" for module in modules]
        self._functions = LoadedFunctions(files)

    def mutate(self, mutant: Mutant) -> None:
        """Make the mutant's change. Raises MutationError if that is impossible."""
        mutant.apply()
        self.recompile(mutant.function)

    def recompile(self, function: Function) -> None:
        """Let the function, and closures that it has returned, run what its syntax tree says.

        Raises MutationError if the process does not have it, or if its closure would change.
        """
        path = str(function.path)
        objects = self._functions.functions_at((path, function.name, function.first_line))
        if not objects:
            raise MutationError(f"{function.full_name} is not in the process")
        ast.fix_missing_locations(function.tree)
        code = _code_of(compile(function.tree, path, "exec"), function)
        for one in objects:
            if code.co_freevars != one.__code__.co_freevars:
                raise MutationError(f"{function.full_name}: the change needs another closure")
        self._functions.replace(code)


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


def _code_of(code: CodeType, function: Function) -> CodeType:
    """The function's code within that of its module."""
    for one in nested_code(code):
        if one.co_qualname == function.name and one.co_firstlineno == function.first_line:
            return one
    raise MutationError(f"{function.full_name} is not in its module")
