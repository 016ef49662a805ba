"""The history of a subject in a log of refold's own controller: the log is folded again."""

from collections.abc import Callable, Iterator

from controller.core.canonical import digest, encode_command
from controller.core.commands import Issued
from eventstore import folders
from eventstore.filters import EventFilter
from eventstore.records import CommandRecord, EventRecord
from replay.opened import RecordedLog, is_of_this_core
from replay.recorded import recorded
from replay.snapshots import fold_at_start
from replay.times import iso_time
from replay.why.history import History
from replay.why.recording import Recording
from replay.why.subject import Subject

Advance = Callable[[str, int, int], None]
"""What is being done, how many records are done, of how many."""


def history_of(log: RecordedLog, subject: Subject, seq: int, advance: Advance) -> History:
    """Fold up to event `seq`. Raises ReplayError, LogError."""
    recording = Recording(fold_at_start(log.reader), subject, log.reader.header)
    check = None if is_of_this_core(log.reader.header) else _OtherCore()
    time = ""
    for record, stored in _records(log, seq, with_commands=check is not None):
        derived = recording.fold_event(recorded(record))
        if check is not None:
            check.compare(record.seq, derived, stored)
        time = iso_time(record.wall_ns)
        advance("folding", record.seq, seq)
    notes = check.notes(log) if check is not None else []
    notes += _end(log, seq)
    if recording.lost_at:
        notes.append(
            f"The daemon lost the role at event {recording.lost_at}: told is what it knew then."
        )
    return History(subject, recording.cluster(seq, time), recording.facts, notes)


def _end(log: RecordedLog, seq: int) -> list[str]:
    """That the log ends without the end of its daemon, if it is asked of the end."""
    reader = log.reader
    if reader.closing is not None or seq < reader.last_seq or folders.is_living(reader.path):
        return []
    return ["The log was not closed: its daemon was killed, or this is a copy of before its end."]


def _records(
    log: RecordedLog, seq: int, *, with_commands: bool
) -> Iterator[tuple[EventRecord, list[CommandRecord]]]:
    wanted = EventFilter(last_seq=seq)
    if with_commands:
        return log.reader.records(wanted)
    return ((one, []) for one in log.reader.events(wanted))


class _OtherCore:
    """Whether this core decides as the one did that recorded a log."""

    def __init__(self) -> None:
        self._differs_at = 0

    def compare(self, seq: int, derived: list[Issued], stored: list[CommandRecord]) -> None:
        """The commands of one event. After a crash the last ones were not stored."""
        if self._differs_at or not stored:
            return
        ours = [digest(encode_command(one.command)) for one in derived]
        if ours != [one.digest for one in stored]:
            self._differs_at = seq

    def notes(self, log: RecordedLog) -> list[str]:
        """What limits the answer."""
        header = log.reader.header
        text = f"Recorded by core {header.core_fingerprint} (refold {header.code_version}); "
        if not self._differs_at:
            return [f"{text}this one decides the same up to here."]
        return [
            f"{text}from event {self._differs_at} on this core decides otherwise: told is what it "
            "makes of the events. refold diff compares the two."
        ]
