"""Clients that are slow, silent, lying, huge or gone: they end, and brokers notice nothing."""

import asyncio
import os
import resource
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from struct import pack

import anyio
import pytest

from controller.api.front.request_quotas import SMALL_BYTES
from controller.api.limits import Limits
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AnswerAlterPartition,
)
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.values import Broker
from controller.wire.client_requests import RequestHead, decode_response, encode_request
from tests.controller.api.client import (
    API_VERSIONS,
    METADATA,
    Client,
    allocate_producer_ids,
    alter_partition,
    api_versions,
    connected,
    metadata_request,
)
from tests.controller.api.conftest import KNOWN, Serve, Served
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION
from tests.scripted_broker import Received, ScriptedBroker

ENOUGH = 10
ANSWERED_IN_S = 0.1
SLOWER_MAX = 5
"""What an AlterPartition beside an abuse may take, by its median: that many seconds, or times as
long as without it. The machine is shared."""

HEAD = pack(">hhi", ALTER_PARTITION, 1, 5)
ASKED = RequestHead(ALTER_PARTITION, 1, 5)
STRANGER = 99
MIB = 1024 * 1024
PACE = Limits().other_bytes_per_second


def alter_partition_frame(partitions: int, broker: int = KNOWN.id) -> bytes:
    return encode_request(ASKED, "test", alter_partition(partitions, broker))


@asynccontextmanager
async def answered_in_time(served: Served, partitions: int = 1) -> AsyncIterator[None]:
    """A broker asks AlterPartition again and again beside the block, on a connection that
    stands."""
    stop = anyio.Event()
    frame = alter_partition_frame(partitions)
    beside: list[float] = []

    async def seconds_of(broker: Client) -> float:
        began = time.perf_counter()
        broker.writer.write(frame)
        await broker.receive()
        return time.perf_counter() - began

    async def ask(broker: Client) -> None:
        while not stop.is_set() or len(beside) < ENOUGH:
            beside.append(await seconds_of(broker))
            await asyncio.sleep(0.01)

    async with Client(served.port) as broker, anyio.create_task_group() as tasks:
        alone = [await seconds_of(broker) for _ in range(ENOUGH)]
        tasks.start_soon(ask, broker)
        yield
        stop.set()
    allowed = max(ANSWERED_IN_S, SLOWER_MAX * statistics.median(alone))
    assert statistics.median(beside) < allowed, (sorted(alone)[-5:], sorted(beside)[-5:])


NO_REQUESTS = {
    "2 GB": pack(">i", 2**31 - 1) + HEAD,
    "a negative length": pack(">i", -1) + HEAD,
    "no room for a header": pack(">i", 4) + HEAD,
    "an AlterPartition of 9 MB": pack(">i", 9 * 1024 * 1024) + HEAD,
    "a DescribeConfigs of 2 MB": pack(">ihhi", 2 * 1024 * 1024, 32, 4, 5),
    "HTTP": b"GET / HTTP/1.1\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50),
    "garbage after a good header": pack(">i", 40) + HEAD + bytes(32),
    "a body that ends early": pack(">i", 12) + HEAD + pack(">hh", -1, 7),
    "a version that is not offered": pack(">ihhih", 10, ALTER_PARTITION, 9, 5, -1),
    "a negative api key": pack(">ihhih", 10, -7, 0, 5, -1),
}


async def test_malformed_request_closes_the_connection(served: Served) -> None:
    async with answered_in_time(served):
        for what, sent in NO_REQUESTS.items():
            async with Client(served.port) as liar:
                liar.writer.write(sent)
                assert await liar.closed(), what


async def half_a_frame(client: Client) -> None:
    client.writer.write(pack(">i", 1000) + HEAD + bytes(100))


async def slow_loris(client: Client) -> None:
    for byte in pack(">i", 1000) + HEAD + bytes(1000):
        client.writer.write(bytes([byte]))
        await asyncio.sleep(0.02)


