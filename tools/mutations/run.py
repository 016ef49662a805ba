"""One run: rules, the tests that pages name, and mutants."""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from replay.progress import Progress
from tools.mutations.coverage_map import (
    TESTS_MAX,
    CoverageMap,
    file_digests,
    file_of,
    read_map,
    tree_digest,
    write_map,
)
from tools.mutations.errors import MutationError
from tools.mutations.functions import Function, module_paths, read_functions
from tools.mutations.operators import Mutant, mutants_of
from tools.mutations.page_tests import Order, PageTests
from tools.mutations.patching import ImportedFunctions
from tools.mutations.rules import Value, apply, read_rules, target_of
from tools.mutations.settings import MutationSettings
from tools.mutations.suite import Suite
from tools.mutations.survivors import SURVIVORS
from tools.mutations.trials import Trial, TrialVerdict, measure_tests, run_trials

_MAPS: Final = "build/mutations"


class MutationResults(Struct):
    """The results of a run. `mutants` are those that were tried or that no test runs."""

    mutants: list[tuple[Mutant, TrialVerdict]] = field(default_factory=list)
    outside_sample: dict[str, str] = field(default_factory=dict)
    """By the mutant's name: the test that noticed it, if none of its sample did."""
    cut_short: int = 0
    """Survivors for which there was no time to run all tests of their code."""
    uncovered: int = 0
    """Of the mutants: how many no test runs."""
    left: int = 0
    """Chosen mutants that there was no time for."""
    rules: int = 0
    broken_rules: list[str] = field(default_factory=list)
    page_tests: int = 0
    page_tests_left: int = 0
    """Of the tests that pages name: how many there was no time for."""
    unnoticing: list[str] = field(default_factory=list)
    map_seconds: float = 0.0
    trial_seconds: float = 0.0

    def survival(self) -> list[tuple[Mutant, bool]]:
        """The mutants, and whether each survived; one that could not be made did not."""
        return [(mutant, verdict.is_survivor) for mutant, verdict in self.mutants]


class RunPlan(Struct):
    """The functions whose mutants are tried, in this order, and for how long."""

    functions: Sequence[Function]
    seconds: float
    """After the rules, which are tried first. Half of the time is for the tests that pages name."""
    with_rules: bool = True
    page_test_order: Order = lambda names: names
    test_for: Callable[[Mutant], str] = lambda mutant: ""
    """A test that has to run for a mutant, first; empty: any. Such mutants are tried first, and
    also without time."""
    may_survive: Callable[[Mutant], bool] = lambda mutant: True
    """Whether the sample of tests is enough for a mutant. Others get all tests that run their code,
    for at most `seconds` more."""

    def mutants(self) -> list[Mutant]:
        """The mutants in the order in which they are tried."""
        found = (mutant for function in self.functions for mutant in mutants_of(function))
        return sorted(found, key=lambda one: not self.test_for(one))


