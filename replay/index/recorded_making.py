"""Makes the index of a log of the daemon: folds all events again, and compares the derived commands
with those that the log has, as `refold why` does. An index of a log that has other commands is
never used."""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from controller.fingerprint import core_fingerprint
from eventstore import snapshots
from replay.index.every_fact import EVERYTHING, EveryFactObserver, MovesRange
from replay.index.log_pass import REPORTED_EVERY, LogPass
from replay.index.postings import FoldPostings
from replay.index.store import About, IndexWriter, RoleLost
from replay.inspect.at import SnapshotSchedule
from replay.logs.open_log import RecordedLog
from replay.progress import Progress
from replay.verify.verification import Verifier
from replay.why.noted_facts import KnownZnodes
from replay.why.recorded import LogPart, NextEvent, RecordedRun


class RecordedPass(LogPass):
    """Folds the whole log once. A verifier verifies the log in the same pass."""

    def __init__(
        self,
        log: RecordedLog,
        writer: IndexWriter,
        progress: Progress,
        verifier: Verifier | None = None,
    ) -> None:
        self._last = last = log.reader.last_seq
        self._progress = progress
        self._verifier = verifier
        self._run = RecordedRun(
            LogPart(log, last), EVERYTHING, [], KnownZnodes({}, {}), EveryFactObserver
        )
        observer = self._run.observer
        assert isinstance(observer, EveryFactObserver), "the run makes it"
        self._observer = observer
        if verifier is not None:
            verifier.begin(observer.controller.term)
        self._of_fold = FoldPostings(observer.topic_name, writer.add_topic_name)
        super().__init__(writer, self._of_fold.postings)
        self._lost: list[RoleLost] = []
        self._last_active = 0

    def run(self, path: Path, take_done: Callable[[], None]) -> None:
        """Fold the events."""
        last = snapshots.latest_snapshot(path, core_fingerprint(), self._last)
        schedule = SnapshotSchedule(path, last.seq if last is not None else 0)
        for order, taken in enumerate(self._run.records(), 1):
            self._apply(taken, order)
            seq = taken.record.seq
            if not seq % REPORTED_EVERY:
                self._progress("making the index", seq, self._last)
                take_done()
            schedule.store_if_due(seq, self._run.snapshot)

    def _apply(self, taken: NextEvent, order: int) -> None:
        folded = self._run.apply(taken, order)
        assert folded is not None, "a single log raises an error instead"
        record = taken.record
        if self._verifier is not None:
            term = self._observer.controller.term
            self._verifier.add(record, folded.event, folded.issued, taken.stored, term)
        for one in folded.inexact:
            self._writer.add_command(one)
        begun = [one.procedure for one in self._observer.begun]
        self._of_fold.add(record.seq, folded.event.event, folded.inexact, begun)
        self._write_many_postings()
        if self._observer.facts:
            self._writer.add_facts(self._observer.take_facts())
        self._note_role(record.seq)

    def _note_role(self, seq: int) -> None:
        lost = self._lost[-1] if self._lost else None
        is_lost = lost is not None and not lost.until
        if self._observer.lost_at and not is_lost:
            self._lost.append(RoleLost(seq, self._last_active))
        elif not self._observer.lost_at and lost is not None and is_lost:
            self._lost[-1] = msgspec.structs.replace(lost, until=seq)
        if self._observer.controller.is_active:
            self._last_active = seq

    def about(self, stamp: str) -> About:
        limits = self._run.limits
        return About(
            stamp, self._last, limits.is_cut_off, limits.differs_at, limits.unrecorded, self._lost
        )

    def ranges_of_moves(self) -> Iterable[MovesRange]:
        return self._observer.ranges_of_moves
