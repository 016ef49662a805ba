"""Housekeeping after a roll-over: make a snapshot for the new segment, then remove old segments."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
from anyio.to_thread import run_sync
from msgspec import Struct, structs

from eventstore.errors import LogError
from eventstore.mirror.progress import TopicLocation, is_mirrored
from eventstore.retention import retain

logger = logging.getLogger(__name__)


class Retention(Struct, frozen=True):
    """Retention limits for the logs in a log directory; None means no limit. Segments that are
    not yet published to the topic `mirror` are kept in any case, if a mirror is configured."""

    bytes_max: int | None = None
    age_ms_max: int | None = None
    mirror: TopicLocation | None = None


class Housekeeping:
    """Keeps the log directory small. Errors are logged and do not affect the controller."""

    def __init__(self, log: Path, retention: Retention, snapshot_command: Sequence[str]) -> None:
        """`snapshot_command` is a program with its first arguments. With the log's folder as the
        last argument it stores a snapshot for each segment that has none."""
        self._log = log
        self._retention = retention
        self._snapshot_command = snapshot_command
        self._one_helper = anyio.Lock()

    async def change_limits(self, bytes_max: int | None, age_ms_max: int | None) -> None:
        """Apply other limits from now on."""
        async with self._one_helper:
            changes = {"bytes_max": bytes_max, "age_ms_max": age_ms_max}
            self._retention = structs.replace(self._retention, **changes)
            await self.apply_retention()

    async def after_roll(self) -> None:
        """Make the snapshot in a helper process, then apply retention. Only one call works at a
        time."""
        async with self._one_helper:
            fault = await self._make_snapshots()
            if fault:
                logger.warning(
                    "no snapshot was made of the new segment, so old segments are kept: %s", fault
                )
            await self.apply_retention()

    async def _make_snapshots(self) -> str:
        """Run the helper process; return its error message, empty if it succeeded."""
        command = [*self._snapshot_command, str(self._log)]
        try:
            helper = await anyio.run_process(command, check=False)
        except OSError as error:
            return f"cannot start the helper process: {error}"
        return helper.stderr.decode(errors="replace").strip()[-500:] if helper.returncode else ""

    async def apply_retention(self) -> None:
        """Remove the segments that exceed a limit."""
        try:
            removed = await run_sync(self._retain)
        except LogError as error:
            logger.warning("cannot remove old segments: %s", error)
            return
        if removed:
            logger.info("removed %d old segments, the oldest is %s", len(removed), removed[0])

    def _retain(self) -> list[Path]:
        limits = self._retention

        def is_held(segment: Path) -> bool:
            return limits.mirror is not None and not is_mirrored(segment, limits.mirror)

        return retain(
            self._log.parent,
            limits.bytes_max,
            limits.age_ms_max,
            time.time_ns(),
            own=self._log,
            is_held=is_held,
        )
