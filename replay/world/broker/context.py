"""What the parts of one run of a broker share."""

from collections.abc import Callable

from controller.core.values import NO_EPOCH
from replay.world.broker.metadata import MetadataCache
from replay.world.broker.settings import BrokerSettings
from replay.world.network import Network
from replay.world.observer import Observer
from replay.world.scheduler import Clock

MinIsr = Callable[[str], int | None]
"""The configuration min.insync.replicas of a topic; None: that of the broker."""


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
        self.process = process_of(id)
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


def process_of(broker: int) -> str:
    """The process of a broker."""
    return f"broker {broker}"
