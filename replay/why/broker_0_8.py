"""`refold why` for a log of a broker of the 0.8 design: how its replica of a partition, or its
session, came into its state.

The log is folded again. A link is an event after which the fold knows something else about the
subject, or with a notice about the subject; its cause is the event that began the procedure.
"""

from typing import NamedTuple

from controller.core.commands import CommandId, Notice
from controller.core.events import SessionExpired
from controller.core.values import NO_LEADER, format_brokers
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.broker import Broker
from controller.kafka_0_8.commands import BrokerStep, IssuedByBroker
from controller.kafka_0_8.events import RecordedBrokerEvent
from controller.kafka_0_8.fold import BrokerFold
from controller.kafka_0_8.procedures.leadership import LEADER
from controller.kafka_0_8.state import Name
from controller.kafka_0_8.triggers import Trigger
from replay.description.kafka_0_8 import broker_event_in_words
from replay.errors import ReplayError
from replay.logs.opened_broker_log import BrokerLog, fold_broker_log
from replay.names import partition_name
from replay.progress import Progress, unreported
from replay.times import iso_time
from replay.why.explanations.explanation import Explanation, Link
from replay.why.facts import Cause
from replay.why.subject import Subject


class _Replica(NamedTuple):
    """A partition as a broker knows it, apart from offsets."""

    leader: int
    epoch: int
    is_leader: bool
    isr: tuple[int, ...]
    cur: tuple[int, ...]
    rar: tuple[int, ...]

    @property
    def text(self) -> str:
        """The state as a predicate of the broker."""
        if self.is_leader:
            moves = f", RAR [{format_brokers(self.rar)}]" if self.rar else ""
            sets = f"ISR [{format_brokers(self.isr)}], CUR [{format_brokers(self.cur)}]{moves}"
            return f"leads with epoch {self.epoch}, {sets}"
        if self.leader == NO_LEADER:
            return "knows no leader that it can follow"
        return f"follows broker {self.leader}, epoch {self.epoch}"


class _Session(NamedTuple):
    """The session of a broker, and how many replicas it leads."""

    is_connected: bool
    session_id: int
    led: int

    @property
    def text(self) -> str:
        """The state as a predicate of the broker."""
        if not self.session_id:
            return "has no ZooKeeper session"
        connected = "connected" if self.is_connected else "not connected"
        return f"has session {self.session_id:#x}, is {connected}, and leads {self.led} partitions"


_State = _Replica | _Session | None
"""None: the broker has no replica of the partition."""


def explain_broker_log(
    log: BrokerLog, subject: Subject, seq: int, progress: Progress = unreported
) -> Explanation:
    """Answer a question about a replica (its partition), or about the broker (no subject), after
    event `seq`. Raises ReplayError for another subject."""
    name: Name | None = None
    if subject.topic is not None and subject.partition is not None:
        name = (subject.topic, subject.partition)
    if subject != (Subject() if name is None else Subject(*name)):
        raise ReplayError(
            "a log of the 0.8 design answers questions about the replica of a partition "
            "(--partition T-0), and about the broker (no option)"
        )
    history = _History(name)
    time = ""
    for record, event, issued, fold in fold_broker_log(log, seq):
        progress("folding", record.seq, seq)
        history.folded(event, issued, fold)
        time = iso_time(record.wall_ns)
    broker = f"broker {log.configuration.broker_id}"
    what = broker if name is None else f"the replica of {partition_name(*name)} on {broker}"
    about = "" if name is None else f"{partition_name(*name)}: "
    answer = f"{about}{broker} {_in_words(history.state)}."
    return Explanation(f"Why is {what} in its state?", answer, seq, time, history.links[::-1])


