"""The tests that pages name as evidence: each must notice a mutant or the change of a rule."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.mutations.trials import Trial

_TEST: Final = re.compile(r"`(tests/[^`\s]+::[^`]+)`")
_MUTANTS_MAX: Final = 40
_GROUP: Final = 20
"""How many tests a run with limited time begins at once."""

Order = Callable[[Sequence[str]], Sequence[str]]
Covering = Sequence[tuple[Callable[[], None], Sequence[str]]]
"""Changes with the tests that run the changed code."""


class PageTests:
    """The named tests that the suite has, and which of them have noticed a mutant so far."""

    def __init__(self, root: Path, pages: Sequence[str], suite_tests: Sequence[str]) -> None:
        named = {
            name
            for pattern in pages
            for page in sorted(root.glob(pattern))
            for name in _TEST.findall(page.read_text(encoding="utf-8"))
        }
        cases: dict[str, list[str]] = {}
        for test in suite_tests:
            cases.setdefault(test.partition("[")[0], []).append(test)
        self._cases: Mapping[str, Sequence[str]] = {
            name: [name] if name in suite_tests else cases[name]
            for name in sorted(named)
            if name in suite_tests or name in cases
        }
        self._noticing: set[str] = set()
        self._tried: set[str] = set()

    def noticed(self, test: str) -> None:
        """A test noticed a mutant."""
        self._noticing |= {test, test.partition("[")[0]}

    @property
    def count(self) -> int:
        """How many tests of the suite the pages name."""
        return len(self._cases)

    @property
    def unnoticing(self) -> list[str]:
        """The named tests that no mutant has made fail, of those that were tried."""
        return [name for name in self._cases if name in self._tried - self._noticing]

    @property
    def left(self) -> int:
        """How many of the tests were not tried, and have noticed nothing."""
        return len(self._cases.keys() - self._tried - self._noticing)

    def trials(
        self, mutants: Covering, rules: Covering, order: Order, may_go_on: Callable[[], bool]
    ) -> Iterator[Trial]:
        """One trial after the other for each test that has not noticed anything yet, as long as
        `may_go_on`.

        A test's mutants are tried in the order of how few other tests run their code, then rules.
        """
        changes: dict[str, list[Callable[[], None]]] = {}
        for change, tests in sorted(mutants, key=lambda one: len(one[1])):
            for test in tests:
                if len(changes.setdefault(test, [])) < _MUTANTS_MAX:
                    changes[test].append(change)
        for change, tests in rules:
            for test in tests:
                changes.setdefault(test, []).append(change)
        for group in _groups(order(list(self._cases))):
            for turn in range(_MUTANTS_MAX + len(rules)):
                if not may_go_on():
                    return
                for name in group:
                    cases = self._cases[name]
                    candidates = changes.get(cases[turn % len(cases)], [])
                    if name not in self._noticing and turn < len(candidates):
                        yield Trial(name, candidates[turn], cases)
            self._tried |= set(group)


def _groups(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _GROUP):
        yield names[start : start + _GROUP]
