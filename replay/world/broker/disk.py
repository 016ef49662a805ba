"""The logs of a broker, which survive its end."""

from collections.abc import Iterable

from replay.world.broker.log import Log
from replay.world.observer import Name, Observer


class Disk:
    """The logs by partition. `failed` are those in log directories that have failed: they come back
    with the next run of the broker, except those that are `broken`. `slow` are those that no
    follower appends to for now."""

    def __init__(self) -> None:
        self.logs: dict[Name, Log] = {}
        self.failed: dict[Name, Log] = {}
        self.broken: dict[Name, None] = {}
        self.slow: dict[Name, None] = {}

    def fail(self, names: Iterable[Name]) -> list[Name]:
        """The log directories of some partitions fail; returns those that had a log."""
        found = [name for name in names if name in self.logs]
        for name in found:
            self.failed[name] = self.logs.pop(name)
        return found

    def write_back(self, process: str, observer: Observer) -> None:
        """Write all records to the disk."""
        for name, log in self.logs.items():
            if log.flushed < log.end:
                log.flushed = log.end
                observer.flushed(process, name, log.end)

    def checkpoint(self) -> None:
        """Write the high watermarks."""
        for log in self.logs.values():
            log.checkpoint = log.high_watermark

    def lose_unflushed(self, process: str, observer: Observer) -> None:
        """The whole machine fails: records that are not on the disk are lost."""
        for name, log in self._all():
            if log.flushed < log.end:
                log.truncate(log.flushed)
                observer.truncated(process, name, log.end, "crash")

    def start(self) -> None:
        """A new run of the broker begins; failed log directories are repaired, if they can be."""
        # A log that was created again meanwhile is in another directory, and is newer.
        repaired = {name: log for name, log in self.failed.items() if name not in self.broken}
        self.logs = {**repaired, **self.logs}
        self.failed = {name: log for name, log in self.failed.items() if name in self.broken}
        for log in self.logs.values():
            log.high_watermark = min(log.checkpoint, log.end)

    def _all(self) -> list[tuple[Name, Log]]:
        return [*self.logs.items(), *self.failed.items()]
