"""Logs of another core: whether this core makes the same decisions.

The fingerprint of a core changes with every change of its source, even if code only moves.
Therefore a log of another core is not refused: its events are folded, and this core's decisions are
compared with the stored ones. Wording is not compared: the text of a notice and the reason of a
command may differ.
"""

import shlex
from collections.abc import Sequence

import msgspec
from msgspec import structs

from controller.core.canonical import digest, encode_command, kind_of
from controller.core.commands import Issued, Notice
from controller.event_log.records import decode_stored_command, target_of_issued
from controller.fingerprint import broker_fingerprint, code_version, core_fingerprint
from controller.kafka_0_8.commands import IssuedByBroker
from eventstore.records import CommandRecord, Header
from replay.errors import OtherCoreError, ReplayError
from replay.logs.broker_log import is_of_broker
from replay.logs.folding import AnyRecorded
from replay.names import command_name


def is_of_this_core(header: Header) -> bool:
    """Whether the core that recorded a log is this one."""
    return header.core_fingerprint == fingerprint_for(header)


def fingerprint_for(header: Header) -> str:
    """The fingerprint of this version's core that folds the log."""
    return broker_fingerprint() if is_of_broker(header) else core_fingerprint()


def recorded_by(header: Header) -> str:
    """A text that names the core and the version that recorded a log."""
    return f"core {header.core_fingerprint} (refold {header.code_version})"


def diff_command(log: str) -> str:
    """How to compare the decisions of the version that recorded a log with those of this one."""
    return (
        f"refold diff {shlex.quote(log)} --base REF --head installed, where REF is a git ref, a "
        "wheel or a folder of the version that recorded the log"
    )


def header_of_rewritten_log(header: Header) -> Header:
    """The header of a log that this version derives from the first events of another log."""
    return structs.replace(
        header,
        predecessor=None,
        core_fingerprint=core_fingerprint(),
        code_version=code_version(),
    )


def is_same_decision(
    stored: CommandRecord, now: Issued | IssuedByBroker, body: bytes | None = None
) -> bool:
    """Whether two cores decided the same: the commands are equal, except the text of a notice.
    `body` is the encoded command, if the caller has it."""
    command = now.command
    what = (kind_of(command), now.term, target_of_issued(now))
    if (stored.kind, stored.term, stored.target) != what:
        return False
    if stored.digest == digest(encode_command(command) if body is None else body):
        return True
    if not isinstance(command, Notice) or stored.body is None:
        return False
    try:
        before = decode_stored_command(stored.kind, stored.body)
    except msgspec.DecodeError:
        return False
    return isinstance(before, Notice) and (before.level, before.code) == (
        command.level,
        command.code,
    )


def refuse_event_of_other_core(header: Header, event: AnyRecorded, error: Exception) -> None:
    """After an error in the fold of an event. Raises ReplayError if another core recorded the log:
    this core cannot fold the event, because it awaits the outcome of another command."""
    if not is_of_this_core(header):
        raise ReplayError(
            f"recorded by {recorded_by(header)}; this core, {fingerprint_for(header)}, cannot fold "
            f"{name_with_command(event)}: run that version, or compare the two: "
            f"{diff_command('LOG')}"
        ) from error


def name_with_command(event: AnyRecorded) -> str:
    """An event by its number and kind, and the command whose outcome it is."""
    command = getattr(event.event, "command", None)
    outcome = f", the outcome of command {command_name(command)}" if command else ""
    return f"event {event.seq} ({kind_of(event.event)}{outcome})"


class OtherCoreCheck:
    """Compares this core's decisions with those of a log, event by event, up to the first
    difference."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self.differs_at = 0
        """The first event at which this core decides differently; 0 for none so far."""

    def compare(self, seq: int, derived: Sequence[Issued], stored: Sequence[CommandRecord]) -> None:
        """Compare the commands of one event. After a crash the last commands are not stored."""
        if self.differs_at or not stored:
            return
        is_same = len(derived) == len(stored) and all(map(is_same_decision, stored, derived))
        if not is_same:
            self.differs_at = seq

    def require_same(self) -> None:
        """Check that no decision has differed so far. Raises OtherCoreError."""
        if self.differs_at:
            raise OtherCoreError(
                f"recorded by {recorded_by(self._header)}; from event {self.differs_at} on, this "
                f"core, {core_fingerprint()}, decides differently: run that version, or compare "
                f"the two: {diff_command('LOG')}"
            )
