"""In which order a controller took what waited, and when it read, where no log tells.

A comparison notes what it chose; another one can be told to choose otherwise (`either_order`).
Moments are numbers of records: what is done at one comes before what that record tells.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from replay.stock_clusters.agreement.znode_view import Change


class Turn(NamedTuple):
    """Something that a session's controller did: it took the event that came with a record, or
    read something for it, the first time (1) or again."""

    session: int
    event: str
    arrived: int
    read: int = 0


class Chosen(NamedTuple):
    """A turn, from when on it could have been, when it was, and the znodes that were read;
    `is_latest`: it could not have been later; `is_logged`: a line tells what it was read for."""

    turn: Turn
    broker: int
    since: int
    at: int
    paths: Sequence[str] = ()
    is_latest: bool = False
    is_logged: bool = False


NOT_OTHERWISE: Final[Mapping[Turn, int]] = MappingProxyType({})


class Order:
    """`instead` are the moments of those turns that are chosen otherwise; `is_noted`: somebody is
    going to look at the choices."""

    def __init__(
        self, instead: Mapping[Turn, int] = NOT_OTHERWISE, *, is_noted: bool = False
    ) -> None:
        self.instead = instead
        self._is_noted = is_noted
        self.chosen: dict[Turn, Chosen] = {}
        self._changed: dict[str, list[int]] = defaultdict(list)

    def begin(self) -> None:
        """A comparison begins: nothing is chosen yet."""
        self.chosen.clear()
        self._changed.clear()

    def choose(self, chosen: Chosen) -> None:
        """Note a choice; the last one of a turn counts."""
        if self._is_noted:
            self.chosen[chosen.turn] = chosen

    def change(self, seq: int, changes: Iterable[Change]) -> None:
        """Note that a transaction changes znodes."""
        for path, _ in changes if self._is_noted else ():
            self._changed[path].append(seq)

    def changes_of(self, paths: Iterable[str], after: int, until: int) -> list[int]:
        """The records by which these znodes, or what is below them, became otherwise."""
        found: set[int] = set()
        for path in paths:
            changed = self._changed.get(path, [])
            found.update(changed[bisect_right(changed, after) : bisect_right(changed, until)])
        return sorted(found)

    def is_early(self, turn: Turn, seq: int) -> bool:
        """Whether the turn has to wait."""
        return self.instead.get(turn, 0) > seq

    def is_due(self, turn: Turn, seq: int) -> bool:
        """Whether it is the turn's moment, whatever else holds: one reading comes after another."""
        moments = [
            at
            for one, at in self.instead.items()
            if one[:-1] == turn[:-1] and (one.read >= turn.read > 0 or one.read == turn.read)
        ]
        return bool(moments) and min(moments) <= seq
