"""A recorded log's fold, followed: beside what it decides, what it finds that others have done."""

from collections.abc import Callable
from typing import Final

from controller.core.commands import Issued
from controller.core.events import (
    BrokerAnswered,
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
)
from controller.core.values import NO_ASSIGNMENT, LeaderAndIsr
from eventstore.records import Header
from replay.cluster_view.of_context import cluster_of, name_of
from replay.cluster_view.views import Cluster, ProcedureView
from replay.description.events import event_in_words, request_in_words
from replay.logs.other_core import folding
from replay.logs.recorded_fold import fold_event
from replay.why.facts import AssignmentWritten, Because, StateWritten, Told
from replay.why.following import Following
from replay.why.subject import Subject

_SESSION: Final = (SessionConnected, SessionDisconnected, SessionExpired, ShutdownRequested)
_SILENT_NS: Final = 1_000_000_000
_OUTCOMES: Final = (ZnodesRead, ChildrenRead, ZnodesWritten, TopicIdsDrawn, NumbersDrawn)
_OF_SHELL: Final = (AutoPreferredReplicaLeaderElection, Reelect, Startup)
"""What a timer or a new session leads to."""


class Recording(Following):
    """Folds the events of a recorded log."""

    def __init__(self, fold: Fold, subject: Subject, header: Header) -> None:
        super().__init__(fold.controller, subject)
        self._fold = fold
        self._header = header
        self._queued: dict[int, tuple[Trigger, Because]] = {}
        self._event: Recorded | None = None
        self._ended: Because | None = None
        """What the procedure was because of that has ended at this event."""
        self.place_of: Callable[[int], int] = lambda seq: seq
        """The place of an event of this log where several are read together."""
        self._known: ControllerContext | None = None
        self.lost_at = 0
        """The event at which the role was lost last."""
        self.begun_by = self._origin
        fold.controller.observer = self

    def fold_event(self, event: Recorded) -> list[Issued]:
        """Fold one event; its commands. Raises ReplayError where another core recorded it and this
        one cannot fold it: then it waits for something else than what came."""
        with folding(self._header, event.seq):
            return self._take(event)

    def _take(self, event: Recorded) -> list[Issued]:
        silent_ns = event.wall_ns - self.wall_ns if self.wall_ns else 0
        self.at(self.place_of(event.seq), event.wall_ns)
        self._event, self._ended = event, None
        if isinstance(event.event, (ZnodesRead, ZnodesWritten)):
            self.hears(event.event)
        elif self.moves is not None and isinstance(event.event, WatchFired):
            self.moves.watch(event.event)
        elif self.moves is not None and isinstance(event.event, BrokerAnswered):
            self.moves.answered(event.event)
        elif isinstance(event.event, _SESSION) and self.subject.is_of_role:
            text = event_in_words(event.event)
            if isinstance(event.event, SessionExpired) and silent_ns >= _SILENT_NS:
                text += f"; nothing had been observed for {silent_ns / 1e9:.1f} s before"
            self.add(
                Told,
                level="info",
                code="session",
                subject="the session",
                text=text,
                because=None,
            )
        issued = fold_event(self._fold, event)
        controller = self.controller
        self._note_queued()
        if not controller.triggers:
            self._queued.clear()
        if controller.is_active:
            self._known = controller.context
        elif self._known is not None and self._known is not controller.context and not self.lost_at:
            self.lost_at = self.seq
        if controller.is_active:
            self.lost_at = 0
        return issued

    def cluster(self, seq: int, time: str, *, lasting: bool = True) -> Cluster:
        """The state now; with `lasting`, where nobody is controller, as it was known last."""
        context = self.controller.context
        if lasting and self.lost_at and self._known is not None:
            context = self._known
        procedure = None
        if self.because is not None:
            last = self.last_issued
            procedure = ProcedureView(
                self.because.procedure,
                self.because.seq,
                last.reason.rule if last else "",
                f"{last.command.__struct_config__.tag} {last.id.cause}.{last.id.ordinal}"
                if last
                else "",
            )
        return cluster_of(self._fold, seq, time, procedure, context, self.rewriting)

    def topic_name(self, id: str) -> str:
        """Also of a topic that was known before the role was lost."""
        name = super().topic_name(id)
        known = self._known.topics_by_id.get(bytes.fromhex(id)) if self._known is not None else None
        return known.name if name == id and known is not None else name

    # What began a procedure

    def _note_queued(self) -> None:
        for one in self.controller.triggers:
            if id(one) not in self._queued:
                # Kept with it: as long as it is known its id is nobody else's.
                self._queued[id(one)] = (one, self._now(one))

    def _origin(self, trigger: Trigger) -> Because:
        found = self._queued.pop(id(trigger), None) or self._joined(trigger)
        return found[1] if found is not None else self._now(trigger)

    def _joined(self, trigger: Trigger) -> tuple[Trigger, Because] | None:
        """What was queued for the same partition, where several were made one controller event."""
        if not isinstance(trigger, PartitionReassignmentIsrChange):
            return None
        for one in self._queued.values():
            queued = one[0]
            if isinstance(queued, PartitionReassignmentIsrChange) and (
                (queued.topic, queued.partition) == (trigger.topic, trigger.partition)
            ):
                return one
        return None

    def _now(self, trigger: Trigger) -> Because:
        """Because of the event, or of what the procedure is because of that queued the trigger."""
        assert self._event is not None, "a procedure is begun by an event"
        event = self._event.event
        name = name_of(trigger)
        if isinstance(trigger, ApiCall):
            return Because(self.seq, request_in_words(trigger.request, self.topic_name), name)
        running = self.because or self._ended
        if running is not None and not self._is_queued_by(event, trigger):
            return Because(running.seq, running.text, name)
        return Because(self.seq, event_in_words(event), name)

    def _is_queued_by(self, event: Event, trigger: Trigger) -> bool:
        """Whether an event led to a controller event, and not a procedure that goes on at it."""
        match event:
            case outcome if isinstance(outcome, _OUTCOMES):
                return False
            case BrokerAnswered():
                return hasattr(trigger, "answer")
            case SessionConnected() | TimerFired():
                return isinstance(trigger, _OF_SHELL)
            case _:
                return True

    # What others have done

    def begins(self, trigger: Trigger) -> None:
        # What the procedure that is interrupted has queued is because of that one.
        self._note_queued()
        super().begins(trigger)

    def ends(self) -> None:
        self._note_queued()
        is_usual = isinstance(self.trigger, ApiCall)
        if self.subject.topic is not None and not is_usual:
            self._look(self.subject.topic)
        self._ended = self.because
        super().ends()

    def look(self, topic: str, number: int) -> None:
        partition = self.controller.context.find(topic, number)
        if partition is not None and partition not in self.rewriting:
            self._look_at(partition)

    def _look(self, name: str) -> None:
        topic = self.controller.context.topics.get(name)
        if topic is None or not topic.is_known:
            return
        number = self.subject.partition
        if number is None:
            for partition in topic.partitions.values():
                self._look_at(partition)
        elif number in topic.partitions:
            self._look_at(topic.partitions[number])

    def _look_at(self, partition: Partition) -> None:
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
