"""Folds the log of a stock cluster as a shadow of the cluster's controllers.

The fold is held to the log (replay.agreement): after each decision it continues with
the decision of the stock controller, so that each decision can be compared. The consequences of a
difference come from a fold that is the controller itself (`imported_run`).
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from msgspec import Struct

from controller.core.commands import WriteZnodes
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.agreement.assumptions import Assumptions
from replay.agreement.comparison import read_records
from replay.agreement.decisions.observed import pair_decisions
from replay.agreement.gap_free_ranges import gap_free_ranges
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.results import AgreementResult, DetailedTally, Divergence, result_of
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.diff.messages import AgreementSummary, Disagreement, FoldedLog
from replay.diff.version.decisions import DecidedTrigger
from replay.diff.version.fold_recorder import FoldRecorder
from replay.diff.version.imported_run import ImportedRun, is_election
from replay.diff.version.imported_zookeeper import ImportedZooKeeper
from replay.progress import Progress
from replay.shadow_folds import ShadowObserver, shadow_folds
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import DecisionObserved
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.imported_log.state_events import apply
from replay.znode_view import ZnodeView


def fold_imported(
    reader: LogReader,
    recorder: FoldRecorder,
    settings: Mapping[str, str],
    progress: Progress,
    since: int = 0,
) -> FoldedLog:
    """Derive this version's decisions for an imported log.

    If `since` is not 0, also simulate the cluster with this version as controller, from the last
    election before record `since` on. Raises ReplayError, LogError.
    """
    result, last, end_ns = AgreementResult(), reader.last_seq, 0
    elections: dict[int, _FoldedRange] = {}
    assumptions = Assumptions(any_batches=True)
    folds = shadow_folds(reader, ShadowObserver, settings, progress, assumptions=assumptions)
    for number, found in enumerate(folds):
        result.add_range(result_of(found.agreement, str(reader.path)))
        for trace, observer in found.sessions:
            _write_rest(trace, observer)
        sessions = {trace.session: observer for trace, observer in found.sessions}
        folded = _FoldedRange(number, found.log_index, sessions)
        elections |= dict.fromkeys(_elections(found.log), folded)
        end_ns = max(end_ns, _record_decisions(folded, recorder))
    begun = max((one for one in elections if one <= since), default=0)
    if not begun:
        return FoldedLog(last, end_ns, is_shadow=True, agreed=_agreement_summary(result))
    run = _simulate(reader, begun, elections[begun], recorder, progress)
    timelines = recorder.timelines.result()
    return FoldedLog(last, max(end_ns, run.end_ns), begun, run.assumed, timelines)


def _write_rest(trace: ControllerTrace, observer: ShadowObserver) -> None:
    """At the end of a session, add the writes that the version has begun: one batch has them all
    from its beginning, but a version that writes one by one waits for the next one."""
    issued = len(observer.commands)
    trace.ahead.write_rest()
    rest = observer.commands[issued:]
    del observer.commands[issued:]
    if not rest:
        return
    last = observer.commands[-1]
    observer.commands += [
        one._replace(seq=last.seq, time_ns=last.time_ns)
        for one in rest
        if isinstance(one.issued.command, WriteZnodes)
        and one.issued.reason.rule == last.issued.reason.rule
    ]


def _record_decisions(folded: "_FoldedRange", recorder: FoldRecorder) -> int:
    """Record the decisions of a range. Return the time of the last one in ns."""
    end_ns = 0
    for observer in folded.sessions.values():
        for issued, seq, time_ns, cause, since, _ in observer.commands:
            turn, causes = issued.id.cause, {issued.id: DecidedTrigger(cause, since)}
            recorder.decisions.record([issued], seq, turn, time_ns, "", causes)
            end_ns = max(end_ns, time_ns)
        for outcome in observer.fold.fenced:
            recorder.decisions.mark_fenced(outcome)
    return end_ns


class _FoldedRange(Struct, frozen=True):
    """A range of the log without missing transactions: its number, and the result of its fold."""

    number: int
    index: BrokerLogIndex
    sessions: Mapping[int, ShadowObserver]


def _agreement_summary(result: AgreementResult) -> AgreementSummary:
    both = DetailedTally()
    both.add_counts(result)
    both.add_counts(result.requests)
    return AgreementSummary(
        both.decisions,
        both.agreed,
        [*map(_disagreement, result.divergences)],
        {rule: (one.decisions, one.agreed) for rule, one in both.by_rule.items()},
    )


def _disagreement(one: Divergence) -> Disagreement:
    return Disagreement(
        verdict=one.verdict,
        subject=one.subject,
        kind=one.kind,
        seq=one.seq,
        zxid=one.zxid,
        cause=str(one.cause),
        paths=one.paths,
        differences=one.differences,
        explained=one.explained,
    )


def _elections(log: ImportedLog) -> Iterator[int]:
    """The transactions by which a session became controller."""
    criteria = EventFilter(first_seq=log.first_seq, last_seq=log.last_seq, kinds=("observed",))
    for record in log.reader.events(criteria):
        event = event_of(record)
        if record.cause is not None and isinstance(event, DecisionObserved) and is_election(event):
            yield record.cause


def _simulate(
    reader: LogReader,
    begun: int,
    folded: _FoldedRange,
    recorder: FoldRecorder,
    progress: Progress,
) -> ImportedRun:
    """Read the range again, and simulate the cluster from the election `begun` on."""
    log = next(islice(gap_free_ranges(reader), folded.number, None))
    view = ZnodeView(log.state.tree, log.begun.chroot)
    run: ImportedRun | None = None
    for record, event, found in pair_decisions(
        read_records(log, "following", reader.last_seq, progress)
    ):
        if record.seq > folded.index.last_transaction:
            break
        if record.seq == begun:
            zookeeper = ImportedZooKeeper(log.state, view)
            run = ImportedRun(zookeeper, folded.sessions, folded.index, recorder.timelines)
        if run is not None:
            run.apply(record, event, found)
        else:
            apply(log.state, event)
    assert run is not None, f"record {begun} is an election"
    run.finish()
    return run
