"""The report of an import about its source: missing and repeated transactions, and damage."""

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.agreement.cause import NO_CAUSE
from replay.agreement.gap_free_ranges import bounds_of, gap_events
from replay.agreement.logs.index import operations_of, path_of
from replay.agreement.results import Divergence
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportedEvent,
    ImportEnded,
    ImportResumed,
    RequestInferred,
    TransactionsMissing,
)
from replay.stock_clusters.imported_log.reading import open_imported, unfinished_notes
from replay.stock_clusters.zookeeper_log.merging import Gap
from replay.stock_clusters.zookeeper_log.transactions import Operation, Transaction
from replay.znode_tree.paths import below

_KINDS: Final = ("transaction", "observed", "request_inferred")
_DIFFERENCE: Final = (
    "the transaction logs have its transaction more than once, the fold makes it once"
)


class ImportReport(NamedTuple):
    """`notes` about the source and about what is not judged, the least number of missing
    transactions, and the last record of the import (that of a cut source if the log ends before
    it)."""

    notes: list[str]
    missing_transactions: int
    ended: ImportEnded


def import_report(reader: LogReader) -> ImportReport:
    """The report of the import. Raises ReplayError, LogError."""
    events = gap_events(reader)
    notes: list[str] = []
    missing, ended = 0, ImportEnded([], [], is_cut=True)
    log = open_imported(reader)
    ends = {end + 1 for _, end in bounds_of(log.first_seq, events) if end is not None}
    for (seq, event), (_, following) in pairwise([*events, (0, None)]):
        match event:
            case TransactionsMissing(after=after, before=before):
                gap, not_judged = Gap(after, before), ""
                missing += gap.at_least
                if seq in ends:
                    not_judged = f": what follows is not judged{_up_to(following)}"
                notes.append(f"{gap}{not_judged}")
            case ImportEnded():
                ended = event
                notes += [*map(str, event.damages), *event.notes]
            case _:
                pass
    return ImportReport(notes + unfinished_notes(log), missing, ended)


def _up_to(following: ImportedEvent | None) -> str:
    if not isinstance(following, ImportResumed):
        return ""
    return f" up to the first election after zxid {following.zxid:#x}, of {following.snapshot}"


def repeated_writes(reader: LogReader, zxids: Collection[int], chroot: str) -> Iterator[Divergence]:
    """The decisions and inferred requests among these transactions, in order.

    The transaction logs have them more than once, but a repetition is not applied. Each of them is
    therefore missing from the fold once more. Raises LogError, ReplayError.
    """
    if not zxids:
        return
    operations: list[Operation] = []
    for record in reader.events(EventFilter(kinds=_KINDS)):
        event = event_of(record)
        if isinstance(event, Transaction):
            operations = [*operations_of(event)]
        elif isinstance(event, (DecisionObserved, RequestInferred)) and event.zxid in zxids:
            seq = record.seq if record.cause is None else record.cause
            known = (below(path_of(one), chroot) for one in operations)
            yield Divergence(
                subject="decision",
                verdict="missing",
                kind=event.what if isinstance(event, DecisionObserved) else "input",
                seq=seq,
                since=seq,
                zxid=event.zxid,
                broker=event.broker,
                epoch=record.term,
                paths=tuple(path for path in known if path),
                differences=(_DIFFERENCE,),
                cause=NO_CAUSE,
                explained="",
                controller=event.broker,
            )
