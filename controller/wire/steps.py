"""Long work in steps: a generator that yields where other work may be done, and returns the
result."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]


def run_steps(steps: Steps[T]) -> T:
    """The result of all steps, done at once."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
