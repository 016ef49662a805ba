"""Locks that let one process at a time use a folder, and folders for results in preparation."""

import fcntl
import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from replay.fleet.errors import FleetError

_STAGING: Final = "staging"


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


class StagingFolder:
    """A folder to which a command adds batches, and the place in it where the command prepares the
    next one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.staging = folder / _STAGING / uuid.uuid4().hex

    def results_of(self, step: str) -> str:
        """The folder in which a step stores the input of the next step."""
        return str(self.staging / step)

    def deleting_leftovers(self) -> AbstractContextManager[None]:
        """Delete what this command, or one that was killed, has prepared."""
        return deleting_folder(self.folder / _STAGING)


@contextmanager
def in_turn(lock: Path) -> Iterator[None]:
    """Wait for the lock and hold it. Raises OSError."""
    with lock.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
