"""Waiting for a state that no event announces: a file, a count, a log line, another process.

`until` of `tools/lab/cluster_view.py` polls a condition that itself awaits. An event is awaited
directly.
"""

import subprocess
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tools.lab import cluster_view

Found = TypeVar("Found")

WAIT_SECONDS = 30
SPARK_SECONDS = 120
"""For a process that starts Spark first."""
_POLL_SECONDS = 0.02


async def until_found(find: Callable[[], Found], what: str, seconds: float = WAIT_SECONDS) -> Found:
    """Poll until `find` returns a true value, and return this value. Raises TimeoutError with
    `what`."""

    async def ask() -> Found:
        return find()

    return await cluster_view.until(ask, seconds, what)


def block_until_found(
    find: Callable[[], Found],
    what: str,
    seconds: float = WAIT_SECONDS,
    *,
    process: subprocess.Popen[Any] | None = None,
) -> Found:
    """The same without an event loop. Fails with the output of `process` if this process ends
    first."""
    deadline = time.monotonic() + seconds
    while not (found := find()):
        if process is not None and process.poll() is not None:
            raise AssertionError(f"{what}: the process ended before: {process.communicate()}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(_POLL_SECONDS)  # the poll of all tests without an event loop
    return found
