"""Which live brokers a controller has read when some are new, as lines of state-change.log say: it
tells the others of them, then the new ones of everything (KafkaController.onBrokerStartup)."""

from typing import Final

from controller.core import znodes
from replay.stock_clusters.agreement.children_read import Listed
from replay.stock_clusters.imported_log.events import StateChangeLogged

_KIND: Final = "update_metadata"
_NO_PARTITION: Final = " for 0 partitions"


class BrokersRead:
    """By controller, epoch and record of the first of both lines, the brokers that live."""

    def __init__(self) -> None:
        self._told: dict[tuple[int, int, int], Listed] = {}
        self._first: dict[tuple[int, int], tuple[int, set[int]]] = {}

    def take(self, seq: int, logged: StateChangeLogged) -> None:
        """A line of the log, in order."""
        if logged.what != _KIND:
            return
        term, named = (logged.broker, logged.epoch), set(logged.brokers)
        first, others = self._first.pop(term, (0, set[int]()))
        if others and named and others.isdisjoint(named):
            live = tuple(map(str, sorted(others | named)))
            self._told[*term, first] = (znodes.BROKER_IDS, live)
        elif logged.text.endswith(_NO_PARTITION):
            self._first[term] = (seq, named)

    def told(self, broker: int, epoch: int, seq: int) -> Listed | None:
        """What was read by who sends the request that the line at a record tells of."""
        return self._told.get((broker, epoch, seq))
