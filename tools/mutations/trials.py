"""Trials of changed code, a few at a time, each in a fork of the process that has the suite."""

import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tools.mutations.coverage_map import CoverageMap, SuiteMeasurement
from tools.mutations.errors import MutationError
from tools.mutations.suite import TIME_OUT, Suite, TrialResult, measure, try_change

_TRIAL_SECONDS_MAX: Final = 120
_KEPT_TESTS_MAX: Final = 5
_LONG_TEST_SECONDS: Final = 0.3
"""Tests that took longer while they were measured run last."""

_fork = multiprocessing.get_context("fork")


class Trial(Struct):
    """A change to try. `tests` run in this order, those first that lately noticed a change of
    the same `group`."""

    group: str
    change: Callable[[], None]
    tests: Sequence[str]


class TrialVerdict(Struct):
    """`noticed_by`: the test that failed, or `TIME_OUT`, or empty. `error`: it cannot be tried."""

    noticed_by: str
    error: str = ""

    @property
    def is_survivor(self) -> bool:
        """Whether no test noticed the change."""
        return not (self.noticed_by or self.error)


class _Fork:
    """A process at work, with a folder for what its tests write."""

    def __init__(self, work: Callable[[Connection], None]) -> None:
        self.result, sender = _fork.Pipe(duplex=False)
        self._folder = tempfile.mkdtemp(prefix="mutation-")
        self._process = _fork.Process(target=self._run, args=(work, sender))
        self.started = time.monotonic()
        self._process.start()
        sender.close()

    def _run(self, work: Callable[[Connection], None], sender: Connection) -> None:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = self._folder
        work(sender)

    def end(self) -> bytes | None:
        """The message of the process, None if it sent none. The process and its children have
        exited then.
        """
        data = None
        if self.result.poll():
            with suppress(EOFError):
                data = self.result.recv_bytes()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid or 0, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.join()
        self.result.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return data


def measure_tests(
    suite: Suite, tests: Sequence[str], paths: Sequence[Path], jobs: int
) -> list[SuiteMeasurement]:
    """Run tests once, unchanged. Raises MutationError, which names the tests that fail."""
    files = [str(path) for path in paths]
    size = -(-len(tests) // jobs)
    forks = [
        _Fork(lambda result, part=tests[at : at + size]: measure(suite, part, files, result))  # type: ignore[misc]
        for at in range(0, len(tests), size)
    ]
    parts = []
    try:
        while forks:
            wait([forks[0].result])
            data = forks.pop(0).end()
            if data is None:
                raise MutationError(
                    "the process that runs the unchanged tests ended without a result"
                )
            parts.append(msgspec.msgpack.decode(data, type=SuiteMeasurement))
    finally:
        for fork in forks:
            fork.end()
    failed = {test: words for part in parts for test, words in part.failed.items()}
    if failed:
        said = "\n".join(f"{test}:\n{words}" for test, words in failed.items())
        raise MutationError(f"these tests fail without any change:\n{said}")
    return parts


def run_trials(
    suite: Suite, coverage_map: CoverageMap, trials: Iterable[Trial], jobs: int
) -> Iterator[tuple[Trial, TrialVerdict]]:
    """Run trials in their order, `jobs` at a time; yields each when it ends.

    `trials` is read only as fast as they run.
    """
    lately: dict[str, list[str]] = {}
    waiting = iter(trials)
    at_work: dict[Connection, tuple[_Fork, Trial]] = {}
    following = next(waiting, None)
    try:
        while at_work or following is not None:
            while following is not None and len(at_work) < jobs:
                fork = _begin(suite, coverage_map, following, lately.get(following.group, []))
                at_work[fork.result] = (fork, following)
                following = next(waiting, None)
            for result in _ready(at_work):
                fork, trial = at_work.pop(result)
                verdict = _verdict(fork.end())
                _keep_first(lately, trial.group, verdict.noticed_by)
                yield trial, verdict
    finally:
        for fork, _ in at_work.values():
            fork.end()


def _keep_first(lately: dict[str, list[str]], group: str, test: str) -> None:
    if test in ("", TIME_OUT):
        return
    tests = lately.setdefault(group, [])
    with suppress(ValueError):
        tests.remove(test)
    tests.insert(0, test)
    del tests[_KEPT_TESTS_MAX:]


def _begin(suite: Suite, coverage_map: CoverageMap, trial: Trial, lately: list[str]) -> _Fork:
    first = [test for test in lately if test in trial.tests]
    others = [test for test in trial.tests if test not in first]
    seconds_of = coverage_map.seconds
    others.sort(key=lambda test: seconds_of.get(test, 0.0) > _LONG_TEST_SECONDS)
    tests = [*first, *others]
    seconds = [seconds_of.get(test, 0.0) for test in tests]
    return _Fork(lambda result: try_change(suite, trial.change, tests, seconds, result))


def _ready(at_work: dict[Connection, tuple[_Fork, Trial]]) -> list[Connection]:
    """The forks that have ended, or have had their time."""
    ready = [one for one in wait(list(at_work), timeout=5) if isinstance(one, Connection)]
    late = time.monotonic() - _TRIAL_SECONDS_MAX
    return ready or [one for one, (fork, _) in at_work.items() if fork.started < late]


def _verdict(data: bytes | None) -> TrialVerdict:
    if data is None:
        return TrialVerdict(TIME_OUT)
    outcome = msgspec.msgpack.decode(data, type=TrialResult)
    return TrialVerdict(outcome.failed, outcome.error)
