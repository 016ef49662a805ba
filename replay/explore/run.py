"""One run: a pure function of a scenario and inputs."""

import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from replay.explore.coverage import ControllerAct, Coverage, CoverageObserver
from replay.explore.invariants.invariant import Invariant, Violation
from replay.explore.monitor import Monitor
from replay.garbage_collection import rare_garbage_collection
from replay.world.cluster import Cluster
from replay.world.inputs import Input
from replay.world.network import Delivery
from replay.world.observer import Observer
from replay.world.scenario import Scenario
from replay.world.scheduler import SECOND
from replay.world.simulated_cluster import SimulatedCluster

NO_EXCEPTION: Final = "no-exception"
ENDS: Final = "ends"

_STEPS_OF_A_SECOND_MAX: Final = 100_000
"""More steps in one virtual second are an endless loop."""


class RunOutcome(Struct):
    """The result of a run.

    - `violation`: the first one, None: none
    - `unmet`: what an invariant about recovery still lacked when the run ended
    - `not_checked`: the invariants about recovery that were not checked to the end
    - `sent`: how many messages each link carried
    - `digest`: of all histories and znodes; empty unless asked for
    """

    violation: Violation | None
    simulated_us: int
    coverage: Coverage
    not_checked: list[str]
    sent: dict[str, int]
    digest: str = ""
    acts: dict[str, list[ControllerAct]] = {}


def names_of(invariants: Iterable[type[Invariant]]) -> list[str]:
    """The names of these invariants, and of those that hold in each run."""
    return [*(one.NAME for one in invariants), NO_EXCEPTION, ENDS]


def play(
    build: Callable[[], SimulatedCluster[Any]], monitor: Monitor, *, to_end: bool = False
) -> str:
    """Run a cluster until the monitor needs no more of it; with `to_end`, to the end of the
    scenario. Returns the exception that ended the run, which is a violation; "": none."""
    cluster: SimulatedCluster[Any] | None = None
    second_ends_us, steps = SECOND, 0

    def violate(invariant: str, subject: str, text: str) -> None:
        now = cluster.scheduler.now_us if cluster is not None else 0
        if monitor.violation is None:
            monitor.violation = Violation(invariant, now, subject, text)

    try:
        cluster = build()
        scheduler, step = cluster.scheduler, cluster.step
        while (to_end or not monitor.is_over) and step():
            steps += 1
            if scheduler.now_us >= second_ends_us:
                second_ends_us, steps = (scheduler.now_us // SECOND + 1) * SECOND, 1
            elif steps > _STEPS_OF_A_SECOND_MAX:
                violate(ENDS, "the simulation", f"{steps} steps in one virtual second")
        if cluster.is_quiet and not monitor.is_over:
            monitor.poll()
    except Exception as error:
        # Any exception of the code under test is a result, not a failure of the explorer.
        text = _summary(error)
        violate(NO_EXCEPTION, "the code", text)
        return text
    return ""


class DeliveryRecorder(Observer):
    """An observer that keeps the deliveries of a run."""

    def __init__(self, limit: int = 100_000) -> None:
        self.deliveries: list[Delivery] = []
        self._limit = limit

    def delivered(self, delivery: Delivery) -> None:
        if len(self.deliveries) < self._limit:
            self.deliveries.append(delivery)


class Run:
    """A run that is done, with its cluster."""

    def __init__(
        self,
        scenario: Scenario,
        inputs: Sequence[Input],
        *,
        keeps_acts: bool = False,
        recorder: DeliveryRecorder | None = None,
        to_end: bool = False,
    ) -> None:
        self._observer = (
            CoverageObserver(keeps_acts=keeps_acts)
            if recorder is None
            else _RecordingCoverage(recorder, keeps_acts=keeps_acts)
        )
        self._monitor = Monitor(self._observer)
        self.cluster: Cluster | None = None

        def build() -> Cluster:
            self.cluster = Cluster(scenario, inputs, self._monitor)
            return self.cluster

        with rare_garbage_collection():
            self.error = play(build, self._monitor, to_end=to_end)

    def outcome(self, *, with_digest: bool = False) -> RunOutcome:
        """The result as a value that another process can be sent."""
        cluster = self.cluster
        not_checked = [] if self._monitor.violation else self._monitor.not_checked()
        coverage = structs.replace(
            self._observer.coverage,
            simulated_us=cluster.scheduler.now_us if cluster is not None else 0,
            recovered=int(self._monitor.violation is None and not not_checked),
            not_checked=dict.fromkeys(not_checked, 1),
        )
        return RunOutcome(
            self._monitor.violation,
            coverage.simulated_us,
            coverage,
            not_checked,
            cluster.network.sent() if cluster is not None else {},
            cluster.digest() if with_digest and cluster is not None else "",
            self._observer.acts,
        )


def run(scenario: Scenario, inputs: Sequence[Input]) -> RunOutcome:
    """Run a scenario with inputs up to the first violation, or until the cluster has recovered."""
    return Run(scenario, inputs).outcome()


def breaks(scenario: Scenario, inputs: Sequence[Input], invariant: str) -> Violation | None:
    """The violation of this invariant, if the run has it; None for any other result."""
    found = run(scenario, inputs).violation
    return found if found is not None and found.invariant == invariant else None


class _RecordingCoverage(CoverageObserver):
    """A coverage observer that passes deliveries on to a recorder."""

    def __init__(self, recorder: DeliveryRecorder, *, keeps_acts: bool) -> None:
        super().__init__(keeps_acts=keeps_acts)
        self._recorder = recorder

    def delivered(self, delivery: Delivery) -> None:
        self._recorder.delivered(delivery)


def _summary(error: Exception) -> str:
    """The exception and where it was raised, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    file = last.filename.replace("\\", "/").split("/")
    folders = [one for one in ("controller", "replay") if one in file]
    begin = min((file.index(one) for one in folders), default=len(file) - 1)
    place = f"{'/'.join(file[begin:])}, {last.name}"
    return f"{type(error).__name__}: {error} ({place})"