class MutationRun:
    """A run in a process that has collected the suite."""

    def __init__(
        self, root: Path, settings: MutationSettings, jobs: int, progress: Progress
    ) -> None:
        self._root = root
        self._settings = settings
        self._jobs = jobs
        self._progress = progress
        self._modules = module_paths(root, settings)
        self.functions = read_functions(root, settings)
        self.result = MutationResults()
        self._survivors = 0

    def __call__(self, suite: Suite, chosen: RunPlan) -> None:
        """Try everything. Raises MutationError if the run cannot begin."""
        for test in dict.fromkeys(map(chosen.test_for, chosen.mutants())):
            if test and test not in suite.tests:
                raise MutationError(f"{SURVIVORS} names {test}, which is no test of the suite")
        started = time.monotonic()
        coverage_map = self._map(suite)
        imported = ImportedFunctions([module for _, module in self._modules])
        self.result.map_seconds = time.monotonic() - started
        started = time.monotonic()
        page_tests = PageTests(self._root, self._settings.pages, suite.tests)
        if chosen.with_rules:
            rules = self._rule_trials(suite, coverage_map, imported)
            self._try_rules(suite, coverage_map, rules)
            mutants = [mutant for one in self.functions for mutant in mutants_of(one)]
            covering = [
                (partial(imported.mutate, one), coverage_map.tests_of(one)) for one in mutants
            ]
            deadline = time.monotonic() + chosen.seconds / 2
            trials = page_tests.trials(
                covering,
                [(one.change, one.tests) for one in rules],
                chosen.page_test_order,
                lambda: time.monotonic() < deadline,
            )
            for trial, verdict in run_trials(suite, coverage_map, trials, self._jobs):
                if verdict.noticed_by:
                    page_tests.noticed(trial.group)
        mutants_until = time.monotonic() + chosen.seconds / (2 if chosen.with_rules else 1)
        self._try_mutants(suite, coverage_map, imported, chosen, page_tests, mutants_until)
        if chosen.with_rules:
            self.result.page_tests = page_tests.count
            self.result.page_tests_left = page_tests.left
            self.result.unnoticing = page_tests.unnoticing
        self.result.trial_seconds = time.monotonic() - started

    def _map(self, suite: Suite) -> CoverageMap:
        digest = tree_digest(self._root)
        folder = self._root / _MAPS
        files = file_digests(self._root, suite.tests)
        found = read_map(folder, digest).still_valid(files)
        tests = [one for one in suite.tests if file_of(one) not in found.test_files]
        if tests:
            self._progress(f"finding which of {len(tests)} tests run which lines", 0, None)
            parts = measure_tests(suite, tests, [path for path, _ in self._modules], self._jobs)
            found = CoverageMap([*found.parts, *parts], files)
            write_map(folder, digest, found)
        return found

    def _rule_trials(
        self, suite: Suite, coverage_map: CoverageMap, imported: ImportedFunctions
    ) -> list[Trial]:
        trials = []
        for rule in read_rules(self._root).rule:
            target = target_of(rule, self.functions, self._modules)
            if isinstance(target, Value):
                tests = coverage_map.smallest_first(suite.tests)
            else:
                tests = coverage_map.tests_of_function(target)
            trials.append(Trial(rule.rule, partial(apply, rule, target, imported), tests))
        return trials

    def _try_rules(self, suite: Suite, coverage_map: CoverageMap, rules: list[Trial]) -> None:
        self.result.rules = len(rules)
        self.result.broken_rules = [
            f"{trial.group}: {verdict.error or 'no test notices'}"
            for trial, verdict in run_trials(suite, coverage_map, rules, self._jobs)
            if not verdict.noticed_by
        ]

    def _try_mutants(
        self,
        suite: Suite,
        coverage_map: CoverageMap,
        imported: ImportedFunctions,
        chosen: RunPlan,
        page_tests: PageTests,
        deadline: float,
    ) -> None:
        mutants = chosen.mutants()
        by_trial: dict[int, Mutant] = {}
        unnoticed: list[Mutant] = []

        def trials() -> Iterator[Trial]:
            for place, mutant in enumerate(mutants):
                named = chosen.test_for(mutant)
                # A change elsewhere may be the reason why a named test does not notice any more.
                if not named and time.monotonic() > deadline:
                    self.result.left = len(mutants) - place
                    return
                tests = coverage_map.sample_of(mutant)
                if named:
                    tests = [named, *(one for one in tests if one != named)]
                if tests:
                    change = partial(imported.mutate, mutant)
                    trial = Trial(mutant.function.full_name, change, tests)
                    by_trial[id(trial)] = mutant
                    yield trial
                else:
                    self.result.uncovered += 1
                    self._add(mutant, TrialVerdict(""), len(mutants))

        try:
            for trial, verdict in run_trials(suite, coverage_map, trials(), self._jobs):
                mutant = by_trial[id(trial)]
                if verdict.is_survivor and not chosen.may_survive(mutant):
                    unnoticed.append(mutant)
                else:
                    self._add(mutant, verdict, len(mutants))
                    page_tests.noticed(verdict.noticed_by)
            self._try_other_tests(suite, coverage_map, imported, unnoticed, chosen.seconds)
        finally:
            # A run that is stopped writes these, too.
            for mutant in unnoticed:
                noticed_by = self.result.outside_sample.get(mutant.name, "")
                self._add(mutant, TrialVerdict(noticed_by), len(mutants))
                page_tests.noticed(noticed_by)

    def _try_other_tests(
        self,
        suite: Suite,
        coverage_map: CoverageMap,
        imported: ImportedFunctions,
        mutants: Sequence[Mutant],
        seconds: float,
    ) -> None:
        """Run the tests outside of the samples, some at a time, until one notices."""
        deadline = time.monotonic() + seconds
        noticed = self.result.outside_sample
        others = [coverage_map.outside_sample_of(mutant) for mutant in mutants]
        by_trial: dict[int, Mutant] = {}

        def trials() -> Iterator[Trial]:
            for first in range(0, max(map(len, others), default=0), TESTS_MAX):
                self._progress("tests outside of the samples", first, None)
                for mutant, tests in zip(mutants, others, strict=True):
                    some = tests[first : first + TESTS_MAX]
                    if not some or mutant.name in noticed:
                        continue
                    if time.monotonic() > deadline:
                        cut_short.add(mutant.name)
                        continue
                    change = partial(imported.mutate, mutant)
                    trial = Trial(mutant.function.full_name, change, some)
                    by_trial[id(trial)] = mutant
                    yield trial

        cut_short: set[str] = set()
        for trial, verdict in run_trials(suite, coverage_map, trials(), self._jobs):
            if verdict.noticed_by:
                noticed[by_trial[id(trial)].name] = verdict.noticed_by
        self.result.cut_short = len(cut_short - noticed.keys())

    def _add(self, mutant: Mutant, verdict: TrialVerdict, total: int) -> None:
        self.result.mutants.append((mutant, verdict))
        self._survivors += verdict.is_survivor
        done = len(self.result.mutants)
        what = f"mutants: {done} of {total} were tried, {self._survivors} survived"
        self._progress(what, done, total)
