"""What a controller has written once, and the transaction logs have more often: what comes again is
not applied, and nobody decided it."""

from collections.abc import Collection, Iterator
from typing import Final

from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.stock_clusters.agreement.index import operations_of, path_of
from replay.stock_clusters.agreement.results import Divergence
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import Observed, RequestInferred
from replay.stock_clusters.zookeeper_log.transactions import Operation, Transaction
from replay.world.paths import below

_KINDS: Final = ("transaction", "observed", "request_inferred")
_DIFFERENCE: Final = "its transaction comes again in the transaction logs, the fold does it once"


def repeated_writes(reader: LogReader, zxids: Collection[int], chroot: str) -> Iterator[Divergence]:
    """The decisions, and what was asked for, among the transactions with these zxids, in order:
    each is missing once more. Raises LogError, ReplayError."""
    if not zxids:
        return
    operations: list[Operation] = []
    for record in reader.events(EventFilter(kinds=_KINDS)):
        event = event_of(record)
        if isinstance(event, Transaction):
            operations = [*operations_of(event)]
        elif isinstance(event, (Observed, RequestInferred)) and event.zxid in zxids:
            seq = record.seq if record.cause is None else record.cause
            known = (below(path_of(one), chroot) for one in operations)
            yield Divergence(
                subject="decision",
                verdict="missing",
                kind=event.what if isinstance(event, Observed) else "input",
                seq=seq,
                since=seq,
                zxid=event.zxid,
                broker=event.broker,
                epoch=record.term,
                paths=tuple(path for path in known if path),
                differences=(_DIFFERENCE,),
                cause="",
                explained="",
                controller=event.broker,
            )
