"""Opens any log: of the daemon (recorded), or of an imported cluster (world-backed).

with open_log(path) as log:
    if isinstance(log, ImportedLog): ...
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from controller.core.configuration import Configuration
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.verify import check_complete
from replay.errors import ReplayError
from replay.logs.broker_log import broker_configuration_of, is_of_broker
from replay.logs.decode import UPCASTERS, configuration_of
from replay.logs.opened_broker_log import BrokerLog
from replay.logs.packed import log_at
from replay.logs.stored_commands import StoredCommands
from replay.progress import Progress, unreported
from replay.stock_clusters.imported_log.reading import ImportedLog, open_imported


class RecordedLog(Struct, frozen=True):
    """A log of refold's daemon, the configuration of its fold, and whether the log has the commands
    that the fold derives."""

    reader: LogReader
    configuration: Configuration
    commands: StoredCommands


OpenedLog = RecordedLog | ImportedLog
IsChecked = Callable[[LogReader], bool]
"""Whether the files of a log were checked earlier and are unchanged since."""


def unchecked(_: LogReader) -> bool:
    """No log was checked earlier."""
    return False


@contextmanager
def open_reader(path: Path | str, progress: Progress = unreported) -> Iterator[LogReader]:
    """The records of a log, also while it is being written. The path is that of a folder, a
    segment, a packed log, an incident or a recording of a stock cluster, or "-" for a stream.
    A recording is imported first, which reports its progress. Raises LogError, ReplayError."""
    with log_at(path, progress) as log, LogReader.open(log, UPCASTERS) as reader:
        yield reader


@contextmanager
def open_any_log(
    path: Path | str,
    progress: Progress = unreported,
    is_checked: IsChecked = unchecked,
) -> Iterator[OpenedLog | BrokerLog]:
    """Open a log for folding: also one that a broker of the 0.8 design wrote (see `open_log`).
    Raises LogError, ReplayError."""
    with open_reader(path, progress) as reader:
        if is_of_broker(reader.header):
            check_complete(reader.path)
            configuration = broker_configuration_of(reader.header)
            yield BrokerLog(reader, configuration, StoredCommands(reader.header))
        else:
            yield _open_complete_log(reader, is_checked)


@contextmanager
def open_log(
    path: Path | str,
    progress: Progress = unreported,
    is_checked: IsChecked = unchecked,
) -> Iterator[OpenedLog]:
    """Open a log, given like that of `open_reader`, for folding. The trees of its files are checked
    first, unless `is_checked` says that they were. Raises LogError, ReplayError."""
    with open_reader(path, progress) as reader:
        yield _open_complete_log(reader, is_checked)


def _open_complete_log(reader: LogReader, is_checked: IsChecked) -> OpenedLog:
    if not is_checked(reader):
        check_complete(reader.path)
    if reader.header.kind == "recorded":
        commands = StoredCommands(reader.header)
        return RecordedLog(reader, configuration_of(reader.header), commands)
    return open_imported(reader)


def _check_chain(reader: LogReader, seq: int) -> None:
    """Check the event at a moment, and the next one, whose clock says that the moment is before
    it. Raises LogCorrupt."""
    for _ in reader.events(EventFilter(first_seq=seq, last_seq=seq + 1)):
        pass


def seq_at(reader: LogReader, seq: int | None, wall_ns: int | None) -> int:
    """The number of the last event up to an event number or a wall-clock time in ns; the number of
    the log's last event if both are None. Raises LogCorrupt, and ReplayError if there is no such
    event."""
    last = reader.last_seq
    first = reader.header.first_seq
    if wall_ns is not None:
        found = reader.last_seq_at(wall_ns)
        if found is None:
            raise ReplayError("the log begins later than that")
        _check_chain(reader, found)
        return found
    if seq is None:
        return last
    if not first <= seq <= last:
        raise ReplayError(f"there is no event {seq}: the log has events {first} to {last}")
    return seq
