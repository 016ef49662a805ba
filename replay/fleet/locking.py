"""Locks that let one process at a time use a folder, and folders for results in preparation."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replay.fleet.errors import FleetError


@contextmanager
def exclusive(
    lock: Path, what: str, then: str = "wait until it ends, or stop it"
) -> Iterator[None]:
    """Hold the lock. `what` names the process that may hold it otherwise, `then` is the advice for
    that case. Raises FleetError if the lock is taken, OSError."""
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FleetError(f"{lock.parent}: {what} is using this folder: {then}") from None
        yield


@contextmanager
def deleting_folder(folder: Path) -> Iterator[None]:
    """Delete a folder before and after the block. A killed process may have left it."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def in_turn(lock: Path) -> Iterator[None]:
    """Wait for the lock and hold it. Raises OSError."""
    with lock.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
