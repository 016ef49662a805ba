"""Reads an imported log for a report."""

from collections.abc import Iterator
from itertools import chain

from replay.cluster_view.from_znodes import cluster_of
from replay.errors import ReplayError
from replay.listing import imported
from replay.progress import Progress
from replay.report.observing import EVERYTHING, ReportShadowObserver
from replay.report.reading import (
    Reading,
    RegisteredBrokers,
    SessionLifetime,
    TimedDecision,
    TimedEvent,
)
from replay.stock_clusters.imported_log.reading import ImportedLog, open_imported
from replay.stock_clusters.imported_log.state_events import apply
from replay.stock_clusters.imports.terms import Terms
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    CreateSession,
    Transaction,
)
from replay.times import nanoseconds_of
from replay.why.facts import BrokerChanged
from replay.why.history import FactHistory
from replay.why.imported import observed_history
from replay.why.subject import Subject
from replay.znode_view import ZnodeView


def read_imported(log: ImportedLog, path: str, progress: Progress) -> Reading:
    """Read the whole log, and derive its decisions once. Raises ReplayError, LogError."""
    first, last = log.first_seq, log.reader.last_seq
    initial = cluster_of(ZnodeView(log.state.tree, log.begun.chroot), first - 1, "")
    items = list(imported.events(log, first, last, progress))
    if not items:
        raise ReplayError(f"{path} has no records after its first state: nothing to report")
    history, folds = observed_history(log, EVERYTHING, last, progress, ReportShadowObserver)
    derived = imported.DerivedDecisions(log, ((trace, noted.commands) for trace, noted in folds))
    causes = {one.seq: one.because for one in history.facts if one.because is not None}
    decisions = [
        TimedDecision(nanoseconds_of(one.listed.time), one.listed, causes.get(one.listed.seq))
        for one in derived.between(first, last)
    ]
    events = [
        TimedEvent(
            nanoseconds_of(one.time),
            one,
            begun=tuple(chain.from_iterable(derived.procedures.get(one.seq, {}).values())),
        )
        for one in items
    ]
    begin_ns, end_ns = events[0].wall_ns, max(one.wall_ns for one in events)
    history = FactHistory(
        Subject(is_unhealthy=True),
        history.cluster,
        history.facts,
        history.notes,
        history.configuration,
    )
    known = frozenset(one.id for one in initial.brokers)
    return Reading(
        path=path,
        is_recorded=False,
        recorded_by=f"files of a stock cluster ({log.begun.source})",
        first_seq=events[0].listed.seq,
        begin_ns=begin_ns,
        last_seq=events[-1].listed.seq,
        end_ns=end_ns,
        events=events,
        decisions=decisions,
        procedures=[one for _, noted in folds for one in noted.procedures.all],
        live=list(_live(history, RegisteredBrokers(first, begin_ns, known))),
        sessions=_sessions(open_imported(log.reader), progress),
        initial=initial,
        history=history,
    )


def _live(history: FactHistory, first: RegisteredBrokers) -> Iterator[RegisteredBrokers]:
    yield first
    brokers = first.brokers or frozenset()
    for one in history.facts:
        if isinstance(one, BrokerChanged) and one.what in ("gone", "registered"):
            same = {one.broker}
            brokers = brokers - same if one.what == "gone" else brokers | same
            yield RegisteredBrokers(one.seq, one.wall_ns, brokers)


def _sessions(log: ImportedLog, progress: Progress) -> list[SessionLifetime]:
    """The sessions, each with the broker that it registered."""
    terms = Terms(log.begun.chroot, log.state.tree)
    sessions: dict[int, SessionLifetime] = {}
    for record, event in log.events():
        progress("reading sessions", record.seq, log.reader.last_seq)
        if not isinstance(event, Transaction):
            apply(log.state, event)
            continue
        id = event.session
        one = sessions.setdefault(id, SessionLifetime(id, "", 0, 0))
        if isinstance(event.content, CreateSession):
            one.begin_seq, one.begin_ns = record.seq, record.wall_ns
        elif isinstance(event.content, CloseSession):
            one.end_seq, one.end_ns = record.seq, record.wall_ns
            one.how = event.session_end
        before = terms.name_of(id, log.state.tree)
        terms.follow(event)
        apply(log.state, event)
        one.owner = terms.name_of(id, log.state.tree) or before or one.owner
    return list(sessions.values())
