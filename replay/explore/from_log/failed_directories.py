"""The replicas in failed log directories, from an imported log.

A broker reports a failed log directory by a znode that names no replica. The controller asks the
broker, and writes the replicas that have failed to state-change.log. Without this log, they are the
replicas that leave the ISR soon after the report.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from controller.core.znodes import Name
from replay.explore.from_log.schedule import Schedule
from replay.world.inputs import FailLogDirectory

_KNOWN_WITHIN_MS: Final = 10_000
"""The replicas in a failed directory are known within this time after its report."""


class FailedDirectories:
    """Adds the failures of log directories to a schedule.

    Set `is_logged` once the log has lines of state-change.log.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.is_logged = False
        self._schedule = schedule
        self._failures: dict[int, list[FailLogDirectory]] = {}
        """The failures since the last start of a broker, and earlier ones that have survived it."""
        self._earlier: dict[int, list[FailLogDirectory]] = {}

    def reported(self, ns: int, broker: int) -> None:
        """A broker reports a failed directory."""
        failure = FailLogDirectory(self._schedule.ms_of(ns), broker, (), None)
        self._failures.setdefault(broker, []).append(failure)
        self._schedule.add(failure)

    def logged(self, ns: int, broker: int, names: Iterable[Name]) -> None:
        """The controller logged replicas of a broker as failed, which it does again after a start
        of the broker and after a take-over."""
        self._keep_survivors(broker, set(names))
        known = {name for one in self._failures.get(broker, ()) for name in one.partitions}
        new = tuple(name for name in names if name not in known)
        if not new:
            return
        if not self._is_recent(ns, broker):
            self.reported(ns, broker)
        self._extend(broker, new)

    def left_isr(self, ns: int, broker: int, name: Name) -> None:
        """A replica left the ISR: in a failed directory, if nothing else says what is in it."""
        if not self.is_logged and self._is_recent(ns, broker):
            self._extend(broker, (name,))

    def started(self, broker: int) -> None:
        """A broker has started: its directories are repaired, unless its replicas fail again."""
        self._earlier.setdefault(broker, []).extend(self._failures.pop(broker, ()))

    def end(self) -> None:
        """The log ends: a failed directory without known replicas is no input."""
        for failures in (*self._failures.values(), *self._earlier.values()):
            for one in failures:
                if not one.partitions:
                    self._schedule.replace(one, None)
                    self._schedule.leave_out("failed log directories without a known replica")

    def _is_recent(self, ns: int, broker: int) -> bool:
        failures = self._failures.get(broker)
        if not failures:
            return False
        return self._schedule.ms_of(ns) - failures[-1].at_ms <= _KNOWN_WITHIN_MS

    def _extend(self, broker: int, names: tuple[Name, ...]) -> None:
        failure = self._failures[broker].pop()
        partitions = tuple(dict.fromkeys((*failure.partitions, *names)))
        self._failures[broker].append(self._changed(failure, partitions=partitions))

    def _keep_survivors(self, broker: int, names: set[Name]) -> None:
        """Keep the failures of replicas that fail again after a start: it repaired nothing."""
        for failure in list(self._earlier.get(broker, ())):
            if names & set(failure.partitions):
                self._earlier[broker].remove(failure)
                survivor = self._changed(failure, survives_restart=True)
                self._failures.setdefault(broker, []).insert(0, survivor)

    def _changed(self, failure: FailLogDirectory, **changes: object) -> FailLogDirectory:
        changed = structs.replace(failure, **changes)
        self._schedule.replace(failure, changed)
        return changed
