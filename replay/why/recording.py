"""A recorded log's fold, followed: beside what it decides, what it finds that others have done."""

from typing import Final

from controller.core.commands import Issued
from controller.core.controller import Controller
from controller.core.events import (
    ChildrenRead,
    NumbersDrawn,
    Recorded,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    ShutdownRequested,
    TopicIdsDrawn,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.fold import Fold
from controller.core.state import ControllerContext, Partition
from controller.core.triggers import ApiCall, Trigger
from controller.core.values import NO_ASSIGNMENT, LeaderAndIsr
from eventstore.records import Header
from replay.errors import ReplayError
from replay.inspect.cluster import Cluster, ProcedureView
from replay.inspect.of_context import cluster_of, name_of
from replay.opened import is_of_this_core
from replay.why.facts import AssignmentWritten, Because, StateWritten, Told
from replay.why.following import Following
from replay.why.subject import Subject
from replay.wording.events_in_words import in_words, request_in_words

_SESSION: Final = (SessionConnected, SessionDisconnected, SessionExpired, ShutdownRequested)
_SILENT_NS: Final = 1_000_000_000
_OUTCOMES: Final = (ZnodesRead, ChildrenRead, ZnodesWritten, TopicIdsDrawn, NumbersDrawn)


class Recording(Following):
    """Folds the events of a recorded log."""

    def __init__(self, fold: Fold, subject: Subject, header: Header) -> None:
        super().__init__(fold.controller, subject)
        self._fold = fold
        self._header = header
        self._queued: dict[int, tuple[Trigger, Because]] = {}
        self._event: Recorded | None = None
        self._last_procedure = ""
        self._known: ControllerContext | None = None
        self.lost_at = 0
        """The event at which the role was lost last."""
        self.begun_by = self._origin
        fold.controller.follower = self

    def fold_event(self, event: Recorded) -> list[Issued]:
        """Fold one event; its commands. Raises ReplayError where another core recorded it and this
        one cannot fold it: then it waits for something else than what came."""
        try:
            return self._take(event)
        except Exception as error:
            if is_of_this_core(self._header):
                raise
            raise ReplayError(
                f"recorded by core {self._header.core_fingerprint} (refold "
                f"{self._header.code_version}); this one cannot fold event {event.seq} ({error!r}):"
                " use that version"
            ) from error

    def _take(self, event: Recorded) -> list[Issued]:
        silent_ns = event.wall_ns - self.wall_ns if self.wall_ns else 0
        self.at(event.seq, event.wall_ns)
        self._event = event
        if isinstance(event.event, (ZnodesRead, ZnodesWritten)):
            self.hears(event.event)
        elif isinstance(event.event, _SESSION) and self.subject.is_of_role:
            text = in_words(event.event)
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
        issued = [one for part in self._fold.apply(event) for one in part]
        controller = self.controller
        self._note_queued(controller)
        if controller.is_active:
            self._known = controller.context
        elif self._known is not None and self._known is not controller.context and not self.lost_at:
            self.lost_at = event.seq
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

    def _note_queued(self, controller: Controller) -> None:
        queue = controller.triggers
        if not queue:
            self._queued.clear()
            return
        for one in queue:
            if id(one) not in self._queued:
                # Kept with it: as long as it is known its id is nobody else's.
                self._queued[id(one)] = (one, self._now(one))

    def _origin(self, trigger: Trigger) -> Because:
        found = self._queued.pop(id(trigger), None)
        return found[1] if found is not None else self._now(trigger)

    def _now(self, trigger: Trigger) -> Because:
        assert self._event is not None, "a procedure is begun by an event"
        event = self._event.event
        name = name_of(trigger)
        if isinstance(trigger, ApiCall):
            return Because(self.seq, request_in_words(trigger.request, self.topic_name), name)
        if isinstance(event, _OUTCOMES):
            return Because(self.seq, f"{self._last_procedure or name} went before", name)
        return Because(self.seq, in_words(event), name)

    # What others have done

    def ends(self) -> None:
        if self.because is not None:
            self._last_procedure = self.because.procedure
        is_usual = isinstance(self.trigger, ApiCall)
        if self.subject.topic is not None and not is_usual:
            self._look(self.subject.topic)
        super().ends()

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
        known = self.assignments.get(key, NO_ASSIGNMENT)
        if partition.assignment != known:
            self.assignments[key] = partition.assignment
            self.add(
                AssignmentWritten,
                partition=repr(partition),
                before=known,
                after=partition.assignment,
            )
        state = partition.leadership
        before = self.states.get(key)
        if state is not None and _content(state) != _content(before):
            self.states[key] = state
            self.add(StateWritten, partition=repr(partition), before=before, after=state)


def _content(state: LeaderAndIsr | None) -> tuple[object, ...]:
    if state is None:
        return ()
    return (state.leader, state.leader_epoch, state.isr, state.recovery_state)