async def nothing(client: Client) -> None:
    return


async def test_a_client_gets_no_longer_than_its_time(serve: Serve) -> None:
    served = await serve(transfer_ms=500, first_request_ms=500)
    for abuse in (half_a_frame, slow_loris, nothing):
        async with Client(served.port) as client, asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(abuse(client))
            assert await client.closed(), abuse
            sending.cancel()


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process open as many files as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
async def test_a_thousand_silent_and_slow_clients(serve: Serve) -> None:
    served = await serve()
    async with answered_in_time(served), connected(1000, served.port) as clients:
        for number, client in enumerate(clients):
            if number % 3 == 1:
                await half_a_frame(client)
            elif number % 3 == 2:
                client.writer.write(os.urandom(64))


async def test_silent_clients_do_not_keep_brokers_out(serve: Serve) -> None:
    served = await serve(connections_max=50, connections_per_address_max=40)
    async with answered_in_time(served), connected(200, served.port) as clients:
        async with Client(served.port) as broker:
            await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        for client in clients[:100]:
            assert await client.closed()


async def test_clients_that_go_in_the_middle(served: Served) -> None:
    async with answered_in_time(served):
        for _ in range(100):
            async with Client(served.port) as client:
                await half_a_frame(client)
            async with Client(served.port) as client:
                client.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())


async def test_a_large_request_of_a_broker_holds_nobody_up(served: Served) -> None:
    """5 MB, 200,000 partitions; only the front decodes it, beside its event loop."""
    async with answered_in_time(served), Client(served.port) as client:
        client.writer.write(alter_partition_frame(200_000))
        assert decode_response(ASKED, await client.receive()).error_code == 0
    large = [one for one in served.events if isinstance(one, AlterPartitionReceived)]
    assert max(len(one.partitions) for one in large) == 200_000


@pytest.mark.parametrize("partitions", [1000, 3000])
async def test_large_requests_that_never_become_whole_keep_no_broker_out(
    served: Served, partitions: int
) -> None:
    """Those of others than brokers are closed for their size, or share little room."""
    async with (
        connected(6, served.port) as largest,
        connected(6, served.port) as large,
        answered_in_time(served, partitions),
    ):
        for client in largest:
            client.writer.write(pack(">i", 8 * MIB) + HEAD + bytes(8 * MIB - 1000))
        for client in large:
            client.writer.write(pack(">i", MIB) + HEAD + bytes(MIB - 1000))
        for client in largest:
            assert await client.closed()
        await anyio.sleep(1)


async def test_large_requests_under_one_brokers_name_keep_no_other_out(serve: Serve) -> None:
    """They have its epoch, too: they hold up that one, where it has a large request itself."""
    served = await serve(brokers=(KNOWN, Broker(2, KNOWN.epoch, ())))
    frame = alter_partition_frame(100_000, 2)
    async with connected(6, served.port) as liars, answered_in_time(served, 3000):
        for client in liars:
            client.writer.write(pack(">i", 8 * MIB - 8) + frame[4:])
        await anyio.sleep(1)


@pytest.mark.parametrize("partitions", [1, 5000])
async def test_a_broker_has_one_request_of_a_kind_under_way(
    served: Served, partitions: int
) -> None:
    served.answers_itself = False
    async with connected(3, served.port) as clients:
        for client in clients[:2]:
            client.writer.write(alter_partition_frame(partitions))
        (first,) = await served.has_events(1)
        clients[2].send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        _, other = await served.has_events(2)
        assert isinstance(other, AllocateProducerIdsReceived)
        served.endpoint.answer(AnswerAlterPartition(first.request, 0))
        _, _, second = await served.has_events(3)
        assert isinstance(second, AlterPartitionReceived)


