"""Clusters created in a real ZooKeeper, for the checks before a start."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiozk import ZKClient
from aiozk.exc import NoNode

from tools.lab.cluster_view import until
from tools.lab.ports import HOST, free_port
from tools.lab.refold import Refold, run

OWN_ID = 1000


@asynccontextmanager
async def client(connect: str) -> AsyncIterator[ZKClient]:
    """A ZooKeeper client with a separate session."""
    made = ZKClient(connect, session_timeout=20)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def daemon_of(connect: str, log_dir: Path, *options: str) -> AsyncIterator[Refold]:
    """A `refold run` process, which is killed at the end of the block."""
    daemon = Refold(connect, OWN_ID, log_dir, *options)
    try:
        yield daemon
    finally:
        if daemon.running:
            daemon.kill()
            await daemon.ended()


async def make_cluster(zookeeper: ZKClient, chroot: str) -> None:
    """The znodes of a Kafka cluster without brokers. Without /admin no failover succeeds."""
    for path in ("/admin", "/brokers/ids", "/brokers/topics", "/cluster/id"):
        await zookeeper.ensure_path(chroot + path)
    await zookeeper.set(f"{chroot}/cluster/id", json.dumps({"version": "1", "id": "c1"}), -1)


async def until_controller(zookeeper: ZKClient, chroot: str, broker: int) -> None:
    """Wait until /controller names the broker."""

    async def named() -> bool:
        try:
            content = await zookeeper.get_data(f"{chroot}/controller")
        except NoNode:
            return False
        return bool(json.loads(content)["brokerid"] == broker)

    await until(named, 30, f"broker {broker} as controller")


async def refold(
    command: str, connect: str, log_dir: Path, *more: str, broker_id: int = OWN_ID
) -> tuple[int, str]:
    """Exit status and output of `refold run` or `refold check`."""
    return await run(
        *(command, "--zookeeper", connect, "--broker-id", str(broker_id)),
        *("--log-dir", str(log_dir), "--listeners", f"PLAINTEXT://{HOST}:{free_port()}"),
        *more,
    )
