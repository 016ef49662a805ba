"""Which losses of records Kafka does not prevent: the exceptions of the invariants about records.

Kafka keeps an acknowledged record while one member of the ISR keeps its data. If every member of an
ISR has failed since it joined, and one of them has lost unflushed data, that one may be elected
(KIP-966 describes the gap). The election of a leader outside of the ISR loses records, too.

With ZooKeeper, a new controller cannot see that a broker has restarted. If a member of an ISR lost
unflushed data and the controller changed before it had removed the member, the member may lead.
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
    end: int


class Losses:
    """What has failed so far. `at` counts all facts, so it orders them."""

    def __init__(self) -> None:
        self.at = 0
        self._isrs: dict[Name, list[_IsrStored]] = {}
        self._losses: dict[Name, list[_Loss]] = {}
        self._failures: dict[int, int] = {}
        """The last failure of each broker's process or machine."""
        self._unclean: dict[Name, int] = {}
        self._elections: list[int] = []
        """When the controller changed."""

    def next(self) -> int:
        """The number of a fact that happens now."""
        self.at += 1
        return self.at

    def failed(self, broker: int) -> None:
        """The process or the machine of a broker failed."""
        self._failures[broker] = self.next()

    def lost(self, broker: int, name: Name, offset: int, end: int) -> None:
        """A replica lost its records from `offset` to below `end`."""
        self._failures[broker] = self.next()
        self._losses.setdefault(name, []).append(_Loss(self.at, broker, offset, end))

    def isr_stored(self, name: Name, isr: tuple[int, ...]) -> None:
        """The ISR of a partition was written."""
        stored = self._isrs.setdefault(name, [])
        if not stored or stored[-1].isr != isr:
            stored.append(_IsrStored(self.next(), isr))

    def controller_elected(self) -> None:
        """A controller raised the controller epoch."""
        self._elections.append(self.next())

    def unclean(self, name: Name) -> None:
        """A leader outside of the ISR was elected."""
        self._unclean[name] = self.next()

    def forget(self, name: Name) -> None:
        """The topic was deleted."""
        self._isrs.pop(name, None)
        self._losses.pop(name, None)
        self._unclean.pop(name, None)

    def excuse(self, name: Name, offset: int, at: int, isr: tuple[int, ...]) -> bool:
        """Whether a record that the leader took for stored by `isr` at `at` may be lost."""
        if self._unclean.get(name, 0) > at:
            return True
        losses = [one for one in self._losses.get(name, ()) if one.offset <= offset < one.end]
        if not losses:
            return False
        stored_isrs = self._isrs.get(name, [])
        if any(self._is_unseen(one, stored_isrs) for one in losses):
            return True
        since: dict[int, int] = {}
        at_first: dict[int, int] = {}
        for stored in stored_isrs:
            # The leader learns late that a member has failed, so what counts is when it joined.
            since = {one: since.get(one, stored.at) for one in stored.isr}
            if stored.at <= at:
                at_first = since
            elif _have_failed(self._failures, losses, since):
                return True
        return _have_failed(self._failures, losses, {one: at_first.get(one, 0) for one in isr})

    def _is_unseen(self, loss: _Loss, stored: list[_IsrStored]) -> bool:
        """Whether the controller changed after a loss while the replica was still in the ISR."""
        election = next((one for one in self._elections if one > loss.at), None)
        if election is None:
            return False
        # The ISR at the time of the loss, and those up to the election.
        before = [one for one in stored if one.at <= loss.at][-1:]
        between = [one for one in stored if loss.at < one.at < election]
        return all(loss.broker in one.isr for one in (*before, *between))


def _have_failed(failures: dict[int, int], losses: list[_Loss], since: dict[int, int]) -> bool:
    """Whether all members of an ISR have failed since they joined, one of them with a loss."""
    if not all(failures.get(one, 0) > at for one, at in since.items()):
        return False
    return any(one.broker in since and one.at > since[one.broker] for one in losses)