class _History:
    """The links about a partition, or about the session (`name` is None), the oldest first."""

    def __init__(self, name: Name | None) -> None:
        self.links: list[Link] = []
        self.state: _State = None
        self._name = name
        self._running: Trigger | None = None
        self._queued: list[tuple[Trigger, Cause]] = []
        """The procedure that runs and those that wait, each with the event that queued it. A
        procedure may wait while another one with an equal trigger runs."""
        self._decisions: dict[CommandId, str] = {}
        """The rules of the commands whose outcomes are awaited."""

    def folded(
        self, event: RecordedBrokerEvent, issued: list[IssuedByBroker], fold: BrokerFold
    ) -> None:
        """Note what an event of a broker changed, and the commands that it caused."""
        # The end of a session breaks off the procedure that runs, which is no cause then.
        is_over = isinstance(event.event, SessionExpired)
        running = None if is_over else self._running or fold.running
        self._note_queued(event, fold)
        command: CommandId | None = getattr(event.event, "command", None)
        rule = self._decisions.pop(command, "") if command is not None else ""
        state = _state(fold.broker, self._name)
        notices = [one for one in issued if _is_notice_about(one, self._name, fold.broker.id)]
        if state != self.state or notices:
            cause = next((cause for trigger, cause in self._queued if trigger is running), None)
            if state == self.state:
                rule = notices[0].reason.rule
            self._add(event, state, cause, rule, _texts(notices))
            self.state = state
        self._running = fold.running
        present = _triggers(fold)
        self._queued = [one for one in self._queued if _is_in(one[0], present)]
        for one in issued:
            if not isinstance(one.command, BrokerStep | Notice):
                self._decisions[one.id] = one.reason.rule

    def _note_queued(self, event: RecordedBrokerEvent, fold: BrokerFold) -> None:
        known = [trigger for trigger, _ in self._queued]
        for trigger in _triggers(fold):
            if not _is_in(trigger, known):
                text = broker_event_in_words(event.event)
                cause = Cause(event.seq, text, type(trigger).__name__)
                self._queued.append((trigger, cause))

    def _add(
        self,
        event: RecordedBrokerEvent,
        state: _State,
        cause: Cause | None,
        rule: str,
        said: list[str],
    ) -> None:
        text = _in_words(state)
        if said:
            text = f"{text}: {'; '.join(said)}"
        if cause is None or cause.seq == event.seq:
            text = f"{text} ({broker_event_in_words(event.event)})"
            cause = None
        self.links.append(
            Link(
                event.seq,
                iso_time(event.wall_ns),
                "replica" if self._name else "session",
                text,
                state.epoch if isinstance(state, _Replica) else 0,
                cause,
                rule,
                [],
                "",
                "",
            )
        )


def _is_notice_about(one: IssuedByBroker, name: Name | None, broker: int) -> bool:
    """Whether this is a notice about a partition, or about the registration (`name` is None)."""
    if not isinstance(one.command, Notice):
        return False
    subject = one.command.subject
    if name is None:
        return subject == znodes.broker_path(broker)
    parent = znodes.partition_path(*name)
    return subject in (partition_name(*name), znodes.reassigned_path(*name)) or subject.startswith(
        f"{parent}/"
    )


def _texts(notices: list[IssuedByBroker]) -> list[str]:
    """Why a leadership ended, or what is wrong. That a leadership began is in the state."""
    commands = [one.command for one in notices]
    return [one.text for one in commands if isinstance(one, Notice) and one.code != LEADER]


def _triggers(fold: BrokerFold) -> list[Trigger]:
    return [one for one in (fold.running, *fold.broker.triggers) if one is not None]


def _is_in(trigger: Trigger, triggers: list[Trigger]) -> bool:
    return any(one is trigger for one in triggers)


def _state(broker: Broker, name: Name | None) -> _State:
    if name is None:
        return _Session(broker.is_connected, broker.session_id, len(broker.led_partitions()))
    partition = broker.partitions.get(name)
    if partition is None:
        return None
    known = (partition.isr, partition.cur, partition.rar) if partition.is_leader else ((), (), ())
    return _Replica(partition.leader, partition.epoch, partition.is_leader, *known)


def _in_words(state: _State) -> str:
    return "has no replica of it" if state is None else state.text
