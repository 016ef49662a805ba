"""Makes a report of a log."""

from collections.abc import Sequence

from replay.logs.open_log import OpenedLog
from replay.progress import Progress, unreported
from replay.report.document import Report
from replay.report.findings import findings_of
from replay.report.imported import read_imported
from replay.report.lanes import lanes_of
from replay.report.moments import moments_of
from replay.report.moves import moves_in
from replay.report.partitions import Partitions
from replay.report.reading import Procedure, Reading
from replay.report.recorded import read_recorded
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.why.facts import FAILOVERS


def report_of(log: OpenedLog, path: str, progress: Progress = unreported) -> Report:
    """Read a log and make its report. Raises ReplayError, LogError."""
    if isinstance(log, ImportedLog):
        reading = read_imported(log, path, progress)
    else:
        reading = read_recorded(log, path, progress)
        if note := log.commands.note(path):
            reading.history.notes.append(note[0].upper() + note[1:] + ".")
    reading.moves = moves_in(log, reading, progress)
    return build(reading)


def put_on_one_clock(reports: Sequence[Report]) -> None:
    """Let the elapsed time of all reports count from the first event of the first one: the logs are
    of one run."""
    for one in reports:
        one.shift_ns = one.begin_ns - reports[0].begin_ns


def build(reading: Reading) -> Report:
    """The report of a log that was read."""
    partitions = Partitions(reading)
    failovers = [one for one in reading.procedures if _is_failover(one)]
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
        moments=list(moments_of(reading.history.facts, reading.last_seq)),
    )


def _is_failover(one: Procedure) -> bool:
    """Whether a procedure took the role; the same procedures also look whether another did."""
    return one.name in FAILOVERS and any(step.rule.startswith("failover") for step in one.steps)
