"""How far the daemon's loop is, for `refold status`."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from controller.core.commands import Issued, Notice, Step
from controller.core.events import Recorded, SessionExpired

_RESIGNED: Final = "resigned"
"""The code of the notice with which a term ends."""


class EndedTerm(NamedTuple):
    """A term of this daemon that ended at an event. `silent_ms`: how long ZooKeeper had been silent
    before, if the session was over."""

    term: int
    seq: int
    wall_ns: int
    why: str
    silent_ms: int


class LoopProgress:
    """The progress of the loop so far.

    - `last_event`, and `folded_after_ns`: the time from its arrival until it was folded.
    - `last_decision`, and `decided_ns`: the wall clock of its cause.
    - `term_since_ns`: the wall clock of the event with which the current term began, 0 for none.
    - `last_term`: the last term that ended, None for none.
    """

    def __init__(self) -> None:
        self.last_event: Recorded | None = None
        self.folded_after_ns = 0
        self.last_decision: Issued | None = None
        self.decided_ns = 0
        self.term_since_ns = 0
        self.last_term: EndedTerm | None = None
        self._term = 0
        self._resigned = ""
        self._silent_ms = 0
        self._taken: Sequence[Recorded] = ()
        self._folded = 0

    @property
    def oldest_arrived_ns(self) -> int | None:
        """When the oldest of the events arrived that the loop has taken and not folded, by the
        monotonic clock; None if there is none."""
        left = self._taken[self._folded :]
        return left[0].mono_ns if left else None

    def events_taken(self, events: Sequence[Recorded]) -> None:
        """The loop has taken these events from the inbox."""
        self._taken, self._folded = events, 0

    def issued(self, cause: Recorded, commands: Sequence[Issued]) -> None:
        """The fold has issued these commands because of an event."""
        for one in reversed(commands):
            if not isinstance(one.command, Step | Notice):
                self.last_decision, self.decided_ns = one, cause.wall_ns
                break

    def notice_issued(self, notice: Notice) -> None:
        """The fold has issued this notice."""
        if notice.code == _RESIGNED:
            self._resigned = notice.text

    def folded(self, event: Recorded, term: int, mono_ns: int, silent_ms: int) -> None:
        """An event is folded, and the daemon holds this term now. `silent_ms`: how long ZooKeeper
        had been silent when the last session ended."""
        self._folded += 1
        if isinstance(event.event, SessionExpired):
            self._silent_ms = silent_ms
        self.last_event, self.folded_after_ns = event, mono_ns - event.mono_ns
        if term != self._term:
            if self._term:
                self.last_term = EndedTerm(
                    self._term, event.seq, event.wall_ns, self._resigned, self._silent_ms
                )
            self._term, self._silent_ms = term, 0
            self.term_since_ns = event.wall_ns if term else 0
