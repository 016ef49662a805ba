"""Observers of folds for a report: all facts, and the procedures with their steps."""

from typing import Final

from msgspec import structs

from controller.core.commands import CommandId, Issued, Notice
from controller.core.deviations import Deviation
from controller.core.fold import Fold
from controller.core.triggers import BrokerChange, Trigger, trigger_name
from eventstore.records import Header
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.checkpoint import AppendOnly, Checkpointed, State
from replay.description.commands import command_in_words
from replay.report.reading import ObservedDeviation, Procedure, ProcedureStep
from replay.shadow_folds import ShadowCommand
from replay.why.fact_observer import FactObserver
from replay.why.facts import FAILOVERS, Cause
from replay.why.noted_facts import NotedFacts
from replay.why.recorded_observer import RecordedFactObserver
from replay.why.shadow_observer import ShadowFactObserver
from replay.why.subject import Subject

EVERYTHING: Final = Subject(is_everything=True)
_WITH_STEPS: Final = (*FAILOVERS, BrokerChange.__name__)
_STEPS_MAX: Final = 200


class Procedures(Checkpointed):
    """The procedures of one fold. A procedure can interrupt another one."""

    def __init__(self) -> None:
        self.all: list[Procedure] = []
        self._open: list[int] = []

    def save(self) -> State:
        """Return the number of procedures, and copies of those that are under way."""
        running = [(place, _copied(self.all[place])) for place in self._open]
        return {"count": len(self.all), "running": running}

    def restore(self, state: State) -> None:
        del self.all[state["count"] :]
        for place, saved in state["running"]:
            self.all[place] = saved
        self._open = [place for place, _ in state["running"]]

    def begins(self, trigger: Trigger, noted: NotedFacts, *, is_first: bool) -> None:
        """A procedure begins; `is_first`: no other one is under way."""
        if is_first:
            # The end of a session ends procedures without a call of `ends`.
            while self._open:
                self.ends(noted.seq, noted.wall_ns)
        epoch = noted.controller.context.epoch
        name = trigger_name(trigger)
        self._open.append(len(self.all))
        self.all.append(Procedure(name, noted.because, noted.seq, noted.wall_ns, epoch))

    def ends(self, seq: int, wall_ns: int) -> None:
        """The current procedure ends."""
        if self._open:
            one = self.all[self._open.pop()]
            one.end_seq, one.end_ns = seq, wall_ns
            if one.steps:
                one.steps[-1].end_ns = wall_ns

    def issues(self, issued: Issued, seq: int, wall_ns: int) -> None:
        """The command is the next step; several commands by one rule at once are one step."""
        if not self._open or self.all[self._open[-1]].name not in _WITH_STEPS:
            return
        procedure = self.all[self._open[-1]]
        if isinstance(issued.command, Notice) and issued.command.code == "elected":
            procedure.is_failover, procedure.epoch = True, issued.term
        steps, rule = procedure.steps, issued.reason.rule
        if steps and steps[-1].seq == seq and steps[-1].rule == rule:
            steps[-1].commands += 1
        elif len(steps) < _STEPS_MAX:
            if steps:
                steps[-1].end_ns = wall_ns
            steps.append(ProcedureStep(command_in_words(issued.command), rule, seq, wall_ns))


def _copied(one: Procedure) -> Procedure:
    return structs.replace(one, steps=[structs.replace(step) for step in one.steps])


class _ProcedureObserver(FactObserver):
    """Notes the procedures of a fold in addition to its facts."""

    procedures: Procedures

    def begins(self, trigger: Trigger) -> None:
        super().begins(trigger)
        self.procedures.begins(trigger, self, is_first=len(self._running) == 1)

    def ends(self) -> None:
        super().ends()
        self.procedures.ends(self.seq, self.wall_ns)

    def issues(self, issued: Issued) -> None:
        super().issues(issued)
        self.procedures.issues(issued, self.seq, self.wall_ns)


class ReportObserver(_ProcedureObserver, RecordedFactObserver):
    """Folds a log of the daemon, and notes everything about it."""

    def __init__(self, fold: Fold, header: Header) -> None:
        super().__init__(fold, EVERYTHING, header)
        self.procedures = Procedures()
        self.because_of: dict[CommandId, Cause] = {}
        self.deviations: list[ObservedDeviation] = []

    def issues(self, issued: Issued) -> None:
        if self.because is not None:
            self.because_of[issued.id] = self.because
        super().issues(issued)

    def deviates(self, deviation: Deviation, subject: str) -> None:
        self.deviations.append(ObservedDeviation(self.seq, self.wall_ns, deviation, subject))

    @property
    def live(self) -> frozenset[int] | None:
        """The registered brokers; None while the daemon does not know the cluster."""
        controller = self.controller
        if not controller.is_active or not controller.context.is_loaded:
            return None
        return frozenset(controller.context.brokers)


class ReportShadowObserver(_ProcedureObserver, ShadowFactObserver):
    """Notes everything about the shadow fold of one session of a stock controller."""

    STATE = (*ShadowFactObserver.STATE, "commands")

    def __init__(self, trace: ControllerTrace, subject: Subject) -> None:
        super().__init__(trace, subject)
        self.commands: AppendOnly[ShadowCommand] = AppendOnly()
        self.procedures = Procedures()

    def save(self) -> State:
        """Return the procedures and the facts, for `restore`."""
        return {"procedures": self.procedures.save(), "facts": super().save()}

    def restore(self, state: State) -> None:
        self.procedures.restore(state["procedures"])
        super().restore(state["facts"])

    def issues(self, issued: Issued) -> None:
        self.commands.append(ShadowCommand.from_fold(self._shadow, issued))
        super().issues(issued)
