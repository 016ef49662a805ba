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
        began = time.monotonic()
        pause_s, due_s = first_s, first_s
        is_reported = False
        while not (now := status()).is_connected:
            silent_s = time.monotonic() - began
            if silent_s >= due_s:
                is_reported = True
                text = "ZooKeeper has not answered for %.0f s, %s: %s"
                logger.warning(text, silent_s, meanwhile, now.fault)
                pause_s = min(2 * pause_s, _PAUSE_SECONDS_MAX)
                due_s += pause_s
            await anyio.sleep(first_s / _POLLS)
        if is_reported:
            logger.info("ZooKeeper answers after %.0f s", time.monotonic() - began)
        await anyio.sleep(first_s / _POLLS)
