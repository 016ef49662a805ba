"""The history of a subject from an imported log.

ZooKeeper's transactions show what was done. The reasons come from shadow folds of the cluster's
controllers, if they decide the same (stock_clusters.agreement).
"""

from collections.abc import Callable
from typing import Final, TypeVar

from msgspec import structs

from controller.core import znodes
from eventstore.filters import EventFilter
from replay.agreement.comparison import read_records
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.cluster_view.from_znodes import cluster_of
from replay.description.imported_events import imported_event_in_words
from replay.progress import Progress
from replay.shadow_folds import DerivedWrites, shadow_folds
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.reading import ImportedLog, open_imported, unfinished_notes
from replay.subjects import partition_named
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
from replay.why.history import History
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


def history_of(log: ImportedLog, subject: Subject, seq: int, progress: Progress) -> History:
    """The history up to record `seq`. Raises ReplayError, LogError."""
    return observed_history(log, subject, seq, progress, ShadowFactObserver)[0]


def observed_history(
    log: ImportedLog,
    subject: Subject,
    seq: int,
    progress: Progress,
    observer: Callable[[ControllerTrace, Subject], Observer],
) -> tuple[History, list[Session[Observer]]]:
    """The history, and the shadow folds that explain it, each with its observer. Raises
    ReplayError, LogError."""
    # Reading changes the state of an opened log, so each reading opens the log again.
    history, time = znode_history(open_imported(log.reader), subject, seq, progress)
    ranges = shadow_folds(
        log.reader, lambda one: observer(one, subject), progress=progress, last=seq
    )
    sessions = [session for one in ranges for session in one.sessions]
    notes = unfinished_notes(log)
    derived: DerivedWrites[DerivedWrite] = DerivedWrites()
    for trace, noted in sessions:
        derived.add(trace, ((one.seq, one.path, one) for one in noted.writes))
    facts = [_with_rule(one, derived) for one in history.facts]
    facts += [one for _, noted in sessions for one in noted.facts if _is_only_in_fold(one)]
    facts.sort(key=lambda one: one.seq)
    texts = _CauseTexts(log)
    facts = [texts.add_to(one) for one in facts]
    if not sessions:
        notes.append(
            "The controller had been elected before the log begins: the log shows what was done, "
            "but not by which rule."
        )
    settings = configuration_in(history.view, subject.topic)
    cluster = structs.replace(
        cluster_of(history.view, seq, time), unanswered=history.requests.unanswered()
    )
    return History(subject, cluster, facts, notes, settings), sessions


def znode_history(
    log: ImportedLog, subject: Subject, seq: int, progress: Progress
) -> tuple[ZnodeHistory, str]:
    """The effects of the transactions up to record `seq`, and the time of the last one."""
    history = ZnodeHistory(log, subject)
    time = ""
    for record, event in read_records(log, "reading transactions", seq, progress):
        if record.seq > seq:
            break
        time = iso_time(record.wall_ns)
        history.take(record, event)
    history.finish()
    return history, time


class _CauseTexts:
    """Describes the records at which procedures began, in the words of `refold events`."""

    def __init__(self, log: ImportedLog) -> None:
        self._log = log
        self._texts: dict[int, str] = {}

    def add_to(self, fact: AnyFact) -> AnyFact:
        """The fact with a description of its cause."""
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


def _is_only_in_fold(fact: AnyFact) -> bool:
    """Whether no transaction shows a fact of a shadow fold."""
    match fact:
        case BrokerChanged(what=what):
            return what in _BROKER_CHANGES_ONLY_IN_FOLD
        case ReassignmentRequested(via=via):
            return via == API
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
