"""The tests that pages name as evidence: each must notice a mutant or the change of a rule."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tools.mutations.trials import Trial

_TEST: Final = re.compile(r"`(tests/[^`\s]+::[^`]+)`")
_MUTANTS_MAX: Final = 40

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

    def noticed(self, test: str) -> None:
        """A test noticed a mutant."""
        self._noticing |= {test, test.partition("[")[0]}

    @property
    def count(self) -> int:
        """How many tests of the suite the pages name."""
        return len(self._cases)

    @property
    def unnoticing(self) -> list[str]:
        """The named tests that no mutant has made fail."""
        return [name for name in self._cases if name not in self._noticing]

    def trials(self, mutants: Covering, rules: Covering) -> Iterator[Trial]:
        """One trial after the other for each test that has not noticed anything yet.

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
        for turn in range(_MUTANTS_MAX + len(rules)):
            for name in self.unnoticing:
                if name in self._noticing:
                    continue
                cases = self._cases[name]
                candidates = changes.get(cases[turn % len(cases)], [])
                if turn < len(candidates):
                    yield Trial(name, candidates[turn], cases)
