"""A run of a scenario with inputs in the 0.8 design, as `replay.world.cluster` is for the
controller: the same processes, but the scenario's controllers do not run.

The run is a pure function of its arguments.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from controller.core.operations import OK
from controller.core.releases import release_named
from controller.kafka_0_8 import admin
from controller.kafka_0_8.configuration import BrokerConfiguration
from replay.world.broker.settings import settings_of
from replay.world.cluster import FIRST_BULK_ZOOKEEPER
from replay.world.cluster_clients import Clients
from replay.world.controller_process import ControllerProcess
from replay.world.ensemble.ensemble import START_MS, Ensemble
from replay.world.faults import Faults, Pausable
from replay.world.inputs import AdminAct, Input
from replay.world.kafka_0_8.networked.administration import DesignAdmin
from replay.world.kafka_0_8.networked.broker import NetworkedBroker, World
from replay.world.kafka_0_8.networked.inputs import BrokersAct, DesignInput
from replay.world.network import Network
from replay.world.observer import Observer
from replay.world.requests import Multi
from replay.world.scenario import Scenario
from replay.world.scheduler import MS, Scheduler
from replay.world.zookeeper import ZooKeeper

LEADER_ELECTION_WAIT_MS: Final = 1_000
"""LeaderElectionWaitTime; the page names no value."""
RETRY_MS: Final = 100
"""The pause of a follower after a fetch without records."""


class NetworkedCluster:
    """One run. Faults of machines and log directories and slow disks are not modelled.

    - `scheduler`, `network`: the clock, and the messages
    - `zookeeper`: the ZooKeeper process
    - `brokers`: by id
    - `clients`: producers and consumers
    - `admin`: administrators
    """

    def __init__(
        self,
        scenario: Scenario,
        inputs: Sequence[DesignInput] = (),
        observer: Observer | None = None,
        *,
        leader_election_wait_ms: int = LEADER_ELECTION_WAIT_MS,
    ) -> None:
        self.scenario = scenario
        self.inputs = tuple(one for one in inputs if isinstance(one, Input))
        self.observer = observer or Observer()
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler)
        self.is_quiet = False
        self.zookeeper = Ensemble(
            self.scheduler,
            self.network,
            _start_state(scenario),
            members=scenario.zookeeper_members,
            is_old=release_named(scenario.zookeeper) < FIRST_BULK_ZOOKEEPER,
        )
        settings = settings_of(scenario.protocol, scenario.broker_settings)
        world = World(
            self.scheduler, self.network, settings, self.observer, scenario.zookeeper_members
        )
        self.brokers: dict[int, NetworkedBroker] = {}
        for one in scenario.brokers:
            configuration = BrokerConfiguration(
                broker_id=one.id,
                host=f"host{one.id}",
                port=9092,
                leader_election_wait_time_ms=leader_election_wait_ms,
                keep_in_sync_time_ms=settings.lag_us // MS,
                checkpoint_interval_ms=settings.checkpoint_us // MS,
                retry_ms=RETRY_MS,
            )
            self.brokers[one.id] = NetworkedBroker(configuration, world)
        self.controllers: Mapping[str, ControllerProcess] = {}
        self.admin = DesignAdmin(self.scheduler, self.network, lambda controller: "", scenario.seed)
        self.clients = Clients(scenario, self.scheduler, self.network, self.observer)
        self._end_us = scenario.end_ms * MS
        Faults(self).schedule()
        for act in inputs:
            if isinstance(act, BrokersAct) and act.at_ms < scenario.active_ms:
                self.scheduler.at(act.at_ms * MS, partial(self.admin.carry_out, act))
        self.scheduler.at(scenario.active_ms * MS, self._become_quiet)
        if any(isinstance(one, AdminAct | BrokersAct) for one in inputs):
            self.admin.start()
        self.clients.start()
        for broker in self.brokers.values():
            broker.start()
        self.observer.begins(self)

    def step(self) -> bool:
        """Run one scheduled action. False: the run is over."""
        if not self.scheduler.step(self._end_us):
            return False
        if self.is_quiet:
            self.observer.stepped()
        return True

    def digest(self) -> str:
        """A hash of all histories, of the znodes at the end, and of the time."""
        state = [repr(one) for one in self.zookeeper.state.dump().items()]
        histories = {number: one.store.runs for number, one in self.brokers.items()}
        content = (self.scheduler.now_us, histories, state)
        return hashlib.sha256(msgspec.msgpack.encode(content)).hexdigest()

    def _become_quiet(self) -> None:
        self.is_quiet = True
        self.zookeeper.end_faults()
        self.observer.quiet_begins()

    def broker_of(self, process: str) -> NetworkedBroker | None:
        """The broker whose process has this name."""
        kind, _, number = process.rpartition(" ")
        return self.brokers.get(int(number)) if kind == "broker" else None

    def pausable(self, process: str) -> Pausable | None:
        """A process that can be paused, if there is one of this name."""
        return self.broker_of(process) or self.clients.pausable(process)

    def start_controller(self, process: str) -> None:
        """There is none."""


def _start_state(scenario: Scenario) -> ZooKeeper:
    """A server after add-brokers and the creation of all topics; no broker has started."""
    server = ZooKeeper()
    session = server.create_session()
    brokers = [one.id for one in scenario.brokers]
    batches = [admin.add_brokers(brokers, ())]
    for topic in scenario.topics:
        batches.append(admin.create_topic(topic.name, dict(enumerate(topic.assignment)), brokers))
    for operations in batches:
        results = server.apply(session, Multi(tuple(operations)), START_MS).results
        assert all(one.error == OK for one in results), results
    server.end_session(session)
    return server
