"""Misbehaving clients do not delay the controller's answers to AlterPartition."""

import asyncio
import os
import random
import signal
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from struct import pack

import pytest

from controller.wire.client_requests import RequestHead, encode_request
from tests.controller.api.client import (
    API_VERSIONS,
    METADATA,
    Client,
    alter_partition,
    api_versions,
    metadata_request,
)
from tests.controller.api_keys import ALTER_PARTITION
from tests.controller.daemon.lab_cluster import OWN_ID
from tests.lab.default_clusters.cluster import SHUTDOWN_SECONDS_MAX, DefaultLabCluster

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]

TOPIC = "undisturbed"
ASSIGNMENT = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
ANSWERED_SECONDS_MAX = 5.0
"""A broker waits up to 30 s for a response; the machine may be busy."""
ANSWERED_SECONDS_MEDIAN = 1.0
ENOUGH = 10
IDLE = 1000
HEAD = RequestHead(ALTER_PARTITION, 1, 5)
MIB = 1024 * 1024

Misbehaviour = Callable[[Client], Awaitable[None]]


async def half_a_frame(client: Client) -> None:
    client.writer.write(pack(">ihhi", 1000, ALTER_PARTITION, 3, 1) + b"half")


async def huge_size(client: Client) -> None:
    client.writer.write(pack(">ihhi", 2**31 - 1, METADATA, 12, 1) + bytes(100_000))


async def largest_incomplete_frame(client: Client) -> None:
    client.writer.write(pack(">ihhi", 8 * MIB, ALTER_PARTITION, 3, 1) + bytes(8 * MIB - 1000))


async def large_incomplete_frame(client: Client) -> None:
    """The largest frame that is accepted from a client that is not a broker."""
    client.writer.write(pack(">ihhi", MIB, ALTER_PARTITION, 3, 1) + bytes(MIB - 1000))


LARGE_REQUEST = encode_request(HEAD, "test", alter_partition(35_000))


async def large_requests_of_another_broker(client: Client) -> None:
    """A complete AlterPartition of 1 MB in the name of another broker."""
    while True:
        client.writer.write(LARGE_REQUEST)
        await client.receive()


async def unknown_api(client: Client) -> None:
    client.writer.write(pack(">ihhih", 10, 999, 0, 1, -1))


async def unknown_version(client: Client) -> None:
    client.writer.write(pack(">ihhih", 10, API_VERSIONS, 99, 1, -1))


async def garbage(client: Client) -> None:
    client.writer.write(random.Random(1).randbytes(100_000))


async def another_protocol(client: Client) -> None:
    client.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


async def requests_of_another_broker(client: Client) -> None:
    """AlterPartition in the name of another broker."""
    for _ in range(50):
        client.send(ALTER_PARTITION, 1, alter_partition(500))


async def requests_without_reading(client: Client) -> None:
    for _ in range(500):
        client.send(METADATA, 12, metadata_request())


async def idle_connection(client: Client) -> None:
    """A connection without a request."""


async def misbehave(port: int, behaviour: Misbehaviour) -> None:
    """Misbehaves on a connection that stays open until the daemon closes it."""
    async with Client(port) as client:
        try:
            await behaviour(client)
            await client.reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            return


@asynccontextmanager
async def clients(address: str, behaviour: Sequence[Misbehaviour]) -> AsyncIterator[None]:
    """A client for each behaviour during the block."""
    port = int(address.rpartition(":")[2])
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(misbehave(port, one)) for one in behaviour]
        yield
        for one in running:
            one.cancel()


@asynccontextmanager
async def answers_timed(lab_cluster: DefaultLabCluster) -> AsyncIterator[list[float]]:
    """Sends AlterPartition repeatedly during the block; returns the seconds until each response.

    The request names an unknown topic, so that it changes nothing.
    """
    epoch = await lab_cluster.view.broker_epoch(1)
    frames = [
        encode_request(HEAD, "1", alter_partition(partitions, 1, epoch)) for partitions in (1, 1000)
    ]
    seconds: list[float] = []

    async def ask() -> None:
        async with Client(int(lab_cluster.daemon_address.rpartition(":")[2])) as client:
            for frame in cycle(frames):
                began = time.monotonic()
                client.writer.write(frame)
                answer = await client.answer_to(HEAD)
                seconds.append(time.monotonic() - began)
                assert answer.error_code == 0
                await asyncio.sleep(0.05)  # The bad clients are served.

    async with asyncio.TaskGroup() as tasks:
        asking = tasks.create_task(ask())
        yield seconds
        asking.cancel()


@pytest.mark.parametrize(
    "behaviour",
    [
        [half_a_frame, huge_size, unknown_api, unknown_version] * 10,
        [garbage, another_protocol, requests_of_another_broker, requests_without_reading] * 5,
        [
            *[largest_incomplete_frame, large_incomplete_frame] * 6,
            *[large_requests_of_another_broker] * 3,
        ],
        pytest.param([idle_connection] * IDLE, marks=pytest.mark.ci),
    ],
    ids=["frames", "contents", "large", "idle"],
)
async def test_isr_changes_are_answered_in_spite_of_misbehaving_clients(
    lab_cluster: DefaultLabCluster, behaviour: Sequence[Misbehaviour]
) -> None:
    daemon = await lab_cluster.controlling()
    if not await lab_cluster.replicas_of(TOPIC):
        await lab_cluster.create_topic(TOPIC, ASSIGNMENT)
    await lab_cluster.until_in_sync(TOPIC, 3)
    epoch = await lab_cluster.view.controller_epoch()
    follower = lab_cluster.lab.brokers[2]
    async with (
        clients(lab_cluster.daemon_address, behaviour),
        answers_timed(lab_cluster) as seconds,
    ):
        # The broker asks the controller when it stops, and for each ISR to which it returns.
        assert await lab_cluster.stop_in_order(follower) < SHUTDOWN_SECONDS_MAX
        await follower.start()
        await lab_cluster.until_in_sync(TOPIC, 3)
    assert len(seconds) > ENOUGH
    assert max(seconds) < ANSWERED_SECONDS_MAX
    assert statistics.median(seconds) < ANSWERED_SECONDS_MEDIAN
    assert daemon.running
    assert await lab_cluster.view.controller() == OWN_ID
    assert await lab_cluster.view.controller_epoch() == epoch, "the session was lost"
    assert await daemon.stop() == 0


async def test_controlled_shutdown_succeeds_although_the_front_hangs(
    lab_cluster: DefaultLabCluster,
) -> None:
    """The front is replaced, and the broker's next request reaches the new front."""
    daemon = await lab_cluster.controlling()
    if not await lab_cluster.replicas_of(TOPIC):
        await lab_cluster.create_topic(TOPIC, ASSIGNMENT)
    await lab_cluster.until_in_sync(TOPIC, 3)
    follower = lab_cluster.lab.brokers[2]
    async with Client(int(lab_cluster.daemon_address.rpartition(":")[2])) as client:
        await client.ask(API_VERSIONS, 3, api_versions())
        hung = daemon.front
        os.kill(hung, signal.SIGSTOP)
        await lab_cluster.stop_in_order(follower)
    assert daemon.front != hung
    errors = [one["message"] for one in daemon.messages() if one["level"] == "error"]
    assert any("did not answer for 10 s and was killed" in one for one in errors)
    assert await lab_cluster.view.controller() == OWN_ID, "the role was lost"
    await follower.start()
    await lab_cluster.until_in_sync(TOPIC, 3)
    assert await daemon.stop() == 0
