"""The observations that a broker has not folded yet."""

from typing import NamedTuple

from controller.core.events import SessionExpired
from controller.daemon.event_queue import EventQueue
from controller.kafka_0_8.events import BrokerEvent, RecordedBrokerEvent


class ObservedEvent(NamedTuple):
    """An event, and the records that came with it, which the log does not store."""

    event: BrokerEvent
    records: list[bytes]


class BrokerInbox(EventQueue[ObservedEvent]):
    """Events that wait to be appended to the log.

    The inbox is bounded by the commands of the fold, each of which has one outcome, and by the
    number of requests in progress on each connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self.expired = 0
        """How many session expirations the fold has not seen yet. While there is one, nothing is
        sent to ZooKeeper: it would belong to the next session."""

    def put(self, event: BrokerEvent, channel: str, records: list[bytes] | None = None) -> None:
        """Add an event that has arrived."""
        if isinstance(event, SessionExpired):
            self.expired += 1
        self.add(ObservedEvent(event, records or []), channel)

    def take(self, seq: int) -> list[tuple[RecordedBrokerEvent, list[bytes]]]:
        """Remove and return all events with their records, numbered from `seq` + 1."""
        taken = []
        for number, one in enumerate(self.take_all(), seq + 1):
            event, records = one.event
            recorded = RecordedBrokerEvent(number, one.wall_ns, one.mono_ns, 0, one.channel, event)
            taken.append((recorded, records))
        return taken
