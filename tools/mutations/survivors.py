"""The reviewed list of mutants that no test notices: `tests/tools/mutations/survivors.toml`.

A table for each function, a line for each mutant: its key and why it may survive, or the test that
notices it, if a run would not choose that test. A table of a module has one line, "*": its mutants
were not all tried yet, and none of them is new.
"""

import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from tools.mutations.errors import MutationError
from tools.mutations.functions import Function, function_named
from tools.mutations.operators import Mutant

SURVIVORS: Final = "tests/tools/mutations/survivors.toml"
UNREVIEWED: Final = "unreviewed"
MISSING: Final = "missing"
"""The beginning of the reason for a mutant that a test should notice, if that test does not exist
yet.
"""
_ALL: Final = "*"
_TEST: Final = "test: "
"""The beginning of a line that names a test which notices, because a run would not choose it."""
_HEAD: Final = """\
# Mutants that survived a run, by function, each with the reason why it may survive, or with a test
# that a run would not choose and that notices it ("test: …"). "unreviewed": the reason is not
# written yet. `make mutations-write` adds and removes lines (docs/mutation-testing.md).
"""

Reviewed = dict[str, dict[str, str]]
"""Reasons by the function's name and the mutant's key."""


def read_survivors(root: Path) -> Reviewed:
    """The list in the file. Raises MutationError for a bad file."""
    path = root / SURVIVORS
    if not path.is_file():
        return {}
    try:
        found = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Reviewed)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise MutationError(f"{SURVIVORS}: {error}") from error
    return found


def by_short_name(reviewed: Reviewed, functions: Sequence[Function]) -> tuple[Reviewed, list[str]]:
    """The list under the names that functions have now, and an error for each name that is none.

    A function may have left the package or the module that its name in the list has.
    """
    found: Reviewed = {}
    errors = []
    known = {one.short_name for one in functions}
    modules = {one.module for one in functions}
    for name, reasons in reviewed.items():
        if reasons == {_ALL: UNREVIEWED} and name in modules:
            found[name] = reasons
            continue
        try:
            now = name if name in known else _moved_function(functions, name).short_name
        except MutationError as error:
            errors.append(f"{SURVIVORS}: {error}")
        else:
            found.setdefault(now, {}).update(reasons)
    return found, errors


def _moved_function(functions: Sequence[Function], name: str) -> Function:
    """The function that a list names, or else the only one of that name in another module."""
    try:
        return function_named(functions, name)
    except MutationError:
        elsewhere = [one for one in functions if name.endswith(f".{one.name}")]
        if len(elsewhere) != 1:
            raise
        return elsewhere[0]


def without_missing(reviewed: Reviewed, mutants: Sequence[Mutant]) -> Reviewed:
    """The list without the entries whose mutants the code does not have."""
    there = _keys(mutants)
    return {
        name: {key: reason for key, reason in reasons.items() if (name, key) in there}
        for name, reasons in reviewed.items()
    }


def missing_mutants(reviewed: Reviewed, mutants: Sequence[Mutant]) -> list[str]:
    """An error for each entry whose mutant the code does not have."""
    there = _keys(mutants)
    return [
        f"{SURVIVORS}: [{name}] has no mutant {key!r} any more; remove the line"
        for name, reasons in reviewed.items()
        for key in reasons
        if (name, key) not in there
    ]


def _keys(mutants: Sequence[Mutant]) -> set[tuple[str, str]]:
    """The names in the list of mutants, and of their modules as a whole."""
    by_function = {(one.function.short_name, one.key) for one in mutants}
    return by_function | {(one.function.module, _ALL) for one in mutants}


def reason_of(reviewed: Reviewed, mutant: Mutant) -> str | None:
    """Why the mutant may survive; None if the list does not have it, or names a test."""
    if test_named(reviewed, mutant):
        return None
    of_module = reviewed.get(mutant.function.module, {}).get(_ALL)
    return reviewed.get(mutant.function.short_name, {}).get(mutant.key, of_module)


def test_named(reviewed: Reviewed, mutant: Mutant) -> str:
    """The test that the list names for a mutant; empty: none."""
    reason = reviewed.get(mutant.function.short_name, {}).get(mutant.key, "")
    return reason.removeprefix(_TEST) if reason.startswith(_TEST) else ""


def with_verdicts(
    reviewed: Reviewed, verdicts: Sequence[tuple[Mutant, bool]], mutants: Sequence[Mutant]
) -> Reviewed:
    """The list after a run, which says of each mutant that it tried whether it survived.

    New survivors are unreviewed. Mutants that are now noticed are left out, unless the line names
    the test. The line of a module is left out if all its mutants were tried.
    `mutants` are all mutants of the code.
    """
    found: Reviewed = {name: dict(reasons) for name, reasons in reviewed.items()}
    for mutant, is_survivor in verdicts:
        reasons = found.setdefault(mutant.function.short_name, {})
        if is_survivor:
            reasons.setdefault(mutant.key, UNREVIEWED)
        elif not test_named(found, mutant):
            reasons.pop(mutant.key, None)
    tried = Counter(mutant.function.module for mutant, _ in verdicts)
    for module, count in Counter(one.function.module for one in mutants).items():
        if tried[module] == count:
            found.pop(module, None)
    return found


def write_survivors(root: Path, reviewed: Reviewed) -> None:
    """Write the list, in alphabetical order."""
    lines = [_HEAD]
    for name in sorted(reviewed):
        if reviewed[name]:
            lines.append(f"\n[{_quoted(name)}]\n")
            lines += [
                f"{_quoted(key)} = {_quoted(reason)}\n"
                for key, reason in sorted(reviewed[name].items())
            ]
    (root / SURVIVORS).write_text("".join(lines), encoding="utf-8")


def _quoted(text: str) -> str:
    """A TOML string; literal where that needs no escapes."""
    if "'" not in text:
        return f"'{text}'" if '"' in text or "\\" in text else f'"{text}"'
    return msgspec.json.encode(text).decode()
