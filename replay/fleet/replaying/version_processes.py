"""The processes of the versions on an executor: one per version, killed if it reports no
progress."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, Self

from replay.diff.messages import FoldLog
from replay.diff.processes import FoldResult, VersionProcess
from replay.errors import DiffError
from replay.fleet.replaying.versions import ShippedVersion

_CHECK_INTERVAL_S: Final = 1.0


class VersionProcesses:
    """Folds logs with any of the versions. A version's process is started at its first use, and
    again after a failure. A context manager."""

    def __init__(self, versions: Sequence[ShippedVersion], patience_s: float) -> None:
        """`patience_s` is how long a version may report no progress."""
        self._versions = {one.code: one for one in versions}
        self._patience_s = patience_s
        self._processes: dict[str, VersionProcess] = {}

    @property
    def codes(self) -> list[str]:
        """All versions, in the given order."""
        return list(self._versions)

    def version(self, code: str) -> ShippedVersion:
        """The version with this code."""
        return self._versions[code]

    def fold(self, code: str, request: FoldLog) -> FoldResult:
        """Fold a log with one of the versions. Raises DiffError, FleetError."""
        process = self._processes.pop(code, None)
        if process is None:
            process = VersionProcess(self._versions[code].here())
        try:
            answered = _fold(process, request, self._patience_s)
        except BaseException:
            # A process that failed cannot be used for the next log.
            process.close()
            raise
        self._processes[code] = process
        return answered

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.close()


def _fold(process: VersionProcess, request: FoldLog, patience_s: float) -> FoldResult:
    with _watched(process, patience_s) as watch:
        try:
            return process.fold(request, watch.report)
        except DiffError:
            if not watch.is_hanging:
                raise
            reference = process.version.reference
            raise DiffError(
                f"{reference}: no progress for {patience_s:g} s after event {watch.done};"
                " the process was stopped"
            ) from None


class _ProgressWatch:
    """Records when a version last reported progress."""

    def __init__(self) -> None:
        self.is_hanging = False
        self.done = 0
        self.last_progress = time.monotonic()

    def report(self, what: str, done: int, total: int | None) -> None:
        """Record progress."""
        self.done = done
        self.last_progress = time.monotonic()


@contextmanager
def _watched(process: VersionProcess, patience_s: float) -> Iterator[_ProgressWatch]:
    watch, is_over = _ProgressWatch(), Event()

    def check() -> None:
        while not is_over.wait(min(_CHECK_INTERVAL_S, patience_s)):
            if time.monotonic() - watch.last_progress > patience_s:
                watch.is_hanging = True
                process.kill()
                return

    thread = Thread(target=check, name="patience", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        is_over.set()
        thread.join()
