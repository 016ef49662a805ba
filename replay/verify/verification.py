"""Verifies that this code makes the decisions that a log has (docs/design.md#replay).

The events of the log are folded again and every command is compared with the stored one: kind,
target, reason, digest, and the body if it is stored. In a log of another core, reasons and the
wording of notices are not compared (replay/logs/other_core.py).
"""

from typing import Literal

from msgspec import Struct

from controller.core.canonical import digest, encode_command, encode_reason, kind_of
from controller.core.commands import Issued, target_of
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from eventstore.verify import verify
from replay.errors import ReplayError
from replay.logs.decode import records, require_recorded
from replay.logs.other_core import folding, is_of_this_core, is_same_decision, recorded_by
from replay.logs.recorded_fold import fold_at_start, fold_event
from replay.progress import Progress, unreported
from replay.verify.differences import Difference, differences

MISMATCHES_MAX = 1000
"""The limit of the list; further mismatches are only counted."""


class Mismatch(Struct, frozen=True):
    """One command that does not agree. `event` is the number of its event.

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
    differences: list[Difference] = []
    is_stored: bool = True


class Verification(Struct, frozen=True):
    """The result of a replay. `unrecorded` commands at the end of the log were decided, but the
    daemon died before it could store them."""

    events: int
    commands: int
    agreed: int
    unrecorded: int
    mismatched: int
    mismatches: list[Mismatch]
    other_core: str = ""
    """The core and version that recorded the log, if it was another core."""


def verify_decisions(reader: LogReader, progress: Progress = unreported) -> Verification:
    """Fold a log again and compare every command. Raises ReplayError if the log is damaged or
    cannot be folded."""
    _check_usable(reader)
    header = reader.header
    other_core = "" if is_of_this_core(header) else recorded_by(header)
    comparison = _Comparison(other_core)
    fold = fold_at_start(reader)
    events, total = 0, reader.last_seq - reader.header.first_seq + 1
    for event, stored in records(reader):
        with folding(header, event.seq):
            derived = fold_event(fold, event)
        comparison.compare(event.seq, kind_of(event.event), derived, stored)
        events += 1
        progress("folding", events, total)
    return comparison.result(events, reader.closing is not None)


def _check_usable(reader: LogReader) -> None:
    report = verify(reader.path)
    for damage in report.damages:
        raise ReplayError(f"{damage.file}, {damage.record}: {damage.text}")
    require_recorded(reader.header)


class _Comparison:
    """Counts and collects mismatches while the log is folded.

    A command that is not stored is held back until a later command is stored: only then it is a
    mismatch, because after a crash the last commands are not in the log.
    """

    def __init__(self, other_core: str) -> None:
        self._other_core = other_core
        self._commands = self._agreed = self._mismatched = 0
        self._mismatches: list[Mismatch] = []
        self._held_back: list[tuple[int, str, Issued]] = []

    def compare(
        self, seq: int, kind: str, derived: list[Issued], stored: list[CommandRecord]
    ) -> None:
        """Compare the commands of one event."""
        by_ordinal = {one.ordinal: one for one in stored}
        for issued in derived:
            self._commands += 1
            before = by_ordinal.pop(issued.id.ordinal, None)
            if before is None:
                self._held_back.append((seq, kind, issued))
                continue
            self._release()
            differs = self._differences(before, issued)
            if differs:
                self._add(seq, issued.id.ordinal, kind, "changed", differs, before, issued)
            else:
                self._agreed += 1
        for ordinal, before in by_ordinal.items():
            self._release()
            self._commands += 1
            self._add(seq, ordinal, kind, "missing", [], before, None)

    def result(self, events: int, is_closed: bool) -> Verification:
        """The result. A closed log has every command that was decided."""
        if is_closed:
            self._release()
        return Verification(
            events,
            self._commands,
            self._agreed,
            len(self._held_back),
            self._mismatched,
            self._mismatches,
            self._other_core,
        )

    def _differences(self, before: CommandRecord, now: Issued) -> list[str]:
        if self._other_core and is_same_decision(before, now):
            return []
        return _differences(before, now)

    def _release(self) -> None:
        for seq, kind, issued in self._held_back:
            self._add(seq, issued.id.ordinal, kind, "extra", [], None, issued)
        self._held_back.clear()

    def _add(
        self,
        seq: int,
        ordinal: int,
        kind: str,
        what: Literal["changed", "missing", "extra"],
        differs: list[str],
        before: CommandRecord | None,
        now: Issued | None,
    ) -> None:
        self._mismatched += 1
        if len(self._mismatches) < MISMATCHES_MAX:
            was = f"{before.kind} {before.target}" if before else None
            is_now = f"{kind_of(now.command)} {target_of(now.command)}" if now else None
            values = differences(before, now) if before and now else []
            is_stored = before is None or before.body is not None
            self._mismatches.append(
                Mismatch(seq, ordinal, kind, what, differs, was, is_now, values, is_stored)
            )


def _differences(before: CommandRecord, now: Issued) -> list[str]:
    body = encode_command(now.command)
    compared = {
        "kind": (before.kind, kind_of(now.command)),
        "term": (before.term, now.term),
        "target": (before.target, target_of(now.command)),
        "reason": (before.reason, encode_reason(now.reason)),
        "digest": (before.digest, digest(body)),
        "body": (before.body, body if before.body is not None else None),
    }
    return [name for name, (was, is_now) in compared.items() if was != is_now]
