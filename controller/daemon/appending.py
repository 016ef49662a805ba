"""Appends to the log in a thread, and gives up if the disk is too slow."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from controller.core.commands import Issued
from controller.core.events import Recorded
from controller.daemon.errors import DaemonError
from controller.daemon.log_metrics import AppendTimes
from controller.event_log.records import command_record, event_record
from controller.event_log.writer_thread import WriterThread
from controller.kafka_0_8.commands import IssuedByBroker
from controller.kafka_0_8.events import RecordedBrokerEvent
from eventstore.errors import LogError
from eventstore.writer import LogWriter

T = TypeVar("T")


class LogAppender:
    """The log of a run and the thread that writes it. All methods raise DaemonError if the log
    cannot be written, or if writing takes `seconds_max`. `consequence` is what happens then, for
    the message."""

    def __init__(self, log: LogWriter, seconds_max: float, consequence: str) -> None:
        self._log = log
        self._seconds_max = seconds_max
        self._consequence = consequence
        self._thread = WriterThread("log-writer")
        self._writing_since: float | None = None
        self._commands: list[Issued | IssuedByBroker] = []
        self.times = AppendTimes()

    @property
    def has_commands(self) -> bool:
        """Whether commands are not in the log yet."""
        return bool(self._commands)

    def add(self, commands: Sequence[Issued | IssuedByBroker]) -> None:
        """Append these commands with the next events."""
        self._commands += commands

    async def append(self, events: Sequence[Recorded | RecordedBrokerEvent]) -> None:
        """Append the events, and the commands that were added: everything, or fail. No event is
        applied that is not stored."""
        commands, self._commands = self._commands, []

        def append() -> float:
            event_records = [event_record(one) for one in events]
            command_records = [command_record(one) for one in commands]
            # Encoding the requests of a large failover takes long, and says nothing about the disk.
            self._writing_since = time.monotonic()
            self._log.append(event_records, command_records)
            return time.monotonic() - self._writing_since

        self.times.add(await self._on_disk(append), len(events))

    async def roll_if_due(self) -> Path | None:
        """Start the next segment if it is due; return its path."""

        def roll() -> Path | None:
            self._writing_since = time.monotonic()
            return self._log.roll_if_due()

        return await self._on_disk(roll)

    def shutdown(self) -> None:
        """End the thread after its last call, without waiting for it."""
        self._thread.shutdown()

    async def _on_disk(self, write: Callable[[], T]) -> T:
        """Return the result of `write`, which notes when it begins to write."""
        self._writing_since = None
        written = asyncio.get_running_loop().run_in_executor(self._thread, write)
        try:
            while not await self._wait_for_write(written):
                pass
            return written.result()
        except LogError as error:
            raise DaemonError(f"cannot append to the log, {self._consequence}: {error}") from error
        finally:
            written.cancel()

    async def _wait_for_write(self, written: asyncio.Future[T]) -> bool:
        """Returns whether the write has finished in time. A timeout is ignored if the whole process
        was suspended meanwhile, which says nothing about the disk."""
        seconds_max, begun = self._seconds_max, time.monotonic()
        since = begun if self._writing_since is None else self._writing_since
        timeout = max(since + seconds_max - begun, 0)
        done, _ = await asyncio.wait({written}, timeout=timeout)
        now, since_now = time.monotonic(), self._writing_since
        if done or since_now is None or now - since_now < seconds_max:
            return bool(done)
        if now - begun < timeout + seconds_max:
            raise DaemonError(
                f"one append to the log in {self._log.folder} took more than "
                f"{seconds_max:.1f} s, so {self._consequence}; check the disk"
            )
        self._writing_since = now
        return False
