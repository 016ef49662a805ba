"""The shared state of one run of a broker."""

from collections.abc import Callable

from controller.core.commands import UpdateMetadataPartition, UpdateMetadataRequest
from controller.core.values import LEADER_DURING_DELETE, NO_BROKER, NO_EPOCH, Broker
from replay.names import broker_name
from replay.world.broker.settings import LISTENER, BrokerSettings
from replay.world.network import Network
from replay.world.observer import Name, Observer
from replay.world.scheduler import Clock

MinIsr = Callable[[str], int | None]
"""The configuration min.insync.replicas of a topic; None: that of the broker."""


class MetadataCache:
    """A broker's knowledge of its cluster from UpdateMetadata requests (ZkMetadataCache): leaders,
    live brokers and the controller."""

    def __init__(self) -> None:
        self.partitions: dict[Name, UpdateMetadataPartition] = {}
        self.live: dict[int, Broker] = {}
        self.controller = NO_BROKER

    def update(self, request: UpdateMetadataRequest) -> None:
        """Apply a request: all live brokers, and the partitions that it has (KB 12.4.4)."""
        self.controller = request.controller_id
        self.live = {one.id: one for one in request.live_brokers}
        for one in request.partitions:
            name = (one.topic, one.partition)
            if one.leadership.leader == LEADER_DURING_DELETE:
                self.partitions.pop(name, None)
            else:
                self.partitions[name] = one

    def known_controller(self) -> int | None:
        """The controller, if it is one of the live brokers: otherwise its address is not known."""
        found = self.live.get(self.controller)
        return self.controller if found and found.endpoint(LISTENER) else None


class BrokerContext:
    """One run of broker `id`, which is the process `process`.

    `epoch` is the broker epoch of its registration. `write_us` is how much longer each write to its
    disk takes.
    """

    __slots__ = (
        "_min_isr",
        "clock",
        "epoch",
        "id",
        "is_shutting_down",
        "metadata",
        "network",
        "observer",
        "process",
        "settings",
        "write_us",
    )

    def __init__(
        self,
        id: int,
        clock: Clock,
        network: Network,
        settings: BrokerSettings,
        observer: Observer,
        min_isr: MinIsr = lambda topic: None,
    ) -> None:
        self.id = id
        self.process = broker_name(id)
        self.clock = clock
        self.network = network
        self.settings = settings
        self.observer = observer
        self.metadata = MetadataCache()
        self.epoch = NO_EPOCH
        self.is_shutting_down = False
        self.write_us = 0
        self._min_isr = min_isr

    def min_isr(self, topic: str) -> int:
        """min.insync.replicas of a topic."""
        configured = self._min_isr(topic)
        return self.settings.min_isr if configured is None else configured
