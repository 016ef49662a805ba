"""The fold of a broker: apply(event) -> commands.

Requests and responses about records are handled at once (records.py). Everything that waits for
ZooKeeper or a log is a procedure; one runs at a time, as in the controller's fold.
"""

from collections.abc import Coroutine, Iterator
from typing import Any, assert_never

from controller.core.commands import Reason
from controller.core.errors import ProcedureError
from controller.core.events import (
    ChildrenRead,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    TimerFired,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.outcomes import CONNECTED, Wait, break_off
from controller.core.values import NO_LEADER
from controller.kafka_0_8 import rules
from controller.kafka_0_8.broker import (
    CHECKPOINT_TIMER,
    ELECTION,
    FETCH,
    FOLLOW,
    ISR_TIMER,
    READ_TIMER,
    REGISTER_TIMER,
    STARTUP_TIMER,
    Broker,
)
from controller.kafka_0_8.commands import IssuedByBroker, WriteCheckpoint
from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8.events import (
    FetchReceived,
    FetchResponded,
    LogDeleted,
    LogOpened,
    LogTruncated,
    ProduceReceived,
    RecordedBrokerEvent,
    RecordsAppended,
)
from controller.kafka_0_8.procedures.election import elect_or_follow, watch_leader
from controller.kafka_0_8.procedures.isr import change_isr, check_lag
from controller.kafka_0_8.procedures.leadership import cut_diverged_log, step_down
from controller.kafka_0_8.procedures.reassignment import read_reassignments
from controller.kafka_0_8.procedures.replicas import drain
from controller.kafka_0_8.procedures.startup import broker_startup, note_again, read_again, register
from controller.kafka_0_8.records import (
    fetch,
    process_appended,
    process_fetched,
    produce,
    send_fetch,
)
from controller.kafka_0_8.state import Partition
from controller.kafka_0_8.triggers import (
    Diverged,
    ElectionWaitOver,
    FollowAgain,
    IsrChange,
    LeaderChanged,
    PartitionsReassigned,
    ReadAgain,
    Register,
    Startup,
    StateChanged,
    StatePathChanged,
    Trigger,
    trigger_of,
)

_NS_PER_MS = 1_000_000


class BrokerFold:
    """Folds the events of one broker's log, in order, into state and commands."""

    term = 0
    """A broker has no controller epoch."""

    def __init__(self, configuration: BrokerConfiguration) -> None:
        self.broker = Broker(configuration)
        self._procedure: Coroutine[Wait, Any, None] | None = None
        self._trigger: Trigger | None = None
        self._wait: Wait | None = None

    @property
    def running(self) -> Trigger | None:
        """The work whose procedure runs."""
        return self._trigger if self._procedure is not None else None

    def apply(self, recorded: RecordedBrokerEvent) -> Iterator[list[IssuedByBroker]]:
        """Fold one event; yields its commands."""
        self.broker.begin(recorded.seq, recorded.mono_ns // _NS_PER_MS)
        self._advance(self._apply_event(recorded))
        yield self.broker.take_issued()

    def _apply_event(self, recorded: RecordedBrokerEvent) -> Any:
        """Dispatch an event; returns the result if the event completes what is awaited."""
        broker = self.broker
        match recorded.event:
            case (
                ZnodesRead()
                | ChildrenRead()
                | ZnodesWritten()
                | LogOpened()
                | LogTruncated()
                | LogDeleted() as outcome
            ):
                wait = self._wait
                # Outcomes of procedures that a session's end broke off are ignored.
                if wait and wait.awaits(outcome.command) and wait.result.add(outcome):
                    return wait.result
            case WatchFired(path=path, change=change):
                trigger = trigger_of(path, change, broker.id)
                if trigger is not None:
                    broker.enqueue(trigger)
            case SessionConnected() | SessionDisconnected() | SessionExpired() as session:
                return self._change_session(session)
            case TimerFired(timer=timer):
                self._fire(timer)
            case ProduceReceived() as request:
                produce(broker, request)
            case FetchReceived() as request:
                fetch(broker, request)
            case FetchResponded() as response:
                process_fetched(broker, response)
            case RecordsAppended() as done:
                process_appended(broker, done)
            case unknown:
                assert_never(unknown)
        return None

    def _change_session(
        self, event: SessionConnected | SessionDisconnected | SessionExpired
    ) -> Wait | None:
        broker = self.broker
        match event:
            case SessionConnected(session_id=session_id, renewed=renewed):
                broker.is_connected = True
                broker.connections += 1
                broker.session_id = session_id
                if not renewed:
                    broker.enqueue(Startup())
                return CONNECTED if self._wait is CONNECTED else None
            case SessionDisconnected():
                broker.is_connected = False
            case SessionExpired():
                broker.is_connected = False
                broker.session_id = 0
                self._end_session()
        return None

    def _end_session(self) -> None:
        """All ephemeral znodes and watches of the session are gone (X-01)."""
        if self._procedure is not None:
            break_off(self._procedure)
            self._procedure = self._wait = None
        self.broker.triggers.clear()
        for partition in self.broker.partitions.values():
            if partition.is_leader or partition.commit_queue:
                step_down(self.broker, partition, "its session is over", rules.SESSION_ENDED)
            partition.forget_leader()
            # The outcome of a truncation may be lost with its procedure.
            partition.is_open = False

    def _fire(self, timer: str) -> None:
        broker = self.broker
        kind, _, name = timer.partition(":")
        topic, _, number = name.rpartition(":")
        if kind == ISR_TIMER:
            check_lag(broker)
        elif kind == CHECKPOINT_TIMER:
            self._checkpoint()
        elif kind == READ_TIMER:
            broker.timers.pop(READ_TIMER, None)
            if broker.session_id and broker.unread:
                broker.enqueue(ReadAgain())
        elif not broker.session_id:
            # The next session starts every replica again.
            return
        elif kind == REGISTER_TIMER:
            broker.enqueue(Register())
        elif kind == STARTUP_TIMER:
            broker.enqueue(Startup())
        elif kind == ELECTION:
            broker.enqueue(ElectionWaitOver(topic, int(number)))
        elif kind == FOLLOW:
            broker.enqueue(FollowAgain(topic, int(number)))
        elif kind == FETCH:
            partition = broker.partitions.get((topic, int(number)))
            if partition is not None and partition.leader != NO_LEADER:
                send_fetch(broker, partition)

    def _checkpoint(self) -> None:
        """Store the high watermarks of all replicas of this broker (R-05)."""
        broker = self.broker
        broker.timers.pop(CHECKPOINT_TIMER, None)
        hws = tuple((*one.name, one.local.hw) for one in broker.partitions.values() if one.is_open)
        broker.issue(WriteCheckpoint(hws), Reason(rules.CHECKPOINT))
        interval_ms = broker.configuration.checkpoint_interval_ms
        broker.start_periodic(CHECKPOINT_TIMER, interval_ms, rules.CHECKPOINT)

    def _advance(self, result: Any) -> None:
        """Run procedures until one has to wait, or none is left."""
        while True:
            if self._procedure is None:
                if not self.broker.triggers:
                    return
                self._trigger = self.broker.triggers.popleft()
                self._procedure = process(self.broker, self._trigger)
            elif result is None:
                return
            try:
                self._wait = self._procedure.send(result)
            except StopIteration:
                self._procedure = self._wait = None
            except ProcedureError as error:
                self._procedure = self._wait = None
                subject = type(self._trigger).__name__
                text = f"{error}; this work is skipped"
                self.broker.notice("error", "work_skipped", subject, text, rules.UNREADABLE)
            result = None


async def process(broker: Broker, trigger: Trigger) -> None:
    """The procedure of a trigger."""
    match trigger:
        case Startup():
            await broker_startup(broker)
        case StateChanged():
            await drain(broker, rules.CARRY_OUT)
        case StatePathChanged():
            await note_again(broker)
        case ReadAgain():
            await read_again(broker)
        case PartitionsReassigned():
            await read_reassignments(broker, rules.WATCH_REASSIGNED)
        case Register():
            await register(broker, is_again=True)
        case LeaderChanged(topic=topic, partition=number):
            partition = broker.partitions.get((topic, number))
            if partition is not None:
                await watch_leader(broker, partition)
                await elect_or_follow(broker, partition, has_waited=False)
        case _:
            partition = broker.partitions.get((trigger.topic, trigger.partition))
            if partition is not None and partition.is_open:
                await _process_of_partition(broker, partition, trigger)


async def _process_of_partition(
    broker: Broker,
    partition: Partition,
    trigger: ElectionWaitOver | FollowAgain | IsrChange | Diverged,
) -> None:
    match trigger:
        case ElectionWaitOver():
            await elect_or_follow(broker, partition, has_waited=True)
        case FollowAgain():
            await elect_or_follow(broker, partition, has_waited=False)
        case IsrChange():
            if partition.is_leader:
                await change_isr(broker, partition)
        case Diverged(offset=offset):
            await cut_diverged_log(broker, partition, offset)
