"""Folding an imported log: for each session of a stock controller this core is folded as well, on
the same events, and its decisions are compared with those in the log.

An observer is a `FoldObserver` that also takes part in the comparison's checkpoints
(`agreement.trace.checkpoint`), since events may be folded again in another order.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.progress import Progress, unreported
from replay.stock_clusters.agreement.comparison import agreeing_on, lost_replies, told
from replay.stock_clusters.agreement.conformance import Agreement
from replay.stock_clusters.agreement.gap_free_ranges import gap_free_ranges
from replay.stock_clusters.agreement.logs.index import Index
from replay.stock_clusters.agreement.trace.controller_trace import ControllerTrace
from replay.stock_clusters.imported_log.events import WorldEvent
from replay.stock_clusters.imported_log.reading import ImportedLog


class ShadowedRange(NamedTuple):
    """A range of the log without missing transactions, after it was folded."""

    log: ImportedLog
    log_index: Index
    agreement: Agreement
    controllers: list[ControllerTrace]
    """The sessions that stood for election, each with its fold."""


def shadow_folds(
    reader: LogReader,
    observe: Callable[[ControllerTrace], object] = lambda _: None,
    settings: Mapping[str, str] | None = None,
    progress: Progress = unreported,
    last: int | None = None,
) -> Iterator[ShadowedRange]:
    """Fold each range of an imported log up to record `last`, by Kafka's rules.

    `observe` is called with each session before its fold begins. `settings` are broker settings
    that the log does not contain, by Kafka's names. Raises ReplayError, LogError.
    """
    end = reader.last_seq
    replies = lost_replies(reader, settings, progress)
    for log in gap_free_ranges(reader):
        controllers: list[ControllerTrace] = []

        def follow(one: ControllerTrace, found: list[ControllerTrace] = controllers) -> None:
            observe(one)
            found.append(one)

        checker = agreeing_on(log, end, "kafka", settings, progress, follow, replies=replies)
        records = told(log, "deriving decisions", end, progress)
        agreement = checker.run(records if last is None else _until(records, last))
        yield ShadowedRange(log, checker.index, agreement, controllers)


def _until(
    records: Iterator[tuple[EventRecord, WorldEvent]], last: int
) -> Iterator[tuple[EventRecord, WorldEvent]]:
    """Up to a record, and the record after it that says what that one is found to be."""
    for record, event in records:
        if record.seq > last and record.cause != last:
            return
        yield record, event