async def test_many_small_requests_under_one_brokers_name_keep_no_other_out(serve: Serve) -> None:
    served = await serve(brokers=(KNOWN, Broker(2, KNOWN.epoch, ())))
    frame = alter_partition_frame(1000, 2)
    assert len(frame) < SMALL_BYTES
    async with connected(200, served.port) as liars, answered_in_time(served, 100):
        for client in liars:
            client.writer.write(frame * 3)
        await anyio.sleep(1)


async def test_client_with_many_requests_does_not_block_others(served: Served) -> None:
    """20,000 small requests, each answered at once by the front itself."""
    burst = encode_request(RequestHead(API_VERSIONS, 0, 1), "test", api_versions(0)) * 20_000
    async with connected(3, served.port) as clients, answered_in_time(served):
        for client in clients:
            client.writer.write(burst)
        await anyio.sleep(1)


async def test_a_large_request_that_stands_still_gives_its_room_to_the_next(serve: Serve) -> None:
    """Of others than brokers the largest take all the room, each for its time."""
    served = await serve(large_transfer_ms=2000)
    async with connected(2, served.port) as (holder, client):
        holder.writer.write(pack(">i", MIB) + HEAD + bytes(MIB - 1000))
        await holder.writer.drain()
        await anyio.sleep(0.2)
        client.writer.write(alter_partition_frame(5000, STRANGER))
        with anyio.move_on_after(1):
            await client.receive()
            raise AssertionError("answered beside the other one")
        with anyio.fail_after(10):
            await client.receive()
        assert await holder.closed()


@pytest.mark.parametrize("partitions", [1000, 3000])
async def test_whole_requests_of_others_go_one_after_the_other(
    served: Served, partitions: int
) -> None:
    """1 MB each, 35,000 partitions, again and again, of a broker that there is not."""
    frame = alter_partition_frame(35_000, STRANGER)
    began = time.perf_counter()

    async def ask() -> None:
        async with Client(served.port) as client:
            while True:
                client.writer.write(frame)
                await client.receive()

    async with asyncio.TaskGroup() as tasks:
        others = [tasks.create_task(ask()) for _ in range(6)]
        async with answered_in_time(served, partitions):
            await anyio.sleep(2)
        for one in others:
            one.cancel()
    of_others = [
        one
        for one in served.events
        if isinstance(one, AlterPartitionReceived) and one.broker == STRANGER
    ]
    assert 0 < len(of_others) <= 2 + (time.perf_counter() - began) * PACE / len(frame)


async def test_small_requests_of_others_come_at_a_pace(served: Served) -> None:
    """The event log holds them all."""
    frame = alter_partition_frame(600, STRANGER)
    began = time.perf_counter()

    async def ask() -> None:
        async with Client(served.port) as client:
            while True:
                client.writer.write(frame)
                await client.receive()

    async with asyncio.TaskGroup() as tasks:
        others = [tasks.create_task(ask()) for _ in range(50)]
        async with answered_in_time(served):
            await anyio.sleep(3)
        for one in others:
            one.cancel()
    of_others = [one for one in served.events if one.broker == STRANGER]
    assert len(of_others) <= (MIB + (time.perf_counter() - began) * PACE) / len(frame) + 1


async def test_clients_that_take_no_answers_while_much_is_passed_on(
    with_broker: Served, broker: ScriptedBroker
) -> None:
    async def much(received: Received) -> bytes | None:
        return received.answer(bytes(4 * 1024 * 1024))

    broker.script = much
    async with answered_in_time(with_broker), connected(20, with_broker.port) as clients:
        for client in clients:
            for _ in range(5):
                client.send(METADATA, 12, metadata_request())
        await broker.has_received(20)


async def test_the_operator_is_told_whom_we_turn_away(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(served.port) as liar:
        liar.writer.write(pack(">i", 2**31 - 1) + HEAD)
        assert await liar.closed()
    async with Client(served.port) as broker:  # What is told on the link comes in order.
        await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
    assert "closed the connection of 127.0.0.1: a request of 2147483647 bytes" in caplog.text
