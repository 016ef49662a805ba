"""Verifies that this code makes the decisions that a log has (docs/design.md#replay).

The events of the log are folded again and every command is compared with the stored one: kind,
target, reason, digest, and the body if it is stored. In a log of another core, reasons and the
wording of notices are not compared (replay/logs/other_core.py). The other fields of events are
checked, too (event_fields.py).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from msgspec import Struct

from controller.core.canonical import digest, encode_command, encode_reason, kind_of
from controller.core.commands import Stop
from controller.event_log.records import target_of_issued
from eventstore.errors import LogCorrupt
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import CommandRecord, EventRecord
from eventstore.verify import check_complete, check_ends
from replay.errors import ReplayError
from replay.garbage_collection import rare_garbage_collection
from replay.logs.decode import require_recorded
from replay.logs.folding import AnyIssued, AnyRecorded, folding_at_start
from replay.logs.other_core import (
    is_of_this_core,
    is_same_decision,
    recorded_by,
    refuse_event_of_other_core,
)
from replay.logs.stored_commands import is_exact
from replay.logs.unrecorded import UnrecordedCommand, UnrecordedCommands
from replay.progress import Progress, unreported
from replay.verify.differences import CommandDifference, differences
from replay.verify.event_fields import EventFieldChecker, PartEdges, WrongField

MISMATCHES_MAX = 1000
"""The limit of the list; further mismatches are only counted."""


_REPORTED_EVERY: Final = 1000
NO_ORDINAL: Final = -1
"""In place of the ordinal of a command, if a mismatch is about the event itself."""


class Mismatch(Struct, frozen=True):
    """One command that does not agree, or one event with wrong fields (`ordinal` is NO_ORDINAL).
    `event` is the number of the event.

    `differs` has the names of the fields, `differences` the differing values. A "missing" command
    was recorded and is not decided now; an "extra" command is decided now and was not recorded.
    `is_stored`: the log has the body of the command; above 4 KiB it has only a digest.
    """

    event: int
    ordinal: int
    event_kind: str
    what: Literal["changed", "missing", "extra"]
    differs: list[str]
    recorded: str | None
    derived: str | None
    differences: list[CommandDifference] = []
    is_stored: bool = True


class Verification(Struct, frozen=True):
    """The result of a replay. `unrecorded` commands at the end of the log were decided, but the
    daemon died before it could store them. `mismatched` counts commands and events.

    `is_closed`: the log ends with its closing record; otherwise records at the end may be missing.
    `events_without_commands`: the number of events after the last one that has a stored command.
    `notes` are texts about what is unusual, but no mismatch.
    """

    events: int
    commands: int
    agreed: int
    unrecorded: int
    mismatched: int
    mismatches: list[Mismatch]
    is_closed: bool
    events_without_commands: int
    notes: list[str]
    other_core: str = ""
    """The core and version that recorded the log, if it was another core."""


def verify_decisions(reader: LogReader, progress: Progress = unreported) -> Verification:
    """Fold a log again and compare every command. Raises ReplayError if the log is damaged or
    cannot be folded."""
    with rare_garbage_collection(), damage_reported():
        verifier = Verifier(reader)
        header, last = reader.header, verifier.last_seq
        fold = folding_at_start(reader)
        verifier.begin(fold.term)
        count = last - header.first_seq + 1
        for record, stored in reader.records(EventFilter(last_seq=last)):
            event = fold.decode(record)
            try:
                derived = fold.fold(event)
            except Exception as error:
                refuse_event_of_other_core(header, event, error)
                raise
            verifier.add(record, event, derived, stored, fold.term)
            if not record.seq % _REPORTED_EVERY or record.seq == last:
                progress("folding", record.seq - header.first_seq + 1, count)
        return verifier.result()


@contextmanager
def damage_reported() -> Iterator[None]:
    """Convert LogCorrupt into ReplayError, whose message names the file and the record."""
    try:
        yield
    except LogCorrupt as error:
        raise ReplayError(f"{error.file}, {error.record}: {error.text}") from error


class Verifier:
    """Compares the events of a log and their commands with what a fold derives from them, while
    the caller reads and folds the log. The caller's reader must check the checksum chain."""

    def __init__(self, reader: LogReader, part: tuple[int, int] | None = None) -> None:
        """`part`: the first and the last event, if not the whole log is verified here. Its caller
        checks that the log is complete.

        Raises ReplayError for a log that the daemon did not write, and LogCorrupt if records are
        missing.
        """
        self._path, self._is_whole = reader.path, part is None
        if part is None:
            check_complete(reader.path)
        require_recorded(reader.header)
        header = reader.header
        # A daemon may be writing the log. Up to this event, all answered commands are stored.
        self._is_closed = reader.closing is not None
        self._first_seq, self.last_seq = part or (header.first_seq, reader.last_seq)
        other_core = "" if is_of_this_core(header) else recorded_by(header)
        self._comparison = _Comparison(self._first_seq, other_core)
        self.begin(0)

    def begin(self, term: int) -> None:
        """The term before the first event."""
        self._fields = EventFieldChecker(self._first_seq, term)

    def add(
        self,
        record: EventRecord,
        event: AnyRecorded,
        derived: Sequence[AnyIssued],
        stored: Sequence[CommandRecord],
        term: int,
    ) -> None:
        """The next event with the commands that a fold derives and that the log has, and the term
        after it."""
        wrong = self._fields.check(record, event)
        if wrong:
            self._comparison.add_wrong_fields(event.seq, record.kind, wrong)
        self._fields.note_fold(event.seq, term, max(len(derived), len(stored)))
        if derived or stored:
            self._comparison.compare(event, derived, stored)

    def result(self) -> Verification:
        """The result after the last event. Raises LogCorrupt."""
        if self._is_whole:
            check_ends(self._path)
        return self._comparison.result(self.last_seq, self._is_closed, self._fields)

    def edges(self) -> PartEdges:
        """The assumptions of a part about the other parts; call this after the part's last
        event."""
        return self._fields.edges()


