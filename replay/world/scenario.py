"""The start of a run: brokers, topics, load, controllers, and how long the run takes.

A scenario is a value that msgspec reads from TOML or JSON. It says nothing about what goes wrong;
that is the inputs (`inputs`).
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from controller.core.configuration import Configuration
from controller.core.protocol_versions import LATEST
from replay.world.processes import refold_name, stock_name

Natural = Annotated[int, Meta(ge=0)]
"""Files with a negative number are refused when they are read."""
MAX_ID: Final = 2**31 - 1
"""Kafka has 32 bits for the ids of brokers."""
BrokerId = Annotated[int, Meta(ge=0, le=MAX_ID)]
DAY_MS: Final = 86_400_000
WithinDay = Annotated[int, Meta(ge=0, le=DAY_MS)]


class BrokerSpec(Struct, frozen=True):
    """A broker and its rack. Its port accepts connections `accepts_after_ms` after the broker has
    registered itself."""

    id: BrokerId
    rack: str | None = None
    accepts_after_ms: WithinDay = 600


class TopicSpec(Struct, frozen=True):
    """A topic that exists at the start: the replicas of each partition, and the configuration
    overrides. No partition has a leader yet, unless `Scenario.znodes` has its state."""

    name: str
    assignment: tuple[tuple[int, ...], ...]
    configs: dict[str, str] = {}


class ControllerSpec(Struct, frozen=True):
    """A controller: "refold N", or, if the configuration has `is_broker`, "stock N" in broker N.

    `runs`: from the start; otherwise an input starts it. `starts_after_ms`: the time from
    the start of the brokers. `restarts`: a supervisor starts a refold again after it has exited
    with an error. The protocol version is that of the scenario.
    """

    configuration: Configuration
    runs: bool = True
    starts_after_ms: WithinDay = 0
    restarts: bool = True
    session_timeout_ms: Annotated[int, Meta(ge=1, le=DAY_MS)] = 6_000

    @property
    def process(self) -> str:
        """The name of the process."""
        id = self.configuration.broker_id
        return stock_name(id) if self.configuration.is_broker else refold_name(id)


class Load(Struct, frozen=True):
    """Clients: one producer for each of `acks`, all of which send to all partitions in turn, and
    consumers that read all partitions."""

    acks: Annotated[tuple[Literal[0, 1, -1], ...], Meta(max_length=100)] = (-1, 1)
    records_per_second: Annotated[int, Meta(ge=1, le=1_000)] = 20
    """Of all producers together."""
    consumers: Annotated[int, Meta(ge=0, le=10)] = 1


class SlowReplica(Struct, frozen=True):
    """A follower that copies nothing of a partition from `from_ms` to `until_ms` of the run (None:
    to its end), although its broker runs: its disk or network is too slow, or it has too much to
    catch up."""

    broker: int
    topic: str
    partition: int
    from_ms: int = 0
    until_ms: int | None = None


class Scenario(Struct, frozen=True, kw_only=True):
    """The start of a run.

    `znodes`: further znodes at the start with their data, or those that replace the ones that
    follow from `topics`. Parents are created. `seed`: for the numbers that controllers draw.
    `slow_replicas` are slow at most until the quiet part begins.
    Faults and acts happen in the first `active_ms`. Then all faults that have an end are ended, and
    the run continues for `quiet_ms`, in which the cluster must recover.
    """

    name: str = ""
    seed: Natural = 0
    protocol: str = LATEST
    zookeeper: str = "3.9"
    zookeeper_members: Annotated[int, Meta(ge=1, le=9)] = 3
    brokers: tuple[BrokerSpec, ...]
    broker_settings: dict[str, str] = {}
    """Kafka's settings of all brokers, such as replica.lag.time.max.ms."""
    topics: tuple[TopicSpec, ...] = ()
    znodes: dict[str, str] = {}
    controllers: tuple[ControllerSpec, ...]
    load: Load | None = Load()
    slow_replicas: tuple[SlowReplica, ...] = ()
    active_ms: int = 60_000
    quiet_ms: int = 90_000

    @property
    def end_ms(self) -> int:
        """When the run ends."""
        return self.active_ms + self.quiet_ms

    def nearest_active_ms(self, at_ms: int) -> int:
        """The time if it is in the active part, otherwise the nearest time that is."""
        return min(max(0, at_ms), self.active_ms - 1)


def protocol_of(configuration: Configuration) -> str:
    """The inter.broker.protocol.version of a configuration, as a scenario names it."""
    version = configuration.inter_broker_protocol_version
    return version if "-IV" in version else LATEST if version.startswith("3.9") else version
