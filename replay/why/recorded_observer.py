"""Observes the fold of a recorded log: its decisions, and the changes by others that it finds."""

from collections.abc import Callable
from typing import Final

from controller.core.api_requests.reassignments import AlterPartitionReassignmentsReceived
from controller.core.commands import CommandId, Issued
from controller.core.events import (
    BrokerProbed,
    BrokerResponded,
    ChildrenRead,
    Event,
    NumbersDrawn,
    Recorded,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    ShutdownRequested,
    TimerFired,
    TopicIdsDrawn,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.fold import Fold
from controller.core.state import ControllerContext, Partition
from controller.core.triggers import (
    ApiCall,
    AutoPreferredReplicaLeaderElection,
    PartitionReassignmentIsrChange,
    Reelect,
    Startup,
    Trigger,
    trigger_name,
)
from controller.core.values import NO_ASSIGNMENT, LeaderAndIsr
from eventstore.records import Header
from replay.cluster_view.from_context import cluster_of
from replay.cluster_view.views import ClusterView, ProcedureView
from replay.description.events import event_in_words, request_in_words
from replay.logs.other_core import refuse_event_of_other_core
from replay.logs.recorded_fold import fold_event
from replay.names import command_name
from replay.subjects import paths_of_command, subject_of
from replay.why.fact_observer import FactObserver
from replay.why.facts import AddressProbed, AssignmentWritten, Cause, SessionChanged, StateWritten
from replay.why.silence import LONG_NS, Silence
from replay.why.subject import Subject

_SESSION_CHANGES: Final[dict[type[Event], str]] = {
    SessionConnected: "connected",
    SessionDisconnected: "disconnected",
    SessionExpired: "expired",
    ShutdownRequested: "shutdown requested",
}
_OUTCOMES: Final = (ZnodesRead, ChildrenRead, ZnodesWritten, TopicIdsDrawn, NumbersDrawn)
_OF_SHELL: Final = (AutoPreferredReplicaLeaderElection, Reelect, Startup)
"""Controller events that a timer or a new session causes."""


class RecordedFactObserver(FactObserver):
    """Folds the events of a recorded log."""

    def __init__(self, fold: Fold, subject: Subject, header: Header) -> None:
        super().__init__(fold.controller, subject)
        self._fold = fold
        self._header = header
        self._queued: dict[int, tuple[Trigger, Cause]] = {}
        self._event: Recorded | None = None
        self._silence = Silence()
        self._disconnected_ns = 0
        self.begun: list[Cause] = []
        """The causes of the procedures that began at this event."""
        self._ended: Cause | None = None
        """The cause of the procedure that has ended at this event."""
        self.number_of: Callable[[int], int] = lambda seq: seq
        """Returns the number of an event by which facts name it, if several logs are read."""
        self.last_context: ControllerContext | None = None
        self.lost_at = 0
        """The event at which the daemon last lost the role; 0: it has the role, or never had it."""
        self._touched: set[tuple[str, int]] = set()
        """Partitions that may have changed in the current procedures, if all facts are wanted."""
        self.znodes: dict[CommandId, list[str]] = {}
        self.begun_by = self._origin
        fold.controller.observer = self

    def switch_to(self, fold: Fold) -> None:
        """Observe another fold of the log from here on. No procedure runs in it, nor in the one
        before."""
        self._fold, self.controller = fold, fold.controller
        fold.controller.observer = self

    def fold_event(self, event: Recorded) -> list[Issued]:
        """Fold one event and return its commands. Raises ReplayError if another core recorded the
        event and this core cannot fold it."""
        try:
            return self._apply(event)
        except Exception as error:
            refuse_event_of_other_core(self._header, event, error)
            raise

    def _apply(self, event: Recorded) -> list[Issued]:
        silent_ns = self._silence.before(event)
        self.move_to(self.number_of(event.seq), event.wall_ns)
        self._event, self._ended = event, None
        self.begun = []
        if isinstance(event.event, (ZnodesRead, ZnodesWritten)):
            self.touch(event.event)
            self.on_outcome(event.event)
        elif self.moves is not None and isinstance(event.event, WatchFired):
            self.moves.on_watch(event.event)
        elif self.moves is not None and isinstance(event.event, BrokerResponded):
            self.moves.on_broker_response(event.event)
        elif isinstance(event.event, BrokerProbed):
            one = event.event
            self.add(
                AddressProbed, broker=one.broker, result=one.result, text=one.text, because=None
            )
        elif type(event.event) in _SESSION_CHANGES and self.subject.is_of_role:
            self._session_changed(event.event, silent_ns)
        issued = fold_event(self._fold, event)
        self._note_queued()
        if not self.controller.triggers:
            self._queued.clear()
        self._note_role()
        return issued

    def _session_changed(self, event: Event, silent_ns: int) -> None:
        # Between a lost connection and the end of the session nothing is observed in any case.
        now_ns = self._event.wall_ns if self._event is not None else 0
        lost_ns = now_ns - self._disconnected_ns if self._disconnected_ns else 0
        is_expired = isinstance(event, SessionExpired)
        is_silent = is_expired and silent_ns >= LONG_NS and lost_ns < LONG_NS
        self._disconnected_ns = now_ns if isinstance(event, SessionDisconnected) else 0
        self.add(
            SessionChanged,
            level="info",
            code="session",
            subject="the session",
            text=event_in_words(event),
            what=_SESSION_CHANGES[type(event)],
            silent_ns=silent_ns if is_silent else 0,
            because=None,
        )

    def _note_role(self) -> None:
        controller, last = self.controller, self.last_context
        if controller.is_active:
            self.last_context, self.lost_at = controller.context, 0
        elif last is not None and last is not controller.context and not self.lost_at:
            self.lost_at = self.seq

    def cluster(self, seq: int, time: str, *, keeps_last: bool = True) -> ClusterView:
        """The current state of the cluster. If the daemon has lost the role: with `keeps_last` what
        it last knew, otherwise nothing."""
        context = self.controller.context
        if keeps_last and self.lost_at and self.last_context is not None:
            context = self.last_context
        procedure = None
        if self.because is not None:
            last = self.last_issued
            procedure = ProcedureView(
                self.because.procedure,
                self.because.seq,
                last.reason.rule if last else "",
                f"{last.command.__struct_config__.tag} {command_name(last.id)}" if last else "",
                last.id.cause if last else self.because.seq,
            )
        return cluster_of(self._fold, seq, time, procedure, context, self.rewriting)

    def topic_name(self, id: str) -> str:
        """Includes the topics that the daemon knew before it lost the role."""
        name = super().topic_name(id)
        last = self.last_context
        known = last.topics_by_id.get(bytes.fromhex(id)) if last is not None else None
        return known.name if name == id and known is not None else name

    # Causes of procedures

    def _note_queued(self) -> None:
        for one in self.controller.triggers:
            if id(one) not in self._queued:
                # Keeping the object ensures that no other object gets the same id.
                self._queued[id(one)] = (one, self._cause_of(one))

    def _origin(self, trigger: Trigger) -> Cause:
        found = self._queued.pop(id(trigger), None) or self._queued_duplicate(trigger)
        return found[1] if found is not None else self._cause_of(trigger)

    def _queued_duplicate(self, trigger: Trigger) -> tuple[Trigger, Cause] | None:
        """The queued controller event for the same partition, if several were merged into one."""
        if not isinstance(trigger, PartitionReassignmentIsrChange):
            return None
        for one in self._queued.values():
            queued = one[0]
            if isinstance(queued, PartitionReassignmentIsrChange) and (
                (queued.topic, queued.partition) == (trigger.topic, trigger.partition)
            ):
                return one
        return None

    def _cause_of(self, trigger: Trigger) -> Cause:
        """The cause of a trigger: this event, or the cause of the procedure that queued it."""
        assert self._event is not None, "an event begins a procedure"
        event = self._event.event
        name = trigger_name(trigger)
        if isinstance(trigger, ApiCall):
            if isinstance(trigger.request, AlterPartitionReassignmentsReceived):
                self.received[self.seq] = self.wall_ns
            return Cause(self.seq, request_in_words(trigger.request, self.topic_name), name)
        running = self.because or self._ended
        if running is not None and not self._is_queued_by(event, trigger):
            return Cause(running.seq, running.text, name)
        return Cause(self.seq, event_in_words(event), name)

    def _is_queued_by(self, event: Event, trigger: Trigger) -> bool:
        """Whether the event itself caused a controller event, and not a procedure that the event
        resumes."""
        match event:
            case outcome if isinstance(outcome, _OUTCOMES):
                return False
            case BrokerResponded():
                return hasattr(trigger, "answer")
            case SessionConnected() | TimerFired():
                return isinstance(trigger, _OF_SHELL)
            case _:
                return True

    # Changes by others

    def begins(self, trigger: Trigger) -> None:
        # The interrupted procedure is the cause of what it has queued.
        self._note_queued()
        super().begins(trigger)
        if self.because is not None:
            self.begun.append(self.because)

    def ends(self) -> None:
        self._note_queued()
        self.note_changes_by_others()
        self._ended = self.because
        super().ends()

    def note_changes_by_others(self) -> None:
        """Note the changes by others that the procedure has found."""
        # The procedure of an API request reads no changes by others.
        if self.subject.topic is not None and not isinstance(self.trigger, ApiCall):
            self._note_changes_of_topic(self.subject.topic)
        for key in sorted(self._touched):
            self.note_external_changes(*key)
        self._touched.clear()

    def issues(self, issued: Issued) -> None:
        if self.subject.is_everything and (paths := paths_of_command(issued.command)):
            self.znodes[issued.id] = paths
        super().issues(issued)

    def touch(self, outcome: ZnodesRead | ZnodesWritten) -> None:
        """Remember the partitions of the znodes that were read or written."""
        paths = self.znodes.get(outcome.command, [])
        end = outcome.offset + len(outcome.errors)
        for path in paths[outcome.offset : end]:
            kind, _, topic, number = subject_of(path)
            if topic is None or kind not in ("state", "topic"):
                continue
            found = self.controller.context.topics.get(topic)
            if number is not None:
                self._touched.add((topic, number))
            elif found is not None:
                self._touched.update((topic, one) for one in found.partitions)
        if end >= len(paths):
            self.znodes.pop(outcome.command, None)

    def note_external_changes(self, topic: str, number: int) -> None:
        partition = self.controller.context.find(topic, number)
        if partition is not None and partition not in self.rewriting:
            self.note_changes(partition)

    def _note_changes_of_topic(self, name: str) -> None:
        topic = self.controller.context.topics.get(name)
        if topic is None or not topic.is_known:
            return
        number = self.subject.partition
        if number is None:
            for partition in topic.partitions.values():
                self.note_changes(partition)
        elif number in topic.partitions:
            self.note_changes(topic.partitions[number])

    def note_changes(self, partition: Partition) -> None:
        """Note how a partition differs from what is known of it."""
        key = partition.key
        known = self.known.assignments.get(key, NO_ASSIGNMENT)
        if partition.assignment != known:
            self.known.assignments[key] = partition.assignment
            self.add(
                AssignmentWritten,
                partition=repr(partition),
                before=known,
                after=partition.assignment,
            )
        state = partition.leadership
        before = self.known.states.get(key)
        if state is not None and _content(state) != _content(before):
            self.known.states[key] = state
            self.add(StateWritten, partition=repr(partition), before=before, after=state)


def _content(state: LeaderAndIsr | None) -> tuple[object, ...]:
    if state is None:
        return ()
    return (state.leader, state.leader_epoch, state.isr, state.recovery_state)
