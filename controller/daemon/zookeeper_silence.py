"""Reports, now and then, that ZooKeeper does not answer a running daemon."""

import logging
import time
from collections.abc import Callable
from typing import Final

import anyio

from controller.zookeeper.connection import ConnectionStatus

logger = logging.getLogger(__name__)

FIRST_SECONDS: Final = 10.0
"""The first report; each next one comes after twice the time."""
_PAUSE_SECONDS_MAX: Final = 600.0
_POLLS: Final = 10
"""Looks at the connection per `FIRST_SECONDS`."""
_HUNG_SECONDS: Final = 2.0
"""A process that wakes up this late did not run meanwhile."""


class _Naps:
    """Sleeps, and notes when the process did not run meanwhile: it was suspended, or its event loop
    was blocked."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._hung_s = self._woken_s = 0.0

    async def sleep(self) -> None:
        """Sleep once."""
        due_s = time.monotonic() + self._seconds
        await anyio.sleep(self._seconds)
        now_s = time.monotonic()
        if now_s - due_s >= _HUNG_SECONDS:
            self._hung_s, self._woken_s = now_s - due_s, now_s

    def hung_since(self, begun_s: float) -> float:
        """How long the process did not run, if it was after `begun_s`; 0 otherwise."""
        return self._hung_s if self._woken_s > begun_s else 0.0


async def report_silence(
    status: Callable[[], ConnectionStatus],
    first_s: float = FIRST_SECONDS,
    meanwhile: str = "the daemon acts on nothing",
) -> None:
    """Report each time that the process has no connection to ZooKeeper for long, until cancelled.
    The loss itself, and the end of the session, are reported as events. `meanwhile` is what happens
    without a connection."""
    naps = _Naps(first_s / _POLLS)
    while True:
        if not status().is_connected:
            await _report_until_connected(status, first_s, meanwhile, naps)
        await naps.sleep()


async def _report_until_connected(
    status: Callable[[], ConnectionStatus], first_s: float, meanwhile: str, naps: _Naps
) -> None:
    """The silence began when a server was last heard. The loss of the connection is noticed after
    a part of the session timeout."""
    heard_s = time.monotonic() - (status().heard_ms_ago or 0) / 1000
    pause_s = due_s = first_s
    is_reported = False
    while not (now := status()).is_connected:
        silent_s = time.monotonic() - heard_s
        if silent_s >= due_s:
            is_reported = True
            hung_s = naps.hung_since(heard_s)
            logger.warning(
                "ZooKeeper has not answered for %.0f s%s, %s; the last failure: %s",
                silent_s,
                f" (for {hung_s:.0f} s of these refold itself did not run)" if hung_s else "",
                meanwhile,
                now.fault,
            )
            pause_s = min(2 * pause_s, _PAUSE_SECONDS_MAX)
            due_s = silent_s + pause_s
        await naps.sleep()
    if is_reported:
        logger.info("ZooKeeper answers after %.0f s", time.monotonic() - heard_s)
