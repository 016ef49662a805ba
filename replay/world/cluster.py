"""A whole cluster in virtual time: ZooKeeper, brokers, clients, administrators and controllers.

`Cluster(scenario, inputs).run()` is a pure function of its arguments: the same ones give the same
events, byte for byte, with any version of Python and any hash seed.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from controller.core import znodes
from controller.core.configuration import Configuration
from controller.core.operations import Check
from controller.core.releases import Release, release_named
from controller.core.topic_configs import MIN_INSYNC_REPLICAS, least_in_sync
from controller.core.values import Endpoint
from replay.parsed_znodes import parsed_config
from replay.world.admin import Admin
from replay.world.broker.broker import Broker
from replay.world.broker.run import BrokerEnvironment
from replay.world.broker.settings import LISTENER, settings_of
from replay.world.cluster_clients import Clients
from replay.world.controller_process import ControllerProcess
from replay.world.controller_run import History, RunSettings
from replay.world.faults import Faults
from replay.world.inputs import Input
from replay.world.observer import Observer
from replay.world.processes import refold_name, stock_name
from replay.world.requests import Multi, Write
from replay.world.scenario import ControllerSpec, Scenario, SlowReplica
from replay.world.scheduler import MS
from replay.world.simulated_cluster import SimulatedCluster
from replay.world.start_state import start_state

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


class Cluster(SimulatedCluster[Broker]):
    """One run of a cluster with controllers."""

    def __init__(
        self, scenario: Scenario, inputs: Sequence[Input] = (), observer: Observer | None = None
    ) -> None:
        super().__init__(scenario, inputs, observer, start_state(scenario))
        if type(self.observer).delivered is not Observer.delivered:
            self.network.observe = self.observer.delivered
        self.zookeeper.before_write = self._before_write
        self.zookeeper.after_write = self._after_write
        self.brokers = self._make_brokers()
        self.controllers = {one.process: self._make_controller(one) for one in scenario.controllers}
        self.admin = Admin(self.scheduler, self.network, self.process_of, scenario.seed)
        self.clients = Clients(scenario, self.scheduler, self.network, self.observer)
        self._min_isr: dict[str, tuple[int, int | None]] = {}
        self._faults = Faults(self)
        self._faults.schedule()
        for replica in scenario.slow_replicas:
            self._schedule_slow(replica)
        self.scheduler.call_at(scenario.active_ms * MS, self._become_quiet)
        self._start()
        self.observer.begins(self)

    def process_of(self, controller: int) -> str:
        """The process of a controller by its id: a broker's, or a refold."""
        return stock_name(controller) if controller in self.brokers else refold_name(controller)

    def histories(self) -> dict[str, list[History]]:
        """The events and commands of each run of each controller."""
        return {name: one.histories for name, one in self.controllers.items()}

    # The parts

    def _make_brokers(self) -> dict[int, Broker]:
        scenario = self.scenario
        environment = BrokerEnvironment(
            self.scheduler,
            self.network,
            settings_of(scenario.protocol, scenario.broker_settings),
            self.observer,
            self.process_of,
            self._topic_min_isr,
            self._broker_started,
        )
        brokers = {one.id: Broker(one, environment) for one in scenario.brokers}
        for broker in brokers.values():
            broker.on_end = partial(self._broker_ended, broker.id)
        return brokers

    def _make_controller(self, spec: ControllerSpec) -> ControllerProcess:
        configuration = self._configuration(spec.configuration)
        settings = RunSettings(
            spec.process,
            configuration,
            spec.session_timeout_ms,
            self.scenario.zookeeper_members,
            _versions_of(release_named(self.scenario.protocol)),
        )
        return ControllerProcess(
            self.scheduler,
            self.network,
            settings,
            self.scenario.seed,
            self.observer,
            restarts=spec.restarts,
            holds_role=lambda: self._controller_id() == configuration.broker_id,
        )

    def _configuration(self, given: Configuration) -> Configuration:
        """With the scenario's protocol version, and an address by which brokers find it."""
        address = Endpoint(LISTENER, "PLAINTEXT", f"refold{given.broker_id}", 9092)
        return msgspec.structs.replace(
            given,
            inter_broker_protocol_version=self.scenario.protocol,
            endpoints=() if given.is_broker else given.endpoints or (address,),
        )

    def _start(self) -> None:
        self.admin.start()
        self.clients.start()
        for broker in self.brokers.values():
            broker.start()
        for spec in self.scenario.controllers:
            if spec.runs and not spec.configuration.is_broker:
                self.controllers[spec.process].start(spec.starts_after_ms * MS)

    def _schedule_slow(self, slow: SlowReplica) -> None:
        broker, name = self.brokers.get(slow.broker), (slow.topic, slow.partition)
        until_ms = min(slow.until_ms or self.scenario.active_ms, self.scenario.active_ms)
        if broker is not None and slow.from_ms < until_ms:
            begin, end = (partial(broker.slow_replica, name, is_slow=one) for one in (True, False))
            self.scheduler.call_at(slow.from_ms * MS, begin)
            self.scheduler.call_at(until_ms * MS, end)

    # What the parts ask for

    def _broker_started(self, broker: int) -> None:
        """A broker registers, then starts its controller (KafkaServer.startup)."""
        process = self.process_of(broker)
        for spec in self.scenario.controllers:
            if spec.process == process and spec.runs:
                self.controllers[process].start(spec.starts_after_ms * MS)

    def _broker_ended(self, broker: int) -> None:
        """A stock controller ends with its broker."""
        stock = self.controllers.get(self.process_of(broker))
        if stock is not None:
            stock.kill("broker")

    def _before_write(self, process: str, request: Write | Multi) -> bool:
        controller = self.controllers.get(process)
        if controller is None:
            return True
        return controller.begin_act(_text_of(request))

    def _after_write(self, process: str) -> None:
        controller = self.controllers.get(process)
        if controller is not None:
            controller.end_act()

    def _controller_id(self) -> int | None:
        found = self.zookeeper.state.find(znodes.CONTROLLER)
        content = znodes.read_controller(found.data) if found is not None else None
        return content.brokerid if content is not None else None

    def _topic_min_isr(self, topic: str) -> int | None:
        """min.insync.replicas of a topic as its znode says; brokers know it at once."""
        path = znodes.topic_config_path(topic)
        found = self.zookeeper.state.find(path)
        if found is None:
            return None
        known = self._min_isr.get(topic)
        if known is None or known[0] != found.mzxid:
            configured = parsed_config(path, found.data).get(MIN_INSYNC_REPLICAS)
            value = least_in_sync([configured]) if configured is not None else None
            known = self._min_isr[topic] = (found.mzxid, value)
        return known[1]


def _text_of(request: Write | Multi) -> str:
    """A write for people."""
    operations = request.operations if isinstance(request, Multi) else (request,)
    writes = [one for one in operations if not isinstance(one, Check)]
    if not writes:
        return "check"
    more = f" and {len(writes) - 1} more" if len(writes) > 1 else ""
    return f"{type(writes[0]).__name__} {writes[0].path}{more}"


def _versions_of(release: Release) -> tuple[tuple[int, int], ...]:
    """The API versions of brokers of a release, as far as a controller looks at them."""
    highest: dict[int, int] = {}
    for since, api_key, version in _API_VERSIONS:
        if release >= since:
            highest[api_key] = max(version, highest.get(api_key, 0))
    return tuple(sorted(highest.items()))
