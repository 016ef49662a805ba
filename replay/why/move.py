"""A move, one reassignment of a partition from its request to its end, as values for --json."""

from typing import Literal

from msgspec import Struct, field

from replay.why.event_reference import EventReference
from replay.why.facts import Cause

MoveOutcome = Literal[
    "under way",
    "waits to be rolled back",
    "being rolled back",
    "rolled back",
    "completed",
    "replaced",
    "deleted",
]


class CancelledBy(Struct, frozen=True):
    """The request that undid a move. `by`: a znode or an API; `how`: its znode was "created" or
    "found", or a client "asked". `czxid`: that of /admin/reassign_cancel, -1 if unknown.
    `asks_for`: the replicas that were requested instead, if any. `text` describes the request."""

    by: str
    how: str
    at: EventReference
    czxid: int
    asks_for: tuple[int, ...] | None
    text: str


class WaitPeriod(Struct, frozen=True):
    """A period in which the rollback waited. `until` is None while it waits; `ended_by` is what
    ended the wait."""

    why: str
    since: EventReference
    until: EventReference | None = None
    ended_by: str = ""


class MoveEvent(Struct, frozen=True):
    """An event in the history of a move. `step` is that of a rollback, 1 to 7, else 0; `epochs` are
    those of other controllers; `command` names the command in its log. `is_recorded` is false if
    the log ends without the stored commands of the event, so that they may not have been carried
    out."""

    at: EventReference
    kind: str
    text: str
    because: Cause | None = None
    step: int = 0
    epochs: tuple[int, ...] = ()
    command: str = ""
    is_recorded: bool = True


class Move(Struct, frozen=True):
    """A reassignment. `route` is the znode or the API by which it was requested, "" if unknown;
    `request` names the request in more detail. `origin` has the original replicas in their recorded
    order. `begun` is None if the log shows only the end. `too_late` is a cancellation that was read
    when another controller had completed the move. `is_ended_by_others`: the controller found
    the end, which another process had written."""

    partition: str
    route: str
    request: str
    origin: tuple[int, ...]
    target: tuple[int, ...]
    outcome: MoveOutcome
    begun: EventReference | None
    cancelled: CancelledBy | None
    too_late: CancelledBy | None
    waited: list[WaitPeriod]
    ended: EventReference | None
    is_ended_by_others: bool
    events: list[MoveEvent] = field(name="story")

    @property
    def was_over_before(self) -> bool:
        """Whether the end of the move was written before the log begins."""
        return self.begun is None and self.events[0].at == self.ended

    @property
    def is_undone(self) -> bool:
        """Whether the move was, is being or is to be rolled back."""
        return self.outcome in ("waits to be rolled back", "being rolled back", "rolled back")
