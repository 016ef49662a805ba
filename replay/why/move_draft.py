"""A move while its story is told."""

from msgspec import Struct, field

from replay.description.phrases import listed
from replay.why.facts import Cancellation, Fact
from replay.why.move import CancelledBy, Happening, Moment, Move, Outcome, Waited, moment
from replay.why.place import plain_cause
from replay.why.rollback_steps import LAST
from replay.why.words import why_rolled_back


class Wait(Struct):
    """A time in which the rollback waits; `until` ends it."""

    why: str
    since: Fact
    until: Fact | None = None
    ended_by: str = ""


class Draft(Struct):
    """A move that is being told."""

    route: str
    request: str
    origin: tuple[int, ...]
    target: tuple[int, ...]
    begun: Fact | None
    first: Fact
    lines: list[tuple[int, Happening]] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    cancellation: Cancellation | None = None
    steps: set[int] = field(default_factory=set)
    outcome: Outcome = "under way"
    ended: Fact | None = None
    is_ended_by_others: bool = False
    has_record: bool = False
    epoch: int = 0
    """That of the controller that took the last step of its rollback, or found its end."""

    @property
    def is_open(self) -> bool:
        """Whether its end is not written yet."""
        return self.ended is None

    @property
    def is_followed(self) -> bool:
        """Whether what comes belongs to its story, also when its end is written: steps 6 and 7."""
        is_tidy = LAST in self.steps and not self.has_record
        return self.is_open or (self.outcome == "rolled back" and not is_tidy)

    @property
    def is_waiting(self) -> bool:
        """Whether its rollback waits."""
        return bool(self.waits) and self.waits[-1].until is None

    def tell(self, fact: Fact, kind: str, text: str, **more: object) -> None:
        """A line of the story."""
        fields: dict[str, object] = {"because": plain_cause(fact.because), **more}
        at = moment(fact.seq, fact.wall_ns)
        self.lines.append((fact.seq, Happening(at, kind, text, **fields)))  # type: ignore[arg-type]

    @property
    def goes(self) -> str:
        """From where, to where, and by which request."""
        by = self.request or self.route
        goes = f"from {listed(self.origin)} to {listed(self.target)}"
        return f"{goes}, by {by}" if by else goes

    @property
    def found_text(self) -> str:
        """That the controller found it, already begun."""
        return f"found under way {self.goes}"

    def told(self, partition: str) -> Move:
        """The move as plain values, its story in the order of events."""
        self.lines.sort(key=lambda one: one[0])
        return Move(
            partition,
            self.route,
            self.request,
            self.origin,
            self.target,
            self.outcome,
            _moment(self.begun),
            _cancelled_by(self.cancellation),
            [
                Waited(
                    one.why,
                    moment(one.since.seq, one.since.wall_ns),
                    _moment(one.until),
                    one.ended_by,
                )
                for one in self.waits
            ],
            _moment(self.ended),
            self.is_ended_by_others,
            [line for _, line in self.lines],
        )


def _cancelled_by(one: Cancellation | None) -> CancelledBy | None:
    if one is None:
        return None
    at = moment(one.seq, one.wall_ns)
    return CancelledBy(one.by, one.how, at, one.czxid, one.asks_for, why_rolled_back(one))


def _moment(fact: Fact | None) -> Moment | None:
    return moment(fact.seq, fact.wall_ns) if fact is not None else None
