"""One process at a time at what a lock file stands for."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replay.fleet.errors import FleetError


@contextmanager
def exclusive(lock: Path, what: str, then: str = "wait for it, or end it") -> Iterator[None]:
    """Hold the lock; `what` is who else may hold it, `then` what to do. Raises FleetError if one
    does, OSError."""
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FleetError(f"{lock.parent}: {what} is at work there: {then}") from None
        yield


@contextmanager
def in_turn(lock: Path) -> Iterator[None]:
    """Hold the lock when whoever has it is done. Raises OSError."""
    with lock.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
