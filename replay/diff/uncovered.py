"""Finds the changed code of the core that no log executes: a comparison says nothing about it."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal, TypeVar

from msgspec import Struct, structs

from replay.diff.core_source import CoreSource, Function, NameUse, Statement, Value

Executed = Mapping[str, frozenset[int]]
"""The executed lines by the file's path in the core."""

_KeyT = TypeVar("_KeyT", bound=Hashable)

_BASE: Final = "base"
_HEAD: Final = "head"


class UncoveredCode(Struct, frozen=True):
    """A changed function or value that no log executes. `lines` are the changed lines if other
    lines of the function are executed. The file and the lines are those of `side`: base for code
    that head no longer has."""

    file: str
    name: str
    side: Literal["base", "head"]
    lines: tuple[int, ...] = ()


class ChangedFunction(Struct, frozen=True):
    """A function with its changed statements; they are all of them if the function is new."""

    function: Function
    statements: tuple[Statement, ...]


class Hunk(Struct, frozen=True):
    """A changed place in a function: the statements that `new` replaces, and `new`. A function is
    None if only the other version has it."""

    base: Function | None
    head: Function | None
    old: tuple[Statement, ...]
    new: tuple[Statement, ...]


class CoreChanges(Struct, frozen=True):
    """The changes between two cores. `removed` is the code that only the base has, `written` and
    `values` the code that only the head has. `hunks` are the changed places of functions."""

    removed: tuple[ChangedFunction, ...] = ()
    written: tuple[ChangedFunction, ...] = ()
    values: tuple[Value, ...] = ()
    hunks: tuple[Hunk, ...] = ()


def changes_between(base: CoreSource, head: CoreSource) -> CoreChanges:
    """The functions and values that differ. Code that only moved to another module is the same."""
    removed: list[ChangedFunction] = []
    written: list[ChangedFunction] = []
    hunks: list[Hunk] = []
    changed_in_base = _changed_functions(base.functions, head.functions)
    changed_in_head = _changed_functions(head.functions, base.functions)
    counterparts = _counterparts(changed_in_head, changed_in_base)
    for function, before in zip(changed_in_head, counterparts, strict=True):
        places = _hunks(before, function)
        hunks += places
        gone = tuple(part for one in places if not one.new for part in one.old)
        new = tuple(part for one in places for part in one.new)
        if before is not None and gone:
            removed.append(ChangedFunction(before, gone))
        if new or not gone:
            # If only parameters or decorators differ, the first statement counts for them.
            written.append(ChangedFunction(function, new or function.statements[:1]))
    gone_functions = [one for one in changed_in_base if one not in counterparts]
    removed += [ChangedFunction(one, one.statements) for one in gone_functions]
    hunks += [Hunk(one, None, one.statements, ()) for one in gone_functions]
    known = {one.digest for one in base.values}
    values = tuple(one for one in head.values if one.digest not in known)
    return CoreChanges(tuple(removed), tuple(written), values, tuple(hunks))


def _changed_functions(functions: Sequence[Function], others: Sequence[Function]) -> list[Function]:
    """The functions without an equal one among the others, in their file if possible. Each other
    one counts once."""
    in_file = Counter((one.file, one.digest) for one in others)
    left = _remove_equal(functions, in_file, lambda one: (one.file, one.digest))
    elsewhere = Counter[str]()
    for (_, digest), count in in_file.items():
        elsewhere[digest] += count
    return _remove_equal(left, elsewhere, lambda one: one.digest)


def _remove_equal(
    functions: Sequence[Function], equal: Counter[_KeyT], key: Callable[[Function], _KeyT]
) -> list[Function]:
    """The functions without those that `equal` counts by key. One that is left out reduces the
    count."""
    found = []
    for one in functions:
        if equal[key(one)]:
            equal[key(one)] -= 1
        else:
            found.append(one)
    return found


def _counterparts(
    functions: Sequence[Function], others: Sequence[Function]
) -> list[Function | None]:
    """The other version of each function: that in its file; if there is none, the only one with its
    name that is not that of another function."""
    left = list(others)
    found: list[Function | None] = []
    for function in functions:
        named = [one for one in left if (one.file, one.name) == (function.file, function.name)]
        found.append(named[0] if named else None)
        if named:
            left.remove(named[0])
    for place, function in enumerate(functions):
        named = [one for one in left if one.name == function.name]
        if found[place] is None and len(named) == 1:
            found[place] = named[0]
            left.remove(named[0])
    return found


