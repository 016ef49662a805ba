"""The table `[tool.mutations]` of pyproject.toml."""

import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from tools.mutations.errors import MutationError


class MutationSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The code that is mutated, and the tests that have to notice.

    `modules` are modules and packages, by their dotted names; `without` are those of them that are
    left alone. `tests` are paths for pytest. Each test that one of `pages` names must notice at
    least one mutant; pages are patterns of paths. Statements that begin as one of `unchanged` are
    not mutated, nor is an `if` that has no others.
    """

    modules: list[str]
    tests: list[str]
    without: list[str] = []
    pages: list[str] = []
    unchanged: list[str] = []


class _Tools(Struct):
    mutations: MutationSettings


class _Project(Struct):
    tool: _Tools


def read_settings(root: Path) -> MutationSettings:
    """The settings of a source tree. Raises MutationError for missing or bad ones."""
    try:
        content = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        settings = msgspec.convert(content, _Project).tool.mutations
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise MutationError(f"pyproject.toml, [tool.mutations]: {error}") from error
    for path in settings.tests:
        if not (root / path).exists():
            raise MutationError(f"pyproject.toml, [tool.mutations] tests: there is no {path}")
    return settings
