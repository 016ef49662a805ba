"""One run of the 0.8 design: a pure function of a scenario and inputs."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from controller.kafka_0_8 import rules
from replay.explore.coverage import add_counts, count
from replay.explore.invariants.invariant import Violation
from replay.explore.kafka_0_8.invariants import ALWAYS, RECOVERY
from replay.explore.kafka_0_8.monitor import Monitor08
from replay.explore.run import names_of, play
from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
from replay.world.kafka_0_8.networked.inputs import Input08
from replay.world.scenario import Scenario

RULES: Final = tuple(sorted(value for name, value in vars(rules).items() if name.isupper()))
"""The rules that are reasons of commands."""


class Coverage(Struct):
    """The coverage of all runs, added up. `rules`: how many commands had each rule as their reason.
    `inputs`: the inputs of all runs by kind. `recovered`: the runs in which all invariants about
    recovery held at the end."""

    runs: int = 0
    simulated_us: int = 0
    events: int = 0
    recovered: int = 0
    rules: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Coverage") -> None:
        """Add the counts of other runs."""
        self.runs += other.runs
        self.simulated_us += other.simulated_us
        self.events += other.events
        self.recovered += other.recovered
        add_counts(self.rules, other.rules)
        add_counts(self.inputs, other.inputs)


class Run08:
    """A run that is done, with its cluster. `violation`: the first one, or the first loss of a
    record by a known flaw of the design; `is_flaw`: it is the latter."""

    def __init__(self, scenario: Scenario, inputs: Sequence[Input08]) -> None:
        monitor = Monitor08()
        self._monitor = monitor
        self.cluster: NetworkedCluster | None = None
        self._inputs = inputs

        def build() -> NetworkedCluster:
            self.cluster = NetworkedCluster(scenario, inputs, monitor)
            return self.cluster

        play(build, monitor)
        self.violation: Violation | None = monitor.violation or monitor.flaw
        self.is_flaw = monitor.violation is None and monitor.flaw is not None

    @property
    def digest(self) -> str:
        """The digest of all events, commands and znodes."""
        return self.cluster.digest() if self.cluster is not None else ""

    def coverage(self) -> Coverage:
        """The coverage of the run."""
        found = Coverage(runs=1, recovered=int(self._monitor.is_settled))
        for one in self._inputs:
            count(found.inputs, type(one).__name__)
        if self.cluster is None:
            return found
        found.simulated_us = self.cluster.scheduler.now_us
        for broker in self.cluster.brokers.values():
            for history in broker.store.runs:
                found.events += len(history)
                for _, issued in history:
                    for command in issued:
                        count(found.rules, command.reason.rule)
        return found


def never_issued(coverage: Coverage) -> list[str]:
    """The ids of the rules that were the reason of no command, such as "S-10"."""
    return [one.partition(" ")[0] for one in RULES if one not in coverage.rules]


def invariant_names() -> list[str]:
    """The names of all invariants."""
    return names_of((*ALWAYS, *RECOVERY))


def breaks(scenario: Scenario, inputs: Sequence[Input08], invariant: str) -> bool:
    """Whether a run breaks this invariant, or has this flaw."""
    found = Run08(scenario, inputs).violation
    return found is not None and found.invariant == invariant
