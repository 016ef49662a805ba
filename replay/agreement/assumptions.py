"""The assumptions that a comparison makes where no log shows the facts.

The logs leave open in which order a controller processed queued events, when it read, and whether
it received the reply to a write. A comparison makes a plausible choice and records it. Another
comparison of the same log can make other `Assumptions` (see `search`).

A moment is a record number: a step at that moment comes before what the record reports.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct

from replay.znode_view import Change


class ControllerStep(NamedTuple):
    """A step of a session's controller: it began the event that arrived with a record (`read` is
    0), or read for that event the first time (1), the second time, and so on.

    `request` is the record of the request log that has the request, 0 for other events: several
    requests can arrive with one record.
    """

    session: int
    event: str
    arrived: int
    read: int = 0
    request: int = 0


class OpenChoice(NamedTuple):
    """A moment that no log shows: when the step happened (`at`), and the earliest moment possible
    (`since`).

    `paths` are the znodes that were read. `is_latest`: a later moment is impossible. `is_logged`: a
    line shows the event that the read was for, or that this event or one like it began.
    """

    step: ControllerStep
    broker: int
    since: int
    at: int
    paths: Sequence[str] = ()
    is_latest: bool = False
    is_logged: bool = False


class Assumptions(Struct, frozen=True):
    """The moments of those steps that are not left to the usual choice, and the zxids of writes
    whose replies were lost. `any_batches`: the fold may write in other batches than Kafka."""

    moments: Mapping[ControllerStep, int] = MappingProxyType({})
    lost_replies: frozenset[int] = frozenset()
    any_batches: bool = False


NO_ASSUMPTIONS: Final = Assumptions()


class Choices:
    """The choices of one comparison under some assumptions. They are only recorded if another
    comparison may follow (`is_recorded`).

    `repeated` are the zxids after which the session was refused a write that the fold does not
    make: if the reply was lost, Kafka has repeated the write.
    """

    def __init__(
        self, assumptions: Assumptions | None = None, *, is_recorded: bool = False
    ) -> None:
        self.assumptions = assumptions or NO_ASSUMPTIONS
        self.has_moments = bool(self.assumptions.moments)
        self.made: dict[ControllerStep, OpenChoice] = {}
        self.repeated: list[int] = []
        self.is_recorded = is_recorded
        self.changed: dict[str, list[int]] = defaultdict(list)
        """By path, the records that changed the znode."""

    def assume(self, assumptions: Assumptions, *, is_recorded: bool = False) -> None:
        """Continue under other assumptions."""
        self.assumptions = assumptions
        self.has_moments = bool(assumptions.moments)
        self.is_recorded = is_recorded

    def record(self, choice: OpenChoice) -> None:
        """Record a choice; the last one for a step counts."""
        if self.is_recorded:
            self.made[choice.step] = choice

    def record_changes(self, seq: int, changes: Iterable[Change]) -> None:
        """Record that a transaction changes znodes."""
        for path, _ in changes if self.is_recorded else ():
            self.changed[path].append(seq)

    def record_repeated(self, zxid: int) -> None:
        """Record that the reply to a write may have been lost."""
        if zxid not in self.assumptions.lost_replies:
            self.repeated.append(zxid)

    def is_reply_lost(self, zxid: int) -> bool:
        """Whether the reply to a write is assumed to be lost."""
        return zxid in self.assumptions.lost_replies

    def changes_of(self, paths: Iterable[str], after: int, until: int) -> list[int]:
        """The records that changed these znodes or their children."""
        found: set[int] = set()
        for path in paths:
            changed = self.changed.get(path, [])
            found.update(changed[bisect_right(changed, after) : bisect_right(changed, until)])
        return sorted(found)

    def is_early(self, step: ControllerStep, seq: int) -> bool:
        """Whether the step is assumed to come later."""
        return self.assumptions.moments.get(step, 0) > seq

    def is_due(self, step: ControllerStep, seq: int) -> bool:
        """Whether the step is assumed to have happened by now. A read comes after the reads before
        it."""
        moments = [
            at
            for one, at in self.assumptions.moments.items()
            if one._replace(read=step.read) == step
            and (one.read >= step.read > 0 or one.read == step.read)
        ]
        return bool(moments) and min(moments) <= seq
