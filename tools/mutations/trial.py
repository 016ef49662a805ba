"""Runs tests in a tree, in a fork of this interpreter that has pytest imported already.

The forks start from modules of the standard library and of packages only: what is under test is
imported from the tree, by each fork for itself.
"""

import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import hypothesis
import msgspec
import pytest
from msgspec import Struct

_TEST_SECONDS_MAX = 20
_FIRST_TEST_SECONDS_MAX = 120
"""Without a mutation nothing hangs; a busy machine may be slow."""

_ROOMS = ("controller", "eventstore", "replay", "tests", "tools")


class Trial(Struct, frozen=True):
    """What became of tests: the names of those that failed, and pytest's exit status.

    A test given without its parameters has failed when one of its cases has.
    """

    failed: tuple[str, ...]
    status: int
    packages: tuple[str, ...]
    """Modules that were imported, but for what is under test."""


class _Watcher:
    """Notes which of the named tests fail; ends the run when all of them have."""

    def __init__(self, names: Sequence[str]) -> None:
        self.failed: dict[str, None] = {}
        self._names = names
        self._session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        for name in self._names:
            if report.nodeid == name or report.nodeid.startswith(f"{name}["):
                self.failed[name] = None
        if len(self.failed) == len(self._names) and self._session is not None:
            self._session.shouldfail = "every named test has failed"


def run_trial(
    tree: Path, names: Sequence[str], output: Path, result: Connection, *, is_first: bool
) -> None:
    """Run tests in the tree and send the `Trial`; pytest's words go to `output`.

    The first leaves the rewritten tests in the tree, compiled, for those that follow. Only for a
    process of its own: it changes what the interpreter imports.
    """
    sys.stdout = sys.stderr = output.open("w", encoding="utf-8")
    os.dup2(sys.stdout.fileno(), 1)
    os.dup2(sys.stdout.fileno(), 2)
    os.chdir(tree)
    sys.dont_write_bytecode = not is_first
    for module in [one for one in sys.modules if _is_under_test(one)]:
        del sys.modules[module]
    sys.path.insert(0, str(tree))
    # The first failure is enough, the same in every run; a smaller one is of no use here.
    hypothesis.settings.register_profile(
        "mutations",
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    watcher = _Watcher(names)
    seconds_max = _FIRST_TEST_SECONDS_MAX if is_first else _TEST_SECONDS_MAX
    options = ["-q", "-p", "no:cacheprovider", "--timeout", str(seconds_max)]
    options += ["--hypothesis-profile", "mutations"]
    # Packages are imported before pytest could rewrite their assertions: none of ours.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main([*options, *names], plugins=[watcher])
    sys.stdout.flush()
    packages = tuple(one for one in sys.modules if not _is_under_test(one))
    result.send_bytes(msgspec.msgpack.encode(Trial(tuple(watcher.failed), int(status), packages)))


def _is_under_test(module: str) -> bool:
    return module.partition(".")[0] in _ROOMS
