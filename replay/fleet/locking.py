"""One process at a time in a folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replay.fleet.errors import FleetError


@contextmanager
def exclusive(lock: Path, what: str) -> Iterator[None]:
    """Hold the lock; `what` is who else may hold it. Raises FleetError if one does, OSError."""
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"{lock.parent}: {what} is at work there: wait for it, or end it"
            raise FleetError(text) from None
        yield
