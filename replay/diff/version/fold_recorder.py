"""Records what a diff needs of a fold: decisions with their causes, and partition timelines."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field, structs

from controller.core.commands import CommandId, Issued
from controller.core.controller import Controller
from controller.core.events import Event, ZnodesWritten
from controller.core.fold_observer import FoldObserver
from controller.core.state import Partition
from controller.core.triggers import ApiCall, Trigger
from controller.core.values import NO_LEADER
from replay.diff.messages import PartitionSample, PartitionTimeline
from replay.diff.version.decisions import NO_CAUSE, DecidedTrigger, DecisionRecorder


class CauseRecorder(FoldObserver):
    """Records the controller event of each command, by Kafka's name."""

    def __init__(self) -> None:
        self._cause = NO_CAUSE
        self._of: dict[CommandId, DecidedTrigger] = {}

    def begins(self, trigger: Trigger) -> None:
        """Note the controller event, which for a request has the name of its API."""
        named = trigger.request if isinstance(trigger, ApiCall) else trigger
        name = type(named).__name__.removesuffix("Received")
        self._cause = DecidedTrigger(name, self._cause.number + 1)

    def issues(self, issued: Issued) -> None:
        """Note the cause of a command."""
        self._of[issued.id] = self._cause

    def take(self) -> dict[CommandId, DecidedTrigger]:
        """The causes of the commands since the last call."""
        taken, self._of = self._of, {}
        return taken


class TimelineRecorder:
    """Records the states of some partitions."""

    def __init__(self, partitions: Sequence[tuple[str, int]]) -> None:
        self._samples: dict[tuple[str, int], list[PartitionSample]] = {
            one: [] for one in partitions
        }

    def sample(self, controller: Controller, time_ns: int) -> None:
        """Note the states that changed. No state is known while another broker is controller."""
        if not self._samples or not controller.context.is_loaded:
            return
        for (topic, number), samples in self._samples.items():
            now = _sample(controller, controller.context.find(topic, number), time_ns)
            if not samples or structs.replace(samples[-1], time_ns=time_ns) != now:
                samples.append(now)

    def result(self) -> list[PartitionTimeline]:
        """All timelines."""
        return [PartitionTimeline(*name, samples) for name, samples in self._samples.items()]


def _sample(controller: Controller, partition: Partition | None, time_ns: int) -> PartitionSample:
    if partition is None:
        return PartitionSample(time_ns, NO_LEADER, (), (), is_online=False)
    state, context = partition.leadership, controller.context
    return PartitionSample(
        time_ns,
        state.leader if state is not None else NO_LEADER,
        state.isr if state is not None else (),
        partition.replicas,
        is_online=state is not None
        and state.leader >= 0
        and not context.has_offline_leader(partition),
        is_reassigned=partition.assignment.is_being_reassigned,
        is_in_deletion=context.is_queued(partition),
    )


class FoldRecorder(Struct):
    """All recorders of a fold. `causes` is the observer of the fold's controller."""

    decisions: DecisionRecorder
    timelines: TimelineRecorder
    causes: CauseRecorder = field(default_factory=CauseRecorder)

    def note(self, event: Event) -> None:
        """Note an event that is about to be folded."""
        if isinstance(event, ZnodesWritten):
            self.decisions.mark_fenced(event)

    def record(
        self,
        controller: Controller,
        issued: Iterable[Issued],
        seq: int,
        turn: int,
        time_ns: int,
        event: str,
    ) -> None:
        """Record the commands of an event and the state after it; the arguments are those of
        `DecisionRecorder.record`."""
        self.decisions.record(issued, seq, turn, time_ns, event, self.causes.take())
        self.timelines.sample(controller, time_ns)
