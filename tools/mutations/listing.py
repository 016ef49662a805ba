"""The list of mutations: `[[mutation]]` tables in tests/tools/mutations/*.toml."""

import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct


class ListingError(Exception):
    """The list cannot be used; the text names the file and the entry."""


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """Text that is in `file` exactly once, and what stands there without a rule."""

    file: str
    old: str
    new: str


class Mutation(Edit, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule of the code, the text that takes it out, and the tests that must notice.

    `also` holds further edits, where a rule is kept in two places and each alone would do. `tests`
    are pytest's node ids; a parametrized one without its case is noticed by any of its cases, for
    a rule is often the business of a few of them.
    """

    rule: str
    tests: list[str]
    also: list[Edit] = []


class _Listing(Struct, forbid_unknown_fields=True):
    mutation: list[Mutation]


def read_mutations(root: Path) -> list[Mutation]:
    """All mutations of a source tree, file by file. Raises ListingError for a bad file."""
    mutations = []
    for path in sorted((root / "tests" / "tools" / "mutations").glob("*.toml")):
        mutations += read_listing(path.read_text(encoding="utf-8"), str(path))
    return mutations


def read_listing(text: str, name: str) -> list[Mutation]:
    """The mutations of one file. Raises ListingError, which names it."""
    try:
        return msgspec.convert(tomllib.loads(text), _Listing).mutation
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ListingError(f"{name}: {error}") from error


def check_mutations(root: Path, mutations: list[Mutation]) -> None:
    """Raises one ListingError for all that do not fit the tree."""
    problems = []
    for mutation in mutations:
        try:
            mutated(root, mutation)
        except ListingError as error:
            problems.append(str(error))
        problems += [
            f"{mutation.rule!r}: there is no test {name}"
            for name in mutation.tests
            if not _is_there(root, name)
        ]
    if problems:
        raise ListingError("\n".join(problems))


def _is_there(root: Path, name: str) -> bool:
    """Whether a file has the function, or is there, if that is all that is named."""
    file, _, function = name.partition("::")
    path = root / file
    function = function.partition("[")[0].rpartition("::")[2]
    return path.is_file() and f"def {function}" in path.read_text(encoding="utf-8")


def mutated(root: Path, mutation: Mutation) -> dict[str, str]:
    """The mutation's files with their texts without the rule. Raises ListingError."""
    texts: dict[str, str] = {}
    for edit in (mutation, *mutation.also):
        path = root / edit.file
        if not path.is_file():
            raise ListingError(f"{mutation.rule!r}: there is no file {edit.file}")
        text = texts.get(edit.file) or path.read_text(encoding="utf-8")
        count = text.count(edit.old)
        if count != 1:
            raise ListingError(
                f"{mutation.rule!r}: its text is {count} times in {edit.file}, not once"
            )
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts
