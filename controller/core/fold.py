"""The fold: apply(event) -> commands. It makes all decisions of the controller.

It runs one procedure at a time, as Kafka's event thread does. It drives the procedure by
`coroutine.send` with the outcomes in the log: there is no event loop and no clock
(docs/design.md#the-path-of-an-event). Long work pauses between two parts, in which urgent
controller events are handled (LONG_WORK_INTERRUPTED).
"""

from collections.abc import Coroutine, Iterator
from typing import Any, NamedTuple, assert_never, cast

from controller.core.api_requests import ApiRequest
from controller.core.commands import Issued, Reason, StartTimer
from controller.core.configuration import Configuration
from controller.core.controller import Controller
from controller.core.deviations import LONG_WORK_INTERRUPTED
from controller.core.events import (
    BrokerProbed,
    BrokerResponded,
    ChannelFault,
    Outcome,
    Recorded,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    ShutdownRequested,
    TimerFired,
    VersionsOffered,
    WatchFired,
)
from controller.core.outcomes import (
    CONNECTED,
    PAUSE,
    SLICE,
    BrokerResponses,
    Wait,
    break_off,
)
from controller.core.procedures.admin.waiting_requests import (
    on_response,
    respond_to_completed,
    start_time_out,
    time_out,
)
from controller.core.procedures.api_calls import refuse
from controller.core.procedures.brokers.registration_checks import TIMER as REGISTRATIONS_TIMER
from controller.core.procedures.brokers.registration_checks import (
    check_registrations,
    process_probe,
)
from controller.core.procedures.brokers.responses import (
    process_broker_response,
    process_channel_fault,
    process_versions_offered,
)
from controller.core.procedures.dispatch import process, with_following
from controller.core.procedures.elections.rebalance import rebalance_timer
from controller.core.procedures.reassignment.replica_deletion import TIMER as DELETION_TIMER
from controller.core.procedures.reassignment_znodes.cancel_znode import with_cancellation_bound
from controller.core.procedures.role.controller_election import BACK_OFF_TIMER
from controller.core.procedures.role.following import forget_all
from controller.core.standby import FOLLOW_MS, FOLLOW_TIMER
from controller.core.triggers import (
    ApiCall,
    AutoPreferredReplicaLeaderElection,
    Expire,
    Follow,
    HandBack,
    Reelect,
    Startup,
    Trigger,
    UnconfirmedDeletions,
    is_urgent,
    trigger_of,
)
from controller.core.znodes import CONTROLLER


class _Paused(NamedTuple):
    """A procedure between two parts of its work, and the term in which it began."""

    trigger: Trigger
    procedure: Coroutine[Wait, Any, None]
    term: int


