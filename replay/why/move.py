"""One reassignment of a partition from its request to its end, as plain values for --json."""

from typing import Literal

from msgspec import Struct

from replay.times import iso_time
from replay.why.facts import Because
from replay.why.place import log_of, number

Outcome = Literal[
    "under way",
    "waits to be rolled back",
    "being rolled back",
    "rolled back",
    "completed",
    "replaced",
    "deleted",
]


class Moment(Struct, frozen=True):
    """An event. `log` names its log where several are read together."""

    seq: int
    time: str
    log: str = ""

    def __str__(self) -> str:
        return f"event {self.place} ({self.time})"

    @property
    def place(self) -> str:
        """The number of the event, with its log where several are read together."""
        return f"{self.seq} of {self.log}" if self.log else str(self.seq)


def moment(seq: int, wall_ns: int) -> Moment:
    """The moment of an event."""
    return Moment(number(seq), iso_time(wall_ns), log_of(seq))


class CancelledBy(Struct, frozen=True):
    """What undid a move. `by`: a znode or an API; `how`: its znode was "created" or "found", or
    somebody "asked". `czxid`: that of /admin/reassign_cancel, -1 where it is not known. `asks_for`:
    the replicas that were asked for instead, if any. `text` says the same in words."""

    by: str
    how: str
    at: Moment
    czxid: int
    asks_for: tuple[int, ...] | None
    text: str


class Waited(Struct, frozen=True):
    """A time in which the rollback waited. `until` is None while it waits; `ended_by` says what
    ended it."""

    why: str
    since: Moment
    until: Moment | None = None
    ended_by: str = ""


class Happening(Struct, frozen=True):
    """One line of the story. `step` is that of a rollback, 1 to 7, else 0; `epochs` are those of
    other controllers; `command` names the command in its log."""

    at: Moment
    kind: str
    text: str
    because: Because | None = None
    step: int = 0
    epochs: tuple[int, ...] = ()
    command: str = ""


class Move(Struct, frozen=True):
    """A reassignment. `route` is the znode or the API by which it was asked for, "" where that is
    not known; `request` names the request in more detail. `origin` has the original replicas in
    their recorded order. `begun` is None where the log only shows its end. Where it
    `is_ended_by_others`, the controller found the end that somebody else had written."""

    partition: str
    route: str
    request: str
    origin: tuple[int, ...]
    target: tuple[int, ...]
    outcome: Outcome
    begun: Moment | None
    cancelled: CancelledBy | None
    waited: list[Waited]
    ended: Moment | None
    is_ended_by_others: bool
    story: list[Happening]

    @property
    def was_over_before(self) -> bool:
        """Whether its end was written before the log begins."""
        return self.begun is None and self.story[0].at == self.ended

    @property
    def is_undone(self) -> bool:
        """Whether it was rolled back, or is to be."""
        return self.outcome in ("waits to be rolled back", "being rolled back", "rolled back")
