"""Makes an imported log from the files of a running cluster, as ZooKeeper and the brokers write
them.

Transactions and lines of brokers' logs are merged by time, as in an import. A line may appear later
than transactions of its time, so a record waits until each file has a later one, or for a moment.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from controller.escaping import escape_unprintable
from controller.fingerprint import code_version, core_fingerprint
from eventstore.records import EventRecord, Header
from eventstore.writer import LogWriter
from replay.errors import ReplayError
from replay.progress import Progress, unreported
from replay.stock_clusters.broker_logs.growing import GrowingBrokerLog
from replay.stock_clusters.imported_log.events import (
    DamagedFile,
    DamagedLines,
    ImportBegun,
    ImportedEvent,
    ImportEnded,
    LoggedEvent,
)
from replay.stock_clusters.imported_log.reading import ImportedRecord
from replay.stock_clusters.imports.importing import first_with_kafka
from replay.stock_clusters.imports.kafka_root import KafkaRoot, find_kafka
from replay.stock_clusters.imports.log_builder import LogBuilder
from replay.stock_clusters.imports.logged_requests import LoggedRequests
from replay.stock_clusters.imports.records import Records
from replay.stock_clusters.imports.report import ImportCounts
from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.growing import GrowingLogs
from replay.stock_clusters.zookeeper_log.merging import Gap, UnwatchedChanges
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_HELD_SECONDS: Final = 0.5
"""A record waits at most this long for earlier records of other files."""


class ImportStart(NamedTuple):
    """The state to begin with, the cluster in it, and notes about the files. `source` names them,
    `missing` counts transactions before the state that cannot be read."""

    state: ZooKeeperState
    root: KafkaRoot
    source: str
    folder: Path
    missing: int = 0
    notes: Sequence[str] = ()


def find_start(
    path: Path, chroot: str | None, after: int = 0, progress: Progress = unreported
) -> ImportStart:
    """The first usable state in the folder of a running ZooKeeper; after missing transactions the
    first one that is later than zxid `after`.

    Raises ReplayError.
    """
    with open_source(path, progress) as source:
        folder = source.server.logs[-1].path.parent
        if not after:
            state, root, left_out = first_with_kafka(source, chroot)
            missing = left_out.transactions + sum(one.at_least for one in left_out.gaps)
            return ImportStart(state, root, escape_unprintable(path), folder, missing, source.notes)
        later = (one for one in source.server.snapshots if one.zxid > after)
        found = next(source.usable(later), None)
        if found is None:
            raise ReplayError(
                f"{path}: transactions after zxid {after:#x} are missing, and no later snapshot"
                " can be used"
            )
        state, snapshot = found
        root = find_kafka(state.tree, (), chroot)
        missing = Gap(after, snapshot.zxid + 1).at_least
        return ImportStart(state, root, escape_unprintable(path), folder, missing, source.notes)


class Transactions(Protocol):
    """Where transactions come from: a server's growing files (GrowingLogs), or a session that
    watches. `unseen_zxids` are transactions whose znodes had versions in between that were not
    seen, `unseen_versions` is the number of these versions. `known_ms`: if the session has no
    connection, the wall clock up to which it has seen the cluster."""

    zxid: int
    file: str
    damages: list[FileDamage]
    stalled: FileDamage | None
    is_at_end: bool
    unseen_versions: int
    unseen_zxids: set[int]
    known_ms: int | None

    def read(self, limit: int, now: float) -> Iterator[Transaction | Gap | UnwatchedChanges]:
        """At most `limit` new transactions."""

    def close(self) -> None:
        """Close the files or the session."""


class _Waiting(NamedTuple):
    """A record that was read at `since`, on the monotonic clock, and not written yet."""

    since: float
    time_ms: int
    record: Transaction | Gap | LoggedEvent


class _Stream:
    """The records of one file, or of the transaction logs, that were not written yet."""

    def __init__(self) -> None:
        self.waiting: deque[_Waiting] = deque()
        self.is_at_end = False


class FollowedImport:
    """Writes one log. A context manager: at the end the log gets its last record."""

    def __init__(
        self,
        begun: ImportStart,
        log: Path,
        broker_logs: Sequence[GrowingBrokerLog] = (),
        watched: Transactions | None = None,
    ) -> None:
        """Begin the log in the folder `log`. Raises LogError."""
        self.begun = begun
        self.folder = log
        self.gap: Gap | UnwatchedChanges | None = None
        """Missing transactions after which this log cannot be continued."""
        self.altered = 0
        self._logs: Transactions = watched or GrowingLogs(begun.folder, begun.state.zxid)
        self._broker_logs = list(broker_logs)
        self._streams = [_Stream() for _ in range(1 + len(self._broker_logs))]
        self._found: list[ImportedRecord] = []
        self._first_ms: int | None = None
        self._last_ms = 0
        self._writer = LogWriter.create(log, _header(begun.root))
        self._records = Records(self._writer, self._note)
        self._builder = LogBuilder(
            begun.state, begun.root, LoggedRequests(), ImportCounts(), self._records
        )
        # A session that watches does not see every version.
        self._builder.versions.is_known = watched is None
        self._is_begun = False

    @property
    def unseen_versions(self) -> int:
        """The number of versions of znodes that were not seen."""
        return self._logs.unseen_versions

    @property
    def unseen_zxids(self) -> set[int]:
        """The transactions that overwrote these versions; grows with the log."""
        return self._logs.unseen_zxids

    @property
    def known_ms(self) -> int | None:
        """If ZooKeeper is watched and there is no connection: the wall clock up to which the
        cluster is known. None if it is known up to now."""
        return self._logs.known_ms

    @property
    def zxid(self) -> int:
        """The last transaction."""
        return self._logs.zxid

    @property
    def notes(self) -> list[str]:
        """The records that cannot be read or differ from what the server wrote."""
        builder = self._builder
        damages = map(str, self._logs.damages)
        of_lines = [note for log in self._broker_logs for note in log.notes]
        notes = [*builder.versions.notes, *builder.digests.notes]
        return [*self.begun.notes, *damages, *of_lines, *notes]

    @property
    def damaged_lines(self) -> list[DamagedLines]:
        """The lines of brokers' logs that could not be parsed so far."""
        return [one for log in self._broker_logs for one in log.damaged_lines]

    @property
    def damaged(self) -> dict[str, int]:
        """The number of these lines, by file."""
        counts = {
            escape_unprintable(log.path): log.counts.not_understood for log in self._broker_logs
        }
        return {file: count for file, count in counts.items() if count}

    @property
    def stalled(self) -> str:
        """Why the file that the server writes cannot be read further, "" if it can."""
        return str(self._logs.stalled or "")

    def read(self, limit: int, now: float) -> Sequence[ImportedRecord]:
        """Write what the cluster has written, at most about `limit` transactions, and return the
        records. `now` is a monotonic clock in seconds. Raises ReplayError, LogError.
        """
        transactions, *others = self._streams
        if self.gap is None and len(transactions.waiting) < limit:
            for one in self._logs.read(limit, now):
                self._apply(one, transactions, now)
            transactions.is_at_end = self._logs.is_at_end
        for stream, log in zip(others, self._broker_logs, strict=True):
            if len(stream.waiting) < limit:
                stream.waiting += (_Waiting(now, one.time_ms, one) for one in log.read())
            stream.is_at_end = log.is_at_end
        for merged in self._merged_records(now):
            self._write(merged)
        if self.is_at_end and self._logs.zxid >= self.begun.state.exact_from:
            # Other commands can read the log before the first change.
            self._begin()
        self._records.flush()
        found, self._found = self._found, []
        return found

    @property
    def is_at_end(self) -> bool:
        """Whether everything that the cluster has written was read and written to the log."""
        return all(one.is_at_end and not one.waiting for one in self._streams)

    def _note(self, record: EventRecord, event: ImportedEvent) -> None:
        self._found.append((record, event))

    def end(self, notes: Sequence[str], known_ms: int = 0) -> None:
        """Write the last record and close the log, which has all transactions up to `known_ms`."""
        damages = self._logs.damages
        self.altered = len(self._builder.versions.altered | self._builder.digests.altered)
        ended = ImportEnded(
            damages,
            [*self.notes, *notes],
            [DamagedFile(*one) for one in sorted(self.damaged.items())],
            missing_before=self.begun.missing,
            altered=self.altered,
            damaged_lines=self.damaged_lines,
            known_ms=known_ms,
        )
        self._begin()
        self._builder.end(ended)
        self._records.flush()
        self._close()
        self._writer.close()

    def abandon(self) -> None:
        """Close the log without its last record."""
        self._close()
        self._writer.abandon()

    def _close(self) -> None:
        self._logs.close()
        for one in self._broker_logs:
            one.close()

    def _apply(
        self, one: Transaction | Gap | UnwatchedChanges, stream: _Stream, now: float
    ) -> None:
        if isinstance(one, UnwatchedChanges):
            self.gap = one
        elif isinstance(one, Gap):
            if one.is_wide:
                self.gap = one
            else:
                stream.waiting.append(_Waiting(now, self._last_ms, one))
        elif not self._is_begun and one.zxid <= self.begun.state.exact_from:
            # The snapshot may include this one.
            self.begun.state.apply(one)
        else:
            self._last_ms = one.time_ms
            stream.waiting.append(_Waiting(now, one.time_ms, one))

    def _merged_records(self, now: float) -> Iterator[Transaction | Gap | LoggedEvent]:
        """The records that nothing earlier can precede any more, by time."""
        while heads := [one for one in self._streams if one.waiting]:
            first = min(heads, key=lambda one: one.waiting[0].time_ms)
            is_held = now - first.waiting[0].since < _HELD_SECONDS
            if any(not one.waiting and (is_held or not one.is_at_end) for one in self._streams):
                return
            yield first.waiting.popleft().record

    def _write(self, one: Transaction | Gap | LoggedEvent) -> None:
        if isinstance(one, LoggedEvent):
            # Lines before the first transaction are left out.
            if self._first_ms is not None and one.time_ms >= self._first_ms:
                self._builder.line(one)
            return
        if isinstance(one, Gap):
            self._begin()
            self._builder.add_gap(one, self._last_ms)
            return
        self._first_ms = one.time_ms if self._first_ms is None else self._first_ms
        self._begin()
        self._builder.transaction(one, self._logs.file)

    def _begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            begun = self.begun
            self._builder.begin(
                ImportBegun(begun.source, str(begun.folder), begun.state.zxid, begun.root.chroot),
                begun.state.last_ms if self._first_ms is None else self._first_ms,
            )


def _header(root: KafkaRoot) -> Header:
    return Header(
        kind="world-backed",
        core_fingerprint=core_fingerprint(),
        code_version=code_version(),
        configuration={},
        cluster_id=root.cluster_id,
        created_ns=time.time_ns(),
    )
