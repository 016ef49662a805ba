"""Simulated brokers and real ones do the same in the same schedule.

The test is the controller of both: it holds /controller in ZooKeeper and sends all requests.
"""

from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tests.replay.world.broker import schedules
from tests.replay.world.broker.conformance_cluster import ConformanceCluster
from tests.replay.world.broker.control_schedule import random_control_requests
from tests.replay.world.broker.lab_conformance_cluster import LabConformanceCluster, as_controller
from tests.replay.world.broker.simulated_conformance_cluster import SimulatedConformanceCluster
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

SETTINGS = {
    "replica.lag.time.max.ms": str(1000 * schedules.LAG_SECONDS),
    "zookeeper.session.timeout.ms": "60000",
}
NEWEST, MIDDLE, OLDEST = ("3.9", "3.9.1"), ("2.8", "3.9.1"), ("2.6", "2.8.2")
"""inter.broker.protocol.version, and the version of Kafka that runs.

Simulated brokers do what Kafka 3.9 does, but write ISRs to ZooKeeper as Kafka 2.x does. Kafka 2.8
with AlterPartition is different: it does not raise the high watermark after an ISR has shrunk
(KAFKA-13091).
"""

Schedule = Callable[[ConformanceCluster], Awaitable[None]]


async def compare(
    folder: Path,
    schedule: Schedule,
    versions: tuple[str, str],
    brokers: int = 3,
    config: dict[str, str] | None = None,
) -> None:
    """Run a schedule on both clusters, and compare what it has seen."""
    protocol, kafka = versions
    settings = {**SETTINGS, **(config or {})}
    world = SimulatedConformanceCluster(protocol, brokers, settings)
    await schedule(world)
    async with Lab(folder, kafka=kafka) as lab:
        with closing(await as_controller(lab)) as session:
            await lab.start_brokers(brokers, inter_broker_protocol=protocol, config=settings)
            with closing(LabConformanceCluster(protocol, lab, session, world.seen)) as real:
                async with real.endpoint.listening():
                    await schedule(real)
                    real.check()
    assert len(real.seen) == len(world.seen)


@pytest.mark.ci
async def test_hundreds_of_control_requests_have_the_same_outcome(tmp_path: Path) -> None:
    schedule = partial(random_control_requests, seed=1, topics=12)
    await compare(tmp_path, schedule, NEWEST, brokers=1)


@pytest.mark.parametrize("seed", [2, 3])
async def test_thousands_of_control_requests_have_the_same_outcome(
    tmp_path: Path, seed: int
) -> None:
    schedule = partial(random_control_requests, seed=seed, topics=100)
    await compare(tmp_path, schedule, NEWEST, brokers=1)


async def test_control_requests_before_and_after_a_restart_have_the_same_outcome(
    tmp_path: Path,
) -> None:
    schedule = partial(random_control_requests, seed=4, topics=12, restarts=True)
    await compare(tmp_path, schedule, NEWEST, brokers=1)


async def test_control_requests_with_an_old_protocol_version_have_the_same_outcome(
    tmp_path: Path,
) -> None:
    schedule = partial(random_control_requests, seed=5, topics=30)
    await compare(tmp_path, schedule, ("2.6", "3.9.1"), brokers=1)


both_versions = pytest.mark.parametrize("versions", [NEWEST, OLDEST], ids=str)
all_versions = pytest.mark.parametrize("versions", [NEWEST, MIDDLE, OLDEST], ids=str)


@both_versions
async def test_unreplicated_tail_is_truncated_after_a_leader_change(
    tmp_path: Path, versions: tuple[str, str]
) -> None:
    await compare(tmp_path, schedules.diverging_tail, versions)


@both_versions
async def test_logs_with_several_diverging_epochs_are_truncated_to_the_common_part(
    tmp_path: Path, versions: tuple[str, str]
) -> None:
    await compare(tmp_path, schedules.several_diverging_epochs, versions, brokers=2)


@both_versions
@pytest.mark.parametrize("seed", [1, 2])
async def test_random_leader_changes_leave_the_same_records(
    tmp_path: Path, versions: tuple[str, str], seed: int
) -> None:
    schedule = partial(schedules.random_leader_changes, seed=seed)
    await compare(tmp_path, schedule, versions)


@both_versions
async def test_random_leader_changes_and_restarts_leave_the_same_records(
    tmp_path: Path, versions: tuple[str, str]
) -> None:
    schedule = partial(schedules.random_leader_changes, seed=3, restarts=0.4)
    await compare(tmp_path, schedule, versions)


@both_versions
async def test_followers_of_an_unavailable_leader_do_the_same(
    tmp_path: Path, versions: tuple[str, str]
) -> None:
    await compare(tmp_path, schedules.unavailable_leader, versions)


@all_versions
async def test_paused_follower_leaves_the_isr_and_returns(
    tmp_path: Path, versions: tuple[str, str]
) -> None:
    await compare(tmp_path, schedules.paused_follower, versions)


@all_versions
async def test_isr_below_min_insync_replicas_has_the_same_errors_and_high_watermark(
    tmp_path: Path, versions: tuple[str, str]
) -> None:
    config = {"min.insync.replicas": "2"}
    await compare(tmp_path, schedules.too_few_in_sync, versions, config=config)


@both_versions
async def test_leader_without_metadata_is_used_by_no_client(
    tmp_path: Path, versions: tuple[str, str]
) -> None:
    await compare(tmp_path, schedules.late_metadata, versions)


async def test_refused_proposals_are_repeated_after_the_same_errors(tmp_path: Path) -> None:
    await compare(tmp_path, schedules.refused_proposals, NEWEST)


async def test_refused_alter_partition_requests_are_repeated(tmp_path: Path) -> None:
    await compare(tmp_path, schedules.refused_requests, NEWEST)


async def test_write_of_the_isr_with_an_old_version_has_no_effect(tmp_path: Path) -> None:
    await compare(tmp_path, schedules.cached_version, OLDEST)


@both_versions
async def test_brokers_that_start_again_have_the_same_logs(
    tmp_path: Path, versions: tuple[str, str]
) -> None:
    await compare(tmp_path, schedules.restarts, versions)
