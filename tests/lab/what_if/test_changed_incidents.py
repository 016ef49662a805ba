"""What refold what-if predicts is what happens when the changed incident runs on real servers.

An incident is a script. The log of its run is changed and continued in the simulated cluster. The
changed script is run on another cluster. Both outcomes must agree, partition by partition.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kafka import TopicPartition

from controller.core.znodes import Name
from eventstore.folders import logs_in
from replay.what_if.causes import BrokerRegistered, BrokerUnregistered, Cause
from replay.what_if.changes import Changes
from replay.what_if.continuing import what_if
from replay.what_if.incident import Incident
from replay.what_if.outcome import Outcome, outcome_of
from tests.replay.what_if.simulated import incident_at
from tools.incidents.incident_cluster import IncidentCluster
from tools.incidents.scripts import PARTITIONS, TOPIC

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

Script = Callable[[IncidentCluster], Awaitable[None]]
OFFLINE_MS: Final = 2_000
"""An election on a loaded machine takes less."""
UNCLEAN: Final = {"unclean.leader.election.enable": "true"}


class Fared(NamedTuple):
    """How a partition is at the end, and whether it was without a leader for some time."""

    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    unclean: int
    was_offline: bool


def fared(outcome: Outcome) -> dict[Name, Fared]:
    return {
        name: Fared(
            one.leader,
            one.isr,
            one.replicas,
            one.target,
            one.unclean,
            one.leader < 0 or one.offline_ms >= OFFLINE_MS,
        )
        for name, one in outcome.items()
    }


async def run(folder: Path, script: Script, config: Mapping[str, str] | None = None) -> Incident:
    """Run a script on a new cluster; returns what refold logged."""
    async with IncidentCluster(folder, "3.9") as cluster:
        await cluster.make(TOPIC, PARTITIONS, config)
        await cluster.make("moved", {0: [1, 2], 1: [1, 2]})
        await script(cluster)
        await cluster.hand_back()
    return incident_at(logs_in(cluster.log_dir)[-1])


def happened(incident: Incident) -> dict[Name, Fared]:
    """How the partitions fared on the real servers."""
    return fared(outcome_of(incident.history.changes, 0, incident.end_ms))


def predicted(incident: Incident, changes: Changes) -> dict[Name, Fared]:
    """How what-if says that they fare with changes."""
    return fared(what_if(incident, changes)[0].changed)


def gone(incident: Incident, broker: int) -> int:
    """The event that shows the failure of a broker."""
    (seq,) = [
        one.seq
        for one in incident.causes
        if isinstance(one.what, BrokerUnregistered) and one.what.broker == broker
    ]
    return seq


def back(incident: Incident, broker: int) -> Cause:
    """The last registration of a broker."""
    return [
        one
        for one in incident.causes
        if isinstance(one.what, BrokerRegistered) and one.what.broker == broker
    ][-1]


# An outage: both replicas of orders-3 fail, and the one that is not in sync returns ---------------


async def fail_3(cluster: IncidentCluster) -> None:
    cluster.broker(3).kill()
    await cluster.until_no_leader_is(3)


async def outage(cluster: IncidentCluster) -> None:
    await fail_3(cluster)
    cluster.broker(1).kill()
    await cluster.until_offline(TOPIC, 3)
    await cluster.broker(3).start()
    await cluster.until_isr(TOPIC, 0, {2, 3})
    await cluster.until_isr(TOPIC, 1, {2, 3})
    await cluster.until_isr(TOPIC, 2, {2, 3})


@pytest.fixture(scope="module")
def recorded_outage(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    incident = asyncio.run(run(tmp_path_factory.mktemp("outage"), outage))
    assert happened(incident)[TOPIC, 3].leader == -1
    return incident


def test_outage_without_the_failure_of_the_last_replica(
    recorded_outage: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await fail_3(cluster)
        await cluster.broker(3).start()
        await cluster.until_in_sync(TOPIC)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert not real[TOPIC, 3].was_offline
    assert predicted(recorded_outage, Changes(drop=(gone(recorded_outage, 1),))) == real


def test_outage_in_which_the_last_replica_fails_later(
    recorded_outage: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await fail_3(cluster)
        await cluster.broker(3).start()
        await cluster.until_in_sync(TOPIC)
        cluster.broker(1).kill()
        await cluster.until_no_leader_is(1)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert real[TOPIC, 3].leader == 3
    delay = f"{gone(recorded_outage, 1)}=60s"
    assert predicted(recorded_outage, Changes(delay=(delay,))) == real


def test_outage_with_unclean_elections(recorded_outage: Incident, tmp_path: Path) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await outage(cluster)
        await cluster.until_led(TOPIC, 3, by=3)

    real = happened(asyncio.run(run(tmp_path, changed, UNCLEAN)))
    assert real[TOPIC, 3].unclean == 1
    begin = gone(recorded_outage, 3) - 1
    setting = Changes(set=(f"{TOPIC}:unclean.leader.election.enable=true",), begin=begin)
    assert predicted(recorded_outage, setting) == real


def test_outage_followed_by_the_crash_of_another_broker(
    recorded_outage: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await outage(cluster)
        cluster.broker(2).kill()
        await cluster.until_no_leader_is(2)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert real[TOPIC, 0].leader == 3
    assert real["moved", 0].leader == -1
    crash = Changes(crash=(f"broker=2@{recorded_outage.last_seq}",))
    assert predicted(recorded_outage, crash) == real


# A reassignment that waits for a broker -----------------------------------------------------------


async def begin_to_move(cluster: IncidentCluster) -> None:
    await fail_3(cluster)
    await cluster.submit({("moved", 1): [1, 3]})
    await cluster.until_assigned("moved", 1, [1, 3, 2])


async def end_of_move(cluster: IncidentCluster) -> None:
    await cluster.broker(3).start()
    await cluster.until_in_sync(TOPIC)
    await cluster.until_in_sync("moved")
    await cluster.until_none_is_reassigned()


@pytest.fixture(scope="module")
def recorded_move(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    async def completed(cluster: IncidentCluster) -> None:
        await begin_to_move(cluster)
        await end_of_move(cluster)

    incident = asyncio.run(run(tmp_path_factory.mktemp("move"), completed))
    assert happened(incident)["moved", 1].replicas == (1, 3)
    return incident


def test_reassignment_that_is_cancelled_while_its_target_is_down(
    recorded_move: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await begin_to_move(cluster)
        plan: dict[TopicPartition, Any] = {TopicPartition("moved", 1): None}
        await cluster.ask(lambda admin: admin.alter_partition_reassignments(plan))
        await cluster.until_assigned("moved", 1, [1, 2])
        await end_of_move(cluster)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert real["moved", 1].replicas == (1, 2)
    before = max(seq for seq in recorded_move.times if seq < back(recorded_move, 3).seq)
    cancel = Changes(cancel_reassignment=(f"moved-1@{before}",))
    assert predicted(recorded_move, cancel) == real
