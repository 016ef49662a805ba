"""Clusters for the runbooks, and the places that their commands name."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.lab.runbooks.runbook import Runbook
from tools.lab import Lab
from tools.lab.refold import Refold

ZOOKEEPER = "zk1:2181/kafka"
LOG_DIR = "/var/lib/refold"


@asynccontextmanager
async def cluster() -> AsyncIterator[DefaultLabCluster]:
    """Three stock brokers. The folder has a short path, since a socket's path is limited."""
    with TemporaryDirectory() as made:
        async with Lab(Path(made) / "servers") as lab:
            await lab.start_zookeeper()
            await lab.start_brokers(3, config={"zookeeper.session.timeout.ms": "6000"})
            async with DefaultLabCluster(lab, Path(made)) as lab_cluster:
                await lab_cluster.until_stock_controller()
                yield lab_cluster


def runbook(
    name: str, folder: Path, lab_cluster: DefaultLabCluster, daemon: Refold, **more: str
) -> Runbook:
    """A page with the places of this cluster. `more` are other words of the page."""
    places = {ZOOKEEPER: lab_cluster.connect, LOG_DIR: str(daemon.log_dir), **more}
    return Runbook(name, folder, places)


def process_in(output: str) -> str:
    """The process that `refold status` names."""
    [process] = set(re.findall(r"process (\d+)", output))
    return process
