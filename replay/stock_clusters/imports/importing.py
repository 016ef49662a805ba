"""Makes an imported log from a source, in the order of zxids.

The first state is a snapshot with all transactions that it may already contain; transactions before
--from go into it, too. Then follows each transaction with its classification (`decisions`). The
lines of brokers' logs are merged in by time. Memory holds only one state of ZooKeeper and the
requests in the request logs.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, tzinfo
from itertools import chain, takewhile
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from controller.escaping import escape_unprintable
from controller.fingerprint import code_version, core_fingerprint
from eventstore.records import Header
from replay.errors import ReplayError
from replay.garbage_collection import paused_garbage_collection
from replay.progress import Progress, unreported
from replay.stock_clusters.broker_logs.reading import AllBrokerLogs, BrokerLogs
from replay.stock_clusters.imported_log.events import (
    ImportBegun,
    ImportEnded,
    LoggedEvent,
)
from replay.stock_clusters.imported_log.state_events import apply, changed_events
from replay.stock_clusters.imports.kafka_root import (
    KafkaRoot,
    NoClusterError,
    find_kafka,
)
from replay.stock_clusters.imports.log_builder import LogBuilder
from replay.stock_clusters.imports.logged_requests import LOGS, LoggedRequests
from replay.stock_clusters.imports.records import new_log
from replay.stock_clusters.imports.report import (
    ImportCounts,
    ImportResult,
    SourceFindings,
    clock_notes,
    cut_notes,
    import_ended,
)
from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.gap_resolution import GapResolver, Resumption
from replay.stock_clusters.zookeeper_log.merging import Gap, MergedLogs
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.source import Source, open_source
from replay.stock_clusters.zookeeper_log.transactions import Transaction


class Selection(Struct, frozen=True):
    """The part of a source to import: the cluster under a chroot (None: the only cluster), and the
    time from `from_ms` to `to_ms`, both included. `zone` is the time zone of brokers' logs."""

    chroot: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    zone: tzinfo = UTC


def import_source(
    path: Path, log: Path, selection: Selection, progress: Progress = unreported
) -> ImportResult:
    """Make the log in the folder `log` from a folder or an archive.

    Raises ReplayError if the source cannot be used, and LogError if the log cannot be written; an
    incomplete log is removed.
    """
    with open_source(path, progress) as source:
        broker_logs = BrokerLogs(source.broker_logs, selection.zone)
        return import_opened(escape_unprintable(path), source, broker_logs, log, selection)


def import_opened(
    name: str,
    source: Source,
    broker_logs: AllBrokerLogs,
    log: Path,
    selection: Selection,
    complete: Callable[[SourceFindings], ImportEnded] = lambda found: found.ended,
) -> ImportResult:
    """Make the log in the folder `log`, which names its source `name`, from an open source.
    `complete` returns the last record. Raises ReplayError, LogError."""
    state, root, before = first_with_kafka(source, selection.chroot)
    logs = source.transactions(state.zxid)
    resuming = GapResolver(source, logs)
    counts = ImportCounts()
    transactions = _after_first_state(state, iter(logs), resuming, selection, counts)
    header = Header(
        kind="world-backed",
        core_fingerprint=core_fingerprint(),
        code_version=code_version(),
        configuration={},
        cluster_id=root.cluster_id,
        created_ns=time.time_ns(),
    )
    begun = ImportBegun(name, source.server.name, state.zxid, root.chroot)
    # Requests after the selected time are not part of this import.
    requests = LoggedRequests(
        one for one in broker_logs.events(LOGS) if not _is_late(one, selection.to_ms)
    )
    with new_log(log, header) as records, paused_garbage_collection():
        one = LogBuilder(state, root, requests, counts, records)
        one.begin(begun)
        one.follow(transactions, resuming, _between(broker_logs.events(), selection, counts))
        if logs.damages and not logs.read:
            damages = "; ".join(map(str, logs.damages))
            raise ReplayError(f"no transaction can be read: {damages}")
        if selection.to_ms is None:
            source.note_uncovered(logs)
        altered_notes = [*one.versions.notes, *one.digests.notes]
        others = [*requests.notes, *clock_notes(requests.elected_ms, one.elected_ms)]
        misplaced = map(str, logs.misplaced)
        of_zookeeper = (*source.notes, *logs.renamed, *misplaced, *altered_notes, *cut_notes(logs))
        notes = [*of_zookeeper, *broker_logs.notes, *others]
        missing = before.transactions + sum(gap.at_least for gap in before.gaps)
        altered = one.versions.altered | one.digests.altered
        ended = import_ended(source, logs, broker_logs, requests, notes, missing, altered)
        gaps = (*before.gaps, *logs.gaps)
        unreadable = requests.unreadable.total()
        found = SourceFindings(source, logs, gaps, altered_notes, others, unreadable, ended)
        one.end(complete(found))
    damaged = (*source.damages, *logs.damages)
    return counts.result(escape_unprintable(log), begun, root.cluster_id, damaged, gaps, notes)