def _hunks(before: Function | None, after: Function) -> list[Hunk]:
    """The places in which two versions of a function differ."""
    if before is None:
        return [Hunk(None, after, (), after.statements)]
    old = [one.key for one in before.statements]
    new = [one.key for one in after.statements]
    return [
        Hunk(before, after, before.statements[begin:end], after.statements[new_begin:new_end])
        for what, begin, end, new_begin, new_end in SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes()
        if what != "equal"
    ]


def uncovered(
    changes: CoreChanges, head: CoreSource, with_base: Executed, with_head: Executed
) -> list[UncoveredCode]:
    """The changed code that is not in the executed lines of its version."""
    found = [*_functions(changes.removed, _BASE, with_base)]
    in_head = _Execution(head, with_head)
    found += [
        one
        for one in _functions(changes.written, _HEAD, with_head)
        if not in_head.is_called_for_a_value(one)
    ]
    found += [
        UncoveredCode(one.file, one.name, _HEAD)
        for one in changes.values
        if in_head.is_used(one) is False
    ]
    return sorted(set(found), key=lambda one: (one.file, one.lines, one.name, one.side))


def only_executed(
    changes: CoreChanges, never: Sequence[UncoveredCode], missing: Sequence[UncoveredCode]
) -> list[UncoveredCode]:
    """The changed code that is `missing` in some logs, but is executed in others: it is not in
    `never`, the code that no log executes. Each entry of a function has its lines."""
    lines_of: dict[tuple[str, str, str], set[int]] = {}
    for side, changed in ((_BASE, changes.removed), (_HEAD, changes.written)):
        for one in changed:
            lines = {part.first_line for part in one.statements}
            lines_of[one.function.file, one.function.name, side] = lines
    for known in never:
        place = (known.file, known.name, known.side)
        if place in lines_of:
            lines_of[place] -= set(known.lines) or lines_of[place]
    found = []
    for gap in missing:
        of_function = lines_of.get((gap.file, gap.name, gap.side))
        if of_function is None:
            found += [gap] if gap not in never else []
        elif left := of_function.intersection(gap.lines or of_function):
            found.append(structs.replace(gap, lines=tuple(sorted(left))))
    return found


def _functions(
    changed: Sequence[ChangedFunction], side: Literal["base", "head"], executed: Executed
) -> Iterator[UncoveredCode]:
    for one in changed:
        function = one.function
        lines = executed.get(function.file, frozenset())
        missing = [part for part in one.statements if not _is_executed(part, lines)]
        if not missing:
            continue
        if any(_is_executed(part, lines) for part in function.statements):
            first_lines = tuple(sorted({part.first_line for part in missing}))
            yield UncoveredCode(function.file, function.name, side, first_lines)
        else:
            yield UncoveredCode(function.file, function.name, side)


def _is_executed(statement: Statement, lines: frozenset[int]) -> bool:
    return any(one in lines for one in range(statement.first_line, statement.last_line + 1))


class _Execution:
    """The values of a core that its executed lines use, also through other values."""

    def __init__(self, source: CoreSource, executed: Executed) -> None:
        self._values = source.values
        self._named: set[tuple[str, str]] = set()
        """The names in functions and values: the file ("" for an attribute) and the name."""
        self._used: set[tuple[str, str]] = set()
        """The names in executed lines."""
        for function in source.functions:
            lines = executed.get(function.file, frozenset())
            is_called = any(_is_executed(one, lines) for one in function.statements)
            own = range(function.statements[0].first_line) if function.statements else ()
            for use in function.uses:
                self._named.add(_key(use))
                # Default values and decorators are before the first statement.
                if use.line in lines or (is_called and use.line in own):
                    self._used.add(_key(use))
        self._follow_values()

    def _follow_values(self) -> None:
        """Add what used values name, until nothing is added."""
        left = list(self._values)
        for one in left:
            self._named.update(map(_key, one.uses))
        count = -1
        while count != len(self._used):
            count = len(self._used)
            reached = [one for one in left if _is_among(one, self._used)]
            left = [one for one in left if one not in reached]
            self._used.update(_key(use) for one in reached for use in one.uses)

    def is_used(self, value: Value) -> bool | None:
        """Whether an executed line uses a value; None if the core never names it."""
        if not _is_among(value, self._named):
            return None
        return _is_among(value, self._used)

    def is_called_for_a_value(self, function: UncoveredCode) -> bool:
        """Whether a function is called when a module is imported, for a value that is used."""
        return any(
            one.file == function.file and function.name in one.calls and self.is_used(one)
            for one in self._values
        )


def _key(use: NameUse) -> tuple[str, str]:
    return use.file, use.name


def _is_among(value: Value, names: set[tuple[str, str]]) -> bool:
    last = value.name.rpartition(".")[2]
    return (value.file, value.name) in names or ("", last) in names
