"""Clusters made by hand in a real ZooKeeper, for what refuses a start."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiozk import ZKClient
from aiozk.exc import NoNode

from tools.lab.cluster_view import until
from tools.lab.refold import run


@asynccontextmanager
async def client(connect: str) -> AsyncIterator[ZKClient]:
    """A ZooKeeper client with a session of its own."""
    made = ZKClient(connect, session_timeout=20)
    await made.start()
    try:
        yield made
    finally:
        await made.close()


async def make_cluster(zookeeper: ZKClient, chroot: str) -> None:
    """The znodes by which a Kafka cluster is known, without brokers."""
    for path in ("/brokers/ids", "/brokers/topics", "/cluster/id"):
        await zookeeper.ensure_path(chroot + path)
    await zookeeper.set(f"{chroot}/cluster/id", json.dumps({"version": "1", "id": "c1"}), -1)


async def until_controller(zookeeper: ZKClient, chroot: str, broker: int) -> None:
    """Wait until /controller names that broker."""

    async def named() -> bool:
        try:
            content = await zookeeper.get_data(f"{chroot}/controller")
        except NoNode:
            return False
        return bool(json.loads(content)["brokerid"] == broker)

    await until(named, 30, f"broker {broker} as controller")


async def refold(
    command: str, connect: str, log_dir: object, *more: str, broker_id: int = 1000
) -> tuple[int, str]:
    """Exit status and output of `refold run` or `refold check`."""
    return await run(
        *(command, "--zookeeper", connect, "--broker-id", str(broker_id)),
        *("--log-dir", str(log_dir), "--listeners", "PLAINTEXT://127.0.0.1:9190"),
        *more,
    )
