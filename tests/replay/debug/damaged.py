"""A damaged log for tests of the debugger."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from replay.logs.packed import log_at


@contextmanager
def log_with_changed_event(incident: Path, seq: int) -> Iterator[Path]:
    """The log of an incident, in which an event was changed."""
    with log_at(incident) as folder:
        [segment] = Path(folder).glob("*.refold")
        with closing(sqlite3.connect(segment)) as change, change:
            change.execute("update events set payload = x'00' where seq = ?", (seq,))
        yield Path(folder)
