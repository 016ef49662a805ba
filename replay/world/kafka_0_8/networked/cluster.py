"""A run of a scenario with inputs in the 0.8 design, as `replay.world.cluster` is for the
controller: the same processes, but the scenario's controllers do not run.

The run is a pure function of its arguments.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from controller.core.operations import OK
from controller.kafka_0_8 import admin
from controller.kafka_0_8.configuration import BrokerConfiguration
from replay.world.broker.settings import settings_of
from replay.world.cluster_clients import Clients
from replay.world.faults import Faults
from replay.world.inputs import AdminAct, Input
from replay.world.kafka_0_8.broker_process import Step
from replay.world.kafka_0_8.networked.administration import Admin08
from replay.world.kafka_0_8.networked.broker import BrokerEnvironment, NetworkedBroker
from replay.world.kafka_0_8.networked.inputs import BrokerListAct, Input08
from replay.world.observer import Observer
from replay.world.requests import Multi
from replay.world.scenario import Scenario
from replay.world.scheduler import MS, WALL_START_MS
from replay.world.simulated_cluster import SimulatedCluster
from replay.world.zookeeper import ZooKeeper

LEADER_ELECTION_WAIT_MS: Final = 1_000
"""LeaderElectionWaitTime; the page names no value."""
RETRY_MS: Final = 100
"""The pause of a follower after a fetch without records."""


class NetworkedCluster(SimulatedCluster[NetworkedBroker]):
    """One run of a cluster without controllers. Faults of machines and log directories and slow
    disks are not modelled."""

    def __init__(
        self,
        scenario: Scenario,
        inputs: Sequence[Input08] = (),
        observer: Observer | None = None,
        *,
        leader_election_wait_ms: int = LEADER_ELECTION_WAIT_MS,
    ) -> None:
        acts = [one for one in inputs if isinstance(one, Input)]
        super().__init__(scenario, acts, observer, _start_state(scenario))
        settings = settings_of(scenario.protocol, scenario.broker_settings)
        environment = BrokerEnvironment(
            self.scheduler, self.network, settings, self.observer, scenario.zookeeper_members
        )
        self.brokers = {}
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
            self.brokers[one.id] = NetworkedBroker(configuration, environment)
        self.controllers = {}
        self.admin = Admin08(self.scheduler, self.network, lambda controller: "", scenario.seed)
        self.clients = Clients(scenario, self.scheduler, self.network, self.observer)
        Faults(self).schedule()
        for act in inputs:
            if isinstance(act, BrokerListAct) and act.at_ms < scenario.active_ms:
                self.scheduler.call_at(act.at_ms * MS, partial(self.admin.carry_out, act))
        self.scheduler.call_at(scenario.active_ms * MS, self._become_quiet)
        if any(isinstance(one, AdminAct | BrokerListAct) for one in inputs):
            self.admin.start()
        self.clients.start()
        for broker in self.brokers.values():
            broker.start()
        self.observer.begins(self)

    def histories(self) -> dict[int, list[list[Step]]]:
        """The events and commands of each run of each broker."""
        return {number: one.store.runs for number, one in self.brokers.items()}


def _start_state(scenario: Scenario) -> ZooKeeper:
    """A server after add-brokers and the creation of all topics; no broker has started."""
    server = ZooKeeper()
    session = server.create_session()
    brokers = [one.id for one in scenario.brokers]
    batches = [admin.add_brokers(brokers, ())]
    for topic in scenario.topics:
        batches.append(admin.create_topic(topic.name, dict(enumerate(topic.assignment)), brokers))
    for operations in batches:
        results = server.apply(session, Multi(tuple(operations)), WALL_START_MS).results
        assert all(one.error == OK for one in results), results
    server.end_session(session)
    return server
