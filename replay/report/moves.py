"""The reassignments of a log, those of a daemon's log with the steps of rollbacks."""

from typing import Final

from replay.logs.open_log import OpenedLog, RecordedLog
from replay.progress import Progress
from replay.report.reading import Reading
from replay.subjects import partition_named
from replay.why.facts import AssignmentWritten, MoveGivenUp, ReassignmentRequested
from replay.why.move import Move
from replay.why.move_history import moves_of
from replay.why.recorded import LogPart, history_of
from replay.why.subject import Subject

_IN_DETAIL: Final = 8
"""The steps of a rollback are those of one partition, so each one needs another fold."""
_EVENTS_MAX: Final = 20_000
"""In longer logs, no other folds are made."""


def moves_in(log: OpenedLog, reading: Reading, progress: Progress) -> dict[str, list[Move]]:
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
