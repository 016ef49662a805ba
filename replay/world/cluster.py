"""A whole cluster in virtual time: ZooKeeper, brokers, clients, administrators and controllers.

`Cluster(scenario, inputs).run()` is a pure function of its arguments: the same ones give the same
events, byte for byte, with any version of Python and any hash seed.
"""

from collections.abc import Sequence
from typing import Final

from controller.core.commands import Issued
from controller.core.events import Recorded
from replay.world.inputs import Input
from replay.world.network import Network
from replay.world.observer import Observer
from replay.world.scenario import Scenario
from replay.world.scheduler import Scheduler

START_NS: Final = 1_700_000_000_000_000_000
"""The wall clock at the beginning of a run, in nanoseconds."""

History = list[tuple[Recorded, list[Issued]]]


class Cluster:
    """One run.

    - `scheduler`, `network`: the clock, and the messages
    - `zookeeper`: the ZooKeeper process
    - `brokers`: by id
    - `controllers`: by the name of the process
    - `producers`, `consumers`, `admin`: clients
    """

    def __init__(
        self, scenario: Scenario, inputs: Sequence[Input] = (), observer: Observer | None = None
    ) -> None:
        self.scenario = scenario
        self.inputs = tuple(inputs)
        self.observer = observer or Observer()
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler)
        self.is_quiet = False

    def step(self) -> bool:
        """Run one scheduled action. False: the run is over."""
        raise NotImplementedError

    def run(self) -> None:
        """Run to the end."""
        while self.step():
            pass

    def histories(self) -> dict[str, list[History]]:
        """The events and commands of each run of each controller."""
        raise NotImplementedError

    def digest(self) -> str:
        """A hash of all histories and of the znodes at the end."""
        raise NotImplementedError
