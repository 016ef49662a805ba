"""Whether a log has the commands that its events lead to. Commands that fold a log compare them
meanwhile, so that an answer from a changed log is not given without a word."""

import shlex
from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct, field

from controller.core.canonical import cause_of, encode_command, encode_reason
from controller.event_log.records import command_record
from eventstore.records import CommandRecord, Header
from replay.logs.folding import AnyIssued, AnyRecorded
from replay.logs.other_core import diff_command, is_of_this_core, is_same_decision, recorded_by
from replay.logs.unrecorded import UnrecordedCommands

IssuedT = TypeVar("IssuedT", bound=AnyIssued)


def is_exact(derived: Sequence[AnyIssued], stored: Sequence[CommandRecord]) -> bool:
    """Whether the log has exactly the commands that were derived."""
    if len(derived) != len(stored):
        return False
    for one, before in zip(derived, stored, strict=True):
        if before.body is None or command_record(one) != before:
            return False
    return True


class StoredCommandsCheck:
    """Compares the commands of consecutive events, up to the first difference. Commands may be
    missing at the end, as after a crash."""

    def __init__(self, header: Header) -> None:
        self._is_of_this_core = is_of_this_core(header)
        self._unrecorded = UnrecordedCommands()
        self.differs_at = 0
        """The first event whose commands differ; 0 for none so far."""

    def compare(
        self, event: AnyRecorded, derived: Sequence[IssuedT], stored: Sequence[CommandRecord]
    ) -> list[IssuedT]:
        """Compare the commands of the next event. Returns those that the log does not have exactly
        as they were derived: large ones have no body there, and another core may have worded a
        reason differently."""
        if self.differs_at or (not self._unrecorded and is_exact(derived, stored)):
            return []
        inexact: list[IssuedT] = []
        released = self._unrecorded.release(cause_of(event.event) or 0)
        by_ordinal = {one.ordinal: one for one in stored}
        is_same = True
        for one in derived:
            before = by_ordinal.pop(one.id.ordinal, None)
            released += self._unrecorded.add("", one, is_stored=before is not None)
            if before is None:
                inexact.append(one)
                continue
            body, reason = encode_command(one.command), encode_reason(one.reason)
            is_reason_same = before.reason == reason
            is_same &= (is_reason_same or not self._is_of_this_core) and is_same_decision(
                before, one, body
            )
            if not is_reason_same or before.body != body:
                inexact.append(one)
        if released:
            self.differs_at = released[0].issued.id.cause
        elif by_ordinal or not is_same:
            self.differs_at = event.seq
        return inexact


class StoredCommands(Struct):
    """The checks of one log: one for each fold of it."""

    header: Header
    checks: list[StoredCommandsCheck] = field(default_factory=list)

    def begin(self) -> StoredCommandsCheck:
        """The check for a fold that begins."""
        self.checks.append(StoredCommandsCheck(self.header))
        return self.checks[-1]

    def note(self, log: str) -> str:
        """The differences in one sentence; "" for none."""
        differing = [one.differs_at for one in self.checks if one.differs_at]
        return note_of(self.header, min(differing), log) if differing else ""


def note_of(header: Header, differs_at: int, log: str) -> str:
    """The error for a log whose commands differ from some event on."""
    if is_of_this_core(header):
        return (
            f"the commands that the log has are not those that its events lead to, from event"
            f" {differs_at} on: the log was changed. `refold replay {shlex.quote(log)}` lists the"
            " differences"
        )
    return (
        f"recorded by {recorded_by(header)}; from event {differs_at} on, this core decides"
        f" differently. To compare the two: {diff_command(log)}"
    )
