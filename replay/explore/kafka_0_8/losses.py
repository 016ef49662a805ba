"""Which losses of committed records are a flaw of the 0.8 design, and not of its code.

A replica that begins to follow removes its records from its high watermark on (F-01), although it
may be in the ISR and other replicas may count on these records. If it is elected before it has
fetched them again, they are lost (docs/design-0.8.md#flaws).
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from controller.core.znodes import Name
from replay.explore.invariants.losses import Losses

TRUNCATION: Final = "truncation-to-the-high-watermark"
KNOWN_FLAWS: Final = {
    TRUNCATION: "a member of the ISR removed a committed record when it began to follow, and was"
    " elected before it had fetched the record again (docs/design-0.8.md#flaws)"
}
"""The flaws of the design that a search counts, each with its description."""


class _Cut(NamedTuple):
    """A member of the ISR truncated its log to `end`, because it begins to follow. `records`: those
    that it has removed by their offsets, and has not fetched again."""

    at: int
    broker: int
    end: int
    records: dict[int, int]


class Losses08(Losses):
    """`on_flaw` is called with a partition and a text for each record that was lost by a flaw."""

    def __init__(self) -> None:
        super().__init__()
        self.on_flaw: Callable[[Name, str], None] = lambda name, text: None
        self._isr_now: dict[Name, tuple[int, ...]] = {}
        self._cuts: dict[Name, list[_Cut]] = {}

    def isr_written(self, name: Name, isr: tuple[int, ...]) -> None:
        """The ISR of a partition in ZooKeeper. A replica that leaves it has to catch up before it
        joins again, so that earlier truncations are no excuse any more."""
        self._isr_now[name] = isr
        if name in self._cuts:
            self._cuts[name] = [one for one in self._cuts[name] if one.broker in isr]

    def cut(self, name: Name, broker: int, end: int, records: Sequence[int]) -> None:
        """A replica began to follow, and removed its records from offset `end` on."""
        if broker in self._isr_now.get(name, ()):
            one = _Cut(self.next(), broker, end, dict(enumerate(records, end)))
            self._cuts.setdefault(name, []).append(one)

    def appended(self, name: Name, broker: int, offset: int, records: Sequence[int]) -> None:
        """A replica appended records from `offset` on, perhaps those that it had removed."""
        for one in self._cuts.get(name, ()):
            if one.broker == broker:
                for place, record in enumerate(records, offset):
                    if one.records.get(place) == record:
                        del one.records[place]

    def is_cut(self, name: Name, broker: int) -> bool:
        """Whether a member of the ISR has removed records that it has not fetched again."""
        return any(one.broker == broker and one.records for one in self._cuts.get(name, ()))

    def forget(self, name: Name) -> None:
        super().forget(name)
        self._cuts.pop(name, None)
        self._isr_now.pop(name, None)

    def may_be_lost(self, name: Name, offset: int, record: int, at: int, leader_epoch: int) -> bool:
        """Whether a replica has removed the record as the flaw describes it, and has led since."""
        for one in self._cuts.get(name, ()):
            is_cut = one.records.get(offset) == record
            if is_cut and self.has_led_since(name, one.broker, one.at):
                self.on_flaw(
                    name,
                    f"record {record} at offset {offset} was committed; broker {one.broker}, in "
                    f"the ISR, truncated its log to offset {one.end} when it began to follow, "
                    "and then became the leader",
                )
                return True
        return False
