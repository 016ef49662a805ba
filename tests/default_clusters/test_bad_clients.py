"""Clients that cost the controller nothing: AlterPartition beside them is answered in time."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from struct import pack

import pytest

from tests.api.client import (
    ALTER_PARTITION,
    API_VERSIONS,
    METADATA,
    Client,
    alter_partition,
    metadata_request,
)
from tests.daemon.scene import OWN_ID
from tests.default_clusters.cluster import SHUTDOWN_SECONDS_MAX, DefaultScene

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]

TOPIC = "beside"
ASSIGNMENT = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
ANSWERED_SECONDS_MAX = 1.0
ENOUGH = 20
IDLE = 1000

Misbehaviour = Callable[[Client], Awaitable[None]]


async def half_a_frame(client: Client) -> None:
    client.writer.write(pack(">ihhi", 1000, ALTER_PARTITION, 3, 1) + b"half")


async def huge_size(client: Client) -> None:
    client.writer.write(pack(">ihhi", 2**31 - 1, METADATA, 12, 1) + bytes(100_000))


async def large_and_slow(client: Client) -> None:
    """As large as may be, and never whole."""
    client.writer.write(pack(">ihhi", 8 * 1024 * 1024, ALTER_PARTITION, 3, 1) + bytes(1_000_000))


async def unknown_api(client: Client) -> None:
    client.writer.write(pack(">ihhih", 10, 999, 0, 1, -1))


async def unknown_version(client: Client) -> None:
    client.writer.write(pack(">ihhih", 10, API_VERSIONS, 99, 1, -1))


async def garbage(client: Client) -> None:
    client.writer.write(random.Random(1).randbytes(100_000))


async def another_protocol(client: Client) -> None:
    client.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


async def lies(client: Client) -> None:
    """AlterPartition of a broker that it is not."""
    for _ in range(50):
        client.send(ALTER_PARTITION, 1, alter_partition(500))


async def asks_and_never_reads(client: Client) -> None:
    for _ in range(500):
        client.send(METADATA, 12, metadata_request())


async def silence(client: Client) -> None:
    """Connected, and nothing else."""


@asynccontextmanager
async def clients(address: str, behaviour: Sequence[Misbehaviour]) -> AsyncIterator[None]:
    """A connection for each, open as long as the block, if the daemon lets it."""
    port = int(address.rpartition(":")[2])
    async with AsyncExitStack() as stack:
        for one in behaviour:
            client = await stack.enter_async_context(Client(port))
            await one(client)
        yield


@asynccontextmanager
async def answers_timed(address: str) -> AsyncIterator[list[float]]:
    """Has AlterPartition answered again and again during the block; how long each answer took.

    The broker epoch in it is stale, so that nothing is changed.
    """
    seconds: list[float] = []

    async def ask() -> None:
        async with Client(int(address.rpartition(":")[2])) as client:
            while True:
                began = time.monotonic()
                answer = await client.ask(ALTER_PARTITION, 1, alter_partition())
                seconds.append(time.monotonic() - began)
                assert answer.error_code.name == "stale_broker_epoch"
                await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(ask())
        yield seconds
        asking.cancel()


@pytest.mark.parametrize(
    "behaviour",
    [
        [half_a_frame, huge_size, large_and_slow, unknown_api, unknown_version] * 10,
        [garbage, another_protocol, lies, asks_and_never_reads] * 5,
        pytest.param([silence] * IDLE, marks=pytest.mark.ci),
    ],
    ids=["frames", "contents", "idle"],
)
async def test_isr_changes_are_answered_beside_them(
    scene: DefaultScene, behaviour: Sequence[Misbehaviour]
) -> None:
    daemon = await scene.controlling()
    if not await scene.replicas_of(TOPIC):
        await scene.create_topic(TOPIC, ASSIGNMENT)
    await scene.until_in_sync(TOPIC, 3)
    epoch = await scene.view.controller_epoch()
    follower = scene.lab.brokers[2]
    async with (
        clients(scene.own_address, behaviour),
        answers_timed(scene.own_address) as seconds,
    ):
        # The controller is asked when it stops, and for each ISR that it comes back to.
        assert await scene.stop_in_order(follower) < SHUTDOWN_SECONDS_MAX
        await follower.start()
        await scene.until_in_sync(TOPIC, 3)
    assert len(seconds) > ENOUGH
    assert max(seconds) < ANSWERED_SECONDS_MAX
    assert daemon.running
    assert await scene.view.controller() == OWN_ID
    assert await scene.view.controller_epoch() == epoch, "the session lived"
    assert await daemon.stop() == 0
