"""Folding an imported log: for each session of a stock controller this core is folded as well, on
the same events, and its decisions are compared with those in the log."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from controller.core.commands import Issued
from controller.core.fold_observer import FoldObserver
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.progress import Progress, unreported
from replay.stock_clusters.agreement.comparison import agreeing_on, lost_replies, with_progress
from replay.stock_clusters.agreement.conformance import Agreement
from replay.stock_clusters.agreement.gap_free_ranges import gap_free_ranges
from replay.stock_clusters.agreement.logs.index import Index
from replay.stock_clusters.agreement.trace.checkpoint import Checkpointed
from replay.stock_clusters.agreement.trace.controller_trace import ControllerTrace
from replay.stock_clusters.imported_log.events import WorldEvent
from replay.stock_clusters.imported_log.reading import ImportedLog

_NS_A_MS: Final = 1_000_000

Observer = TypeVar("Observer", bound=FoldObserver)
"""It is `Checkpointed` as well, since events may be folded again in another order."""


class Noted(NamedTuple):
    """A command of a shadow fold: the record and the time at which the fold issued it, and the
    controller event that the fold was at."""

    issued: Issued
    seq: int
    time_ns: int
    cause: str


class ShadowObserver(FoldObserver, Checkpointed):
    """Notes the commands of the fold of one session."""

    STATE = ("noted",)

    def __init__(self, trace: ControllerTrace) -> None:
        self.fold = trace.fold
        self.noted: list[Noted] = []

    def issues(self, issued: Issued) -> None:
        """Note a command with the last record that was folded."""
        fold = self.fold
        self.noted.append(Noted(issued, fold.seq, fold.now_ms * _NS_A_MS, fold.cause))


class ShadowedRange(NamedTuple, Generic[Observer]):
    """A range of the log without missing transactions, after it was folded. `sessions` are those
    that stood for election, each with the observer of its fold."""

    log: ImportedLog
    log_index: Index
    agreement: Agreement
    sessions: list[tuple[ControllerTrace, Observer]]


def shadow_folds(
    reader: LogReader,
    observer_of: Callable[[ControllerTrace], Observer],
    settings: Mapping[str, str] | None = None,
    progress: Progress = unreported,
    last: int | None = None,
) -> Iterator[ShadowedRange[Observer]]:
    """Fold each range of an imported log up to record `last`, by Kafka's rules.

    `observer_of` makes the observer of a session before its fold begins. `settings` are broker
    settings that the log does not contain, by Kafka's names. Raises ReplayError, LogError.
    """
    end = reader.last_seq
    replies = lost_replies(reader, settings, progress)
    for log in gap_free_ranges(reader):
        sessions: list[tuple[ControllerTrace, Observer]] = []

        def follow(
            trace: ControllerTrace,
            found: list[tuple[ControllerTrace, Observer]] = sessions,
        ) -> None:
            observer = observer_of(trace)
            trace.fold.controller.observer = observer
            found.append((trace, observer))

        checker = agreeing_on(log, end, "kafka", settings, progress, follow, replies=replies)
        records = with_progress(log, "deriving decisions", end, progress)
        agreement = checker.run(records if last is None else _until(records, last))
        yield ShadowedRange(log, checker.index, agreement, sessions)


def _until(
    records: Iterator[tuple[EventRecord, WorldEvent]], last: int
) -> Iterator[tuple[EventRecord, WorldEvent]]:
    """Up to a record, and the record after it that says what that one is found to be."""
    for record, event in records:
        if record.seq > last and record.cause != last:
            return
        yield record, event
