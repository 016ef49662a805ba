"""Which losses of records Kafka does not prevent: the exceptions of the invariants about records.

Kafka keeps an acknowledged record while one member of the ISR keeps its data. If every member of an
ISR has failed since it joined, and one of them has lost unflushed data, that one may be elected
(KIP-966 describes the gap). The election of a leader outside of the ISR loses records, too.
"""

from typing import NamedTuple

from controller.core.znodes import Name


class _IsrStored(NamedTuple):
    at: int
    isr: tuple[int, ...]


class _Loss(NamedTuple):
    at: int
    broker: int
    offset: int


class Losses:
    """What has failed so far. `at` counts all facts, so it orders them."""

    def __init__(self) -> None:
        self.at = 0
        self._isrs: dict[Name, list[_IsrStored]] = {}
        self._losses: dict[Name, list[_Loss]] = {}
        self._failures: dict[int, int] = {}
        """The last failure of each broker's process or machine."""
        self._unclean: dict[Name, int] = {}

    def next(self) -> int:
        """The number of a fact that happens now."""
        self.at += 1
        return self.at

    def failed(self, broker: int) -> None:
        """The process or the machine of a broker failed."""
        self._failures[broker] = self.next()

    def lost(self, broker: int, name: Name, offset: int) -> None:
        """A replica lost its records from `offset` on."""
        self._failures[broker] = self.next()
        self._losses.setdefault(name, []).append(_Loss(self.at, broker, offset))

    def isr_stored(self, name: Name, isr: tuple[int, ...]) -> None:
        """The ISR of a partition was written."""
        stored = self._isrs.setdefault(name, [])
        if not stored or stored[-1].isr != isr:
            stored.append(_IsrStored(self.next(), isr))

    def unclean(self, name: Name) -> None:
        """A leader outside of the ISR was elected."""
        self._unclean[name] = self.next()

    def forget(self, name: Name) -> None:
        """The topic was deleted."""
        self._isrs.pop(name, None)
        self._losses.pop(name, None)
        self._unclean.pop(name, None)

    def excuse(self, name: Name, offset: int, at: int, isr: tuple[int, ...]) -> bool:
        """Whether a record that the members of `isr` had at `at` may be lost."""
        if self._unclean.get(name, 0) > at:
            return True
        losses = self._losses.get(name)
        if not losses:
            return False
        since = dict.fromkeys(isr, at)
        if self._have_failed(losses, offset, since):
            return True
        for stored in self._isrs.get(name, ()):
            # A member may have failed before this ISR was stored, but not before it joined.
            joined = {one: since.get(one, stored.at) for one in stored.isr}
            since = {one: max(joined[one], at) for one in stored.isr}
            if stored.at > at and self._have_failed(losses, offset, since):
                return True
        return False

    def _have_failed(self, losses: list[_Loss], offset: int, since: dict[int, int]) -> bool:
        """Whether all members of an ISR have failed since they joined, one of them with a loss."""
        if not all(self._failures.get(one, 0) > at for one, at in since.items()):
            return False
        return any(
            one.broker in since and one.at > since[one.broker] and one.offset <= offset
            for one in losses
        )
