"""Logs of small simulated clusters in which a known event decides the outcome."""

from collections.abc import Sequence
from pathlib import Path

from controller.core.configuration import Configuration
from replay.explore.saved import save, saved_run, write_logs
from replay.logs.open_log import open_log
from replay.what_if.incident import Incident, read_incident
from replay.world.cluster import Cluster
from replay.world.inputs import Input, KillController
from replay.world.scenario import (
    BrokerSpec,
    ControllerSpec,
    Scenario,
    SlowReplica,
    TopicSpec,
)

REFOLD = Configuration(broker_id=100, kip_236_enable=True)


def scenario(
    *topics: TopicSpec,
    brokers: int = 3,
    active_ms: int = 30_000,
    quiet_ms: int = 0,
    slow: Sequence[SlowReplica] = (),
    configuration: Configuration = REFOLD,
) -> Scenario:
    """A cluster whose controller is elected once all brokers are registered."""
    return Scenario(
        brokers=tuple(BrokerSpec(one) for one in range(1, brokers + 1)),
        broker_settings={
            "replica.lag.time.max.ms": "3000",
            "zookeeper.session.timeout.ms": "6000",
        },
        topics=topics,
        slow_replicas=tuple(slow),
        controllers=(ControllerSpec(configuration, starts_after_ms=1_300),),
        active_ms=active_ms,
        quiet_ms=quiet_ms,
    )


def log_of_run(folder: Path, of: Scenario, *inputs: Input) -> Path:
    """Run a scenario, and write the log of its controller."""
    cluster = Cluster(of, inputs)
    cluster.run()
    folder.mkdir(parents=True, exist_ok=True)
    (log,) = write_logs(cluster, folder)
    return log


def run_with_two_logs(folder: Path) -> Path:
    """Save a run in which a daemon ends while it is controller, and is started again."""
    begun = scenario(TopicSpec("t", ((1, 2), (2, 1))))
    kill = KillController(10_000, "refold 100")
    save(saved_run(begun, (kill,), seed=1, strategy="random", before=1), folder)
    return folder


def incident_at(path: Path) -> Incident:
    """The incident of a log."""
    with open_log(path) as log:
        return read_incident(log)
