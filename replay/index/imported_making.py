"""Makes the index of an imported log: derives the decisions of its controllers, then reads the log
once more and adds what was derived to the records that it explains."""

from collections.abc import Callable, Iterator
from heapq import merge
from pathlib import Path

from replay.agreement.comparison import read_records
from replay.index.every_fact import EVERYTHING, PlacedFact
from replay.index.every_imported_fact import (
    AllSubjectsShadowObserver,
    AllSubjectsZnodeHistory,
    placed_znode_fact,
)
from replay.index.log_pass import REPORTED_EVERY, LogPass
from replay.index.postings import DECISION, PROCEDURE, RULE, Postings
from replay.index.store import About, IndexWriter
from replay.inspect.at import SnapshotSchedule
from replay.inspect.projections import snapshot_of
from replay.listing.imported import DerivedDecision, DerivedDecisions
from replay.progress import Progress
from replay.stock_clusters.imported_log.reading import ImportedLog, open_imported
from replay.why.imported import Reasons, derived_sessions


class ImportedPass(LogPass):
    """Derives the decisions of a log once, and reads it once."""

    def __init__(self, log: ImportedLog, writer: IndexWriter, progress: Progress) -> None:
        """Open the log again. Raises LogError, ReplayError."""
        super().__init__(writer, Postings())
        # Reading changes the state of an opened log, so each reading opens the log again.
        self._log = open_imported(log.reader)
        self._last = log.reader.last_seq
        self._progress = progress
        sessions = derived_sessions(log, AllSubjectsShadowObserver, progress)
        self._reasons = Reasons(log, sessions)
        self._decisions = DerivedDecisions(log, ((trace, one.commands) for trace, one in sessions))
        self._derived = sorted(
            (fact for _, noted in sessions for fact in noted.placed_facts()), key=_seq
        )
        begun = [one.begun_at for _, one in sessions if one.begun_at]
        self._explained_from = min(begun, default=0)

    def run(self, path: Path, take_done: Callable[[], None]) -> None:
        """Read the records, and add what was derived to them."""
        for fact in merge(self._znode_facts(path, take_done), self._derived, key=_seq):
            explained = self._reasons.add_to(fact.fact)
            self._writer.add_facts([fact._replace(fact=explained)])
        for seq, procedures in sorted(self._decisions.procedures.items()):
            self._writer.add_begun(seq, procedures)
            self._postings.add(PROCEDURE, tuple(procedures), seq)

    def _znode_facts(self, path: Path, take_done: Callable[[], None]) -> Iterator[PlacedFact]:
        history = AllSubjectsZnodeHistory(self._log, EVERYTHING)
        schedule = SnapshotSchedule(path)
        records = read_records(self._log, "making the index", self._last, self._progress)
        for record, event in records:
            self._reasons.note(record, event)
            history.apply(record, event)
            yield from map(placed_znode_fact, history.take_facts())
            decision = self._decisions.apply(record, event)
            if decision is not None:
                self._add_decision(decision)
            if not record.seq % REPORTED_EVERY:
                take_done()
            if schedule.store_if_due(record.seq, lambda: snapshot_of(self._log.state)):
                self._writer.add_stock_controller(record.seq, history.controller)

    def _add_decision(self, one: DerivedDecision) -> None:
        listed = one.listed
        self._writer.add_decision(one)
        names = (f"kind {listed.kind}", f"term {listed.term}", *listed.subjects)
        self._postings.add(DECISION, names, listed.seq)
        self._postings.add(RULE, (listed.rule,), listed.seq)
        self._write_many_postings()

    def about(self, stamp: str) -> About:
        return About(stamp, self._last, explained_from=self._explained_from)


def _seq(one: PlacedFact) -> int:
    return one.fact.seq
