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


async def report_silence(
    status: Callable[[], ConnectionStatus],
    first_s: float = FIRST_SECONDS,
    meanwhile: str = "the daemon acts on nothing",
) -> None:
    """Report each time that the process has no connection to ZooKeeper for long, until cancelled.
    The loss itself, and the end of the session, are reported as events. `meanwhile` is what happens
    without a connection."""
    while True:
        if not status().is_connected:
            await _report_until_connected(status, first_s, meanwhile)
        await anyio.sleep(first_s / _POLLS)


async def _report_until_connected(
    status: Callable[[], ConnectionStatus], first_s: float, meanwhile: str
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
            text = "ZooKeeper has not answered for %.0f s, %s; the last failure: %s"
            logger.warning(text, silent_s, meanwhile, now.fault)
            pause_s = min(2 * pause_s, _PAUSE_SECONDS_MAX)
            due_s = silent_s + pause_s
        await anyio.sleep(first_s / _POLLS)
    if is_reported:
        logger.info("ZooKeeper answers after %.0f s", time.monotonic() - heard_s)
