"""The state that all procedures of a broker share: its partitions, and the commands that it
issues."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from controller.core.commands import CommandId, Notice, Reason, StartTimer
from controller.core.errors import ZnodeError
from controller.core.values import ANY_VERSION
from controller.kafka_0_8 import rules
from controller.kafka_0_8.commands import BrokerCommand, IssuedByBroker
from controller.kafka_0_8.configuration import SECOND_RULES, BrokerConfiguration
from controller.kafka_0_8.state import Name, Partition, PendingAppend
from controller.kafka_0_8.triggers import Trigger

T = TypeVar("T")

ISR_TIMER: Final = "isr"
CHECKPOINT_TIMER: Final = "checkpoint"
REGISTER_TIMER: Final = "register"
STARTUP_TIMER: Final = "startup"
READ_TIMER: Final = "read_again"
UNREADABLE_ZNODE: Final = "unreadable_znode"
"""The code of notices about znodes that are skipped."""
_DENIED: Final = b"NoAuth"
"""Used as the content of a znode that may not be read."""
ELECTION, FOLLOW, FETCH = "election", "follow", "fetch"
"""Kinds of timers of a partition."""


def timer_of(kind: str, name: Name) -> str:
    """The timer of a partition."""
    return f"{kind}:{name[0]}:{name[1]}"


class Broker:
    """One run of a broker.

    - `session_id`: the current ZooKeeper session; 0: none.
    - `run`: the version of the state path since the start in this session; it is another one after
      each start (S-11). ANY_VERSION: unknown.
    - `connections`: the number of connections to ZooKeeper in this run.
    - `fetches`, `appends`: the commands in flight that no procedure awaits.
    - `timers`: the periodic timers that run.
    - `reported`: the reported problems, by code and subject, with the wrong content.
    - `unread`: the paths of the queue, requests, topics, replicas and reassignments that could not
      be read (S-12).
    - `denied`: the znodes whose children may not be read.
    - `kept`: requests that were carried out and could not be deleted, with their czxids (Q-07).
    - `now_ms`, `seq`: the clock and the number of the event that is folded. The clock is monotonic.
    """

    epoch_version: Final = None
    """No write is guarded by a controller epoch."""
    lost_reply_rule: Final = rules.LOST_REPLY

    def __init__(self, configuration: BrokerConfiguration) -> None:
        self.configuration = configuration
        self.id = configuration.broker_id
        self.partitions: dict[Name, Partition] = {}
        self.triggers: deque[Trigger] = deque()
        self.session_id = 0
        self.run = ANY_VERSION
        self.is_connected = False
        self.connections = 0
        self.fetches: dict[CommandId, Name] = {}
        self.appends: dict[CommandId, PendingAppend] = {}
        self.timers: dict[str, None] = {}
        self.reported: dict[tuple[str, str], bytes] = {}
        self.unread: dict[str, None] = {}
        self.denied: dict[str, None] = {}
        self.kept: dict[str, int] = {}
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

    def notice_once(
        self, level: str, code: str, subject: str, text: str, rule: str, content: bytes
    ) -> None:
        """Log a line, unless the last one with this code and subject was about the same content."""
        if self.reported.get((code, subject)) != content:
            self.reported[code, subject] = content
            self.notice(level, code, subject, text, rule)

    def forget(self, subject: str, code: str = UNREADABLE_ZNODE) -> None:
        """Nothing is wrong with this subject: report it again when something is wrong again."""
        self.reported.pop((code, subject), None)

    def read(
        self, reader: Callable[[str, bytes | None], T], path: str, data: bytes | None
    ) -> T | None:
        """The content of a znode. None if it is unreadable, which is reported once until the
        content changes (S-10)."""
        try:
            value = reader(path, data)
        except ZnodeError as error:
            self._report(path, str(error), data or b"")
            return None
        self.forget(path)
        return value

    def report_denied(self, path: str, why: str) -> None:
        """Report a znode that may not be read, once until it can be read (S-10)."""
        self._report(path, f"{why}; correct the ACL", _DENIED)

    def is_denied(self, path: str) -> bool:
        """Whether the last list of the children of a znode was denied."""
        return path in self.denied

    def report_children(
        self, parent: str, children: Sequence[str], is_usable: Callable[[str], bool], why: str
    ) -> None:
        """Report the children of a znode that are skipped, once until they are deleted (S-10)."""
        for code, path in list(self.reported):
            folder, _, name = path.rpartition("/")
            if folder == parent and name not in children:
                self.forget(path, code)
        for child in children:
            if not is_usable(child):
                self._report(f"{parent}/{child}", f"{parent}/{child} {why}", b"")

    def _report(self, path: str, text: str, content: bytes) -> None:
        text = f"{text}; skipped"
        self.notice_once("error", UNREADABLE_ZNODE, path, text, rules.UNREADABLE, content)

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

    def read_again(self, path: str) -> None:
        """Read a znode again later that could not be read (S-12)."""
        if self.configuration.rules > SECOND_RULES:
            self.unread[path] = None
            self.start_periodic(READ_TIMER, self.configuration.retry_ms, rules.READ_AGAIN)

    def led_partitions(self) -> list[Partition]:
        """The partitions whose leader this broker is."""
        return [one for one in self.partitions.values() if one.is_leader]
