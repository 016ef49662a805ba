"""A copy of the source tree in which files may be changed and tests run."""

import compileall
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from py_compile import PycInvalidationMode

from tools.mutations.listing import Mutation, mutated

_COPIED = ("controller", "docs", "eventstore", "replay", "tests", "tools")


def copy_tree(source: Path, target: Path) -> None:
    """Copy what tests need, compiled: a changed file is told from its hash, never by its time."""
    target.mkdir()
    for name in _COPIED:
        if (source / name).is_dir():
            shutil.copytree(
                source / name, target / name, ignore=shutil.ignore_patterns("__pycache__")
            )
    shutil.copy(source / "pyproject.toml", target)
    compileall.compile_dir(target, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)


@contextmanager
def applied(tree: Path, mutation: Mutation) -> Iterator[None]:
    """The rule is out of the tree while the block runs. Raises ListingError."""
    texts = mutated(tree, mutation)
    before = {name: (tree / name).read_text(encoding="utf-8") for name in texts}
    _write(tree, texts)
    try:
        yield
    finally:
        _write(tree, before)


def _write(tree: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (tree / name).write_text(text, encoding="utf-8")
