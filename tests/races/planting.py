"""Replaces code at run time, in all modules that have imported it.

A replacement works in any process: a worker imports the catalogue, and plants a defect by its id.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final, NamedTuple

_CODE: Final = ("controller.", "replay.", "tests.races.")
"""The modules in which a replaced function or constant is looked for."""


class Replacement(NamedTuple):
    """`target` is "module:name" or "module:Class.method". `make` takes what it replaces, and
    returns the replacement, which may call it."""

    target: str
    make: Callable[[Any], Any]


class _Reached:
    """Whether the planted code has decided wrongly since the last `take`."""

    def __init__(self) -> None:
        self.is_reached = False

    def take(self) -> bool:
        taken, self.is_reached = self.is_reached, False
        return taken


_REACHED: Final = _Reached()


def reach() -> None:
    """Planted code calls this where it does what the right code would not do: the run has what the
    race needs."""
    _REACHED.is_reached = True


def take_reached() -> bool:
    """Whether `reach` was called since the last call of this function."""
    return _REACHED.take()


@contextmanager
def planted(replacements: Sequence[Replacement]) -> Iterator[None]:
    """Replace code until the end of the `with` block."""
    for one in replacements:
        importlib.import_module(one.target.partition(":")[0])
    # Modules that are imported only now would keep the replacement.
    importlib.import_module("replay.explore.run")
    _REACHED.take()
    with ExitStack() as stack:
        for one in replacements:
            original, places = _places(one)
            new = one.make(original)
            for owner, name in places:
                setattr(owner, name, new)
                stack.callback(setattr, owner, name, original)
        yield


def _places(replacement: Replacement) -> tuple[Any, list[tuple[Any, str]]]:
    """The replaced function, and each class or module that has it, with its name there."""
    module_name, _, path = replacement.target.partition(":")
    module = sys.modules[module_name]
    class_name, _, name = path.rpartition(".")
    if class_name:
        owner = getattr(module, class_name)
        return owner.__dict__[name], [(owner, name)]
    original = getattr(module, name)
    return original, [
        (one, attribute)
        for one in list(sys.modules.values())
        if getattr(one, "__name__", "").startswith(_CODE)
        for attribute, value in list(vars(one).items())
        if value is original
    ]
