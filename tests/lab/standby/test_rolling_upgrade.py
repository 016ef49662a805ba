"""A planned stop of the active daemon, and the upgrade of a pair of standbys from one version to
another: the steps and the commands of docs/runbooks/upgrade-pair.md."""

import json
import shlex
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.controller.daemon.lab_cluster import timed
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tools.lab import Lab
from tools.lab.ports import HOST, free_port
from tools.lab.refold import Refold, run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[3]
CODE = ("controller", "eventstore", "replay", "pyproject.toml")
RULE = "controller/core/procedures/elections/rebalance.py"
"""The old version rebalances leaders one second later after a failover."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The code of another version, whose decisions differ."""
    code = copied(tmp_path / "refold-1")
    text = (code / RULE).read_text()
    (code / RULE).write_text(text.replace("FIRST_MS = 5_000", "FIRST_MS = 6_000"))
    return code


def copied(code: Path) -> Path:
    """Copy the code of this version to a folder."""
    code.mkdir()
    for name in CODE:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, code / name)
    return code


@asynccontextmanager
async def cluster_in(folder: Path) -> AsyncIterator[DefaultLabCluster]:
    """Three stock brokers."""
    async with Lab(folder / "servers") as lab:
        await lab.start_zookeeper()
        await lab.start_brokers(3, config={"zookeeper.session.timeout.ms": "30000"})
        async with DefaultLabCluster(lab, folder) as lab_cluster:
            await lab_cluster.until_stock_controller()
            yield lab_cluster


def standby_of(lab_cluster: DefaultLabCluster, log_dir: Path, code: Path | None = None) -> Refold:
    """A standby that has not been started, with another address."""
    addresses = ("--listeners", f"PLAINTEXT://{HOST}:{free_port()}")
    return lab_cluster.daemon("--standby", *addresses, log_dir=log_dir, code=code)


def documented(command: str) -> list[str]:
    """The arguments of this command in docs/runbooks/upgrade-pair.md, which is the same everywhere
    there."""
    lines = (ROOT / "docs/runbooks/upgrade-pair.md").read_text().splitlines()
    [line] = {one.strip() for one in lines if one.strip().startswith(f"refold {command} /")}
    return shlex.split(line)[1:]


async def run_documented(
    command: str, places: Mapping[str, Path], *options: str
) -> tuple[int, str]:
    """Run the command of the page, in the test's places of the folders that it names."""
    given = [str(places.get(one, one)) for one in documented(command)]
    assert set(given).isdisjoint(places), given
    return await run(*given, *options)


async def states(lab_cluster: DefaultLabCluster, topic: str) -> dict[int, Any]:
    """Leaders, ISRs and leader epochs."""
    found = await lab_cluster.view.states(topic)
    return {
        number: (one["leader"], one["leader_epoch"], one["isr"]) for number, one in found.items()
    }


async def stopped(
    lab_cluster: DefaultLabCluster, active: Refold, standby: Refold, topic: str
) -> None:
    """Stop the active daemon as planned: the standby has the role, and no leader moves."""
    before, epoch = await states(lab_cluster, topic), await lab_cluster.view.controller_epoch()
    # No broker takes the role first, and none loses its session.
    with lab_cluster.brokers_paused():
        assert await active.stop() == 0
        await lab_cluster.until_reported(standby, "failover_done")
    await lab_cluster.until_reported(standby, "standby_used")
    assert await lab_cluster.view.controller_epoch() == epoch + 1
    assert await states(lab_cluster, topic) == before


async def test_standby_takes_the_role_of_a_daemon_that_is_stopped(
    folder: Path, tmp_path: Path
) -> None:
    async with cluster_in(tmp_path) as lab_cluster:
        first = await lab_cluster.controlling("--standby")
        await lab_cluster.until_reported(first, "failover_done")
        await lab_cluster.create_topic("kept", {0: [1, 2, 3], 1: [2, 3, 1]})
        await lab_cluster.until_in_sync("kept", 3)
        second = standby_of(lab_cluster, folder / "second" / "logs")
        await second.start()
        await lab_cluster.until_reported(second, "standby_ready")
        await stopped(lab_cluster, first, second, "kept")
        codes = [one.get("code") for one in first.messages()]
        assert "resigned" in codes
        await lab_cluster.create_topic("after", {0: [3, 1]})
        third = standby_of(lab_cluster, folder / "third" / "logs")
        await third.start()
        await lab_cluster.until_reported(third, "standby_ready")
        await stopped(lab_cluster, second, third, "kept")
        assert await third.stop() == 0
        await lab_cluster.until_stock_controller()
        await lab_cluster.check_logs(["0"])


async def test_pair_is_upgraded_one_daemon_after_the_other(
    folder: Path, old: Path, tmp_path: Path
) -> None:
    async with cluster_in(tmp_path) as lab_cluster:
        of_active = folder / "active" / "logs"
        active = await lab_cluster.controlling("--standby", log_dir=of_active, code=old)
        await lab_cluster.until_reported(active, "failover_done")
        await lab_cluster.create_topic("kept", {0: [1, 2, 3], 1: [2, 3, 1]})
        await lab_cluster.until_in_sync("kept", 3)
        standby = standby_of(lab_cluster, folder / "standby" / "logs", code=old)
        await standby.start()
        await lab_cluster.until_reported(standby, "standby_ready")

        places = {"/var/lib/refold": of_active, "/opt/refold-1": old, "/opt/refold-2": ROOT}
        status, report = await run_documented("diff", places)
        assert status == 1, report
        assert "automatic preferred replica election" in report

        assert await standby.stop() == 0
        upgraded = standby_of(lab_cluster, folder / "upgraded" / "logs")
        await upgraded.start()
        await lab_cluster.until_reported(upgraded, "standby_ready")

        async def is_listed() -> bool:
            code, output = await run_documented("status", places, "--json")
            found = json.loads(output)
            return code == 0 and [one["process"] for one in found["standbys"]] == [upgraded.pid]

        await timed(is_listed, "the upgraded standby is listed")
        _, output = await run_documented("status", places, "--json")
        [listed] = json.loads(output)["standbys"]
        assert listed["core"] != await core_of(of_active)

        await stopped(lab_cluster, active, upgraded, "kept")
        again = standby_of(lab_cluster, folder / "again" / "logs")
        await again.start()
        await lab_cluster.until_reported(again, "standby_ready")
        await lab_cluster.create_topic("after", {0: [2, 3, 1]})
        assert [await again.stop(), await upgraded.stop()] == [0, 0]
        await lab_cluster.until_stock_controller()
        for log in lab_cluster.logs():
            is_old = await core_in(log) != listed["core"]
            code, output = await run("replay", str(log), code=old if is_old else None)
            assert code == 0, output
        assert len(lab_cluster.logs()) == 4


async def core_of(log_dir: Path) -> str:
    """The fingerprint of the core that wrote the only log in a folder."""
    [log] = log_dir.glob("run-*")
    return await core_in(log)


async def core_in(log: Path) -> str:
    """The fingerprint of the core that wrote a log."""
    code, output = await run("log", "stats", str(log), "--json", with_notes=False)
    assert code == 0, output
    return str(json.loads(output)["header"]["core_fingerprint"])
