"""The same incident, once under a stock controller and once under refold."""

import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from controller.core import deviations
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.lab.incidents.scripted_incident import (
    BROKER_CONFIG,
    BROKERS,
    Say,
    ScriptedIncident,
)
from tests.lab.incidents.zookeeper_tree import Difference, Tree, ZooKeeperTree, differences
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

STOCK = 1
REFOLD_SETTINGS: Mapping[str, str | int] = {
    "auto.leader.rebalance.enable": False,
    "zookeeper.session.timeout.ms": 9000,
}

Explained = Mapping[str, deviations.Deviation]
"""The cause of differences, by the znode of the topic or another znode in which they are."""

EXPLAINED: Explained = dict.fromkeys(
    (
        "/brokers/topics/led-by-new",
        # By Kafka's rules it has no leader until another broker leaves, and its request stays.
        "/brokers/topics/left-alone",
        "/admin/reassign_partitions",
    ),
    deviations.LEADER_MOVED_FIRST,
)


@pytest.fixture(scope="module", params=["3.9", "2.6"], ids="at-{}".format)
def protocol(request: pytest.FixtureRequest) -> str:
    """inter.broker.protocol.version of the brokers."""
    return str(request.param)


@pytest.fixture(scope="module")
def stock(protocol: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tree]:
    """The tree after each step, with a stock controller throughout."""
    return anyio.run(under_stock, tmp_path_factory.mktemp("stock"), protocol)


@pytest.mark.parametrize(
    ("rules", "explained"), [("refold", EXPLAINED), ("kafka", {})], ids=["refold", "kafka"]
)
async def test_trees_after_each_step_are_equal(
    stock: dict[str, Tree], protocol: str, tmp_path: Path, rules: str, explained: Explained
) -> None:
    refold = await under_refold(tmp_path, protocol, rules)
    assert stock.keys() == refold.keys()
    found = {step: differences(tree, refold[step]) for step, tree in stock.items()}
    say(report(found, explained))
    places = {place_of(one) for step in found for one in found[step]}
    assert places == explained.keys(), report(found, explained)


def report(found: Mapping[str, list[Difference]], explained: Explained) -> str:
    """All differences by the step after which they exist."""
    lines = []
    for step, differing in found.items():
        lines.append(f"after {step!r}: {len(differing) or 'no'} differences")
        for one in differing:
            reason = explained.get(place_of(one))
            lines.append(f"    {one} ({reason.name if reason else 'not explained'})")
    return "\n".join(lines)


def place_of(difference: Difference) -> str:
    """The znode of the topic of a difference, or the znode of the difference."""
    path, _ = difference.field
    parts = path.split("/")
    return "/".join(parts[:4]) if parts[1:3] == ["brokers", "topics"] else path


async def under_stock(folder: Path, protocol: str) -> dict[str, Tree]:
    """The trees with broker 1 as controller throughout."""
    async with cluster(folder, protocol) as (lab_cluster, tree):
        incident = ScriptedIncident(
            lab_cluster.lab, tree, narrator("stock"), moves_leaders_first=False
        )
        await incident.play()
        assert await lab_cluster.view.controller() == STOCK
        assert await lab_cluster.view.controller_epoch() == 1
        return incident.steps


async def under_refold(folder: Path, protocol: str, rules: str) -> dict[str, Tree]:
    """The trees with refold as controller throughout; its log must agree in a replay."""
    async with cluster(folder, protocol) as (lab_cluster, tree):
        daemon = await lab_cluster.controlling(settings={**REFOLD_SETTINGS, "refold.rules": rules})
        incident = ScriptedIncident(
            lab_cluster.lab, tree, narrator(f"{rules} rules"), moves_leaders_first=rules == "refold"
        )
        await incident.play()
        assert await lab_cluster.view.controller_epoch() == 2
        assert await daemon.stop() == 0, daemon.last_output()
    await lab_cluster.check_logs()
    return incident.steps


@asynccontextmanager
async def cluster(
    folder: Path, protocol: str
) -> AsyncIterator[tuple[DefaultLabCluster, ZooKeeperTree]]:
    """Five brokers, of which the first is controller."""
    async with Lab(folder / "cluster") as lab:
        zookeeper = await lab.start_zookeeper()
        await lab.start_brokers(1, inter_broker_protocol=protocol, config=BROKER_CONFIG)
        async with (
            DefaultLabCluster(lab, folder, protocol=protocol) as lab_cluster,
            ZooKeeperTree(zookeeper.connect) as tree,
        ):
            await lab_cluster.until_controller(STOCK)
            others = BROKERS - 1
            await lab.start_brokers(others, inter_broker_protocol=protocol, config=BROKER_CONFIG)
            yield lab_cluster, tree


def narrator(who: str) -> Say:
    """Returns a function that prints lines with their time."""
    began = time.monotonic()
    return lambda text: say(f"{time.monotonic() - began:6.1f} s  {who}: {text}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
