"""Shadow folds of an imported log: for each session of a stock controller, this core is folded on
the same events, and its decisions are compared with those in the log."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from controller.core.commands import Issued
from controller.core.fold_observer import FoldObserver
from eventstore.reader import LogReader
from replay.agreement.assumptions import NO_ASSUMPTIONS, Assumptions
from replay.agreement.comparison import conformance_checker_of, lost_replies, read_records
from replay.agreement.conformance_result import ConformanceResult
from replay.agreement.gap_free_ranges import gap_free_ranges
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.agreement.trace.shadow_fold import ShadowFold
from replay.checkpoint import AppendOnly, Checkpointed
from replay.progress import Progress, unreported
from replay.stock_clusters.imported_log.reading import ImportedLog, ImportedRecord

_NS_A_MS: Final = 1_000_000

_JUDGED: Final = ("agreed", "differs", "missing")

Write = TypeVar("Write")
Observer = TypeVar("Observer", bound=FoldObserver)
"""The observer is also `Checkpointed`, because events may be folded again in another order."""


class ShadowCommand(NamedTuple):
    """A command of a shadow fold, with the record and time at which the fold issued it, and the
    controller event that the fold was processing since record `since`. The event was queued at
    record `queued`."""

    issued: Issued
    seq: int
    time_ns: int
    cause: str
    since: int
    queued: int

    @classmethod
    def from_fold(cls, fold: ShadowFold, issued: Issued) -> "ShadowCommand":
        """A command that the fold has just issued, at the last record that was folded."""
        time_ns = fold.now_ms * _NS_A_MS
        return cls(issued, fold.seq, time_ns, fold.event, fold.since, fold.step.arrived)


class ShadowObserver(FoldObserver, Checkpointed):
    """Notes the commands of the fold of one session."""

    STATE = ("commands",)

    def __init__(self, trace: ControllerTrace) -> None:
        self.fold = trace.fold
        self.commands: AppendOnly[ShadowCommand] = AppendOnly()

    def issues(self, issued: Issued) -> None:
        """Note a command."""
        self.commands.append(ShadowCommand.from_fold(self.fold, issued))


class DerivedWrites(Generic[Write]):
    """The writes of shadow folds, and the decisions of the log that they match.

    A write can be any value, with which an observer describes it.
    """

    def __init__(self) -> None:
        self._judged: dict[int, tuple[str, dict[str, list[tuple[int, Write]]]]] = {}

    def add(self, trace: ControllerTrace, writes: Iterable[tuple[int, str, Write]]) -> None:
        """Add the writes of one session's fold, each with its record and path, in order."""
        by_path: dict[str, list[tuple[int, Write]]] = defaultdict(list)
        for seq, path, write in writes:
            by_path[path].append((seq, write))
        for one in trace.judgements:
            if one.verdict in _JUDGED:
                self._judged[one.seq] = (one.verdict, by_path)

    def match(self, seq: int, paths: Sequence[str]) -> tuple[str, Write | None]:
        """The verdict on the decision of record `seq` ("" for none), and the fold's last write to a
        path until then. The last path that the fold wrote counts."""
        verdict, by_path = self._judged.get(seq, ("", {}))
        for path in reversed(paths):
            for written_at, write in reversed(by_path.get(path, ())):
                if written_at <= seq:
                    return verdict, write
        return verdict, None


class ShadowedRange(NamedTuple, Generic[Observer]):
    """A range of the log without missing transactions, after it was folded. `sessions` are those
    that stood for election, each with the observer of its fold."""

    log: ImportedLog
    log_index: BrokerLogIndex
    agreement: ConformanceResult
    sessions: list[tuple[ControllerTrace, Observer]]


def shadow_folds(
    reader: LogReader,
    observer_of: Callable[[ControllerTrace], Observer],
    settings: Mapping[str, str] | None = None,
    progress: Progress = unreported,
    last: int | None = None,
    assumptions: Assumptions = NO_ASSUMPTIONS,
) -> Iterator[ShadowedRange[Observer]]:
    """Fold each range of an imported log up to record `last`, by Kafka's rules.

    `observer_of` makes the observer of a session before its fold begins. `settings` are broker
    settings that the log does not contain, by Kafka's names. Raises ReplayError, LogError.
    """
    end = reader.last_seq
    replies = lost_replies(reader, settings, progress, assumptions)
    for log in gap_free_ranges(reader):
        sessions: list[tuple[ControllerTrace, Observer]] = []

        def follow(
            trace: ControllerTrace,
            found: list[tuple[ControllerTrace, Observer]] = sessions,
        ) -> None:
            observer = observer_of(trace)
            trace.fold.controller.observer = observer
            found.append((trace, observer))

        checker = conformance_checker_of(
            log, end, "kafka", settings, progress, follow, replies=replies
        )
        records = read_records(log, "deriving decisions", end, progress)
        agreement = checker.run(records if last is None else _records_until(records, last))
        yield ShadowedRange(log, checker.index, agreement, sessions)


def _records_until(records: Iterator[ImportedRecord], last: int) -> Iterator[ImportedRecord]:
    """The records up to a record, including the one after it that classifies it."""
    for record, event in records:
        if record.seq > last and record.cause != last:
            return
        yield record, event
