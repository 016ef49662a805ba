"""The report of an import: counts, damage in the source, and clocks that do not fit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from replay.stock_clusters.broker_logs.reading import AllBrokerLogs
from replay.stock_clusters.imported_log.encoding import kind_of
from replay.stock_clusters.imported_log.events import (
    BrokerLogged,
    DamagedFile,
    DecisionObserved,
    ImportBegun,
    ImportEnded,
    RequestInferred,
)
from replay.stock_clusters.imports.logged_requests import LoggedRequests
from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.merging import Gap, MergedLogs
from replay.stock_clusters.zookeeper_log.source import Source
from replay.stock_clusters.zookeeper_log.transactions import CreateSession, Transaction

_OFF_MINUTES: Final = 10
_MINUTE_MS: Final = 60_000


class ImportResult(Struct, frozen=True):
    """Counts of an import, and notes about the source. Times are wall clock, in ms.

    `events` is the number of records in the log. `transactions` come after the first state, which
    includes the `skipped` ones. `sessions` were alive then or began later. `terms` counts the
    controllers' terms, including the one in progress at the start. `by_kind` counts the
    `decisions`, `warm_by_kind` the `warm` ones. `inputs` are writes for requests that no log has.
    """

    log: str
    chroot: str
    cluster_id: str
    transactions: int
    sessions: int
    terms: int
    events: int
    skipped: int
    decisions: int
    warm: int
    inputs: int
    by_kind: dict[str, int]
    warm_by_kind: dict[str, int]
    inputs_by_kind: dict[str, int]
    broker_events: dict[str, int]
    from_zxid: int
    to_zxid: int
    from_ms: int | None
    to_ms: int | None
    damages: list[str]
    gaps: list[str]
    notes: list[str]


class SourceFindings(NamedTuple):
    """The findings of an import about its source. They are the logs as they were read, the gaps,
    notes about altered transactions, other notes that no file is the reason of, the number of
    requests that cannot be read, and the last record.
    """

    source: Source
    logs: MergedLogs
    gaps: Sequence[Gap]
    altered: Sequence[str]
    others: Sequence[str]
    unreadable: int
    ended: ImportEnded


class ImportCounts:
    """The counts during an import."""

    def __init__(self) -> None:
        self.skipped = self.restored_sessions = self.terms = self.events = 0
        self.from_ms: int | None = None
        self._to_ms: int | None = None
        self._to_zxid = self._transactions = self._sessions = 0
        self._by_kind: Counter[str] = Counter()
        self._warm_by_kind: Counter[str] = Counter()
        self._inputs_by_kind: Counter[str] = Counter()
        self._broker_events: Counter[str] = Counter()

    def transaction(
        self, transaction: Transaction, found: DecisionObserved | RequestInferred | None
    ) -> None:
        """Count a transaction and its classification."""
        self._transactions += 1
        self._sessions += isinstance(transaction.content, CreateSession)
        self._to_ms, self._to_zxid = transaction.time_ms, transaction.zxid
        if isinstance(found, DecisionObserved):
            (self._warm_by_kind if found.warm else self._by_kind)[found.what] += 1
        elif isinstance(found, RequestInferred):
            self._inputs_by_kind[_input_kind(found)] += 1

    def broker_event(self, event: BrokerLogged) -> None:
        """Count a line of a broker's log."""
        self._broker_events[kind_of(event)] += 1

    def result(
        self,
        log: str,
        begun: ImportBegun,
        cluster_id: str,
        damages: Sequence[FileDamage],
        gaps: Sequence[Gap],
        notes: Sequence[str],
    ) -> ImportResult:
        """The result of the import, with the counts of all records."""
        return ImportResult(
            log=log,
            chroot=begun.chroot,
            cluster_id=cluster_id,
            transactions=self._transactions,
            sessions=self.restored_sessions + self._sessions,
            terms=self.terms,
            events=self.events,
            skipped=self.skipped,
            decisions=self._by_kind.total(),
            warm=self._warm_by_kind.total(),
            inputs=self._inputs_by_kind.total(),
            by_kind=_sorted(self._by_kind),
            warm_by_kind=_sorted(self._warm_by_kind),
            inputs_by_kind=_sorted(self._inputs_by_kind),
            broker_events=_sorted(self._broker_events),
            from_zxid=begun.zxid,
            to_zxid=self._to_zxid or begun.zxid,
            from_ms=self.from_ms,
            to_ms=self._to_ms,
            damages=[str(one) for one in damages],
            gaps=[str(one) for one in gaps],
            notes=list(notes),
        )


def _input_kind(found: RequestInferred) -> str:
    return "alter_partition_reassignments" if found.reassignments else "alter_partition"


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items()))


def import_ended(
    source: Source,
    logs: MergedLogs,
    broker_logs: AllBrokerLogs,
    requests: LoggedRequests,
    notes: Sequence[str],
    missing_before: int,
    altered: Mapping[int, str],
) -> ImportEnded:
    """The last record of an import, after all logs were read.

    `altered` has the files of transactions that are not as the server wrote them, by zxid. A
    record that a killed server left unfinished is not damage.
    """
    damages = [*source.damages, *logs.damages]
    damaged = Counter(broker_logs.damaged)
    damaged.update(
        {f"request log of broker {one}": count for one, count in requests.unreadable.items()}
    )
    damaged.update(one.file for one in damages if not one.is_torn)
    damaged.update(altered.values())
    repeated: set[int] = set()
    passed_over = 0
    for one in logs.misplaced:
        damaged[one.file] += len(one.records)
        if one.where == "again":
            repeated.update(record.zxid for record in one.records)
        else:
            passed_over += len(one.records)
    return ImportEnded(
        damages,
        list(notes),
        [DamagedFile(*one) for one in sorted(damaged.items())],
        passed_over,
        sorted(repeated),
        source.is_cut or bool(logs.cut) or any(_ends(one, logs) for one in logs.damages),
        missing_before,
        len(altered),
        broker_logs.torn,
        broker_logs.damaged_lines,
    )


def _ends(damage: FileDamage, logs: MergedLogs) -> bool:
    """Whether no other file continues after the damage."""
    return not damage.is_torn and damage.zxid in (None, logs.zxid)


def cut_notes(logs: MergedLogs) -> list[str]:
    """A note if the last transaction log may have had more transactions."""
    if not logs.cut:
        return []
    return [
        f"{logs.cut} ends after zxid {logs.zxid:#x} without the zeros that a server writes after"
        " the last record: later transactions may be missing"
    ]


def clock_notes(logged_ms: Mapping[int, int], elected_ms: Mapping[int, int]) -> list[str]:
    """A note if the brokers' logs are of another time zone: log4j writes none.

    `logged_ms` has the times at which controllers logged their elections, `elected_ms` the times in
    ZooKeeper's log; both by epoch.
    """
    minutes = [
        (logged_ms[epoch] - elected_ms[epoch]) // _MINUTE_MS
        for epoch in sorted(logged_ms.keys() & elected_ms.keys())
    ]
    if not minutes or min(map(abs, minutes)) < _OFF_MINUTES:
        return []
    off = min(minutes, key=abs)
    way = "ahead of" if off > 0 else "behind"
    return [
        f"the brokers' logs are {abs(off)} minutes {way} ZooKeeper's: set the brokers' time zone"
        " with --zone"
    ]
