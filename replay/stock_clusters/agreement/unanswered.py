"""Finding out which writes of an incident were done and not answered."""

from collections.abc import Callable
from typing import Final

from controller.core.operations import BAD_VERSION, NO_NODE, NODE_EXISTS
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.stock_clusters.agreement.lost_replies import LostReplies
from replay.stock_clusters.agreement.order import Order
from replay.stock_clusters.agreement.results import AgreementResult
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import Observed
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_KINDS: Final = ("transaction", "observed")
_REPEATED: Final = (BAD_VERSION, NODE_EXISTS, NO_NODE)
_RUNS_MAX: Final = 10
_RECORDS_MAX: Final = 500_000
"""That are walked through in all runs but the first one and one more."""


def may_have_lost(reader: LogReader) -> bool:
    """Whether a session was refused what it may have written just before: else there is no need of
    a comparison to find out. Raises ReplayError, LogError."""
    done: dict[int, bool] = {}
    session = 0
    for record in reader.events(EventFilter(kinds=_KINDS)):
        event = event_of(record)
        if isinstance(event, Transaction):
            session = event.session
        elif isinstance(event, Observed):
            if event.error in _REPEATED and done.get(session):
                return True
            done[session] = not event.error
    return False


class WithLostReplies:
    """Compares in any order, with those replies lost that leave less divergent; which ones is found
    out in the order that is chosen first."""

    def __init__(
        self, compare: Callable[[Order, LostReplies], AgreementResult], records: int
    ) -> None:
        """`records` are those of the log."""
        self._compare = compare
        self._runs = min(_RUNS_MAX, max(1, _RECORDS_MAX // max(records, 1)))
        self._lost: frozenset[int] = frozenset()

    @property
    def replies(self) -> LostReplies:
        """What was found."""
        return LostReplies(self._lost)

    @property
    def notes(self) -> list[str]:
        """What was found, for the reader."""
        return [
            f"zxid {zxid:#x}: its reply was lost, as the same write comes again and is refused"
            for zxid in sorted(self._lost)
        ]

    def compare(self, order: Order) -> AgreementResult:
        """The comparison in an order."""
        replies = LostReplies(self._lost)
        result = self._compare(order, replies)
        if order.instead or not replies.supposed:
            return result
        self._lost = self._found(result, replies)
        return self._compare(order, LostReplies(self._lost)) if self._lost else result

    def _found(self, result: AgreementResult, replies: LostReplies) -> frozenset[int]:
        given_up: set[int] = set()
        for _ in range(self._runs):
            zxid = next((one for one in replies.supposed if one not in given_up), None)
            if zxid is None:
                break
            others = LostReplies({*replies.lost, zxid})
            other = self._compare(Order(), others)
            if len(other.divergences) < len(result.divergences):
                result, replies = other, others
            else:
                given_up.add(zxid)
        return frozenset(replies.lost)
