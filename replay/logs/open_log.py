"""Opening a log of either kind: of the daemon (recorded), or of an imported cluster (world-backed).

with open_log(path) as log:
    if isinstance(log, World): ...
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from controller.core.canonical import EVENT_SCHEMAS
from controller.core.configuration import Configuration
from eventstore.reader import LogReader
from eventstore.upcasters import Upcasters
from replay.errors import ReplayError
from replay.logs.decode import configuration_of
from replay.logs.older_events import UPCASTS
from replay.logs.packed import log_at
from replay.stock_clusters.imported_log.encoding import SCHEMAS
from replay.stock_clusters.imported_log.reading import ImportedLog, open_world

UPCASTERS = Upcasters({**EVENT_SCHEMAS, **SCHEMAS}, UPCASTS)
"""What takes the events of every older refold to those of this one, whichever kind of log."""


class RecordedLog(Struct, frozen=True):
    """A log of refold's own controller, and what its fold was configured with."""

    reader: LogReader
    configuration: Configuration


OpenedLog = RecordedLog | ImportedLog


@contextmanager
def open_log(path: Path | str) -> Iterator[OpenedLog]:
    """A log's folder, one segment of it, a packed log or an incident, or "-" for a stream. Raises
    LogError, ReplayError."""
    with log_at(path) as log, LogReader.open(log, UPCASTERS) as reader:
        if reader.header.kind == "recorded":
            yield RecordedLog(reader, configuration_of(reader.header))
        else:
            yield open_world(reader)


def seq_at(reader: LogReader, seq: int | None, wall_ns: int | None) -> int:
    """The number of the last event up to a moment, given as a number or as a wall clock in ns;
    that of the log's last event where neither is given. Raises ReplayError."""
    last = reader.last_seq
    first = reader.header.first_seq
    if wall_ns is not None:
        found = reader.last_seq_at(wall_ns)
        if found is None:
            raise ReplayError("the log begins later than that")
        return found
    if seq is None:
        return last
    if not first <= seq <= last:
        raise ReplayError(f"the log has events from {first} to {last}: there is no {seq}")
    return seq
