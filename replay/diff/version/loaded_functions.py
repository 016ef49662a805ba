"""Replaces the code of functions that are imported already."""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType

CodePlace = tuple[str, str, int]
"""The file, the qualified name and the first line of a code."""


class LoadedFunctions:
    """The functions of some files that this process has, found by the place of their code, also
    those that a decorator wraps."""

    def __init__(self, files: Iterable[str]) -> None:
        wanted = set(files)
        self._functions: dict[CodePlace, list[FunctionType]] = {}
        # What a process has frozen is not among the objects.
        gc.unfreeze()
        for one in gc.get_objects():
            if type(one) is FunctionType and one.__code__.co_filename in wanted:
                self._functions.setdefault(code_place(one.__code__), []).append(one)

    def functions_at(self, place: CodePlace) -> list[FunctionType]:
        """The functions with code of this place."""
        return self._functions.get(place, [])

    def replace(self, code: CodeType) -> None:
        """Let the functions with the place of `code`, or of a code in it, run that code. Functions
        do not change if their place is ambiguous or their closure would change."""
        codes = [code, *nested_code(code)]
        places = Counter(map(code_place, codes))
        for changed in codes:
            for one in self.functions_at(code_place(changed)):
                is_same = one.__code__.co_freevars == changed.co_freevars
                if is_same and places[code_place(changed)] == 1:
                    # A decorator may have set a flag, as types.coroutine does.
                    one.__code__ = changed.replace(co_flags=one.__code__.co_flags)


def code_place(code: CodeType) -> CodePlace:
    """The place of a code."""
    return str(Path(code.co_filename)), code.co_qualname, code.co_firstlineno


def nested_code(code: CodeType) -> Iterator[CodeType]:
    """The code objects in a code object, at all depths."""
    waiting = [code]
    while waiting:
        within = [one for one in waiting.pop().co_consts if isinstance(one, CodeType)]
        yield from within
        waiting += within
