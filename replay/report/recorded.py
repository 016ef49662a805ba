"""Reads a log of the daemon for a report: one fold over the whole log."""

from collections import defaultdict
from collections.abc import Sequence

from controller.core.commands import CommandId, Issued
from controller.core.events import Event, Recorded, SessionConnected, SessionExpired, WatchFired
from controller.core.operations import CONNECTION_LOSS
from eventstore.records import CommandRecord, EventRecord
from replay.cluster_view.from_context import cluster_of
from replay.cluster_view.waiting import with_times
from replay.errors import ReplayError
from replay.listing.recorded import EventDescriber
from replay.listing.values import ListedDecision
from replay.logs.decode import time_of
from replay.logs.open_log import RecordedLog
from replay.logs.other_core import recorded_by
from replay.logs.recorded_fold import fold_at_start
from replay.progress import Progress
from replay.report.observing import ReportObserver
from replay.report.reading import (
    Reading,
    RegisteredBrokers,
    SessionLifetime,
    TimedDecision,
    TimedEvent,
)
from replay.times import iso_time
from replay.what_if.registration_reports import RegistrationReports
from replay.why.history import FactHistory
from replay.why.subject import Subject


class _Fold:
    """The fold of the log with its observer, which compares the commands with the stored ones."""

    def __init__(self, log: RecordedLog) -> None:
        self.observer = ReportObserver(fold_at_start(log.reader), log.reader.header)
        self._check = log.commands.begin()

    def fold(self, event: Recorded, stored: Sequence[CommandRecord] | None) -> list[Issued]:
        issued = self.observer.fold_event(event)
        if stored is not None:
            self._check.compare(event, issued, stored)
        return issued

    def topic_name(self, id: str) -> str:
        return self.observer.topic_name(id)


class _Reader:
    def __init__(self, log: RecordedLog) -> None:
        self.fold = _Fold(log)
        self.events: list[TimedEvent] = []
        self.live: list[RegisteredBrokers] = []
        self.sessions: list[SessionLifetime] = []
        self._decided: list[tuple[int, Issued, ListedDecision]] = []
        self._outcomes: dict[CommandId, list[int]] = defaultdict(list)
        self._reports = RegistrationReports()
        self._broker = log.configuration.broker_id
        self._describer = EventDescriber(log, self.fold)

    def apply(self, record: EventRecord, stored: list[CommandRecord]) -> None:
        described = self._describer.apply(record, stored)
        event = described.content
        errors = getattr(event, "errors", ())
        lost = sum(1 for one in errors if one == CONNECTION_LOSS)
        self.events.append(TimedEvent(record.wall_ns, described.event, lost))
        for one, listed in zip(described.issued, described.decisions, strict=True):
            self._decided.append((record.wall_ns, one, listed))
        command = getattr(event, "command", None)
        if command is not None:
            self._outcomes[command].append(record.seq)
        live = self.fold.observer.live
        if isinstance(event, WatchFired):
            self._reports.note(record.seq, record.wall_ns, event.path, event.change)
        if not self.live or self.live[-1].brokers != live:
            reported = self._reported(live)
            self.live.append(RegisteredBrokers(record.seq, record.wall_ns, live, reported))
        self._session(record, event)

    def _reported(self, live: frozenset[int] | None) -> dict[int, int]:
        """The watch events that reported a change of the registered brokers."""
        before = self.live[-1].brokers if self.live else None
        if live is None or before is None:
            self._reports.clear()
            return {}
        found = {broker: self._reports.first_of(broker) for broker in before ^ live}
        return {broker: one[0] for broker, one in found.items() if one is not None}

    def _session(self, record: EventRecord, event: Event) -> None:
        last = self.sessions[-1] if self.sessions else None
        if isinstance(event, SessionConnected) and (last is None or last.id != event.session_id):
            owner = f"daemon {self._broker}"
            self.sessions.append(
                SessionLifetime(event.session_id, owner, record.seq, record.wall_ns)
            )
        elif isinstance(event, SessionExpired) and last is not None:
            last.end_seq, last.end_ns, last.how = record.seq, record.wall_ns, "expired"

    def decisions(self) -> list[TimedDecision]:
        causes = self.fold.observer.because_of
        return [
            TimedDecision(
                wall_ns, listed, causes.get(one.id), tuple(self._outcomes.get(one.id, ()))
            )
            for wall_ns, one, listed in self._decided
        ]


def read_recorded(log: RecordedLog, path: str, progress: Progress) -> Reading:
    """Fold the whole log. Raises ReplayError, LogError."""
    reader, log_reader = _Reader(log), log.reader
    observer, last = reader.fold.observer, log_reader.last_seq
    initial = cluster_of(fold_at_start(log_reader), log_reader.header.first_seq - 1, "")
    for record, stored in log_reader.records():
        progress("folding", record.seq, last)
        reader.apply(record, stored)
    events = reader.events
    if not events:
        raise ReplayError(f"{path} has no events: there is nothing to report")
    time = iso_time(events[-1].wall_ns)
    cluster = with_times(observer.cluster(last, time), lambda seq: time_of(log_reader, seq))
    return Reading(
        path=path,
        is_recorded=True,
        recorded_by=recorded_by(log_reader.header),
        first_seq=events[0].listed.seq,
        begin_ns=events[0].wall_ns,
        last_seq=events[-1].listed.seq,
        end_ns=max(one.wall_ns for one in events),
        events=events,
        decisions=reader.decisions(),
        procedures=observer.procedures.all,
        live=reader.live,
        sessions=reader.sessions,
        initial=initial,
        history=FactHistory(
            Subject(is_unhealthy=True), cluster, observer.facts, _notes(log, observer)
        ),
        deviations=observer.deviations,
    )


def _notes(log: RecordedLog, observer: ReportObserver) -> list[str]:
    notes = []
    if log.reader.closing is None:
        notes.append("The log was not closed: its daemon runs, was killed, or the log is a copy.")
    if observer.lost_at:
        notes.append(
            f"The daemon lost the role at event {observer.lost_at}: "
            "the cluster after that is not known."
        )
    return notes
