"""Looks for one planted defect, in the processes of a pool.

Each worker imports the defect by its id and plants it. All defects have the same scenario and the
same list of jobs.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from msgspec import Struct

from replay.explore.coverage import Coverage
from replay.explore.generators.attempt import BudgetSpent, Case, ViolationFound
from replay.explore.generators.scenarios import BEFORE_2_7, OLD_ZOOKEEPER, generic
from replay.explore.generators.strategies import ExplorationStart, do_job
from replay.explore.invariants.invariant import Violation
from replay.explore.run import run
from replay.explore.saved import save, saved_run
from replay.explore.shrink import shrink
from replay.world.inputs import Input
from replay.world.scenario import Scenario
from tests.races.catalogue import DEFECTS
from tests.races.planting import take_reached

_PLAIN: Final = (False, False)
_START: Final = ExplorationStart(scenario=generic(standby=_PLAIN))
_START_BEFORE_2_7: Final = ExplorationStart(
    scenario=generic(protocol=BEFORE_2_7, standby=_PLAIN, zookeeper=OLD_ZOOKEEPER)
)
_START_WITH_STANDBY: Final = ExplorationStart(scenario=generic())
_START_WITH_OLD_ZOOKEEPER: Final = ExplorationStart(
    scenario=generic(standby=_PLAIN, zookeeper=OLD_ZOOKEEPER)
)
_BEFORE_2_7_EVERY: Final = 7
"""Every seventh job has the protocol with which leaders write their ISRs to ZooKeeper, and a
ZooKeeper whose watches fire once. The number has no divisor in common with that of the strategies'
turns, so each strategy is used with both."""
_OLD_ZOOKEEPER_EVERY: Final = 3
"""Every third other job has such a ZooKeeper, again with each strategy."""
_WITH_STANDBY_EVERY: Final = 5
"""Every fifth other job has a standby, again with each strategy."""


class RaceSearchResult(Struct):
    """The result of one worker, or of all.

    - `runs`, `reached`: how many runs there were, and how many had what the race needs
    - `others`: violations that the code without the defect has, too, by invariant
    - `instead`: violations by invariant that do not show the race: of an invariant that the race
      does not list, or of a run without what the race needs
    """

    runs: int = 0
    reached: int = 0
    seconds: float = 0
    case: Case | None = None
    violation: Violation | None = None
    others: dict[str, int] = {}
    instead: dict[str, int] = {}


class ShrunkCase(Struct):
    """The shrunk case."""

    case: Case
    violation: Violation
    runs: int
    is_minimal: bool


class Searchers:
    """The workers. Used as a context manager."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        context = get_context("spawn")
        self._stop = context.Event()
        self._pool = ProcessPoolExecutor(
            workers, mp_context=context, initializer=_begin, initargs=(self._stop,)
        )

    def __enter__(self) -> "Searchers":
        # The workers import the code before the clock starts.
        list(self._pool.map(_warm_up, range(self._workers)))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()

    def search(self, defect: str, seed: int, seconds: float) -> RaceSearchResult:
        """Explore until the defect is found, at most for `seconds` of each worker's processor time,
        which depends less on the machine's other work than elapsed time."""
        self._stop.clear()
        tasks = [
            self._pool.submit(_search, defect, seed, first, self._workers, seconds)
            for first in range(self._workers)
        ]
        total = RaceSearchResult()
        for one in (task.result() for task in tasks):
            total.runs += one.runs
            total.reached += one.reached
            for counts, counted in ((total.others, one.others), (total.instead, one.instead)):
                for name, count in counted.items():
                    counts[name] = counts.get(name, 0) + count
            if one.violation is not None and (
                total.violation is None or one.seconds < total.seconds
            ):
                total.case, total.violation, total.seconds = one.case, one.violation, one.seconds
        if total.violation is None:
            total.seconds = seconds
        return total

    def shrink(self, defect: str, case: Case, invariant: str, seconds: float) -> ShrunkCase:
        """Shrink a case in one worker."""
        return self._pool.submit(_shrink, defect, case, invariant, seconds).result()

    def save(self, defect: str, case: Case, folder: Path) -> None:
        """Save a run in a new folder, with the logs of the controllers that have the defect. Raises
        ReplayError, LogError."""
        self._pool.submit(_save, defect, case, folder).result()


