"""The coverage of runs: procedures, transitions, racing events and crash points.

Coverage is a value that is added up over runs and workers. It says what was tried, not that all of
it is correct.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from controller.core import znodes
from controller.core.commands import Issued
from controller.core.election import Elected
from controller.core.events import (
    BrokerResponded,
    Outcome,
    Recorded,
    TimerFired,
    WatchFired,
    ZnodesWritten,
)
from controller.core.fold_observer import FoldObserver
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    FENCED,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
)
from controller.core.state import Partition
from controller.core.state_machines import (
    PREVIOUS_PARTITION_STATES,
    PREVIOUS_REPLICA_STATES,
    PartitionState,
    ReplicaState,
)
from controller.core.triggers import ApiCall, Trigger, trigger_of
from controller.core.values import NO_LEADER, LeaderAndIsr
from replay.world.inputs import CrashController, Delay
from replay.world.observer import Name, Observer
from replay.world.scheduler import MS

if TYPE_CHECKING:
    from replay.world.cluster import Cluster
    from replay.world.inputs import Input

PARTITION_TRANSITIONS: Final = sum(map(len, PREVIOUS_PARTITION_STATES.values()))
REPLICA_TRANSITIONS: Final = sum(map(len, PREVIOUS_REPLICA_STATES.values()))

CLEAN, UNCLEAN, NO_LEADER_FOUND = "clean", "unclean", "without a leader"
ELECTIONS: Final = (CLEAN, UNCLEAN, NO_LEADER_FOUND)
"""The results of an election."""

REFUSALS: Final = {
    BAD_VERSION: "another version",
    NODE_EXISTS: "the znode exists",
    NO_NODE: "the znode does not exist",
    NOT_EMPTY: "the znode has children",
    FENCED: "another controller epoch",
    CONNECTION_LOSS: "no reply",
}
"""Why a write was not done, by ZooKeeper's error code."""
GROWS, SHRINKS = "larger", "smaller"
ISR_PROPOSALS: Final = (GROWS, SHRINKS)

_RACING_NS: Final = 50 * MS * 1_000
"""Two events race if they reach one controller on different channels within this time."""

_DIGITS: Final = re.compile(r"\d+")
_MORE: Final = re.compile(r" and \d+ more$")
_PARENTS_OF_NAMES: Final = (
    znodes.TOPICS,
    znodes.DELETE_TOPICS,
    znodes.REASSIGNMENTS,
    znodes.TOPIC_CONFIGS,
    znodes.USER_CONFIGS,
)
_TOPIC: Final = re.compile(rf"({'|'.join(_PARENTS_OF_NAMES)})/[^/ ]+")


class Coverage(Struct):
    """Counts by name.

    A *crash point* is a kind of act in a procedure. It can be tried in several ways: the crash is
    before or after the act, and the successor is the same controller, another one or none. Acts in
    the quiet part of a run are none: no controller crashes there.
    """

    runs: int = 0
    simulated_us: int = 0
    events: int = 0
    recovered: int = 0
    """Runs in which all invariants about recovery were checked to the end."""
    inputs: dict[str, int] = field(default_factory=dict)
    procedures: dict[str, int] = field(default_factory=dict)
    partition_transitions: dict[str, int] = field(default_factory=dict)
    replica_transitions: dict[str, int] = field(default_factory=dict)
    elections: dict[str, int] = field(default_factory=dict)
    """By result, of single partitions."""
    refused_writes: dict[str, int] = field(default_factory=dict)
    """Writes to ZooKeeper that were not done, or of which no reply came, by the reason."""
    isr_proposals: dict[str, int] = field(default_factory=dict)
    """ISRs that leaders asked for: larger ones, and smaller ones."""
    racing: dict[str, int] = field(default_factory=dict)
    acts: dict[str, int] = field(default_factory=dict)
    crash_points: dict[str, int] = field(default_factory=dict)
    crashes: dict[str, int] = field(default_factory=dict)
    not_checked: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Coverage") -> None:
        """Add the counts of other runs."""
        self.runs += other.runs
        self.simulated_us += other.simulated_us
        self.events += other.events
        self.recovered += other.recovered
        for name in _COUNTS:
            add_counts(getattr(self, name), getattr(other, name))

    @property
    def crash_points_tried(self) -> int:
        """How many crash points were tried, in any way."""
        tried = {one.rpartition(" | ")[0] for one in self.crashes}
        return sum(one in tried for one in self.crash_points)

    @property
    def acts_passed(self) -> set[str]:
        """The kinds of acts that controllers have done, in any procedure."""
        return set(self.acts)

    @property
    def acts_tried(self) -> set[str]:
        """The kinds of acts at which a controller has crashed, in any procedure."""
        return {one.rpartition(" | ")[0].partition(": ")[2] for one in self.crashes}


