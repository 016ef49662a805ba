"""The list of mutations: `[[mutation]]` tables in tests/mutations/*.toml."""

import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct


class ListingError(Exception):
    """The list cannot be used; the text names the file and the entry."""


class Mutation(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of the code, the text that takes it out, and the tests that must notice.

    `old` is in `file` exactly once; `tests` are pytest's node ids, parametrized ones with or
    without their parameters.
    """

    rule: str
    file: str
    old: str
    new: str
    tests: list[str]


class _Listing(Struct, forbid_unknown_fields=True):
    mutation: list[Mutation]


def read_mutations(root: Path) -> list[Mutation]:
    """All mutations of a source tree, file by file. Raises ListingError for a bad file."""
    mutations = []
    for path in sorted((root / "tests" / "mutations").glob("*.toml")):
        try:
            listing = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _Listing)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise ListingError(f"{path}: {error}") from error
        mutations += listing.mutation
    return mutations


def check_mutations(root: Path, mutations: list[Mutation]) -> None:
    """Raises one ListingError for all that do not fit the tree."""
    problems = []
    for mutation in mutations:
        try:
            mutated(root, mutation)
        except ListingError as error:
            problems.append(str(error))
    if problems:
        raise ListingError("\n".join(problems))


def mutated(root: Path, mutation: Mutation) -> str:
    """The text of the mutation's file without the rule. Raises ListingError."""
    path = root / mutation.file
    if not path.is_file():
        raise ListingError(f"{mutation.rule!r}: there is no file {mutation.file}")
    text = path.read_text(encoding="utf-8")
    count = text.count(mutation.old)
    if count != 1:
        raise ListingError(
            f"{mutation.rule!r}: its text is {count} times in {mutation.file}, not once"
        )
    return text.replace(mutation.old, mutation.new)
