"""How a strategy runs inputs, and how a violation ends its search."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from replay.explore.coverage import ControllerAct, Coverage
from replay.explore.invariants.invariant import Violation
from replay.explore.numbers import RandomNumbers
from replay.explore.run import DeliveryRecorder, Run, RunOutcome
from replay.world.inputs import Input
from replay.world.network import Delivery
from replay.world.scenario import Scenario


class Case(Struct, frozen=True):
    """The data that repeats a run, and how the run was made."""

    scenario: Scenario
    inputs: tuple[Input, ...]
    strategy: str
    seed: int


class ViolationFound(Exception):
    """A run has a violation."""

    def __init__(self, case: Case, violation: Violation) -> None:
        super().__init__(violation.text)
        self.case = case
        self.violation = violation


class BudgetSpent(Exception):
    """The exploration is to end."""


class TracedRun(Struct):
    """A base run: its deliveries, the acts of its controllers, the messages of each link."""

    deliveries: list[Delivery]
    acts: dict[str, list[ControllerAct]]
    sent: dict[str, int]


class Attempts:
    """Runs the inputs of one job.

    `base` makes the inputs that a strategy begins with: a random mix, or a variation of those of a
    log. `on_run` is called with the coverage of each run, and returns whether there is budget for
    another one.
    """

    def __init__(
        self,
        scenario: Scenario,
        strategy: str,
        seed: int,
        base: Callable[[Scenario, RandomNumbers], list[Input]],
        on_run: Callable[[Coverage], bool] = lambda coverage: True,
    ) -> None:
        self._base = base
        self.scenario = scenario
        self.strategy = strategy
        self.seed = seed
        self._on_run = on_run

    def inputs(self, numbers: RandomNumbers) -> list[Input]:
        """Draw the inputs of a run."""
        return self._base(self.scenario, numbers)

    def run(self, inputs: Sequence[Input]) -> None:
        """Run inputs. Raises ViolationFound, BudgetSpent."""
        self._check_outcome(Run(self.scenario, inputs).outcome(), inputs)

    def trace(self, inputs: Sequence[Input]) -> TracedRun:
        """Run inputs and return what a strategy needs to change them. Raises ViolationFound,
        BudgetSpent."""
        recorder = DeliveryRecorder()
        outcome = Run(self.scenario, inputs, keeps_acts=True, recorder=recorder).outcome()
        self._check_outcome(outcome, inputs)
        return TracedRun(recorder.deliveries, outcome.acts, outcome.sent)

    def _check_outcome(self, outcome: RunOutcome, inputs: Sequence[Input]) -> None:
        """Report the coverage of a run. Raises ViolationFound, BudgetSpent."""
        may_go_on = self._on_run(outcome.coverage)
        if outcome.violation is not None:
            case = Case(self.scenario, tuple(inputs), self.strategy, self.seed)
            raise ViolationFound(case, outcome.violation)
        if not may_go_on:
            raise BudgetSpent
