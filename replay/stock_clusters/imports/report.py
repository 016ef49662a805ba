"""What an import came to."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from replay.stock_clusters.imported_log.encoding import kind_of
from replay.stock_clusters.imported_log.events import (
    BrokerLogged,
    Observed,
    RequestInferred,
    WorldBegun,
)
from replay.stock_clusters.zookeeper_log.damage import Damage
from replay.stock_clusters.zookeeper_log.merging import Gap
from replay.stock_clusters.zookeeper_log.transactions import CreateSession, Transaction


class ImportResult(Struct, frozen=True):
    """Counts of an import, and what else there is to tell. Times are ms of the wall clock.

    `events` are the records of the log. `transactions` are those behind the first state, which
    `skipped` ones went into; `sessions` were alive then or began later, `terms` are the
    controllerships, with the one at the start. `by_kind` counts the `decisions`, `warm_by_kind`
    the `warm` ones; `inputs` were asked for in no request log.
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


class Counts:
    """What is counted while an import goes on."""

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
        self, transaction: Transaction, found: Observed | RequestInferred | None
    ) -> None:
        """One more transaction, and what it was found to be."""
        self._transactions += 1
        self._sessions += isinstance(transaction.content, CreateSession)
        self._to_ms, self._to_zxid = transaction.time_ms, transaction.zxid
        if isinstance(found, Observed):
            (self._warm_by_kind if found.warm else self._by_kind)[found.what] += 1
        elif isinstance(found, RequestInferred):
            self._inputs_by_kind[_asked_kind(found)] += 1

    def broker_event(self, event: BrokerLogged) -> None:
        """One more line of a broker's log."""
        self._broker_events[kind_of(event)] += 1

    def result(
        self,
        log: str,
        begun: WorldBegun,
        cluster_id: str,
        damages: Sequence[Damage],
        gaps: Sequence[Gap],
        notes: Sequence[str],
    ) -> ImportResult:
        """The counts."""
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


def _asked_kind(found: RequestInferred) -> str:
    return "alter_partition_reassignments" if found.reassignments else "alter_partition"


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items()))