class _Comparison:
    """Counts and collects mismatches while the log is folded.

    A command that is not stored is a mismatch, unless it is at the end of the log
    (replay/logs/unrecorded.py).
    """

    def __init__(self, first_seq: int, other_core: str) -> None:
        self._first_seq = first_seq
        self._other_core = other_core
        self._last_cause = first_seq - 1
        self._has_stopped = False
        self._commands = self._agreed = self._mismatched = 0
        self._mismatches: list[Mismatch] = []
        self._unrecorded = UnrecordedCommands()

    def compare(
        self, event: AnyRecorded, derived: Sequence[AnyIssued], stored: Sequence[CommandRecord]
    ) -> None:
        """Compare the commands of one event."""
        seq = event.seq
        if stored:
            self._last_cause = seq
            self._has_stopped |= any(isinstance(one.command, Stop) for one in derived)
        if not len(self._unrecorded) and is_exact(derived, stored):
            self._commands += len(derived)
            self._agreed += len(derived)
            return
        kind = kind_of(event.event)
        by_ordinal = {one.ordinal: one for one in stored}
        for issued in derived:
            self._commands += 1
            before = by_ordinal.pop(issued.id.ordinal, None)
            self._add_extra(self._unrecorded.add(kind, issued, is_stored=before is not None))
            if before is None:
                continue
            differs = self._differences(before, issued)
            if differs:
                self._add(seq, issued.id.ordinal, kind, "changed", differs, before, issued)
            else:
                self._agreed += 1
        for ordinal, before in by_ordinal.items():
            self._add_extra(self._unrecorded.release(seq))
            self._commands += 1
            self._add(seq, ordinal, kind, "missing", [], before, None)

    def add_wrong_fields(self, seq: int, kind: str, wrong: list[WrongField]) -> None:
        """Add a mismatch for an event with wrong fields."""
        self._mismatched += 1
        if len(self._mismatches) < MISMATCHES_MAX:
            names = [one.name for one in wrong]
            values = [CommandDifference(one.name, one.recorded, one.derived) for one in wrong]
            self._mismatches.append(
                Mismatch(seq, NO_ORDINAL, kind, "changed", names, None, None, values)
            )

    def result(self, last_seq: int, is_closed: bool, fields: EventFieldChecker) -> Verification:
        """The result for a log that ends with event `last_seq`. A closed log has every command that
        was decided."""
        self._add_extra(self._unrecorded.release(last_seq if is_closed else fields.answered))
        notes = list(fields.notes)
        if self._has_stopped and not is_closed:
            notes.append("the controller stopped, but the closing record is missing")
        return Verification(
            last_seq - self._first_seq + 1,
            self._commands,
            self._agreed,
            len(self._unrecorded),
            self._mismatched,
            self._mismatches,
            is_closed,
            last_seq - self._last_cause,
            notes,
            self._other_core,
        )

    def _differences(self, before: CommandRecord, now: AnyIssued) -> list[str]:
        if self._other_core and is_same_decision(before, now):
            return []
        return _differences(before, now)

    def _add_extra(self, released: list[UnrecordedCommand]) -> None:
        """Add mismatches for commands that are missing, although later ones were stored."""
        for kind, issued in released:
            self._add(issued.id.cause, issued.id.ordinal, kind, "extra", [], None, issued)

    def _add(
        self,
        seq: int,
        ordinal: int,
        kind: str,
        what: Literal["changed", "missing", "extra"],
        differs: list[str],
        before: CommandRecord | None,
        now: AnyIssued | None,
    ) -> None:
        self._mismatched += 1
        if len(self._mismatches) < MISMATCHES_MAX:
            was = f"{before.kind} {before.target}" if before else None
            is_now = f"{kind_of(now.command)} {target_of_issued(now)}" if now else None
            values = differences(before, now) if before and now else []
            is_stored = before is None or before.body is not None
            self._mismatches.append(
                Mismatch(seq, ordinal, kind, what, differs, was, is_now, values, is_stored)
            )


_COMPARED: Final = ("kind", "term", "target", "reason", "digest", "body")


def _differences(before: CommandRecord, now: AnyIssued) -> list[str]:
    body = encode_command(now.command)
    derived = (
        kind_of(now.command),
        now.term,
        target_of_issued(now),
        encode_reason(now.reason),
        digest(body),
        body if before.body is not None else None,
    )
    recorded = (
        before.kind,
        before.term,
        before.target,
        before.reason,
        before.digest,
        before.body,
    )
    if recorded == derived:
        return []
    compared = zip(_COMPARED, recorded, derived, strict=True)
    return [name for name, was, is_now in compared if was != is_now]
