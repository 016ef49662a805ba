"""What a daemon's log itself says was decided, in the form in which versions tell it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller.core.canonical import decode_reason, kind_of
from controller.core.commands import CommandId, Issued, WriteZnodes
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from replay.diff.messages import Decision
from replay.diff.version.decided import ZOOKEEPER, Deciding
from replay.diff.version.recorded_history import body_of
from replay.logs.decode import recorded

_WRITES: Final = str(WriteZnodes.__struct_config__.tag)


class Unknown(Struct, frozen=True):
    """A command of which the log holds no body, or none that this version can read."""

    seq: int
    kind: str
    target: str
    digest: bytes

    def may_be(self, decision: Decision) -> bool:
        """Whether it may have been this decision, or have had it in it."""
        if self.digest == decision.key:
            return True
        if self.seq != decision.seq:
            return False
        if self.kind == _WRITES:
            return decision.channel == ZOOKEEPER
        return (self.kind, self.target) == (decision.kind, decision.target)


class Recorded(Struct):
    """The log's decisions, with contents, and what of it nobody knows."""

    decisions: list[Decision]
    unknown: list[Unknown]


def recorded_decisions(reader: LogReader, first_seq: int, causes: Mapping[int, str]) -> Recorded:
    """What the log says was decided from an event on. `causes` are the controller events that a
    version was at, by event: the log has none. Raises ReplayError, LogError."""
    deciding = Deciding(with_contents=True)
    unknown: list[Unknown] = []
    for record, stored in reader.records(EventFilter(first_seq=first_seq)):
        issued, left = _known(stored)
        unknown += left
        if not issued:
            continue
        event = kind_of(recorded(record).event)
        cause = causes.get(record.seq, "")
        of_all = {one.id: cause for one in issued}
        deciding.take(issued, record.seq, record.seq, record.wall_ns, event, of_all)
    return Recorded(deciding.decisions, unknown)


def _known(stored: Iterable[CommandRecord]) -> tuple[Sequence[Issued], Sequence[Unknown]]:
    issued, unknown = [], []
    for one in stored:
        command = body_of(one)
        if command is None:
            unknown.append(Unknown(one.cause, one.kind, one.target, one.digest))
        else:
            reason = decode_reason(one.reason)
            issued.append(Issued(CommandId(one.cause, one.ordinal), one.term, command, reason))
    return issued, unknown
