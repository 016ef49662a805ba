"""The decisions that a daemon's log recorded, in the form in which versions report them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller.core.canonical import decode_reason, kind_of
from controller.core.commands import CommandId, Issued, WriteZnodes
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from replay.diff.messages import Decision
from replay.diff.version.decisions import ZOOKEEPER, DecidedTrigger, DecisionRecorder
from replay.diff.version.recorded_history import decoded_body
from replay.logs.decode import decode_recorded

_WRITES: Final = str(WriteZnodes.__struct_config__.tag)


class UnreadableCommand(Struct, frozen=True):
    """A command whose body is not stored, or that this version cannot decode."""

    seq: int
    kind: str
    target: str
    digest: bytes

    def may_be(self, decision: Decision) -> bool:
        """Whether the command may be this decision, or contain it."""
        if self.digest == decision.key:
            return True
        if self.seq != decision.seq:
            return False
        if self.kind == _WRITES:
            return decision.channel == ZOOKEEPER
        return (self.kind, self.target) == (decision.kind, decision.target)


class RecordedDecisions(Struct):
    """The decisions in a log with their contents, and the commands that cannot be read."""

    decisions: list[Decision]
    unknown: list[UnreadableCommand]


def recorded_decisions(
    reader: LogReader, first_seq: int, causes: Mapping[int, str]
) -> RecordedDecisions:
    """The recorded decisions from an event on.

    `causes` maps events to the controller events that a version handled; the log does not contain
    these. Raises ReplayError, LogError.
    """
    recorder = DecisionRecorder(with_contents=True)
    unknown: list[UnreadableCommand] = []
    for record, stored in reader.records(EventFilter(first_seq=first_seq)):
        issued, left = _decode_commands(stored)
        unknown += left
        if not issued:
            continue
        event = kind_of(decode_recorded(record).event)
        cause = DecidedTrigger(causes.get(record.seq, ""), record.seq)
        of_all = {one.id: cause for one in issued}
        recorder.record(issued, record.seq, record.seq, record.wall_ns, event, of_all)
    return RecordedDecisions(recorder.decisions, unknown)


def _decode_commands(
    stored: Iterable[CommandRecord],
) -> tuple[Sequence[Issued], Sequence[UnreadableCommand]]:
    issued, unknown = [], []
    for one in stored:
        command = decoded_body(one)
        if command is None:
            unknown.append(UnreadableCommand(one.cause, one.kind, one.target, one.digest))
        else:
            reason = decode_reason(one.reason)
            issued.append(Issued(CommandId(one.cause, one.ordinal), one.term, command, reason))
    return issued, unknown
