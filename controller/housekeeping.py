"""What follows a roll-over: a snapshot for the new segment, then old segments go."""

import logging
import sys
import time
from pathlib import Path

import anyio
from anyio.to_thread import run_sync
from msgspec import Struct

from eventstore.errors import LogError
from eventstore.mirror.progress import Place, is_mirrored
from eventstore.retention import retain

logger = logging.getLogger(__name__)


class Retention(Struct, frozen=True):
    """How much of the logs in a log directory is kept; None is no limit. What is not on the topic
    `mirror` yet is kept in any case, if there is one."""

    bytes_max: int | None = None
    age_ms_max: int | None = None
    mirror: Place | None = None


class Housekeeping:
    """Keeps the log directory small. Errors are told and change nothing for the controller."""

    def __init__(self, log: Path, retention: Retention) -> None:
        self._log = log
        self._retention = retention
        self._one_helper = anyio.Lock()

    async def after_roll(self) -> None:
        """Make the snapshot in a helper process, then apply retention; one at a time."""
        async with self._one_helper:
            fault = await self._make_snapshots()
            if fault:
                logger.warning("no snapshot of the new segment, old ones are kept: %s", fault)
            await self.apply_retention()

    async def _make_snapshots(self) -> str:
        """Run the helper; what went wrong, empty for nothing."""
        command = [sys.executable, "-m", "replay.logs.snapshots", str(self._log)]
        try:
            helper = await anyio.run_process(command, check=False)
        except OSError as error:
            return f"the helper process cannot be started: {error}"
        return helper.stderr.decode(errors="replace").strip()[-500:] if helper.returncode else ""

    async def apply_retention(self) -> None:
        """Remove the segments that are over a limit."""
        try:
            removed = await run_sync(self._retain)
        except LogError as error:
            logger.warning("cannot remove old segments: %s", error)
            return
        if removed:
            logger.info("removed %d old segments, the oldest %s", len(removed), removed[0])

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
