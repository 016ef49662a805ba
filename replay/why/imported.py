"""The history of a subject from an imported log.

ZooKeeper's transactions show what was done. The reasons come from shadow folds of the cluster's
controllers, if they decide the same (replay/agreement).
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, TypeVar

from msgspec import structs

from controller.core import znodes
from eventstore.filters import EventFilter
from eventstore.records import EventRecord
from replay.agreement.comparison import read_records
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.cluster_view.from_znodes import cluster_of
from replay.description.imported_events import imported_event_in_words
from replay.names import partition_named
from replay.progress import Progress
from replay.shadow_folds import DerivedWrites, shadow_folds
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import ImportedEvent
from replay.stock_clusters.imported_log.reading import ImportedLog, open_imported, unfinished_notes
from replay.times import iso_time
from replay.why.configuration import configuration_in
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    BrokerChanged,
    IsrRequested,
    LeftUnchanged,
    NoLeader,
    NoticeIssued,
    ReassignmentRequested,
    StateWritten,
    TopicChanged,
)
from replay.why.history import FactHistory
from replay.why.noted_facts import API
from replay.why.shadow_observer import DerivedWrite, ShadowFactObserver
from replay.why.subject import Subject
from replay.why.znode_history import ZnodeHistory

_ONLY_IN_FOLD: Final = (NoLeader, LeftUnchanged, NoticeIssued, IsrRequested)
"""Facts that no transaction shows."""
_BROKER_CHANGES_ONLY_IN_FOLD: Final = ("shutting down", "log directory failed")


Observer = TypeVar("Observer", bound=ShadowFactObserver)
Session = tuple[ControllerTrace, Observer]
"""The shadow fold of one session, with its observer."""


def history_of(log: ImportedLog, subject: Subject, seq: int, progress: Progress) -> FactHistory:
    """The history up to record `seq`. Raises ReplayError, LogError."""
    return observed_history(log, subject, seq, progress, ShadowFactObserver)[0]


def observed_history(
    log: ImportedLog,
    subject: Subject,
    seq: int,
    progress: Progress,
    observer: Callable[[ControllerTrace, Subject], Observer],
) -> tuple[FactHistory, list[Session[Observer]]]:
    """The history, and the shadow folds that explain it, each with its observer. Raises
    ReplayError, LogError."""
    # Reading changes the state of an opened log, so each reading opens the log again.
    opened = open_imported(log.reader)
    followed = follow_znodes(ZnodeHistory(opened, subject), opened, seq, progress)
    sessions = derived_sessions(log, lambda trace: observer(trace, subject), progress)
    reasons = Reasons(log, sessions)
    facts = [reasons.add_to(one) for one in followed.facts]
    facts += [
        reasons.add_to(one)
        for _, noted in sessions
        for one in noted.facts
        if is_only_in_fold(one) and one.seq <= seq
    ]
    facts.sort(key=lambda one: one.seq)
    is_explained = any(0 < noted.begun_at <= seq for _, noted in sessions)
    return history_at(log, subject, seq, followed, facts, is_explained=is_explained), sessions


def history_at(
    log: ImportedLog,
    subject: Subject,
    seq: int,
    followed: ZnodeHistory,
    facts: list[AnyFact],
    *,
    is_explained: bool,
) -> FactHistory:
    """The history from its facts and the state after record `seq`. `is_explained`: the decisions of
    a controller could be derived up to there. Raises ReplayError, LogError."""
    notes = unfinished_notes(log)
    if not is_explained:
        notes.append(
            "The controller had been elected before the log begins: the log shows what was done, "
            "but not by which rule."
        )
    settings = configuration_in(followed.view, subject.topic)
    time = iso_time(followed.wall_ns) if followed.seq else ""
    cluster = structs.replace(
        cluster_of(followed.view, seq, time), unanswered=followed.requests.unanswered()
    )
    return FactHistory(
        subject,
        cluster,
        facts + followed.stuck_controller(),
        notes,
        settings,
        has_later_events=seq < log.reader.last_seq,
    )


def follow_znodes(
    history: ZnodeHistory, log: ImportedLog, seq: int, progress: Progress
) -> ZnodeHistory:
    """Add the effects of the transactions up to record `seq`. Raises ReplayError, LogError."""
    for record, event in read_records(log, "reading transactions", seq, progress):
        if record.seq > seq:
            break
        history.apply(record, event)
    return history


def derived_sessions(
    log: ImportedLog, observer: Callable[[ControllerTrace], Observer], progress: Progress
) -> list[Session[Observer]]:
    """The shadow folds of the whole log: what comes later shows in which order a controller
    processed what. Raises ReplayError, LogError."""
    ranges = shadow_folds(log.reader, observer, progress=progress)
    return [session for one in ranges for session in one.sessions]


class Reasons:
    """The rules and causes of facts, from shadow folds."""

    def __init__(
        self, log: ImportedLog, sessions: Sequence[tuple[ControllerTrace, ShadowFactObserver]]
    ) -> None:
        self._log = log
        self._derived: DerivedWrites[DerivedWrite] = DerivedWrites()
        for trace, noted in sessions:
            self._derived.add(trace, ((one.seq, one.path, one) for one in noted.writes))
        explained = chain.from_iterable((*noted.facts, *noted.writes) for _, noted in sessions)
        causes = (one.because for one in explained)
        self._causes = {one.seq for one in causes if one is not None and not one.text}
        self._texts: dict[int, str] = {}
        """Descriptions of the records at which procedures began, in the words of `refold events`,
        by their numbers."""

    def note(self, record: EventRecord, event: ImportedEvent) -> None:
        """Remember a record that facts need, so that it need not be read again."""
        if record.seq in self._causes:
            self._texts[record.seq] = imported_event_in_words(event, self._log.begun.chroot)

    def add_to(self, fact: AnyFact) -> AnyFact:
        """The fact with its rule and with its cause, which is described."""
        fact = _with_rule(fact, self._derived)
        because = fact.because
        if because is None or because.text:
            return fact
        return structs.replace(fact, because=structs.replace(because, text=self._text(because.seq)))

    def _text(self, seq: int) -> str:
        if seq not in self._texts:
            wanted = EventFilter(first_seq=seq, last_seq=seq)
            texts = [
                imported_event_in_words(event_of(one), self._log.begun.chroot)
                for one in self._log.reader.events(wanted)
            ]
            self._texts[seq] = "".join(texts)
        return self._texts[seq]


def is_only_in_fold(fact: AnyFact) -> bool:
    """Whether no transaction shows a fact of a shadow fold."""
    match fact:
        case BrokerChanged(what=what):
            return what in _BROKER_CHANGES_ONLY_IN_FOLD
        case ReassignmentRequested(route=route):
            return route == API
        case TopicChanged(code=code):
            return code != "topic_deleted"
        case _:
            return isinstance(fact, _ONLY_IN_FOLD)


def _with_rule(fact: AnyFact, derived: DerivedWrites[DerivedWrite]) -> AnyFact:
    """A write with its rule and cause, if a rule explains it; other facts unchanged."""
    if not isinstance(fact, (StateWritten, AssignmentWritten)):
        return fact
    topic, number = partition_named(fact.partition)
    is_state = isinstance(fact, StateWritten)
    path = znodes.state_path(topic, number) if is_state else znodes.topic_path(topic)
    verdict, write = derived.match(fact.seq, [path])
    if write is None or verdict == "missing":
        return fact
    rule = write.rule if verdict == "agreed" else f"{write.rule} (differently)"
    if isinstance(fact, AssignmentWritten):
        return structs.replace(fact, rule=rule, because=write.because)
    choice = write.choice
    return structs.replace(
        fact,
        rule=rule,
        because=write.because,
        code=choice.code if choice else "",
        passed_over=choice.passed_over if choice else (),
    )
