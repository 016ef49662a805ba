"""With an index of an imported log, every question has the answer that is derived without it."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

import pytest

from controller.core.znodes import (
    CANCEL_CONTENT,
    REASSIGN_CANCEL,
    Reassignment,
    reassignment_path,
    write_reassignment,
)
from replay.debug.log_replay import derived_by_record
from replay.errors import ReplayError
from replay.index import listing as from_index
from replay.index.history import headline_by, imported_history_of
from replay.index.listing import IndexSelection
from replay.index.making import make_index
from replay.index.store import EventIndex
from replay.inspect.at import cluster_at
from replay.listing import imported as listing
from replay.listing.known_names import KnownNames
from replay.listing.values import ListedDecision, ListedEvent
from replay.logs.open_log import open_log
from replay.names import partition_named
from replay.progress import unreported
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.transactions import Delete
from replay.why import imported
from replay.why.explain import explain_history
from replay.why.explanations.explanation import Explanation
from replay.why.facts import CancelZnodeObserved, RecordZnodeObserved
from replay.why.headline import headline_of
from replay.why.history import FactHistory
from replay.why.subject import Subject
from tests.replay.agreement.test_cuts import with_a_gap
from tests.replay.agreement.view import create, transaction
from tests.replay.cli.command import refold
from tools.zookeeper_log.__main__ import write_data_folder
from tools.zookeeper_log.generated_history import transactions

QUICK = ("unclean-3",)
RECORDINGS = (
    "unclean-3",
    "chaos-424242",
    "chaos-9120556",
    "deletion-11",
    "log-dirs-91010",
    "reassign-cancel-6",
    "reassignments-20261102",
    "zookeeper-80105",
)
GAP = "chaos-5 with a gap"
"""Transactions are missing, so that the decisions of two ranges are derived."""
PARTITIONS_MAX = 3


def index_of(log: ImportedLog) -> EventIndex:
    index = EventIndex.open_for(log.reader)
    assert index is not None
    return index


class IndexedLog:
    """An imported log with its index, and its events and decisions as they are derived."""

    def __init__(self, log: ImportedLog) -> None:
        self.log = log
        self.index = index_of(log)
        self.range = (log.reader.header.first_seq, log.reader.last_seq)
        self.events = list(listing.events(log, *self.range, unreported))
        self.decisions = list(listing.decisions(log, *self.range, unreported))

    @property
    def names(self) -> list[str]:
        items = [*self.events, *self.decisions]
        return sorted({name for one in items for name in one.subjects})

    def found_events(self, wanted: IndexSelection) -> list[ListedEvent]:
        return list(from_index.events(self.log, self.index, wanted, *self.range, unreported))

    def found_decisions(
        self, wanted: IndexSelection, rule: str | None = None
    ) -> list[ListedDecision]:
        between = self.range
        found = from_index.decisions(
            self.log, self.index, wanted, *between, unreported, rule=rule, with_steps=False
        )
        return list(found)

    def subjects(self) -> list[Subject]:
        found = [Subject(), Subject(is_unhealthy=True), Subject(term=2)]
        brokers = [one.removeprefix("broker ") for one in self.names if one.startswith("broker ")]
        found += [Subject(broker=int(one)) for one in brokers[:1]]
        for topic, number in islice(self._partitions(), PARTITIONS_MAX):
            found += [
                Subject(topic),
                Subject(topic, number, is_reassignment=True),
                Subject(topic, number, broker=1),
            ]
        return [*dict.fromkeys(found)]

    def _partitions(self) -> Iterator[tuple[str, int]]:
        """The partitions, alternating between topics."""
        found: dict[str, list[tuple[str, int]]] = {}
        for name in self.names:
            try:
                topic, number = partition_named(name)
            except ValueError:
                continue
            if topic in self.names:
                found.setdefault(topic, []).append((topic, number))
        for several in zip(*found.values(), strict=False):
            yield from several


@contextmanager
def opened_with_index(log: Path) -> Iterator[ImportedLog]:
    """The log after its index was made."""
    make_index(log)
    with open_log(log) as opened:
        assert isinstance(opened, ImportedLog)
        yield opened


@pytest.fixture
def has_many_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.inspect.at.SNAPSHOTS_APART_S", 0.0)


@pytest.fixture(
    params=[
        pytest.param(one, marks=() if one in QUICK else pytest.mark.long)
        for one in (*RECORDINGS, GAP)
    ]
)
def indexed(
    request: pytest.FixtureRequest,
    folder_of: Callable[[str], Path],
    log_of: Callable[[str], Path],
    tmp_path: Path,
    has_many_snapshots: None,
) -> Iterator[IndexedLog]:
    log = tmp_path / "log"
    if request.param == GAP:
        import_source(with_a_gap(folder_of("chaos-5"), tmp_path / "source"), log, Selection())
    else:
        shutil.copytree(log_of(request.param), log)
    with opened_with_index(log) as opened:
        found = IndexedLog(opened)
        with closing(found.index):
            yield found


def test_events_and_decisions_about_each_subject_are_those_of_the_log(indexed: IndexedLog) -> None:
    for name in indexed.names:
        wanted = IndexSelection((name,))
        found = [one for one in indexed.found_events(wanted) if name in one.subjects]
        assert found == [one for one in indexed.events if name in one.subjects]
        decided = [one for one in indexed.found_decisions(wanted) if name in one.subjects]
        assert decided == [one for one in indexed.decisions if name in one.subjects]


def test_procedures_that_begin_have_the_causes_that_are_derived_without_an_index(
    indexed: IndexedLog,
) -> None:
    derived = derived_by_record(indexed.log, None, unreported)
    numbers = range(indexed.range[0], indexed.range[1] + 1)
    begun = {seq: dict(derived.begun(seq)) for seq in numbers}
    assert any(causes for each in begun.values() for causes in each.values())
    assert {seq: dict(indexed.index.begun(seq)) for seq in numbers} == begun


def test_events_and_decisions_of_each_kind_rule_and_term_are_those_of_the_log(
    indexed: IndexedLog,
) -> None:
    for kind in {one.kind for one in indexed.events}:
        assert indexed.found_events(IndexSelection((), (kind,))) == [
            one for one in indexed.events if one.kind == kind
        ]
    for kind in {one.kind for one in indexed.decisions}:
        assert indexed.found_decisions(IndexSelection((), (kind,))) == [
            one for one in indexed.decisions if one.kind == kind
        ]
    for rule in {one.rule for one in indexed.decisions}:
        assert indexed.found_decisions(IndexSelection(), rule.upper()) == [
            one for one in indexed.decisions if rule in one.rule
        ]
    for term in {one.term for one in indexed.decisions}:
        assert indexed.found_decisions(IndexSelection(term=term)) == [
            one for one in indexed.decisions if one.term == term
        ]
    assert indexed.found_decisions(IndexSelection()) == indexed.decisions


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


def assert_same_history(
    log: ImportedLog, index: EventIndex, subject: Subject, seq: int
) -> FactHistory:
    found = imported_history_of(log, index, subject, seq, unreported)
    derived = imported.history_of(log, subject, seq, unreported)
    assert found.facts == derived.facts, (subject, seq)
    assert (found.cluster, found.notes) == (derived.cluster, derived.notes), (subject, seq)
    assert found.configuration == derived.configuration, (subject, seq)
    assert explained(found) == explained(derived), (subject, seq)
    return found


def test_each_subject_is_explained_as_without_an_index(indexed: IndexedLog) -> None:
    first, last = indexed.range
    for seq in (last, first + (last - first) * 2 // 3, first + 1):
        for subject in indexed.subjects():
            assert_same_history(indexed.log, indexed.index, subject, seq)


# Histories that no recording has -----------------------------------------------------------------


def test_cancellations_and_records_of_moves_belong_to_the_answer_about_their_partition(
    tmp_path: Path,
) -> None:
    path = reassignment_path("events", 0)
    moved = write_reassignment(Reassignment((3, 2), 3, True, (1, 2, 3)))
    written = (
        create("/admin/reassignments"),
        create("/admin/reassignments/events"),
        create(path, moved),
        create(REASSIGN_CANCEL, CANCEL_CONTENT),
        Delete(REASSIGN_CANCEL),
        Delete(path),
    )
    history = [*transactions(40, partitions=2)]
    last = history[-1]
    for one in written:
        last = transaction(
            last.zxid + 1, one, session=last.session, cxid=last.cxid + 1, time_ms=last.time_ms + 1
        )
        history.append(last)
    write_data_folder(tmp_path / "data", history, per_file=100)
    import_source(tmp_path / "data", tmp_path / "log", Selection())
    with opened_with_index(tmp_path / "log") as log, closing(index_of(log)) as index:
        of_moves: dict[str, list[str]] = {}
        for subject in (Subject("events", 0), Subject("events", 1), Subject("events"), Subject()):
            facts = assert_same_history(log, index, subject, log.reader.last_seq).facts
            of_moves[f"{subject.topic}-{subject.partition}"] = [
                one.how
                for one in facts
                if isinstance(one, CancelZnodeObserved | RecordZnodeObserved)
            ]
    assert of_moves == {
        "events-0": ["written", "created", "removed", "removed"],
        "events-1": ["created", "removed"],
        "events-None": [],
        "None-None": [],
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("recording", "removed", "headline"),
    [
        ("controller-91008", "Newly added brokers", "is stuck"),
        ("preferred-election-9", "(id: 2 ", "Broker 2 has not answered"),
    ],
)
@pytest.mark.usefixtures("has_many_snapshots")
def test_headline_about_a_controller_is_the_same_at_each_moment(
    recording: str, removed: str, headline: str, folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """Lines are removed, as if the controller were stuck or a broker did not answer."""
    source = Path(shutil.copytree(folder_of(recording), tmp_path / recording))
    for file in source.glob("logs/broker-*/*.log"):
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(one for one in lines if removed not in one))
    import_source(source, tmp_path / "log", Selection())
    with opened_with_index(tmp_path / "log") as log, closing(index_of(log)) as index:
        last = log.reader.last_seq
        found = []
        for seq in range(last // 4, last, last // 15):
            cluster = cluster_at(log, seq)
            found.append(headline_by(index, log, cluster, unreported))
            assert found[-1] == headline_of(log, cluster)
    assert any(headline in one for one in found)


# The commands ------------------------------------------------------------------------------------

COMMANDS = (
    ("events", "--partition", "later.02-0"),
    ("events", "--kind", "observed", "--limit", "5"),
    ("events", "--partition", "later.02-9"),
    ("decisions", "--topic", "later.02", "--json"),
    ("decisions", "--rule", "election"),
    ("why", "--partition", "later.02-0"),
    ("why", "--at", "700", "--unhealthy", "--json"),
    ("why", "--topic", "no-such-topic"),
    ("inspect",),
    ("health", "--all"),
)


def test_commands_print_the_same_with_and_without_an_index(
    log_of: Callable[[str], Path], tmp_path: Path
) -> None:
    log = Path(shutil.copytree(log_of("unclean-3"), tmp_path / "log"))

    def answers() -> list[tuple[int, str, str]]:
        found = (refold(command, log, *options) for command, *options in COMMANDS)
        return [(one.returncode, one.stdout, one.stderr) for one in found]

    without = answers()
    make_index(log)
    assert answers() == without
