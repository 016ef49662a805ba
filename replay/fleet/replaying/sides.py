"""The processes of the versions on an executor: one each, ended where it says nothing any more."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

from replay.diff.errors import DiffError
from replay.diff.messages import FoldLog
from replay.diff.processes import Answered, VersionProcess
from replay.fleet.replaying.versions import Shipped

_LOOKED_S: Final = 1.0


class Sides:
    """Folds logs by any of the versions, each of which is started when it is first asked, and anew
    after it failed. A context manager."""

    def __init__(self, versions: Sequence[Shipped], patience_s: float) -> None:
        """`patience_s`: how long a version may tell of no progress."""
        self._versions = {one.code: one for one in versions}
        self._patience_s = patience_s
        self._processes: dict[str, VersionProcess] = {}

    @property
    def codes(self) -> list[str]:
        """All versions, in the order in which they were named."""
        return list(self._versions)

    def version(self, code: str) -> Shipped:
        """What is known of one."""
        return self._versions[code]

    def fold(self, code: str, request: FoldLog) -> Answered:
        """Fold a log by one of the versions. Raises DiffError, FleetError."""
        process = self._processes.pop(code, None)
        if process is None:
            process = VersionProcess(self._versions[code].here())
        try:
            answered = _fold(process, request, self._patience_s)
        except BaseException:
            # What is left of a process that failed is of no use for the next log.
            process.close()
            raise
        self._processes[code] = process
        return answered

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            process.close()


def _fold(process: VersionProcess, request: FoldLog, patience_s: float) -> Answered:
    with _watched(process, patience_s) as watch:
        try:
            return process.fold(request, watch.report)
        except DiffError:
            if not watch.is_hanging:
                raise
            reference = process.version.reference
            raise DiffError(
                f"{reference} hangs: it told of no progress for {patience_s:g} s, behind event"
                f" {watch.done}"
            ) from None


class _Watch:
    """Knows when a version last told of its progress."""

    def __init__(self) -> None:
        self.is_hanging = False
        self.done = 0
        self.told_at = time.monotonic()

    def report(self, what: str, done: int, total: int | None) -> None:
        """It goes on."""
        self.done = done
        self.told_at = time.monotonic()


@contextmanager
def _watched(process: VersionProcess, patience_s: float) -> Iterator[_Watch]:
    watch, is_over = _Watch(), Event()

    def look() -> None:
        while not is_over.wait(min(_LOOKED_S, patience_s)):
            if time.monotonic() - watch.told_at > patience_s:
                watch.is_hanging = True
                process.kill()
                return

    thread = Thread(target=look, name="patience", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        is_over.set()
        thread.join()
