"""Explanations by the index of a log: the history of a subject."""

from msgspec import structs

from replay.cluster_view.views import ClusterView
from replay.cluster_view.waiting import with_times
from replay.index.every_fact import belongs, places_of
from replay.index.every_imported_fact import about
from replay.index.moves import facts_with_moves
from replay.index.store import EventIndex, RoleLost
from replay.inspect.at import FOLDED_AT_ONCE_MAX, projection_at
from replay.inspect.projections import ImportedProjection, RecordedProjection
from replay.logs.decode import configuration_of, time_of
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.progress import Progress
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.why.explain import explain, explain_history
from replay.why.explanations.explanation import Explanation
from replay.why.headline import UNHEALTHY, headline_in, headline_of
from replay.why.history import FactHistory
from replay.why.imported import follow_znodes, history_at
from replay.why.recorded import Limits
from replay.why.subject import Subject
from replay.why.znode_history import ZnodeHistory


def explain_by(
    index: EventIndex | None, log: OpenedLog, subject: Subject, seq: int, progress: Progress
) -> Explanation:
    """Explain the state of the subject after event `seq`, by the index of the log if it has one
    and the index knows it. Raises as replay.why.explain.explain does."""
    history = None
    if index is not None and isinstance(log, RecordedLog):
        history = history_of(log, index, subject, seq, progress)
    elif index is not None and isinstance(log, ImportedLog):
        history = imported_history_of(log, index, subject, seq, progress)
    return explain(log, subject, seq, progress) if history is None else explain_history(history)


def headline_by(
    index: EventIndex | None, log: OpenedLog, cluster: ClusterView, progress: Progress
) -> str:
    """The headline after event `cluster.seq`, likewise. Raises as replay.why.headline does."""
    if index is None or not isinstance(log, ImportedLog):
        return headline_of(log, cluster, progress)
    return headline_in(imported_history_of(log, index, UNHEALTHY, cluster.seq, progress))


def history_of(
    log: RecordedLog, index: EventIndex, subject: Subject, seq: int, progress: Progress
) -> FactHistory | None:
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
    cluster, is_at_end = _cluster(log, seq, lost, progress), seq == about.last_seq
    return FactHistory(
        subject,
        cluster,
        facts,
        notes,
        daemon=daemon,
        is_at_end=is_at_end,
        has_later_events=not is_at_end,
    )


def imported_history_of(
    log: ImportedLog, index: EventIndex, subject: Subject, seq: int, progress: Progress
) -> FactHistory:
    """The history of a subject up to a record of an imported log. Raises ReplayError, LogError."""
    stored = index.facts(places_of(subject), seq)
    facts = [about(one, subject) for one in stored if belongs(one, subject)]
    begin, controller = index.stock_controller_before(seq) or (log.first_seq - 1, None)
    projection = projection_at(log, begin, progress)
    assert isinstance(projection, ImportedProjection), "the log is an imported one"
    rest = structs.replace(log, state=projection.state, first_seq=begin + 1)
    followed = follow_znodes(ZnodeHistory(rest, subject, controller), rest, seq, progress)
    is_explained = 0 < index.about.explained_from <= seq
    return history_at(log, subject, seq, followed, facts, is_explained=is_explained)


def _cluster(log: RecordedLog, seq: int, lost: RoleLost | None, progress: Progress) -> ClusterView:
    """The cluster after an event; after the loss of the role, what the daemon last knew."""
    projection = projection_at(log, seq, progress, begin=lost.last_active - 1 if lost else seq)
    assert isinstance(projection, RecordedProjection), "the log is a recorded one"
    found = projection.cluster(time_of(log.reader, seq), keeps_last=True)
    return with_times(found, lambda one: time_of(log.reader, one))
