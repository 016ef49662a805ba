"""The definition of a planted defect."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from replay.world.inputs import Input
from replay.world.scenario import Scenario
from tests.races.clusters import cluster
from tests.races.planting import Replacement, planted

Directed = Callable[[], tuple[Scenario, tuple[Input, ...]]]
"""Returns a scenario and inputs with which the defect breaks an invariant."""


def generic_with(*inputs: Input) -> Directed:
    """A directed run of the generic cluster."""
    return lambda: (cluster(), inputs)


@dataclass(frozen=True, kw_only=True)
class Defect:
    """A race, and the code that has it.

    - `id`: the race in docs/races.md, or the name of a race of KIP-236
    - `source`: the issues in which it was found
    - `planted`: what the replaced code does, in one sentence
    - `needs`: what a run must contain. Then the planted code calls `reach`, so that a race that is
      not found shows whether the generator or the invariants are to blame.
    - `invariants`: the names of those that may be broken
    - `directed`: a short run that breaks one of them; None: there is none yet
    """

    id: str
    source: str
    planted: str
    needs: str
    invariants: tuple[str, ...]
    replacements: tuple[Replacement, ...]
    directed: Directed | None = None

    def plant(self) -> AbstractContextManager[None]:
        """Replace the code until the end of the `with` block, in this process."""
        return planted(self.replacements)
