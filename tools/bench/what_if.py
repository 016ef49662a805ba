"""Measures how many futures a minute `refold what-if --invariant` runs.

    python -m tools.bench.what_if

The incident is simulated: 5 brokers, 100 partitions with 3 replicas in 10 topics, a minute in which
brokers fail, shut down and return, replicas move and a follower lags. The futures are those of the
command, in as many worker processes.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from controller.core.configuration import Configuration
from replay.explore.saved import write_logs
from replay.logs.open_log import open_log
from replay.what_if.changes import WhatIfChanges, apply_changes
from replay.what_if.conditions import condition_of
from replay.what_if.incident import Incident, read_incident
from replay.what_if.searching import Search, point_of_no_return
from replay.world.cluster import Cluster
from replay.world.inputs import CrashBroker, Input, Reassign, StopBroker, Target
from replay.world.scenario import BrokerSpec, ControllerSpec, Scenario, SlowReplica, TopicSpec
from tools.bench.cpu_time import cpu_seconds

GOAL: Final = 200
"""Futures a minute with two cores."""

_BROKERS: Final = 5
_TOPICS: Final = 10
_PARTITIONS_OF_A_TOPIC: Final = 10
_INPUTS: Final[tuple[Input, ...]] = (
    CrashBroker(10_000, 2, False, 9_000),
    Reassign(18_000, (Target("topic-3", 0, (4, 5, 1)),)),
    StopBroker(24_000, 3, 4_000),
    CrashBroker(33_000, 1, False, 15_000),
    CrashBroker(42_000, 5, False, None),
)


def incident(folder: Path) -> Incident:
    """Simulate the incident and read its log."""
    assignment = tuple(
        tuple(1 + (number + place) % _BROKERS for place in range(3))
        for number in range(_PARTITIONS_OF_A_TOPIC)
    )
    scenario = Scenario(
        brokers=tuple(BrokerSpec(one) for one in range(1, _BROKERS + 1)),
        broker_settings={
            "replica.lag.time.max.ms": "10000",
            "zookeeper.session.timeout.ms": "6000",
        },
        topics=tuple(TopicSpec(f"topic-{one}", assignment) for one in range(_TOPICS)),
        slow_replicas=(SlowReplica(2, "topic-0", 0, 20_000, None),),
        controllers=(ControllerSpec(Configuration(broker_id=100), starts_after_ms=1_300),),
        active_ms=60_000,
        quiet_ms=0,
    )
    cluster = Cluster(scenario, _INPUTS)
    cluster.run()
    folder.mkdir(parents=True)
    (log,) = write_logs(cluster, folder)
    with open_log(log) as opened:
        return read_incident(opened)


def main(
    condition: Annotated[str, typer.Option(help="The bad outcome.")] = "topic-0-0 offline",
    branches: Annotated[int, typer.Option(help="Futures from each moment.")] = 20,
    workers: Annotated[int, typer.Option(help="Worker processes.")] = os.cpu_count() or 1,
) -> None:
    """Find the point of no return, and print how many futures a minute were run."""
    with TemporaryDirectory() as scratch:
        found = incident(Path(scratch) / "log")
    search = Search(condition_of(condition, found), branches, 20, 1, workers)
    load = os.getloadavg()[0]
    before = cpu_seconds()
    curve = point_of_no_return(found, apply_changes(found, WhatIfChanges()), search)
    cpu_s = cpu_seconds() - before
    typer.echo(
        f"{curve.futures} futures of up to {found.end_ms / 1000:.0f} s, {curve.runs} of them "
        f"different ones, from {len(curve.points)} moments in {curve.seconds:.1f} s with {workers} "
        f"workers; load average {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    )
    typer.echo(
        f"{cpu_s / curve.runs:.3f} s of CPU time a different future, the start of the workers "
        f"included: {workers} free cores run {workers * 60 * curve.runs / cpu_s:.0f} "
        "a minute"
    )
    rate = curve.runs / curve.seconds * 60
    typer.echo(
        f"goal: {GOAL} different futures a minute; reached {rate:.0f} ({rate / GOAL:.2f}), "
        f"with equal ones {curve.futures / curve.seconds * 60:.0f}"
    )


if __name__ == "__main__":
    typer.run(main)
