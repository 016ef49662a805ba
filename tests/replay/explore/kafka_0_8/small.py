"""Small clusters of the 0.8 design in the controller's world."""

from collections.abc import Sequence

from replay.explore.kafka_0_8.run import Run08
from replay.world.kafka_0_8.networked.inputs import Input08
from replay.world.scenario import BrokerSpec, Load, Scenario, TopicSpec

SETTINGS = {
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.wait.max.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "700",
    "zookeeper.session.timeout.ms": "6000",
}


def small(
    *assignment: tuple[int, ...],
    brokers: int = 3,
    acks: tuple[int, ...] = (-1, 1, 0),
    active_ms: int = 12_000,
    zookeeper: str = "3.9",
) -> Scenario:
    """Topic t, and producers that send 12 records a second."""
    return Scenario(
        zookeeper=zookeeper,
        zookeeper_members=1,
        brokers=tuple(BrokerSpec(one + 1) for one in range(brokers)),
        broker_settings=SETTINGS,
        topics=(TopicSpec("t", assignment),),
        controllers=(),
        load=Load(acks, 12) if acks else None,  # type: ignore[arg-type]
        active_ms=active_ms,
        quiet_ms=90_000,
    )


def broken_by(scenario: Scenario, inputs: Sequence[Input08]) -> str:
    """The invariant that a run breaks; "": none."""
    found = Run08(scenario, inputs).violation
    return found.invariant if found is not None else ""
