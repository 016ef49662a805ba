"""The processes of the versions on an executor: one per version, killed if it reports no
progress."""

from collections.abc import Sequence
from typing import Self

from replay.diff.messages import FoldLog
from replay.diff.processes import FoldResult, VersionProcess
from replay.fleet.replaying.versions import ShippedVersion


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
            here = self._versions[code].on_this_executor()
            process = VersionProcess(here, patience_s=self._patience_s)
        try:
            answered = process.fold(request)
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
