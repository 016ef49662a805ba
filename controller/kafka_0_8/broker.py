"""What all procedures of a broker work with: its partitions, and the commands that it issues."""

from collections import deque
from typing import Final

from controller.core.commands import CommandId, Notice, Reason, StartTimer
from controller.core.errors import ZnodeError
from controller.kafka_0_8 import rules
from controller.kafka_0_8.commands import BrokerCommand, IssuedByBroker
from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8.state import Append, Name, Partition
from controller.kafka_0_8.triggers import Trigger

ISR_TIMER: Final = "isr"
CHECKPOINT_TIMER: Final = "checkpoint"
REGISTER_TIMER: Final = "register"
ELECTION, FOLLOW, FETCH = "election", "follow", "fetch"
"""Kinds of timers of a partition."""


def timer_of(kind: str, name: Name) -> str:
    """The timer of a partition."""
    return f"{kind}:{name[0]}:{name[1]}"


class Broker:
    """One run of a broker.

    - `session_id`: the current ZooKeeper session; 0: none.
    - `connections`: the number of connections to ZooKeeper in this run.
    - `fetches`, `appends`: the commands in flight that no procedure awaits.
    - `timers`: the periodic timers that run.
    - `now_ms`, `seq`: the clock and the number of the event that is folded. The clock is monotonic.
    """

    epoch_version: Final = None
    """No write is guarded by a controller epoch."""

    def __init__(self, configuration: BrokerConfiguration) -> None:
        self.configuration = configuration
        self.id = configuration.broker_id
        self.partitions: dict[Name, Partition] = {}
        self.triggers: deque[Trigger] = deque()
        self.session_id = 0
        self.is_connected = False
        self.connections = 0
        self.fetches: dict[CommandId, Name] = {}
        self.appends: dict[CommandId, Append] = {}
        self.timers: dict[str, None] = {}
        self.now_ms = 0
        self.seq = 0
        self._ordinal = 0
        self._issued: list[IssuedByBroker] = []

    def begin(self, seq: int, now_ms: int) -> None:
        """Begin to fold an event: its number is the cause of the commands that follow."""
        self.seq, self._ordinal, self.now_ms = seq, 0, now_ms

    def issue(self, command: BrokerCommand, reason: Reason) -> CommandId:
        """Issue a command; it is carried out when the event is folded."""
        id = CommandId(self.seq, self._ordinal)
        self._ordinal += 1
        self._issued.append(IssuedByBroker(id, 0, command, reason))
        return id

    def take_issued(self) -> list[IssuedByBroker]:
        """The commands issued since the last call."""
        issued, self._issued = self._issued, []
        return issued

    def notice(self, level: str, code: str, subject: str, text: str, rule: str) -> None:
        """Log one line for the operator."""
        self.issue(Notice(level, code, subject, text), Reason(rule))

    def report(self, path: str, error: ZnodeError) -> None:
        """Report a znode with unreadable content."""
        self.notice("error", "unreadable_znode", path, f"{error}; skipped", rules.UNREADABLE)

    def enqueue(self, trigger: Trigger) -> None:
        """Queue work, unless it is queued: a procedure reads the current state anyway."""
        if trigger not in self.triggers:
            self.triggers.append(trigger)

    def start_timer(self, timer: str, delay_ms: int, rule: str) -> None:
        """Start a timer."""
        self.issue(StartTimer(timer, delay_ms), Reason(rule))

    def start_periodic(self, timer: str, delay_ms: int, rule: str) -> None:
        """Start a timer unless it runs."""
        if timer not in self.timers:
            self.timers[timer] = None
            self.start_timer(timer, delay_ms, rule)

    def led(self) -> list[Partition]:
        """The partitions whose leader this broker is."""
        return [one for one in self.partitions.values() if one.is_leader]
