"""What is to come of a version's own commands, at the times at which it does."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Act = Callable[[], None]


class Schedule:
    """Things to do at a time, those of one time in the order in which they were put in."""

    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: list[tuple[int, int, str, Act]] = []

    def add(self, time_ns: int, what: str, act: Act) -> None:
        """`what` is a kind of thing, for `take_all`."""
        heappush(self._waiting, (time_ns, next(self._numbers), what, act))

    def take(self, until_ns: int) -> tuple[int, Act] | None:
        """The next one that is due, with its time."""
        if not self._waiting or self._waiting[0][0] > until_ns:
            return None
        time_ns, _, _, act = heappop(self._waiting)
        return time_ns, act

    def drop(self, what: str) -> None:
        """Forget everything of a kind."""
        self._waiting = sorted(one for one in self._waiting if one[2] != what)

    def has(self, *kinds: str) -> bool:
        """Whether anything of these kinds is to come."""
        return any(one[2] in kinds for one in self._waiting)
