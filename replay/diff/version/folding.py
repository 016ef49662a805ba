"""A log folded by this version: command by command along the log, then its own way."""

from collections.abc import Sequence

from controller.core.canonical import digest, encode_command, kind_of
from controller.core.commands import Command, CommandId, Issued, Notice
from controller.core.events import Recorded
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from replay.diff.messages import Folded
from replay.diff.version.counterfactual_run import CounterfactualRun
from replay.diff.version.fold_options import Wanted
from replay.diff.version.recorded_history import RecordedHistory
from replay.logs.decode import records
from replay.logs.recorded_fold import fold_at_start, fold_event, fold_events
from replay.progress import Progress


def fold_log(reader: LogReader, wanted: Wanted, progress: Progress) -> Folded:
    """Fold a recorded log. Raises ReplayError, LogError."""
    fold = fold_at_start(reader)
    fold.controller.observer = wanted.causes
    seq, now_ns, last = 0, 0, reader.last_seq
    event: Recorded | None = None
    stored_until = _stored_until(reader)
    for event, issued, stored in fold_events(fold, reader):
        seq, now_ns = event.seq, event.wall_ns
        causes = wanted.causes.take()
        wanted.deciding.take(issued, seq, seq, now_ns, kind_of(event.event), causes)
        wanted.courses.look(fold.controller, now_ns)
        progress("folding", seq, last)
        is_cut = seq >= stored_until
        if not _is_stored(issued, stored, is_cut=is_cut):
            way = CounterfactualRun(fold, reader, _story(reader, seq), wanted, event, progress)
            way.leave(issued, stored)
            return way.go()
    if event is not None and not fold.is_idle and not fold.controller.is_stopping:
        return CounterfactualRun(fold, reader, _story(reader, seq), wanted, event, progress).go()
    return Folded(seq, now_ns, courses=wanted.courses.result())


def _stored_until(reader: LogReader) -> int:
    """The event from which on commands need not be stored: after a crash, or while a daemon runs,
    the last ones are not."""
    if reader.closing is not None:
        return reader.last_seq + 1
    last = 0
    for command in reader.commands():
        last = command.cause
    return last


def _is_stored(issued: Sequence[Issued], stored: Sequence[CommandRecord], *, is_cut: bool) -> bool:
    if len(stored) > len(issued) or (len(stored) < len(issued) and not is_cut):
        return False
    return all(_is_same(one, record) for one, record in zip(issued, stored, strict=False))


def _is_same(issued: Issued, record: CommandRecord) -> bool:
    """Whether the log has this command. Of a notice, which has no outcome, the text may differ."""
    if issued.id.ordinal != record.ordinal or record.kind != kind_of(issued.command):
        return False
    is_notice = isinstance(issued.command, Notice)
    return is_notice or record.digest == digest(encode_command(issued.command))


def _story(reader: LogReader, left_at: int) -> RecordedHistory:
    """Read the whole log. Up to `left_at` this version knows every command, however large."""
    story = RecordedHistory(left_at)
    fold = fold_at_start(reader)
    nothing: dict[CommandId, Command] = {}
    for event, stored in records(reader):
        derived = nothing
        if event.seq < left_at:
            derived = {one.id: one.command for one in fold_event(fold, event)}
        story.tell(event, stored, derived)
    return story
