"""In which order a run with limited time tries functions and the tests that pages name: changed
functions first, then the others, beginning at another one after each commit."""

import hashlib
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from tools.mutations.errors import MutationError
from tools.mutations.functions import Function, functions_of

T = TypeVar("T")

_STRIDE: Final = 61
"""Functions or tests from the beginning of one commit's share to that of the next."""


def changed_functions(root: Path, functions: Sequence[Function], base: str) -> list[Function]:
    """The functions whose code the commit `base` has in no file. A function that was only moved is
    not changed. Raises MutationError if git fails.
    """
    names = _git(root, "diff", "--name-only", "--no-renames", base, "--", "*.py").splitlines()
    changed = {root / name for name in names}
    before = set(_git(root, "ls-tree", "-r", "--name-only", base).splitlines())
    digests = {
        function.digest()
        for name in names
        if name in before
        for function in functions_of(Path(name), "", _git(root, "show", f"{base}:{name}"))
    }
    return [one for one in functions if one.path in changed and one.digest() not in digests]


def rotated(root: Path, everything: Sequence[T], name: Callable[[T], str]) -> list[T]:
    """Functions or tests in an order that neighbours in the code do not share, from another one on
    after each commit. Raises MutationError if git fails."""
    mixed = sorted(everything, key=lambda one: hashlib.sha256(name(one).encode()).digest())
    start = int(_git(root, "rev-list", "--count", "HEAD")) * _STRIDE % max(len(mixed), 1)
    return mixed[start:] + mixed[:start]


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise MutationError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