class Fold:
    """Folds the events of one log, in order, into state and commands."""

    def __init__(self, configuration: Configuration) -> None:
        self.controller = Controller(configuration)
        self._trigger: Trigger | None = None
        self._procedure: Coroutine[Wait, Any, None] | None = None
        self._wait: Wait | None = None
        self._paused: _Paused | None = None

    @property
    def term(self) -> int:
        """The controller epoch that is held; 0: none."""
        return self.controller.term

    @property
    def is_idle(self) -> bool:
        """Whether no procedure runs and none is queued: a snapshot can be taken."""
        return self._procedure is None and not self.controller.triggers

    @property
    def unfinished(self) -> list[Trigger]:
        """The controller events whose procedures have begun: the paused one, and the current."""
        begun = [self._paused.trigger] if self._paused is not None else []
        if self._procedure is not None and self._trigger is not None:
            begun.append(self._trigger)
        return begun

    @property
    def is_failing_over(self) -> bool:
        """Whether the controller event that takes the role is unfinished: the controller has not
        read the whole cluster yet."""
        return any(isinstance(one, Startup | Reelect) for one in self.unfinished)

    def apply(self, recorded: Recorded) -> Iterator[list[Issued]]:
        """Fold one event; yields the commands in slices.

        Between two slices the daemon may ping and flush, but must not fold another event. A slice
        boundary changes no command. The iterator must be run to its end.
        """
        controller = self.controller
        controller.begin(recorded.seq, recorded.wall_ns // 1_000_000)
        controller.observer.folds(recorded)
        result = self._apply_event(recorded)
        while self._advance(result):
            yield controller.take_issued()
            result = None
        yield controller.take_issued()

    def _apply_event(self, recorded: Recorded) -> Any:
        """Dispatch an event; returns the result if the event completes what is awaited."""
        match recorded.event:
            # The most frequent event of a controller at work.
            case BrokerResponded() as answer:
                process_broker_response(self.controller, answer)
                on_response(self.controller, answer)
                return self._offer(answer)
            case outcome if isinstance(outcome, Outcome):
                wait = self._wait
                # Outcomes of finished procedures are ignored.
                if wait and wait.awaits(outcome.command) and wait.result.add(outcome):
                    return wait.result
            case WatchFired(path=path, change=change, zxid=zxid):
                self._apply_watch(path, change, zxid)
            case request if isinstance(request, ApiRequest):
                start_time_out(self.controller, request)
                self.controller.enqueue(ApiCall(request))
            case ChannelFault() as fault:
                process_channel_fault(self.controller, fault)
            case VersionsOffered() as offered:
                process_versions_offered(self.controller, offered)
            case BrokerProbed() as probed:
                process_probe(self.controller, probed)
            case SessionConnected() | SessionDisconnected() | SessionExpired() as change:
                return self._change_session(change)
            case ShutdownRequested(reason=reason):
                self.controller.enqueue_first(HandBack(reason))
            case TimerFired(timer=timer) as fired:
                if timer == BACK_OFF_TIMER:
                    self.controller.is_backing_off = False
                    self.controller.enqueue(Reelect())
                elif timer == rebalance_timer(self.controller):
                    self.controller.enqueue(AutoPreferredReplicaLeaderElection())
                elif timer == FOLLOW_TIMER:
                    self.controller.standby.is_timed = False
                    self.controller.enqueue(Follow())
                elif timer == DELETION_TIMER:
                    self.controller.enqueue(UnconfirmedDeletions())
                elif timer == REGISTRATIONS_TIMER:
                    check_registrations(self.controller)
                else:
                    time_out(self.controller, timer)
                return self._offer(fired)
            case unknown:
                assert_never(unknown)
        return None

    def _apply_watch(self, path: str, change: str, zxid: int) -> None:
        controller = self.controller
        standby = controller.standby
        standby.fired(path, change)
        if controller.configuration.standby and not controller.is_active:
            if standby.has_stale and standby.is_ready and not standby.is_timed:
                standby.is_timed = True
                controller.issue(StartTimer(FOLLOW_TIMER, FOLLOW_MS), Reason("standby"))
            if path != CONTROLLER:
                # A failover reads everything that has changed before it.
                return
        trigger = trigger_of(path, change, zxid)
        if trigger is not None:
            controller.enqueue(with_cancellation_bound(controller.context, trigger))

    def _offer(self, event: BrokerResponded | TimerFired) -> BrokerResponses | None:
        """The awaited responses, if this event completes them."""
        result = self._wait.result if self._wait is not None else None
        return result if isinstance(result, BrokerResponses) and result.add(event) else None

    def _change_session(
        self, event: SessionConnected | SessionDisconnected | SessionExpired
    ) -> Wait | None:
        controller = self.controller
        match event:
            case SessionConnected(session_id=session_id, renewed=renewed):
                controller.is_connected = True
                controller.connections += 1
                controller.session_id = session_id
                if not renewed:
                    controller.enqueue(Startup())
                forget_all(controller)
                return CONNECTED if self._wait is CONNECTED else None
            case SessionDisconnected():
                controller.is_connected = False
                controller.forget_standby()
            case SessionExpired():
                controller.is_connected = False
                controller.session_id = 0
                self._end_term()
        return None

    def _end_term(self) -> None:
        """The session has ended: the running procedure ends at once, and its queue with it (KB
        13.1)."""
        if self._procedure is not None:
            break_off(self._procedure)
            self._procedure = self._wait = None
            self.controller.triggers.appendleft(cast(Trigger, self._trigger))
        if self._paused is not None:
            break_off(self._paused.procedure)
            self.controller.triggers.appendleft(self._paused.trigger)
            self._paused = None
        hand_back = [one for one in self.controller.triggers if isinstance(one, HandBack)]
        self._drop_triggers()
        for trigger in reversed(hand_back):
            self.controller.enqueue_first(trigger)
        self.controller.enqueue_first(Expire())

    def _refuse(self, trigger: Trigger) -> None:
        """Answer the requests that are not answered yet."""
        if isinstance(trigger, ApiCall):
            for request in trigger.requests:
                if request.request not in self.controller.answered:
                    refuse(self.controller, request)

    def _drop_triggers(self) -> None:
        """Discard the queued controller events and refuse the requests among them."""
        self.controller.observer.clears_queue()
        triggers = list(self.controller.triggers)
        self.controller.triggers.clear()
        for trigger in triggers:
            self._refuse(trigger)

    def _next_trigger(self) -> Trigger | None:
        """The next controller event to handle; None: there is none."""
        triggers = self.controller.triggers
        if not triggers:
            return None
        trigger = triggers.popleft()
        return with_following(self.controller, trigger) if triggers else trigger

    def _begin(self, trigger: Trigger) -> None:
        self._trigger = trigger
        if self._paused is None:
            self.controller.answered.clear()
        self.controller.observer.begins(trigger)
        self._procedure = process(self.controller, trigger)

    def _interrupt(self) -> None:
        """At a pause of a procedure, an urgent controller event in the queue goes first."""
        triggers, running, self._wait = self.controller.triggers, self._trigger, None
        urgent = next(filter(is_urgent, triggers), None)
        if urgent is None or running is None or self._procedure is None or is_urgent(running):
            return
        triggers.remove(urgent)
        self._paused = _Paused(running, self._procedure, self.controller.term)
        self.controller.observer.pauses()
        self.controller.observer.deviates(LONG_WORK_INTERRUPTED, "")
        self._begin(urgent)

    def _continue(self) -> bool:
        """Begin the next procedure, or resume the paused one unless its term has ended. False:
        there is none."""
        if self._paused is not None:
            (trigger, procedure, term), self._paused = self._paused, None
            if term == self.controller.term:
                self._trigger, self._procedure, self._wait = trigger, procedure, PAUSE
                self.controller.observer.resumes(trigger)
                return True
            break_off(procedure)
            self.controller.observer.breaks_off()
            self._refuse(trigger)
        if self.controller.is_stopping:
            self._drop_triggers()
        next_trigger = self._next_trigger()
        if next_trigger is None:
            return False
        self._begin(next_trigger)
        return True

    def _advance(self, result: Any) -> bool:
        """Run procedures until one has to wait. True if a slice ended."""
        while True:
            if self._procedure is None:
                if not self._continue():
                    return False
                result = None
                continue
            if self._wait is PAUSE:
                self._interrupt()
            elif self._wait is not None and self._wait is not SLICE and result is None:
                return False
            try:
                self._wait = self._procedure.send(result)
            except StopIteration:
                self.controller.observer.ends()
                respond_to_completed(self.controller)
                self._procedure = self._wait = None
            result = None
            if self._wait is SLICE:
                return True
