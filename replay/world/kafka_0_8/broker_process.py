"""One broker over all its runs: its disk survives, its fold does not."""

from controller.kafka_0_8.commands import IssuedByBroker
from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8.events import BrokerEvent, RecordedBrokerEvent
from controller.kafka_0_8.fold import BrokerFold
from controller.kafka_0_8.state import Name

Record = str
Step = tuple[RecordedBrokerEvent, list[IssuedByBroker]]


class BrokerProcess:
    """A broker. `history` has the events of the present run with the commands that they caused,
    `runs` the histories of all runs.

    `logs`, `czxids` and `checkpoint` are the disk: the records of each replica, the czxid for which
    its log was created, and its stored high watermark.
    """

    def __init__(self, configuration: BrokerConfiguration) -> None:
        self.configuration = configuration
        self.logs: dict[Name, list[Record]] = {}
        self.czxids: dict[Name, int] = {}
        self.checkpoint: dict[Name, int] = {}
        self.runs: list[list[Step]] = []
        self.is_running = False
        self.session = 0
        self.fold = BrokerFold(configuration)
        self.timers: dict[str, int] = {}
        self._incoming: dict[int, list[Record]] = {}

    @property
    def id(self) -> int:
        """The broker id."""
        return self.configuration.broker_id

    @property
    def history(self) -> list[Step]:
        """The events of the present run."""
        return self.runs[-1]

    def start(self, session: int) -> None:
        """A new run begins: only the disk is left of the one before."""
        self.runs.append([])
        self.fold = BrokerFold(self.configuration)
        self.timers, self._incoming = {}, {}
        self.is_running, self.session = True, session

    def apply(
        self, event: BrokerEvent, channel: str, now_ms: int, records: list[Record]
    ) -> list[IssuedByBroker]:
        """Fold an event that came with `records`; return the commands."""
        seq = len(self.history) + 1
        now_ns = now_ms * 1_000_000
        recorded = RecordedBrokerEvent(seq, now_ns, now_ns, 0, channel, event)
        if records:
            self._incoming[seq] = records
        issued = [one for part in self.fold.apply(recorded) for one in part]
        self.history.append((recorded, issued))
        return issued

    # The disk

    def open_log(self, name: Name, czxid: int) -> tuple[int, int]:
        """The log end offset and the checkpointed high watermark of a replica. A log with another
        czxid is deleted first."""
        if self.czxids.get(name, czxid) != czxid:
            self.delete_log(name)
        self.czxids[name] = czxid
        return len(self.logs.setdefault(name, [])), self.checkpoint.get(name, 0)

    def append(self, name: Name, source: int) -> int:
        """Append the records that came with an event; returns the log end offset."""
        log = self.logs.setdefault(name, [])
        log += self._incoming.pop(source, [])
        return len(log)

    def truncate(self, name: Name, offset: int) -> int:
        """Remove the records from `offset` on; returns the log end offset."""
        log = self.logs.setdefault(name, [])
        del log[offset:]
        return len(log)

    def delete_log(self, name: Name) -> None:
        """Delete a replica."""
        self.logs.pop(name, None)
        self.czxids.pop(name, None)
        self.checkpoint.pop(name, None)
