"""A world with ZooKeeper, one controller, and brokers that answer each request without error."""

import msgspec

from controller.core import znodes
from controller.core.configuration import Configuration
from controller.core.events import WatchFired
from controller.core.operations import Create
from controller.core.values import Endpoint as Address
from replay.world.broker_channels import SOCKET_TIMEOUT_US
from replay.world.controller_process import ControllerProcess
from replay.world.controller_run import RunSettings
from replay.world.ensemble.ensemble import Ensemble
from replay.world.messages import ControlRequest, ControlResponse
from replay.world.network import Connection, Message, Network
from replay.world.observer import Observer
from replay.world.scenario import BrokerSpec, Scenario, TopicSpec
from replay.world.scheduler import SECOND, Scheduler
from replay.world.start_state import start_state
from replay.world.zookeeper_client import ProcessSession

ID = 100
TIME_OUT_S = SOCKET_TIMEOUT_US // SECOND
ADDRESS = Address("PLAINTEXT", "PLAINTEXT", "refold100", 9092)
TOPIC = TopicSpec("t", ((1, 2), (2, 1), (1, 2)))
CONFIGURATION = Configuration(broker_id=ID, endpoints=(ADDRESS,), kip_236_enable=True)


class ObedientBroker:
    """A broker that registers, and answers each control request without error."""

    def __init__(self, world: "SmallWorld", number: int) -> None:
        self.world = world
        self.number = number
        self.process = f"broker {number}"
        self.requests: list[ControlRequest] = []
        self.answers = True
        self.zookeeper = ProcessSession(world.scheduler, world.network, self.process, self)

    def start(self) -> None:
        """Register and listen."""
        self.zookeeper.start()
        self.world.network.listen(self.process, lambda _: self)

    def crash(self) -> None:
        """End without closing the session."""
        self.zookeeper.crash()
        self.world.network.end_process(self.process)

    def session_started(self, session: int) -> None:
        """Register."""
        data = {
            "version": 5,
            "host": f"host{self.number}",
            "port": 9092,
            "endpoints": [f"PLAINTEXT://host{self.number}:9092"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        }
        path = znodes.broker_path(self.number)
        create = Create(path, msgspec.json.encode(data), ephemeral=True)
        self.zookeeper.submit(create, lambda reply: None)

    def session_resumed(self) -> None: ...

    def connection_lost(self) -> None: ...

    def session_expired(self) -> None: ...

    def watch_fired(self, event: WatchFired) -> None: ...

    def connected(self, connection: Connection) -> None: ...

    def received(self, connection: Connection, message: Message) -> None:
        """Answer a control request."""
        assert isinstance(message, ControlRequest)
        self.requests.append(message)
        if self.answers:
            connection.send(ControlResponse(message.number, 0, ()))

    def disconnected(self, connection: Connection | None) -> None: ...


class SmallWorld:
    """Two brokers, one topic of three partitions, one controller."""

    def __init__(
        self, configuration: Configuration = CONFIGURATION, observer: Observer | None = None
    ) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler)
        scenario = Scenario(brokers=(BrokerSpec(1), BrokerSpec(2)), topics=(TOPIC,), controllers=())
        self.zookeeper = Ensemble(self.scheduler, self.network, start_state(scenario))
        self.brokers = {number: ObedientBroker(self, number) for number in (1, 2)}
        kind = "stock" if configuration.is_broker else "refold"
        settings = RunSettings(f"{kind} {configuration.broker_id}", configuration, 6_000, 3, ())
        self.controller = ControllerProcess(
            self.scheduler,
            self.network,
            settings,
            0,
            observer or Observer(),
            restarts=True,
            holds_role=lambda: self.role_of() == configuration.broker_id,
        )
        acts = self.controller
        self.zookeeper.before_write = lambda process, _: (
            process != acts.process or acts.begin_act("write")
        )
        self.zookeeper.after_write = lambda process: (
            acts.end_act() if process == acts.process else None
        )

    def start(self) -> None:
        """Start everything, and wait until the controller has elected leaders."""
        for broker in self.brokers.values():
            broker.start()
        self.run(1)
        self.controller.start()
        self.run(4)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.run_until(self.scheduler.now_us + round(seconds * SECOND))

    def data(self, path: str) -> bytes | None:
        """The data of a znode; None if it does not exist."""
        found = self.zookeeper.state.find(path)
        return found.data if found is not None else None

    def role_of(self) -> int | None:
        """The controller as /controller says."""
        data = self.data(znodes.CONTROLLER)
        found = znodes.read_controller(data) if data is not None else None
        return found.brokerid if found is not None else None

    def leader(self, partition: int) -> int | None:
        """The leader of a partition of the topic."""
        path = znodes.state_path("t", partition)
        data = self.data(path)
        return znodes.read_state(path, data, 0).leader if data is not None else None
