"""The common base of the simulated clusters of both designs."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from controller.core.releases import release_named
from replay.names import is_broker
from replay.world.admin import Admin
from replay.world.broker.producer_ids import Route
from replay.world.cluster_clients import Clients
from replay.world.controller_process import ControllerProcess
from replay.world.ensemble.ensemble import Ensemble
from replay.world.inputs import Input
from replay.world.network import Network
from replay.world.observer import Observer
from replay.world.processes import id_in
from replay.world.scenario import Scenario
from replay.world.scheduler import MS, Scheduler
from replay.world.zookeeper import ZooKeeper

_FIRST_BULK_ZOOKEEPER: Final = (3, 6)
"""The first release with bulk reads and persistent watches."""


class Pausable(Protocol):
    """A process that can be paused."""

    def pause(self) -> None:
        """Stop the process, as SIGSTOP does."""

    def resume(self) -> None:
        """Continue the process."""


class SimulatedBroker(Pausable, Protocol):
    """A broker over all its runs, and what can happen to it."""

    @property
    def is_running(self) -> bool:
        """Whether the process exists."""

    def start(self) -> None:
        """Start the process."""

    def crash(self, *, loses_unflushed: bool) -> None:
        """Kill the process; records that were not flushed may be lost."""

    def shut_down(
        self, *, restart_after_us: int | None, closes_after_us: int = 0, lasts_us: int = 0
    ) -> None:
        """Shut down normally, and perhaps start again."""

    def slow_disk(self, write_us: int) -> None:
        """From now on, a write takes this time."""

    def fail_log_directory(
        self, names: Iterable[tuple[str, int]] | None, *, survives_restart: bool = False
    ) -> None:
        """The log directory of these partitions fails; None: that of all."""

    def repair_log_directories(self) -> None:
        """Replace the disks of failed log directories."""

    def allocate_producer_ids(self, route: Route) -> None:
        """Request a block of producer ids."""


AnyBroker = TypeVar("AnyBroker", bound=SimulatedBroker)


class SimulatedCluster(ABC, Generic[AnyBroker]):
    """One run.

    - `scheduler`, `network`: the clock, and the messages
    - `zookeeper`: the ZooKeeper process
    - `brokers`: by id
    - `controllers`: by the name of the process
    - `clients`: producers and consumers
    - `admin`: administrators
    """

    brokers: dict[int, AnyBroker]
    controllers: dict[str, ControllerProcess]
    clients: Clients
    admin: Admin

    def __init__(
        self,
        scenario: Scenario,
        inputs: Sequence[Input],
        observer: Observer | None,
        start_state: ZooKeeper,
    ) -> None:
        self.scenario = scenario
        self.inputs = tuple(inputs)
        self.observer = observer or Observer()
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler)
        self.is_quiet = False
        self._end_us = scenario.end_ms * MS
        self.zookeeper = Ensemble(
            self.scheduler,
            self.network,
            start_state,
            members=scenario.zookeeper_members,
            is_old=release_named(scenario.zookeeper) < _FIRST_BULK_ZOOKEEPER,
        )

    def step(self) -> bool:
        """Run one scheduled action. False: the run is over."""
        if not self.scheduler.step(self._end_us):
            return False
        if self.is_quiet:
            self.observer.stepped()
        return True

    def run(self) -> None:
        """Run to the end."""
        while self.step():
            pass

    @abstractmethod
    def histories(self) -> Mapping[Any, Sequence[Any]]:
        """The events and commands of each run of each process that has a fold."""

    def digest(self) -> str:
        """A hash of all histories, of the znodes at the end, and of the time."""
        state = [repr(one) for one in self.zookeeper.state.dump().items()]
        content = (self.scheduler.now_us, self.histories(), state)
        return hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()

    def broker_of(self, process: str) -> AnyBroker | None:
        """The broker whose process has this name."""
        return self.brokers.get(id_in(process)) if is_broker(process) else None

    def pausable(self, process: str) -> Pausable | None:
        """A process that can be paused, if there is one of this name."""
        found = self.broker_of(process) or self.controllers.get(process)
        return found or self.clients.pausable(process)

    def start_controller(self, process: str) -> None:
        """Start a controller, if it does not run; a stock one only if its broker runs."""
        controller = self.controllers.get(process)
        if controller is None:
            return
        broker = self.brokers.get(controller.settings.configuration.broker_id)
        if broker is None or broker.is_running:
            controller.start()

    def _become_quiet(self) -> None:
        """All faults end. From now on the cluster must recover."""
        self.is_quiet = True
        self.zookeeper.end_faults()
        for controller in self.controllers.values():
            controller.end_faults()
        self.observer.quiet_begins()
