"""Predictions of refold what-if agree with changed incidents on real servers.

An incident is a script. The log of its run is changed and continued in the simulated cluster. The
changed script is run on another cluster. Both outcomes must agree, partition by partition.

A changed script does its steps in the order of the first run, but at other times.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from kafka import TopicPartition

from controller.core.znodes import Name
from eventstore.folders import logs_in
from replay.what_if.causes import BrokerRegistered, BrokerUnregistered, ExternalCause
from replay.what_if.changes import WhatIfChanges
from replay.what_if.continuing import what_if
from replay.what_if.incident import Incident
from replay.what_if.outcome import Outcome, PartitionOutcome, outcome_of
from replay.world.inputs import DeleteTopic
from tests.replay.what_if.simulated import incident_at
from tools.incidents.incident_cluster import IncidentCluster
from tools.incidents.scripts import PARTITIONS, TOPIC

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

Script = Callable[[IncidentCluster], Awaitable[None]]
ACTS_AFTER_S: Final = 5
"""How long the operator of a script needs to act."""
OFFLINE_TOLERANCE_MS: Final = 3_000
"""How much offline times may differ. They begin when the session of a broker ends, so that session
timeouts do not count. An election takes less than 100 ms in all clusters. The rest of the time is
the operator's, and the start of a broker: 1 s in the simulated cluster, 1 to 3 s in the lab."""
SETTINGS: Final = {"controlled.shutdown.retry.backoff.ms": "5000"}
"""Kafka's default, which simulated brokers have: the lab's clusters retry sooner."""
UNCLEAN: Final = {"unclean.leader.election.enable": "true"}


async def run(folder: Path, script: Script, config: Mapping[str, str] | None = None) -> Incident:
    """Run a script on a new cluster; returns what refold logged."""
    async with IncidentCluster(folder, "3.9", config=SETTINGS) as cluster:
        await cluster.make(TOPIC, PARTITIONS, config)
        await cluster.make("moved", {0: [1, 2], 1: [1, 2]})
        await script(cluster)
        await cluster.hand_back()
    return incident_at(logs_in(cluster.log_dir)[-1])


def happened(incident: Incident) -> Outcome:
    """How the partitions fared on the real servers."""
    return outcome_of(incident.history.changes, 0, incident.end_ms)


def predicted(incident: Incident, changes: WhatIfChanges) -> Outcome:
    """How what-if says that they fare with changes."""
    return what_if(incident, changes)[0].changed


def assert_agree(one: Outcome, other: Outcome) -> None:
    """Both outcomes have the same partitions, in the same state at the end, and offline for the
    same time."""
    assert at_end(one) == at_end(other)
    for name, of_one in one.items():
        # A log ends some time after the last failure. A partition that is offline then stays so.
        if of_one.leader >= 0:
            differs_by_ms = of_one.offline_ms - other[name].offline_ms
            assert abs(differs_by_ms) <= OFFLINE_TOLERANCE_MS, name


def at_end(outcome: Outcome) -> dict[Name, tuple[object, ...]]:
    """The parts that do not depend on the speed of a cluster."""
    return {
        name: (one.leader, one.isr, one.replicas, one.target, one.unclean)
        for name, one in outcome.items()
    }


def is_outage(one: PartitionOutcome) -> bool:
    """Whether a partition was offline until an operator repaired something."""
    return one.offline_ms >= ACTS_AFTER_S * 1_000


def gone(incident: Incident, broker: int) -> int:
    """The event that shows the end of a broker."""
    (seq,) = [
        one.seq
        for one in incident.causes
        if isinstance(one.what, BrokerUnregistered) and one.what.broker == broker
    ]
    return seq


def back(incident: Incident, broker: int) -> ExternalCause:
    """The last registration of a broker."""
    return [
        one
        for one in incident.causes
        if isinstance(one.what, BrokerRegistered) and one.what.broker == broker
    ][-1]


# An outage: both replicas of orders-3 fail, and the one that is not in sync returns ---------------


async def fail(cluster: IncidentCluster, broker: int) -> None:
    cluster.broker(broker).kill()
    await cluster.until_no_leader_is(broker)


async def outage(cluster: IncidentCluster) -> None:
    await fail(cluster, 3)
    cluster.broker(1).kill()
    await cluster.until_offline(TOPIC, 3)
    await asyncio.sleep(ACTS_AFTER_S)  # the operator does nothing yet
    await cluster.broker(3).start()
    for partition in (0, 1, 2):
        await cluster.until_isr(TOPIC, partition, {2, 3})


