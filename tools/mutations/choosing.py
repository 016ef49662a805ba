"""Which mutations a run on a change tries: those that the change can have touched, and a share of
the others, another one after each commit."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.mutations.listing import ListingError, Mutation, read_listing

_LISTS: Final = "tests/tools/mutations"

Numbered = tuple[int, Mutation]


def chosen(root: Path, mutations: Sequence[Numbered], share: int, base: str) -> list[Numbered]:
    """One in `share` of the mutations, and those that are new since the commit `base`, or whose
    files or tests changed since, as far as git tells. Raises ListingError if it does not."""
    turn = int(_git(root, "rev-list", "--count", "HEAD")) % share
    changed = set(_git(root, "diff", "--name-only", base, "--").splitlines()) if base else set()
    before = _mutations_at(root, base) if any(one.startswith(_LISTS) for one in changed) else None
    return [
        (number, one)
        for number, one in mutations
        if number % share == turn
        or (before is not None and one not in before)
        or not changed.isdisjoint(_files(one))
    ]


def _files(mutation: Mutation) -> set[str]:
    """Those that it changes, and those of its tests."""
    edited = {edit.file for edit in (mutation, *mutation.also)}
    return edited | {name.partition("::")[0] for name in mutation.tests}


def _mutations_at(root: Path, commit: str) -> list[Mutation]:
    names = _git(root, "ls-tree", "--name-only", commit, f"{_LISTS}/").splitlines()
    found: list[Mutation] = []
    for name in names:
        if name.endswith(".toml"):
            found += read_listing(_git(root, "show", f"{commit}:{name}"), name)
    return found


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ListingError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
