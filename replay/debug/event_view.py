"""An event of a log as the debugger shows it."""

from itertools import chain

from msgspec import Struct

from replay.listing.values import ListedDecision, ListedEvent


class BegunProcedure(Struct, frozen=True):
    """A procedure that begins at an event, and the earlier events that caused it; none, if this
    event did."""

    procedure: str
    causes: tuple[int, ...] = ()


class EventView(Struct, frozen=True):
    """An event with its effects: its decisions, the procedures that begin, the znodes that it shows
    to be written. `because` is the event that began the procedure of its decisions; 0 if unknown.
    """

    listed: ListedEvent
    decisions: tuple[ListedDecision, ...] = ()
    begun: tuple[BegunProcedure, ...] = ()
    written: tuple[str, ...] = ()
    because: int = 0

    @property
    def seq(self) -> int:
        """The number of the event."""
        return self.listed.seq

    @property
    def decided(self) -> list[ListedDecision]:
        """The decisions without reads, timers and channels."""
        return [one for one in self.decisions if not one.is_step]

    @property
    def subjects(self) -> tuple[str, ...]:
        """The topics, partitions and brokers of the event and its decisions."""
        found = dict.fromkeys(self.listed.subjects)
        for one in self.decisions:
            found |= dict.fromkeys(one.subjects)
        return tuple(found)

    @property
    def causes(self) -> list[int]:
        """The earlier events that caused this one, the nearest first: that of the command of which
        it is the outcome, and those that began its procedures."""
        of_begun = chain.from_iterable(one.causes for one in self.begun)
        found = [self.listed.cause or 0, *of_begun, self.because]
        return sorted({one for one in found if 0 < one < self.seq}, reverse=True)