@pytest.fixture(scope="module")
def recorded_outage(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    incident = asyncio.run(run(tmp_path_factory.mktemp("outage"), outage))
    assert happened(incident)[TOPIC, 3].leader == -1
    return incident


def test_outage_without_the_failure_of_the_last_replica(
    recorded_outage: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await fail(cluster, 3)
        await cluster.broker(3).start()
        await cluster.until_in_sync(TOPIC)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert not is_outage(real[TOPIC, 3])
    drop = WhatIfChanges(drop=(gone(recorded_outage, 1),))
    assert_agree(predicted(recorded_outage, drop), real)


def test_outage_in_which_the_last_replica_fails_later(
    recorded_outage: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await fail(cluster, 3)
        await cluster.broker(3).start()
        await cluster.until_in_sync(TOPIC)
        await fail(cluster, 1)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert real[TOPIC, 3].leader == 3
    delay = f"{gone(recorded_outage, 1)}=60s"
    assert_agree(predicted(recorded_outage, WhatIfChanges(delay=(delay,))), real)


def test_outage_with_unclean_elections(recorded_outage: Incident, tmp_path: Path) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await outage(cluster)
        await cluster.until_led(TOPIC, 3, by=3)

    real = happened(asyncio.run(run(tmp_path, changed, UNCLEAN)))
    assert real[TOPIC, 3].unclean == 1
    begin = gone(recorded_outage, 3) - 1
    setting = WhatIfChanges(set=(f"{TOPIC}:unclean.leader.election.enable=true",), begin=begin)
    assert is_outage(real[TOPIC, 3])
    assert_agree(predicted(recorded_outage, setting), real)


def test_outage_followed_by_the_crash_of_another_broker(
    recorded_outage: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await outage(cluster)
        await fail(cluster, 2)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert real[TOPIC, 0].leader == 3
    assert real["moved", 0].leader == -1
    crash = WhatIfChanges(crash=(f"broker=2@{recorded_outage.last_seq}",))
    assert_agree(predicted(recorded_outage, crash), real)


# A reassignment that waits for a broker -----------------------------------------------------------


async def begin_to_move(cluster: IncidentCluster) -> None:
    await fail(cluster, 3)
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
    cancel = WhatIfChanges(cancel_reassignment=(f"moved-1@{before}",))
    assert_agree(predicted(recorded_move, cancel), real)


# A rolling restart that continues after a crash, with the last replica ----------------------------


async def restart(cluster: IncidentCluster, broker: int) -> None:
    await cluster.broker(broker).stop()
    await cluster.until_no_leader_is(broker)
    await cluster.broker(broker).start()
    await cluster.until_in_sync(TOPIC)


async def restart_the_last_replica(cluster: IncidentCluster) -> None:
    await cluster.broker(1).stop()
    await cluster.until_offline("moved", 0)
    await asyncio.sleep(ACTS_AFTER_S)  # the operator does nothing yet
    await cluster.broker(1).start()
    await cluster.until_led("moved", 0, by=1)
    await cluster.until_led("moved", 1, by=1)


async def elect_preferred(cluster: IncidentCluster) -> None:
    # What-if repeats this request at its time. A simulated broker joins the ISRs later than a real
    # one.
    await asyncio.sleep(ACTS_AFTER_S)  # the operator does nothing yet
    await cluster.ask(lambda admin: admin.elect_leaders(0, None, raise_errors=False))


@pytest.fixture(scope="module")
def recorded_restart(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    async def interrupted(cluster: IncidentCluster) -> None:
        await restart(cluster, 3)
        await fail(cluster, 2)
        await restart_the_last_replica(cluster)
        for partition in (0, 1, 2, 3):
            await cluster.until_isr(TOPIC, partition, {1, 3})
        await elect_preferred(cluster)

    incident = asyncio.run(run(tmp_path_factory.mktemp("restart"), interrupted))
    assert is_outage(happened(incident)["moved", 0])
    return incident


def test_rolling_restart_in_which_no_broker_crashes(
    recorded_restart: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await restart(cluster, 3)
        await restart(cluster, 1)
        await cluster.until_in_sync("moved")
        await elect_preferred(cluster)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert not is_outage(real["moved", 0])
    drop = WhatIfChanges(drop=(gone(recorded_restart, 2),))
    assert_agree(predicted(recorded_restart, drop), real)


def test_rolling_restart_that_ends_at_the_crash(recorded_restart: Incident, tmp_path: Path) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await restart(cluster, 3)
        await fail(cluster, 2)
        await elect_preferred(cluster)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert not is_outage(real["moved", 0])
    drop = WhatIfChanges(drop=(gone(recorded_restart, 1),))
    assert_agree(predicted(recorded_restart, drop), real)


def test_crashed_broker_that_returns_during_the_next_shutdown_comes_too_late(
    recorded_restart: Incident, tmp_path: Path
) -> None:
    # No replica joins an ISR whose leader is shutting down: the controller rejects that ISR.
    async def changed(cluster: IncidentCluster) -> None:
        await restart(cluster, 3)
        await fail(cluster, 2)
        await asyncio.gather(cluster.broker(2).start(), restart_the_last_replica(cluster))
        await cluster.until_in_sync(TOPIC)
        await cluster.until_in_sync("moved")
        await elect_preferred(cluster)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert is_outage(real["moved", 0])
    back = WhatIfChanges(restart=(f"broker=2@{gone(recorded_restart, 2)}",))
    assert_agree(predicted(recorded_restart, back), real)


# Two failures: both replicas of orders-3 fail, and none returns -----------------------------------


async def two_failures(cluster: IncidentCluster) -> None:
    await fail(cluster, 1)
    cluster.broker(3).kill()
    await cluster.until_offline(TOPIC, 3)
    await asyncio.sleep(ACTS_AFTER_S)  # the operator does nothing yet


@pytest.fixture(scope="module")
def recorded_failures(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    incident = asyncio.run(run(tmp_path_factory.mktemp("failures"), two_failures))
    assert happened(incident)[TOPIC, 3].leader == -1
    return incident


@pytest.mark.ci
def test_two_failures_after_which_the_last_leader_returns(
    recorded_failures: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await two_failures(cluster)
        await cluster.broker(3).start()
        await cluster.until_led(TOPIC, 3, by=3)
        for partition in (0, 1, 2):
            await cluster.until_isr(TOPIC, partition, {2, 3})

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert is_outage(real[TOPIC, 3])
    before = gone(recorded_failures, 3) - 1
    back = WhatIfChanges(restart=(f"broker=3@{recorded_failures.last_seq}",), begin=before)
    assert_agree(predicted(recorded_failures, back), real)


def test_two_failures_after_which_the_replica_that_is_not_in_sync_returns(
    recorded_failures: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await two_failures(cluster)
        await cluster.broker(1).start()
        for partition in (0, 1, 2):
            await cluster.until_isr(TOPIC, partition, {1, 2})
        await cluster.until_in_sync("moved")

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert real[TOPIC, 3].leader == -1
    back = WhatIfChanges(restart=(f"broker=1@{recorded_failures.last_seq}",))
    assert_agree(predicted(recorded_failures, back), real)


# A deletion that waits for a broker ---------------------------------------------------------------


async def delete_moved(cluster: IncidentCluster) -> None:
    await fail(cluster, 2)
    await cluster.ask(lambda admin: admin.delete_topics(["moved"], raise_errors=False))


@pytest.fixture(scope="module")
def recorded_deletion(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    incident = asyncio.run(run(tmp_path_factory.mktemp("deletion"), delete_moved))
    assert ("moved", 0) in happened(incident)
    return incident


@pytest.mark.ci
def test_waiting_deletion_completes_when_the_broker_returns(
    recorded_deletion: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await delete_moved(cluster)
        await cluster.broker(2).start()
        await cluster.until_gone("moved")
        await cluster.until_in_sync(TOPIC)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert ("moved", 0) not in real
    back = WhatIfChanges(restart=(f"broker=2@{recorded_deletion.last_seq}",))
    assert_agree(predicted(recorded_deletion, back), real)


def test_failure_of_a_broker_without_the_deletion(
    recorded_deletion: Incident, tmp_path: Path
) -> None:
    async def changed(cluster: IncidentCluster) -> None:
        await fail(cluster, 2)

    real = happened(asyncio.run(run(tmp_path, changed)))
    assert real["moved", 0].isr == (1,)
    (request,) = [one.seq for one in recorded_deletion.causes if isinstance(one.what, DeleteTopic)]
    assert_agree(predicted(recorded_deletion, WhatIfChanges(drop=(request,))), real)
