"""A whole cluster in virtual time: ZooKeeper, brokers, clients, administrators and controllers.

`Cluster(scenario, inputs).run()` is a pure function of its arguments: the same ones give the same
events, byte for byte, with any version of Python and any hash seed.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from replay.world.controller_run import History
from replay.world.faults import Faults
from replay.world.inputs import Input
from replay.world.network import Network
from replay.world.observer import Observer
from replay.world.scenario import Scenario
from replay.world.scheduler import MS, Scheduler

_API_VERSIONS: Final = (
    ((3, 9), 1, 17),
    ((3, 8), 0, 11),
    ((3, 7), 1, 16),
    ((3, 6), 24, 4),
    ((3, 5), 1, 15),
    ((3, 4), 6, 8),
    ((3, 3), 56, 2),
    ((3, 2), 11, 9),
    ((3, 1), 1, 13),
    ((3, 0), 9, 8),
    ((2, 8), 0, 9),
    ((2, 7), 1, 12),
    ((2, 6), 49, 0),
    ((2, 5), 11, 7),
)
"""The API version by which a controller recognises a release (core/releases.py)."""


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
        self.network.observe = self.observer.delivered
        self.is_quiet = False
        self._end_us = scenario.end_ms * MS
        self._put_together()
        self._faults = Faults(self)
        self._schedule_inputs()
        self.observer.begins(self)

    def step(self) -> bool:
        """Run one scheduled action. False: the run is over."""
        if not self.scheduler.step(self._end_us):
            return False
        self.observer.stepped()
        return True

    def run(self) -> None:
        """Run to the end."""
        while self.step():
            pass

    def process_of(self, controller: int) -> str:
        """The process of a controller by its id: a broker's, or a refold."""
        return f"stock {controller}" if controller in self.brokers else f"refold {controller}"

    def histories(self) -> dict[str, list[History]]:
        """The events and commands of each run of each controller."""
        return {name: one.histories for name, one in self.controllers.items()}

    def digest(self) -> str:
        """A hash of all histories, of the znodes at the end, and of the time."""
        state = self.zookeeper.state.dump()
        content = (self.scheduler.now_us, self.histories(), [repr(one) for one in state.items()])
        return hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()
