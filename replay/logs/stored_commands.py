"""Whether a log has the commands that its events lead to. Commands that fold a log compare them
meanwhile, so that an answer from a changed log is not given without a word."""

import shlex
from collections.abc import Sequence

from msgspec import Struct, field

from controller.core.canonical import cause_of, encode_reason
from eventstore.records import CommandRecord, Header
from replay.logs.folding import AnyIssued, AnyRecorded
from replay.logs.other_core import diff_command, is_of_this_core, is_same_decision, recorded_by
from replay.logs.unrecorded import UnrecordedCommands


class StoredCommandsCheck:
    """Compares the commands of consecutive events, up to the first difference. Commands may be
    missing at the end, as after a crash."""

    def __init__(self, header: Header) -> None:
        self._is_of_this_core = is_of_this_core(header)
        self._unrecorded = UnrecordedCommands()
        self.differs_at = 0
        """The first event whose commands differ; 0 for none so far."""

    def compare(
        self, event: AnyRecorded, derived: Sequence[AnyIssued], stored: Sequence[CommandRecord]
    ) -> None:
        """Compare the commands of the next event."""
        if self.differs_at:
            return
        released = self._unrecorded.release(cause_of(event.event) or 0)
        by_ordinal = {one.ordinal: one for one in stored}
        is_same = True
        for one in derived:
            before = by_ordinal.pop(one.id.ordinal, None)
            released += self._unrecorded.add("", one, is_stored=before is not None)
            is_same &= before is None or self._is_same(before, one)
        if released:
            self.differs_at = released[0].issued.id.cause
        elif by_ordinal or not is_same:
            self.differs_at = event.seq

    def _is_same(self, before: CommandRecord, now: AnyIssued) -> bool:
        is_reason_same = not self._is_of_this_core or before.reason == encode_reason(now.reason)
        return is_reason_same and is_same_decision(before, now)


class StoredCommands(Struct):
    """The checks of one log: one for each fold of it."""

    header: Header
    checks: list[StoredCommandsCheck] = field(default_factory=list)

    def begin(self) -> StoredCommandsCheck:
        """The check for a fold that begins."""
        self.checks.append(StoredCommandsCheck(self.header))
        return self.checks[-1]

    def note(self, log: str) -> str:
        """What differs, in one sentence; "" if nothing does."""
        differing = [one.differs_at for one in self.checks if one.differs_at]
        return note_of(self.header, min(differing), log) if differing else ""


def note_of(header: Header, differs_at: int, log: str) -> str:
    """That the commands of a log differ from an event on, and what to do."""
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
