"""How fast a broker's requests are answered while other clients send theirs."""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from controller.wire.client_requests import RequestHead, encode_request
from tests.controller.api.client import (
    Client,
    alter_partition,
)
from tests.controller.api.conftest import KNOWN, ServedEndpoint
from tests.controller.api_keys import ALTER_PARTITION

ENOUGH = 10
ANSWERED_IN_S = 0.1
SLOWER_MAX = 5
"""The maximum median time of an AlterPartition during an abuse: in seconds, or as a multiple
of the time without abuse. The machine is shared."""

ASKED = RequestHead(ALTER_PARTITION, 1, 5)


def alter_partition_frame(partitions: int, broker: int = KNOWN.id) -> bytes:
    return encode_request(ASKED, "test", alter_partition(partitions, broker))


@asynccontextmanager
async def answered_in_time(served: ServedEndpoint, partitions: int = 1) -> AsyncIterator[None]:
    """A broker sends AlterPartition repeatedly during the block, on an open connection."""
    stop = anyio.Event()
    frame = alter_partition_frame(partitions)
    during_block: list[float] = []

    async def seconds_of(broker: Client) -> float:
        began = time.perf_counter()
        broker.writer.write(frame)
        await broker.receive()
        return time.perf_counter() - began

    async def ask(broker: Client) -> None:
        while not stop.is_set() or len(during_block) < ENOUGH:
            during_block.append(await seconds_of(broker))
            await asyncio.sleep(0.01)  # The other clients are served.

    async with Client(served.port) as broker, anyio.create_task_group() as tasks:
        alone = [await seconds_of(broker) for _ in range(ENOUGH)]
        tasks.start_soon(ask, broker)
        yield
        stop.set()
    allowed = max(ANSWERED_IN_S, SLOWER_MAX * statistics.median(alone))
    assert statistics.median(during_block) < allowed, (
        sorted(alone)[-5:],
        sorted(during_block)[-5:],
    )
