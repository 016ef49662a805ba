"""The test suite, collected once in this process; its tests run in forks of it.

`run_in_suite` lets pytest import and collect everything, then calls a function instead of running
the tests. Each fork runs the tests it is given, with the code changed or not.
"""

import contextlib
import gc
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import coverage
import hypothesis
import msgspec
import pytest
from msgspec import Struct

from tools.mutations.coverage_map import SuiteMeasurement, covered_lines
from tools.mutations.errors import MutationError

_MEMORY_BYTES_MAX = 2 << 30
_WAIT_SECONDS = 15
_FAILURE_CHARACTERS_MAX = 1500


TIME_OUT: Final = "time-out"
"""In place of a test: it took too long."""


class TrialResult(Struct):
    """The result of a trial's tests: the test that failed first or `TIME_OUT`, empty if all passed.

    `error` says why the change could not be tried.
    """

    failed: str = ""
    error: str = ""


class Suite:
    """The collected tests."""

    def __init__(self, session: pytest.Session) -> None:
        self._reports = _Reports()
        session.config.pluginmanager.register(self._reports)
        self._items = {item.nodeid: item for item in session.items}

    @property
    def tests(self) -> list[str]:
        """The node ids, in pytest's order."""
        return list(self._items)

    def failures(
        self, tests: Sequence[str], expected: Sequence[float] | None = None
    ) -> Iterator[tuple[str, str, float]]:
        """Run tests; for each its node id, what failed (empty: nothing) and its seconds.

        `expected`: the seconds that each should take. A test that waits much longer fails, and the
        kernel ends the process when a test takes much more processor time.
        """
        items = [self._items[one] for one in tests]
        for place, (item, following) in enumerate(zip(items, [*items[1:], None], strict=True)):
            if expected is not None:
                _limit(item, expected[place])
            self._reports.failure, self._reports.seconds = "", 0.0
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item.nodeid, self._reports.failure, self._reports.seconds


class _Reports:
    """The report of pytest about one test."""

    def __init__(self) -> None:
        self.failure = ""
        self.seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        if report.failed and not self.failure:
            self.failure = report.longreprtext[-_FAILURE_CHARACTERS_MAX:] or "failed"


def measure(suite: Suite, tests: Sequence[str], paths: Sequence[str], result: Connection) -> None:
    """In a fork: run tests and send what they did, `SuiteMeasurement` in msgpack."""
    _set_up_fork(is_limited=False)
    measured = coverage.Coverage(data_file=None, config_file=False, include=list(paths))
    found = SuiteMeasurement(list(tests), [], {})
    measured.start()
    measured.switch_context(tests[0] if tests else "")
    following = iter([*tests[1:], ""])
    for test, failure, seconds in suite.failures(tests):
        measured.switch_context(next(following))
        found.seconds.append(seconds)
        if failure:
            found.failed[test] = failure
    measured.stop()
    found.lines = covered_lines(measured, paths, tests)
    result.send_bytes(msgspec.msgpack.encode(found))


def try_change(
    suite: Suite,
    change: Callable[[], None],
    tests: Sequence[str],
    seconds: Sequence[float],
    result: Connection,
) -> None:
    """In a fork: change the code, run tests until one fails, and send the `TrialResult`.

    `seconds` is what each of the tests takes without the change, and limits what it may take.
    """
    _set_up_fork(is_limited=True)
    outcome = TrialResult()
    try:
        change()
    except Exception as error:
        outcome.error = f"{type(error).__name__}: {error}"
    else:
        done = suite.failures(tests, seconds)
        for expected, (test, failure, took) in zip(seconds, done, strict=True):
            if failure:
                outcome.failed = TIME_OUT if took >= _seconds_max(expected) else test
                break
    result.send_bytes(msgspec.msgpack.encode(outcome))
    # Without what pytest and fixtures do at the end.
    os._exit(0)


def _set_up_fork(*, is_limited: bool) -> None:
    """A process group that is ended with its children; quiet, and limited."""
    os.setpgrp()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(1, 2)
    # Collecting garbage would copy the memory that forks share, for a process that soon ends.
    gc.freeze()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if is_limited:
        gc.disable()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES_MAX, _MEMORY_BYTES_MAX))


def _seconds_max(expected: float) -> float:
    return _WAIT_SECONDS + 10 * expected


def _limit(test: pytest.Item, seconds: float) -> None:
    """Limit the time of the next test, and its processor time, by what it should take."""
    test.add_marker(pytest.mark.timeout(_seconds_max(seconds)))
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + 3 + 5 * seconds), hard))


def run_in_suite(paths: Sequence[str], output: Path, work: Callable[[Suite], None]) -> None:
    """Collect the tests of `paths` in the current folder and call `work` with the suite.

    The output of tests goes to `output`. Raises MutationError if collecting fails.
    """
    # The first failure is enough, and must be the same in every run. Shrinking it would cost time.
    hypothesis.settings.register_profile(
        "mutations",
        max_examples=30,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    options = ["-q", "-p", "no:cacheprovider", "--hypothesis-profile", "mutations"]
    # Other styles take most of the time of a trial.
    options += ["--tb", "native"]
    # Forks have a limit of processor time; measuring on a busy machine may take long.
    options += [
        "--timeout",
        "600",
        "-m",
        "not lab and not slow",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]
    plugin = _InsteadOfRunning(work)
    with output.open("w", encoding="utf-8") as words, _output_to(words.fileno()):
        status = pytest.main([*options, "--capture=no", *paths], plugins=[plugin])
    if plugin.error is not None:
        raise plugin.error
    if not plugin.was_called:
        said = output.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise MutationError(f"pytest cannot collect the tests (status {int(status)}):\n{said}")


@contextlib.contextmanager
def _output_to(descriptor: int) -> Iterator[None]:
    """Standard output goes to a file; standard error, with progress and errors, does not."""
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(descriptor, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(before, 1)
        os.close(before)


class _InsteadOfRunning:
    """A pytest plugin: calls a function where pytest would run the tests."""

    def __init__(self, work: Callable[[Suite], None]) -> None:
        self.was_called = False
        self.error: BaseException | None = None
        self._work = work

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            return True
        self.was_called = True
        try:
            self._work(Suite(session))
        # pytest would end as usual after an interrupt, and a part would look like the whole.
        except BaseException as error:
            self.error = error
        return True
