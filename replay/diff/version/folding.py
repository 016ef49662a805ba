"""Folds a log with this version. After it leaves a recorded log, a simulation continues."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from controller.core.canonical import digest, encode_command, kind_of
from controller.core.commands import Command, CommandId, Issued, Notice
from controller.core.events import Recorded
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from replay.diff.messages import FoldedLog
from replay.diff.version.counterfactual_run import CounterfactualRun
from replay.diff.version.fold_recorder import FoldRecorder
from replay.diff.version.imported import fold_imported
from replay.diff.version.recorded_history import RecordedHistory
from replay.logs.decode import records
from replay.logs.recorded_fold import (
    end_of_stored_commands,
    fold_at_start,
    fold_event,
    fold_events,
)
from replay.progress import Progress, unreported


def fold_log(
    reader: LogReader,
    recorder: FoldRecorder,
    progress: Progress = unreported,
    settings: Mapping[str, str] = MappingProxyType({}),
    since: int = 0,
) -> FoldedLog:
    """Fold a log of any kind. `settings` and `since` are for imported logs (`fold_imported`).

    Raises ReplayError, LogError.
    """
    if reader.header.kind == "recorded":
        return _fold_recorded(reader, recorder, progress)
    return fold_imported(reader, recorder, settings, progress, since)


def _fold_recorded(reader: LogReader, recorder: FoldRecorder, progress: Progress) -> FoldedLog:
    fold = fold_at_start(reader)
    fold.controller.observer = recorder.causes
    seq, now_ns, last = 0, 0, reader.last_seq
    event: Recorded | None = None
    stored_until = end_of_stored_commands(reader)
    for event, issued, stored in fold_events(fold, records(reader)):
        seq, now_ns = event.seq, event.wall_ns
        recorder.note(event.event)
        recorder.record(fold.controller, issued, seq, seq, now_ns, kind_of(event.event))
        progress("folding", seq, last)
        is_cut = seq >= stored_until
        if not _is_stored(issued, stored, is_cut=is_cut):
            run = CounterfactualRun(fold, reader, _history(reader, seq), recorder, event, progress)
            run.leave(issued, stored)
            return run.run()
    if event is not None and not fold.is_idle and not fold.controller.is_stopping:
        history = _history(reader, seq)
        return CounterfactualRun(fold, reader, history, recorder, event, progress).run()
    return FoldedLog(seq, now_ns, timelines=recorder.timelines.result())


def _is_stored(issued: Sequence[Issued], stored: Sequence[CommandRecord], *, is_cut: bool) -> bool:
    if len(stored) > len(issued) or (len(stored) < len(issued) and not is_cut):
        return False
    return all(_is_same(one, record) for one, record in zip(issued, stored, strict=False))


def _is_same(issued: Issued, record: CommandRecord) -> bool:
    """Whether the log has a command. Notices may differ, because they have no outcome."""
    if issued.id.ordinal != record.ordinal or record.kind != kind_of(issued.command):
        return False
    is_notice = isinstance(issued.command, Notice)
    return is_notice or record.digest == digest(encode_command(issued.command))


def _history(reader: LogReader, left_at: int) -> RecordedHistory:
    """Read the whole log. Commands up to `left_at` are derived, because large ones have no body."""
    history = RecordedHistory(left_at)
    fold = fold_at_start(reader)
    nothing: dict[CommandId, Command] = {}
    for event, stored in records(reader):
        derived = nothing
        if event.seq < left_at:
            derived = {one.id: one.command for one in fold_event(fold, event)}
        history.add(event, stored, derived)
    return history