_COUNTS: Final = (
    "inputs",
    "procedures",
    "partition_transitions",
    "replica_transitions",
    "elections",
    "refused_writes",
    "isr_proposals",
    "racing",
    "acts",
    "crash_points",
    "crashes",
    "not_checked",
)


class ControllerAct(Struct, frozen=True):
    """An act of a controller in a run: its number, its time and its crash point."""

    number: int
    at_ms: int
    point: str


class _Steps(FoldObserver):
    """Counts the steps of one fold, and knows its procedure. `raised`: the first exception that the
    controller caught although it is none of its errors."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._seen: dict[tuple[object, object], None] = {}
        self.procedure = "none"
        self.raised: Exception | None = None

    def begins(self, trigger: Trigger) -> None:
        if isinstance(trigger, ApiCall):
            self.procedure = type(trigger.request).__name__.removesuffix("Received")
        else:
            self.procedure = type(trigger).__name__
        count(self._coverage.procedures, self.procedure)

    def raises(self, error: Exception) -> None:
        self.raised = self.raised or error

    def moves_partitions(
        self, partitions: Sequence[Partition], target: PartitionState, rule: str, strategy: str
    ) -> None:
        for one in partitions:
            if (one.state, target) not in self._seen:
                self._seen[one.state, target] = None
                if one.state in PREVIOUS_PARTITION_STATES[target]:
                    name = f"{one.state.name} to {target.name}"
                    count(self._coverage.partition_transitions, name)

    def moves_replicas(
        self, broker: int, partitions: Sequence[Partition], target: ReplicaState, rule: str
    ) -> None:
        for one in partitions:
            state = one.replica_states.get(broker, ReplicaState.NON_EXISTENT)
            if (state, target) not in self._seen:
                self._seen[state, target] = None
                if state in PREVIOUS_REPLICA_STATES[target]:
                    count(self._coverage.replica_transitions, f"{state.name} to {target.name}")

    def elects(
        self, partition: Partition, rule: str, current: LeaderAndIsr, elected: Elected
    ) -> None:
        result = NO_LEADER_FOUND if elected.leader == NO_LEADER else CLEAN
        count(self._coverage.elections, UNCLEAN if elected.unclean else result)


class CoverageObserver(Observer):
    """Counts what one run reaches. `acts` has the acts of each controller, if they are kept.

    Ends the run with an exception that a controller caught and that is none of its errors."""

    def __init__(self, *, keeps_acts: bool = False) -> None:
        self.coverage = Coverage(runs=1)
        self.acts: dict[str, list[ControllerAct]] = {}
        self._keeps_acts = keeps_acts
        self._steps: dict[str, _Steps] = {}
        self._last: dict[str, tuple[int, str, str]] = {}
        self._crashing: dict[str, list[CrashController]] = {}
        self._cluster: Cluster
        self._is_quiet = False
        self._isrs: dict[Name, int] = {}
        """The size of each partition's ISR, as a broker learned it last."""

    def begins(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        for one in cluster.inputs:
            if isinstance(one, Delay):
                count(self.coverage.inputs, type(one).__name__)

    def run_started(self, process: str) -> None:
        steps = self._steps[process] = _Steps(self.coverage)
        run = self._cluster.controllers[process].run
        if run is not None:
            run.fold.controller.observer = steps

    def quiet_begins(self) -> None:
        self._is_quiet = True

    def crashes(self, process: str, what: str, when: str) -> None:
        waiting = self._crashing.get(process, [])
        for one in waiting:
            if one.when == when:
                waiting.remove(one)
                way = f"{when}, {_successor(one.successor)}"
                count(self.coverage.crashes, f"{self._point(process, what)} | {way}")
                return

    def _point(self, process: str, what: str) -> str:
        steps = self._steps.get(process)
        return f"{steps.procedure if steps else 'none'}: {kind_of_act(what)}"

    def input_applied(self, one: "Input") -> None:
        count(self.coverage.inputs, type(one).__name__)
        if isinstance(one, CrashController):
            self._crashing.setdefault(one.process, []).append(one)

    def folded(self, process: str, recorded: Recorded, issued: list[Issued]) -> None:
        self.coverage.events += 1
        raised = self._steps[process].raised
        if raised is not None:
            raise raised
        if isinstance(recorded.event, Outcome):
            if isinstance(recorded.event, ZnodesWritten):
                self._count_refusals(recorded.event)
            return
        kind = _kind(recorded)
        last = self._last.get(process)
        is_other = last is not None and last[1] != recorded.channel
        if last is not None and is_other and recorded.mono_ns - last[0] <= _RACING_NS:
            count(self.coverage.racing, f"{last[2]}, {kind}")
        self._last[process] = recorded.mono_ns, recorded.channel, kind

    def _count_refusals(self, outcome: ZnodesWritten) -> None:
        for why in dict.fromkeys(map(REFUSALS.get, outcome.errors)):
            if why is not None:
                count(self.coverage.refused_writes, why)

    def isr_changed(
        self,
        process: str,
        partition: Name,
        leader_epoch: int,
        isr: Sequence[int],
        partition_epoch: int,
    ) -> None:
        self._isrs[partition] = len(isr)

    def isr_proposed(
        self, process: str, partition: Name, leader_epoch: int, isr: Sequence[int]
    ) -> None:
        known = self._isrs.get(partition)
        if known is not None and len(isr) != known:
            count(self.coverage.isr_proposals, GROWS if len(isr) > known else SHRINKS)

    def leader_changed(
        self, process: str, partition: Name, leader: int, leader_epoch: int, isr: Sequence[int]
    ) -> None:
        self._isrs[partition] = len(isr)

    def controller_acted(self, process: str, act: int, what: str) -> None:
        point = self._point(process, what)
        count(self.coverage.acts, kind_of_act(what))
        if not self._is_quiet:
            count(self.coverage.crash_points, point)
        if self._keeps_acts:
            at_ms = self._cluster.scheduler.now_us // MS
            self.acts.setdefault(process, []).append(ControllerAct(act, at_ms, point))


def kind_of_act(what: str) -> str:
    """The kind of an act: without the names of topics and all numbers. Writes that are sent
    together have the kind of the first one."""
    return _DIGITS.sub("N", _TOPIC.sub(r"\1/T", _MORE.sub("", what)))


def _kind(recorded: Recorded) -> str:
    event = recorded.event
    match event:
        case WatchFired(path=path, change=change):
            trigger = trigger_of(path, change)
            return type(trigger).__name__ if trigger is not None else change
        case BrokerResponded():
            return "response"
        case TimerFired(timer=timer):
            return "timer " + _DIGITS.sub("N", timer)
        case _:
            return type(event).__name__.removesuffix("Received")


def _successor(successor: str) -> str:
    return _DIGITS.sub("N", successor)


def count(counts: dict[str, int], name: str) -> None:
    """Count one more of this name."""
    counts[name] = counts.get(name, 0) + 1


def add_counts(counts: dict[str, int], others: dict[str, int]) -> None:
    """Add other counts by name."""
    for name, number in others.items():
        counts[name] = counts.get(name, 0) + number
