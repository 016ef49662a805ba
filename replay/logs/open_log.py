"""Opening any log: of the daemon (recorded), or of an imported cluster (world-backed).

with open_log(path) as log:
    if isinstance(log, ImportedLog): ...
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from controller.core.configuration import Configuration
from eventstore.reader import LogReader
from replay.errors import ReplayError
from replay.logs.decode import UPCASTERS, configuration_of
from replay.logs.packed import log_at
from replay.stock_clusters.imported_log.reading import ImportedLog, open_world


class RecordedLog(Struct, frozen=True):
    """A log of refold's own controller, and what its fold was configured with."""

    reader: LogReader
    configuration: Configuration


OpenedLog = RecordedLog | ImportedLog


@contextmanager
def open_reader(path: Path | str) -> Iterator[LogReader]:
    """The records of a log: of a folder, one segment of it, a packed log, an incident, a recording
    of a stock cluster, or "-" for a stream; also while the log is being written. Raises LogError,
    ReplayError."""
    with log_at(path) as log, LogReader.open(log, UPCASTERS) as reader:
        yield reader


@contextmanager
def open_log(path: Path | str) -> Iterator[OpenedLog]:
    """The same log, with what is needed to fold it. Raises LogError, ReplayError."""
    with open_reader(path) as reader:
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
