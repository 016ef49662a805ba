"""Explanations by the index of a log: the history of a subject."""

from replay.cluster_view.views import ClusterView
from replay.cluster_view.waiting import with_times
from replay.index.moves import facts_with_moves
from replay.index.store import Index, RoleLost
from replay.inspect.at import FOLDED_AT_ONCE_MAX, projection_at
from replay.inspect.projections import RecordedProjection
from replay.logs.decode import configuration_of, time_of
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.progress import Progress
from replay.why.explain import explain, explain_history
from replay.why.explanations.explanation import Explanation
from replay.why.history import History
from replay.why.recorded import Limits
from replay.why.subject import Subject


def explain_by(
    index: Index | None, log: OpenedLog, subject: Subject, seq: int, progress: Progress
) -> Explanation:
    """Explain the state of the subject after event `seq`, by the index of the log if it has one
    and the index knows it. Raises as replay.why.explain.explain does."""
    if index is not None and isinstance(log, RecordedLog):
        history = history_of(log, index, subject, seq, progress)
        if history is not None:
            return explain_history(history)
    return explain(log, subject, seq, progress)


def history_of(
    log: RecordedLog, index: Index, subject: Subject, seq: int, progress: Progress
) -> History | None:
    """The history of a subject up to event `seq`. None if only a fold of the whole log can find it,
    for some moments at the end of a log that was not closed. Raises ReplayError, LogError."""
    about = index.about
    if about.unrecorded is not None and seq != about.last_seq:
        return None
    lost = about.role_lost(seq)
    if lost is not None and seq - lost.last_active > FOLDED_AT_ONCE_MAX:
        return None
    facts = facts_with_moves(log, index, subject, seq, progress)
    limits = Limits(
        log.reader.header,
        0,
        about.is_open and seq == about.last_seq,
        about.unrecorded,
        lost.seq if lost is not None else 0,
    )
    notes = limits.of_core(is_current=True) + limits.of_end()
    daemon = configuration_of(log.reader.header).broker_id
    return History(subject, _cluster(log, seq, lost, progress), facts, notes, daemon=daemon)


def _cluster(log: RecordedLog, seq: int, lost: RoleLost | None, progress: Progress) -> ClusterView:
    """The cluster after an event; after the loss of the role, what the daemon last knew."""
    projection = projection_at(log, seq, progress, begin=lost.last_active - 1 if lost else seq)
    assert isinstance(projection, RecordedProjection), "the log is a recorded one"
    found = projection.cluster(time_of(log.reader, seq), keeps_last=True)
    return with_times(found, lambda one: time_of(log.reader, one))
