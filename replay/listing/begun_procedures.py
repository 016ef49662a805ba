"""Why the procedures of a stock controller began: the transactions that its watches reported."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from controller.core.triggers import Reelect, Startup, trigger_name, trigger_of
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    Delete,
    Operation,
    Transaction,
)
from replay.znode_view import changes_of_operation

_ELECTIONS: Final = (Startup.__name__, Reelect.__name__)
"""The procedures with which a broker takes part in an election."""


class WatchedChanges:
    """The transactions by the controller events that they lead to, in the order of the log."""

    def __init__(self, chroot: str) -> None:
        self._chroot = chroot
        self._by_event: dict[str, list[int]] = defaultdict(list)
        self._of_unknown_znodes: set[int] = set()

    def note(self, seq: int, transaction: Transaction) -> None:
        """Note a transaction."""
        content = transaction.content
        if isinstance(content, CloseSession) and content.paths is None:
            self._of_unknown_znodes.add(seq)
        for name in {*self._events_of(transaction)}:
            self._by_event[name].append(seq)

    def causes(self, procedure: str, queued: int) -> tuple[int, ...]:
        """The transactions so far that led to a procedure, whose controller event was queued at a
        record. A controller queues one event for several changes, and then reads all of them."""
        if procedure in _ELECTIONS:
            # A broker tries to become controller after /controller is deleted.
            return tuple(self._by_event[Reelect.__name__][-1:])
        found = self._by_event[procedure]
        since = bisect_left(found, queued)
        if found[since : since + 1] == [queued]:
            return tuple(found[since:])
        return (queued, *found[since:]) if queued in self._of_unknown_znodes else ()

    def _events_of(self, transaction: Transaction) -> Iterator[str]:
        """The names of the controller events for which the changes fire watches."""
        for operation in _operations(transaction):
            for path, what in changes_of_operation(operation, self._chroot):
                trigger = trigger_of(path, what)
                if trigger is not None:
                    yield trigger_name(trigger)


def _operations(transaction: Transaction) -> Iterator[Operation]:
    """The operations of a transaction, and the deletions by the end of a session."""
    content = transaction.content
    if isinstance(content, CloseSession):
        yield from map(Delete, content.paths or ())
    yield from transaction.operations