# In a worker --------------------------------------------------------------------------------------

_stop: Event


def _begin(stop: Event) -> None:
    global _stop
    _stop = stop


def _warm_up(_: int) -> None:
    time.sleep(0.5)


def _search(defect: str, seed: int, first: int, step: int, seconds: float) -> RaceSearchResult:
    result, began, has_reached = RaceSearchResult(), time.process_time(), False

    def may_go_on() -> bool:
        return time.process_time() - began < seconds and not _stop.is_set()

    def on_run(_: Coverage) -> bool:
        nonlocal has_reached
        has_reached = take_reached()
        result.runs += 1
        result.reached += has_reached
        return may_go_on()

    job = first
    while True:
        found = _do_job(defect, seed, job, on_run)
        job += step
        if isinstance(found, ViolationFound) and confirm(
            defect, found, result, has_reached=has_reached
        ):
            result.case, result.violation = found.case, found.violation
            _stop.set()
            break
        if isinstance(found, BudgetSpent) or not may_go_on():
            break
    result.seconds = time.process_time() - began
    return result


def _do_job(
    defect: str, seed: int, job: int, on_run: Callable[[Coverage], bool]
) -> ViolationFound | BudgetSpent | None:
    start = _start_of(job)
    with DEFECTS[defect].plant():
        try:
            do_job(start, seed, job, on_run)
        except (ViolationFound, BudgetSpent) as end:
            return end
    return None


def _start_of(job: int) -> ExplorationStart:
    if job % _BEFORE_2_7_EVERY == _BEFORE_2_7_EVERY - 1:
        return _START_BEFORE_2_7
    if job % _WITH_STANDBY_EVERY == _WITH_STANDBY_EVERY - 1:
        return _START_WITH_STANDBY
    if job % _OLD_ZOOKEEPER_EVERY == _OLD_ZOOKEEPER_EVERY - 1:
        return _START_WITH_OLD_ZOOKEEPER
    return _START


def confirm(
    defect: str, found: ViolationFound, result: RaceSearchResult, *, has_reached: bool
) -> bool:
    """Confirm that a violation shows the race: it is of an invariant that the race lists, the run
    has what the race needs, and the code without the defect does not break the same invariant.
    Otherwise count the violation in `result`, and return False."""
    name = found.violation.invariant
    right = run(found.case.scenario, found.case.inputs).violation
    if right is not None and right.invariant == name:
        result.others[name] = result.others.get(name, 0) + 1
        return False
    if name in DEFECTS[defect].invariants and has_reached:
        return True
    result.instead[name] = result.instead.get(name, 0) + 1
    return False


def _shrink(defect: str, case: Case, invariant: str, seconds: float) -> ShrunkCase:
    def violation_of(scenario: Scenario, inputs: Sequence[Input]) -> Violation | None:
        with DEFECTS[defect].plant():
            wrong = run(scenario, inputs).violation
            has_reached = take_reached()
        if wrong is None or wrong.invariant != invariant or not has_reached:
            return None
        right = run(scenario, inputs).violation
        return wrong if right is None or right.invariant != invariant else None

    shrunk = shrink(
        case.scenario,
        case.inputs,
        lambda scenario, inputs: violation_of(scenario, inputs) is not None,
        seconds=seconds,
    )
    violation = violation_of(shrunk.scenario, shrunk.inputs)
    assert violation is not None
    smaller = Case(shrunk.scenario, shrunk.inputs, case.strategy, case.seed)
    return ShrunkCase(smaller, violation, shrunk.runs, shrunk.is_minimal)


def _save(defect: str, case: Case, folder: Path) -> None:
    with DEFECTS[defect].plant():
        run = saved_run(
            case.scenario, case.inputs, seed=case.seed, strategy=case.strategy, before=0
        )
        save(run, folder)
