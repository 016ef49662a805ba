"""Makes a report of a log."""

from collections.abc import Sequence
from typing import Final

from replay.description.phrases import capitalized
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.names import partition_named
from replay.progress import Progress, unreported
from replay.report.cluster_changes import cluster_changes_in
from replay.report.document import Report
from replay.report.findings import findings_of
from replay.report.imported import read_imported
from replay.report.lanes import lanes_of
from replay.report.partitions import Partitions
from replay.report.reading import Reading
from replay.report.recorded import read_recorded
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.why.facts import AssignmentWritten, MoveGivenUp, ReassignmentRequested
from replay.why.move import Move
from replay.why.move_history import moves_of
from replay.why.recorded import LogPart, history_of
from replay.why.subject import Subject

_IN_DETAIL: Final = 8
"""The steps of a rollback are those of one partition, so each one needs another fold."""
_EVENTS_MAX: Final = 20_000
"""In longer logs, no other folds are made."""


def report_of(log: OpenedLog, path: str, progress: Progress = unreported) -> Report:
    """Read a log and make its report. Raises ReplayError, LogError."""
    if isinstance(log, ImportedLog):
        reading = read_imported(log, path, progress)
    else:
        reading = read_recorded(log, path, progress)
        if note := log.commands.note(path):
            reading.history.notes.append(capitalized(note) + ".")
    reading.moves = _moves(log, reading, progress)
    return _report(reading)


def put_on_one_clock(reports: Sequence[Report]) -> None:
    """Let the elapsed time of all reports count from the first event of the first one: the logs are
    of one run."""
    for one in reports:
        one.shift_ns = one.begin_ns - reports[0].begin_ns


def _report(reading: Reading) -> Report:
    """The report of a log that was read."""
    partitions = Partitions(reading)
    failovers = [one for one in reading.procedures if one.is_failover]
    outages = sorted(partitions.outages, key=lambda one: (one.begin_ns, one.partition))
    return Report(
        path=reading.path,
        is_recorded=reading.is_recorded,
        recorded_by=reading.recorded_by,
        first_seq=reading.first_seq,
        begin_ns=reading.begin_ns,
        last_seq=reading.last_seq,
        end_ns=reading.end_ns,
        notes=reading.history.notes,
        findings=findings_of(reading, outages, failovers),
        lanes=[*lanes_of(reading), *partitions.lanes()],
        counts=partitions.counts,
        outages=outages,
        failovers=failovers,
        events=reading.events,
        decisions=reading.decisions,
        changes=list(cluster_changes_in(reading.history.facts, reading.last_seq)),
    )


def _moves(log: OpenedLog, reading: Reading, progress: Progress) -> dict[str, list[Move]]:
    """The reassignments of each partition that had one. Raises ReplayError, LogError."""
    facts = reading.history.facts
    names = dict.fromkeys(
        one.partition
        for one in facts
        if isinstance(one, (MoveGivenUp, ReassignmentRequested))
        or (isinstance(one, AssignmentWritten) and _is_of_move(one))
    )
    undone = {one.partition for one in facts if isinstance(one, MoveGivenUp)}
    detailed: set[str] = set()
    if isinstance(log, RecordedLog) and len(reading.events) <= _EVENTS_MAX:
        detailed = set(sorted(names, key=lambda one: one not in undone)[:_IN_DETAIL])
    found = {}
    for name in names:
        if name in detailed and isinstance(log, RecordedLog):
            subject = Subject(*partition_named(name), is_reassignment=True)
            moves = history_of([LogPart(log, reading.last_seq)], subject, progress).moves()
        else:
            moves = moves_of(facts, name)
        if moves:
            found[name] = moves
    return found


def _is_of_move(one: AssignmentWritten) -> bool:
    return one.before.is_being_reassigned or one.after.is_being_reassigned
