"""With an index, every question has the answer that a fold of the whole log gives."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.core.events import SessionExpired
from replay.errors import ReplayError
from replay.index import listing as from_index
from replay.index.history import history_of
from replay.index.listing import IndexSelection
from replay.index.making import make_index
from replay.index.store import EventIndex
from replay.listing.known_names import KnownNames
from replay.listing.recorded import events_and_decisions
from replay.listing.values import ListedDecision, ListedEvent
from replay.logs.open_log import RecordedLog, open_log
from replay.logs.packed import log_at
from replay.names import partition_named
from replay.progress import unreported
from replay.why import recorded
from replay.why.explain import explain_history
from replay.why.explanations.explanation import Explanation
from replay.why.facts import CancelZnodeObserved
from replay.why.history import FactHistory
from replay.why.recorded import LogPart
from replay.why.subject import Subject
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    remove_cancel_quietly,
)
from tests.controller.core.procedures.reassignment.test_rollback_waiting import (
    only_the_target_in_sync,
)
from tests.replay.recorded_log import incident, write_log

INCIDENTS = sorted(one.parent for one in Path("tests/incidents").glob("*/log.tar.xz"))
QUICK = ("broker-crash", "reassignment", "topic-deletion")
MOMENTS = 4


def incidents() -> list[object]:
    return [
        pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.long)
        for one in INCIDENTS
    ]


class IndexedLog:
    """A recorded log with its index, and its events and decisions as a fold finds them."""

    def __init__(self, log: RecordedLog) -> None:
        self.log = log
        index = EventIndex.open_for(log.reader)
        assert index is not None
        self.index = index
        self.range = (log.reader.header.first_seq, log.reader.last_seq)
        found = list(events_and_decisions(log, *self.range, unreported))
        self.events = [event for event, _ in found]
        self.decisions = [one for _, decided in found for one in decided]

    @property
    def names(self) -> list[str]:
        items = [*self.events, *self.decisions]
        return sorted({name for one in items for name in one.subjects})

    def found_events(self, wanted: IndexSelection) -> Iterator[ListedEvent]:
        return from_index.events(self.log, self.index, wanted, *self.range, unreported)

    def found_decisions(
        self, wanted: IndexSelection, rule: str | None = None, *, with_steps: bool = True
    ) -> Iterator[ListedDecision]:
        return from_index.decisions(
            self.log,
            self.index,
            wanted,
            *self.range,
            unreported,
            rule=rule,
            with_steps=with_steps,
        )

    def subjects(self) -> list[Subject]:
        found = [Subject(), Subject(is_unhealthy=True), Subject(term=1), Subject(term=2)]
        for name in self.names:
            if name.startswith("broker "):
                found.append(Subject(broker=int(name.removeprefix("broker "))))
                continue
            try:
                topic, number = partition_named(name)
            except ValueError:
                found += [Subject(topic=name)] if name.isidentifier() else []
                continue
            if topic in self.names:
                found.append(Subject(topic, number))
                found.append(Subject(topic, number, is_reassignment=True))
                found.append(Subject(topic, number, broker=1))
        return found


@pytest.fixture(params=incidents())
def indexed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[IndexedLog]:
    store_all_snapshots(monkeypatch)
    with log_at(request.param) as path:
        shutil.copytree(path, tmp_path / "log")
    with open_log(tmp_path / "log") as log:
        if not isinstance(log, RecordedLog):
            pytest.skip("the log is imported: see test_same_answers_of_imported_logs")
        make_index(tmp_path / "log")
        found = IndexedLog(log)
        with closing(found.index):
            yield found


def test_events_and_decisions_about_each_subject_are_those_of_a_fold(indexed: IndexedLog) -> None:
    for name in indexed.names:
        wanted = IndexSelection((name,))
        of_fold = [one for one in indexed.events if name in one.subjects]
        assert [one for one in indexed.found_events(wanted) if name in one.subjects] == of_fold
        decided = [one for one in indexed.decisions if name in one.subjects]
        assert [one for one in indexed.found_decisions(wanted) if name in one.subjects] == decided


def test_events_and_decisions_of_each_kind_rule_and_term_are_those_of_a_fold(
    indexed: IndexedLog,
) -> None:
    for kind in {one.kind for one in indexed.events}:
        found = [
            one for one in indexed.found_events(IndexSelection((), (kind,))) if one.kind == kind
        ]
        assert found == [one for one in indexed.events if one.kind == kind]
    for kind in {one.kind for one in indexed.decisions}:
        decided = indexed.found_decisions(IndexSelection((), (kind,)), with_steps=False)
        of_fold = [one for one in indexed.decisions if one.kind == kind]
        assert [one for one in decided if one.kind == kind] == of_fold
    for rule in {one.rule for one in indexed.decisions}:
        decided = indexed.found_decisions(IndexSelection(), rule.upper())
        of_fold = [one for one in indexed.decisions if rule in one.rule]
        assert [one for one in decided if rule in one.rule] == of_fold
    without_steps = indexed.found_decisions(IndexSelection(), with_steps=False)
    of_fold = [one for one in indexed.decisions if not one.is_step]
    assert [one for one in without_steps if not one.is_step] == of_fold
    for term in {one.term for one in indexed.decisions}:
        decided = indexed.found_decisions(IndexSelection(term=term))
        of_fold = [one for one in indexed.decisions if one.term == term]
        assert [one for one in decided if one.term == term] == of_fold


def test_known_names_are_those_of_the_whole_log(indexed: IndexedLog) -> None:
    whole = KnownNames(indexed.log.reader, indexed.log)
    found = KnownNames(indexed.log.reader, indexed.log, indexed.index.names())
    assert (found.topics, found.partitions, found.brokers) == (
        whole.topics,
        whole.partitions,
        whole.brokers,
    )


def explained(history: FactHistory) -> Explanation | str:
    try:
        return explain_history(history)
    except ReplayError as error:
        return str(error)


@pytest.mark.sampled
def test_each_subject_is_explained_as_by_a_fold(indexed: IndexedLog) -> None:
    log, (first, last) = indexed.log, indexed.range
    answered = 0
    for seq in dict.fromkeys((*range(last, first, -max(1, (last - first) // MOMENTS)),)):
        for subject in indexed.subjects():
            found = history_of(log, indexed.index, subject, seq, unreported)
            if found is None:
                assert indexed.index.about.unrecorded is not None
                continue
            answered += 1
            of_fold = recorded.history_of([LogPart(log, seq)], subject, unreported)
            assert found.facts == of_fold.facts, (subject, seq)
            assert (found.cluster, found.notes) == (of_fold.cluster, of_fold.notes), (subject, seq)
            assert explained(found) == explained(of_fold), (subject, seq)
    assert answered


@pytest.mark.parametrize("unstored", [0, 1])
def test_end_of_a_log_that_was_not_closed_is_explained_as_by_a_fold(
    unstored: int, tmp_path: Path, is_same_history: Callable[[RecordedLog, Subject, int], bool]
) -> None:
    """The commands of the last event may not be stored."""
    simulation = incident()
    last = max(recorded.seq for recorded, issued in simulation.history if issued)
    del simulation.history[last:]
    path = write_log(tmp_path / "log", simulation, close=False, commands_until=last - unstored)
    make_index(path)
    with open_log(path) as log:
        assert isinstance(log, RecordedLog)
        for seq in (last // 2, last - 2, last - 1, last):
            for subject in (Subject(), Subject("t", 0), Subject(topic="u"), Subject(broker=1)):
                assert is_same_history(log, subject, seq), (subject, seq)
        found = history_of_index(log, Subject("t", 0), last)
        assert found is not None
        assert any("no stored commands" in one for one in found.notes) == bool(unstored)


def test_cancellation_that_was_removed_between_two_sessions_is_explained_as_by_a_fold(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_same_history: Callable[[RecordedLog, Subject, int], bool],
) -> None:
    store_all_snapshots(monkeypatch)
    cluster = only_the_target_in_sync()
    cluster.create_topic("u", {0: (4,)})
    cancel_all(cluster)
    cluster.happen(SessionExpired(cluster.session), "session")
    cluster.zookeeper.end_session(cluster.session)
    remove_cancel_quietly(cluster)
    cluster.connect()
    path = write_log(tmp_path / "log", cluster)
    make_index(path)
    with open_log(path) as log:
        assert isinstance(log, RecordedLog)
        for seq in range(log.reader.last_seq, 0, -7):
            for subject in (Subject("t", 0), Subject("u", 0)):
                assert is_same_history(log, subject, seq), (subject, seq)
        found = history_of_index(log, Subject("u", 0), log.reader.last_seq)
        assert found is not None
        observed = [one for one in found.facts if isinstance(one, CancelZnodeObserved)]
        assert observed[-1].how == "removed"


def store_all_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store a snapshot wherever one can be taken, and make no two ranges of moves one."""
    monkeypatch.setattr("replay.inspect.at.SNAPSHOTS_APART_S", 0.0)
    monkeypatch.setattr("replay.inspect.at.CLOCK_EVERY", 1)
    monkeypatch.setattr("replay.index.every_fact.RANGES_APART_MIN", 1)


def history_of_index(log: RecordedLog, subject: Subject, seq: int) -> FactHistory | None:
    index = EventIndex.open_for(log.reader)
    assert index is not None
    with closing(index):
        return history_of(log, index, subject, seq, unreported)


@pytest.fixture
def is_same_history() -> Callable[[RecordedLog, Subject, int], bool]:
    """Whether the history by the index is that of a fold, or there is none."""

    def compare(log: RecordedLog, subject: Subject, seq: int) -> bool:
        found = history_of_index(log, subject, seq)
        of_fold = recorded.history_of([LogPart(log, seq)], subject, unreported)
        return found is None or (found.facts, found.cluster, found.notes) == (
            of_fold.facts,
            of_fold.cluster,
            of_fold.notes,
        )

    return compare
