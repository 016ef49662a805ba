"""Random acts on a cluster with producers, from a printed seed.

    REFOLD_SEED=7 pytest -s tests/lab/incidents/test_random_incidents.py -k at-3.9

repeats an incident: the same acts in the same order, but not at the same times.
"""

import logging
import os
import random
import sys
from pathlib import Path

import pytest

from tests.lab.default_clusters.cluster import DefaultLabCluster, until_more
from tests.lab.incidents.random_incident import BROKER_CONFIG, RandomIncident
from tests.lab.incidents.random_plan import BROKERS, SHORT_SEED, STAYING, RandomPlan
from tests.lab.incidents.zookeeper_tree import ZooKeeperTree
from tools.lab import Lab
from tools.lab.traffic import Traffic

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

SEED = "REFOLD_SEED"
"""The environment variable with the seed to repeat."""


@pytest.fixture(autouse=True)
def quiet_clients(caplog: pytest.LogCaptureFixture) -> None:
    """Clients' warnings about brokers that are down are part of the incident."""
    caplog.set_level(logging.CRITICAL, logger="aiokafka")


@pytest.mark.parametrize("protocol", ["3.9", "2.6"], ids="at-{}".format)
async def test_random_incident_loses_no_acknowledged_record(protocol: str, tmp_path: Path) -> None:
    await play(protocol, seed_or(random.randrange(10**6)), seconds=120, folder=tmp_path)


@pytest.mark.ci
async def test_short_random_incident_loses_no_acknowledged_record(tmp_path: Path) -> None:
    await play("3.9", seed_or(SHORT_SEED), seconds=20, folder=tmp_path)


def seed_or(other: int) -> int:
    return int(os.environ.get(SEED) or other)


async def play(protocol: str, seed: int, *, seconds: float, folder: Path) -> None:
    """Runs an incident and its checks in a new cluster."""
    say(f"{SEED}={seed}, inter.broker.protocol.version {protocol}")
    async with Lab(folder / "cluster") as lab:
        zookeeper = await lab.start_zookeeper()
        await lab.start_brokers(len(BROKERS), inter_broker_protocol=protocol, config=BROKER_CONFIG)
        async with (
            DefaultLabCluster(lab, folder, protocol=protocol) as lab_cluster,
            ZooKeeperTree(zookeeper.connect) as tree,
        ):
            await lab_cluster.until_stock_controller()
            for topic, assignment in STAYING.items():
                await lab_cluster.create_topic(topic, dict(enumerate(assignment)))
            await play_in(lab_cluster, tree, RandomPlan(seed), seconds)


async def play_in(
    lab_cluster: DefaultLabCluster, tree: ZooKeeperTree, plan: RandomPlan, seconds: float
) -> None:
    """Runs an incident with a producer for each permanent topic; reads all records at the end."""
    first, second = (Traffic(lab_cluster.lab.bootstrap, topic) for topic in STAYING)
    incident = RandomIncident(lab_cluster, tree, (first, second), say)
    async with first, second:
        await incident.play(plan, seconds)
        await incident.settle()
        await until_more(first)
        await until_more(second)
        await incident.hand_back()
        for traffic in (first, second):
            lost = await traffic.finish()
            say(f"{traffic.acknowledged} acknowledged, {traffic.refused} refused, {len(lost)} lost")
            assert not lost
    await incident.check_logs()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