class _LeftOutTransactions(NamedTuple):
    """Transactions of a source that are left out before the first usable state, and gaps."""

    transactions: int
    gaps: Sequence[Gap]


def first_with_kafka(
    source: Source, chroot: str | None
) -> tuple[ZooKeeperState, KafkaRoot, _LeftOutTransactions]:
    """The first state that contains the cluster, or after which the cluster is created.

    If logs are damaged or incomplete, a later state is tried. Raises NoClusterError, which reports
    the damage, and SeveralClustersError.
    """
    why = ""
    tried: MergedLogs | None = None
    for state, note, left_out in source.first_states():
        logs = source.transactions(state.zxid)
        try:
            root = find_kafka(state.tree, logs, chroot)
        except NoClusterError as error:
            broken = [*map(str, logs.damages), *map(str, logs.gaps)]
            empty = [] if logs.read else ["the logs have no transaction"]
            why = why or "; ".join((*broken, *empty, str(error)))
            tried = tried or logs
            if not broken:
                break
        else:
            source.notes.append(note)
            if tried is None:
                return state, root, _LeftOutTransactions(left_out, ())
            source.damages += [one for one in tried.damages if _is_before(one, state.zxid)]
            lost = [gap.up_to(state.zxid) for gap in tried.gaps if gap.after < state.zxid]
            return state, root, _LeftOutTransactions(0 if lost else left_out, lost)
    raise NoClusterError("; ".join((*map(str, source.damages), why)))


def _is_before(damage: FileDamage, zxid: int) -> bool:
    """Whether the damage is before the first state."""
    return damage.zxid is None or damage.zxid < zxid


def _after_first_state(
    state: ZooKeeperState,
    logs: Iterator[Transaction],
    resuming: GapResolver,
    selection: Selection,
    counts: ImportCounts,
) -> Iterator[Transaction]:
    """Apply the transactions of the first state, and return those after it in the selected time.

    Raises ReplayError if no transaction is in the selected time.
    """
    from_ms, to_ms = selection.from_ms, selection.to_ms
    for transaction in logs:
        is_early = from_ms is not None and transaction.time_ms < from_ms
        if transaction.zxid > state.exact_from and not is_early:
            if _is_late(transaction, to_ms):
                raise ReplayError("all transactions are after --to: use a later time")
            counts.from_ms = transaction.time_ms
            return _transactions_until(to_ms, chain((transaction,), logs))
        for met in resuming.before(transaction):
            if isinstance(met, Resumption):
                for event in changed_events(state, met.state):
                    apply(state, event)
        state.apply(transaction)
        counts.skipped += 1
    if from_ms is not None:
        raise ReplayError("all transactions are before --from: use an earlier time")
    return iter(())


def _transactions_until(
    to_ms: int | None, transactions: Iterator[Transaction]
) -> Iterator[Transaction]:
    if to_ms is None:
        return transactions
    return takewhile(lambda one: not _is_late(one, to_ms), transactions)


def _is_late(one: Transaction | LoggedEvent, to_ms: int | None) -> bool:
    return to_ms is not None and one.time_ms > to_ms


def _between(
    events: Iterator[LoggedEvent], selection: Selection, counts: ImportCounts
) -> Iterator[LoggedEvent]:
    """The lines of brokers' logs in the time of the selected transactions."""
    for event in events:
        is_early = counts.from_ms is None or event.time_ms < counts.from_ms
        if not is_early and not _is_late(event, selection.to_ms):
            yield event
