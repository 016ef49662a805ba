"""The history of a subject in an imported log: what ZooKeeper shows that was done, and why, as far
as the fold beside the cluster's own controllers decides the same (stock_clusters.agreement)."""

from collections import defaultdict
from typing import Final

from msgspec import structs

from controller.core import znodes
from eventstore.filters import EventFilter
from replay.cluster_view.of_znodes import cluster_of
from replay.description.imported_events import imported_event_in_words
from replay.progress import Progress
from replay.shadow_folds import shadow_folds
from replay.stock_clusters.agreement.comparison import with_progress
from replay.stock_clusters.agreement.decisions.judgements import Judgement
from replay.stock_clusters.agreement.trace.controller_trace import ControllerTrace
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.reading import ImportedLog, open_world, unfinished_notes
from replay.subjects import partition_named
from replay.times import iso_time
from replay.why.beside import Beside, Decided
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    BrokerChanged,
    IsrAsked,
    LeftAsItIs,
    NoLeader,
    ReassignmentAsked,
    StateWritten,
    Told,
    TopicChanged,
)
from replay.why.history import History
from replay.why.subject import Subject
from replay.why.znode_history import ZnodeHistory

_OF_FOLD: Final = (NoLeader, LeftAsItIs, Told, TopicChanged, IsrAsked, ReassignmentAsked)
_BY_API: Final = "AlterPartitionReassignments"
_SEEN_BY_FOLD: Final = ("shutting down", "log directory failed")


def history_of(world: ImportedLog, subject: Subject, seq: int, progress: Progress) -> History:
    """What is known up to record `seq`. Raises ReplayError, LogError."""
    # A state is taken on in place: each walk begins with one of its own.
    facts, history, time = _done(open_world(world.reader), subject, seq, progress)
    ranges = shadow_folds(
        world.reader, lambda one: Beside(one, subject), progress=progress, last=seq
    )
    sessions = [session for one in ranges for session in one.sessions]
    notes = unfinished_notes(world)
    explained = _Explained(sessions)
    facts = [explained.fact(one) for one in facts]
    facts += [one for _, beside in sessions for one in beside.facts if _is_of_fold(one)]
    facts.sort(key=lambda one: one.seq)
    words = _Words(world)
    facts = [words.with_cause(one) for one in facts]
    if not sessions:
        notes.append(
            "The controller of this log's whole time had been elected before it begins: what was "
            "done is known, by which rule is not."
        )
    return History(subject, cluster_of(history.view, seq, time), facts, notes)


def _done(
    world: ImportedLog, subject: Subject, seq: int, progress: Progress
) -> tuple[list[AnyFact], ZnodeHistory, str]:
    history = ZnodeHistory(world, subject)
    time = ""
    for record, event in with_progress(world, "reading transactions", seq, progress):
        if record.seq > seq:
            break
        time = iso_time(record.wall_ns)
        history.take(record, event)
    return history.facts, history, time


class _Words:
    """Says of the record at which a procedure began what it is, as `refold events` does."""

    def __init__(self, world: ImportedLog) -> None:
        self._world = world
        self._texts: dict[int, str] = {}

    def with_cause(self, fact: AnyFact) -> AnyFact:
        because = fact.because
        if because is None or because.text:
            return fact
        return structs.replace(fact, because=structs.replace(because, text=self._text(because.seq)))

    def _text(self, seq: int) -> str:
        if seq not in self._texts:
            wanted = EventFilter(first_seq=seq, last_seq=seq)
            texts = [
                imported_event_in_words(event_of(one), self._world.begun.chroot)
                for one in self._world.reader.events(wanted)
            ]
            self._texts[seq] = "".join(texts)
        return self._texts[seq]


def _is_of_fold(fact: AnyFact) -> bool:
    """What no transaction shows. What a znode asks for, transactions show."""
    if isinstance(fact, BrokerChanged):
        return fact.what in _SEEN_BY_FOLD
    if isinstance(fact, ReassignmentAsked):
        return fact.via == _BY_API
    if isinstance(fact, TopicChanged):
        return fact.code != "topic_deleted"
    return isinstance(fact, _OF_FOLD)


class _Explained:
    """Finds for what was written the rule by which the fold wrote the same."""

    def __init__(self, sessions: list[tuple[ControllerTrace, Beside]]) -> None:
        self._judged: dict[int, Judgement] = {}
        self._session_of: dict[int, int] = {}
        self._decided: dict[tuple[int, str], list[Decided]] = defaultdict(list)
        for trace, beside in sessions:
            for judgement in trace.judgements:
                self._session_of[judgement.seq] = trace.session
                if judgement.verdict in ("agreed", "differs"):
                    self._judged[judgement.seq] = judgement
            for decided in beside.decided:
                self._decided[trace.session, decided.path].append(decided)

    def fact(self, fact: AnyFact) -> AnyFact:
        """A write with its rule, if there is one that explains it."""
        if not isinstance(fact, (StateWritten, AssignmentWritten)):
            return fact
        judgement = self._judged.get(fact.seq)
        if judgement is None:
            return fact
        topic, number = partition_named(fact.partition)
        is_state = isinstance(fact, StateWritten)
        path = znodes.state_path(topic, number) if is_state else znodes.topic_path(topic)
        session = self._session_of[fact.seq]
        fitting = [one for one in self._decided[session, path] if one.seq <= fact.seq]
        if not fitting:
            return fact
        decided = fitting[-1]
        rule = decided.rule if judgement.verdict == "agreed" else f"{decided.rule} (differently)"
        if isinstance(fact, AssignmentWritten):
            return structs.replace(fact, rule=rule, because=decided.because)
        choice = decided.choice
        return structs.replace(
            fact,
            rule=rule,
            because=decided.because,
            code=choice.code if choice else "",
            passed_over=choice.passed_over if choice else (),
        )
