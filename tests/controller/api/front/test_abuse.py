"""Slow, silent, lying, huge and disappearing clients are disconnected, and brokers are served."""

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from struct import pack

import anyio
import pytest

from controller.api.front.request_quotas import SMALL_BYTES
from controller.api.limits import EndpointLimits
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.values import Broker
from controller.wire.client_requests import RequestHead, decode_response, encode_request
from tests.controller.api.client import (
    API_VERSIONS,
    METADATA,
    Client,
    allocate_producer_ids,
    api_versions,
    connected,
    metadata_request,
)
from tests.controller.api.conftest import KNOWN, Serve, ServedEndpoint
from tests.controller.api.latency import ASKED, alter_partition_frame, answered_in_time
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION
from tests.scripted_broker import Received, ScriptedBroker

HEAD = pack(">hhi", ALTER_PARTITION, 1, 5)
STRANGER = 99
MIB = 1024 * 1024
PACE = EndpointLimits().other_bytes_per_second


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


async def test_malformed_request_closes_the_connection(served: ServedEndpoint) -> None:
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
        await asyncio.sleep(0.02)  # The client is slow.


async def nothing(client: Client) -> None:
    return


async def test_client_that_exceeds_its_time_is_disconnected(serve: Serve) -> None:
    served = await serve(transfer_ms=500, first_request_ms=500)
    for abuse in (half_a_frame, slow_loris, nothing):
        async with Client(served.port) as client, asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(abuse(client))
            assert await client.closed(), abuse
            sending.cancel()


@pytest.fixture
def many_files() -> Iterator[None]:
    """Raise this process's limit of open files to its maximum."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
async def test_thousand_silent_and_slow_clients_do_not_delay_brokers(serve: Serve) -> None:
    served = await serve()
    async with answered_in_time(served), connected(1000, served.port) as clients:
        for number, client in enumerate(clients):
            if number % 3 == 1:
                await half_a_frame(client)
            elif number % 3 == 2:
                client.writer.write(os.urandom(64))


async def test_silent_clients_do_not_prevent_brokers_from_connecting(serve: Serve) -> None:
    served = await serve(connections_max=50, connections_per_address_max=40)
    async with answered_in_time(served), connected(200, served.port) as clients:
        async with Client(served.port) as broker:
            await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        for client in clients[:100]:
            assert await client.closed()


async def test_clients_that_disconnect_during_a_request_do_not_delay_brokers(
    served: ServedEndpoint,
) -> None:
    async with answered_in_time(served):
        for _ in range(100):
            async with Client(served.port) as client:
                await half_a_frame(client)
            async with Client(served.port) as client:
                client.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())


async def test_large_request_of_a_broker_does_not_delay_others(served: ServedEndpoint) -> None:
    """5 MB, 200,000 partitions. Only the front decodes it, outside of its event loop."""
    async with answered_in_time(served), Client(served.port) as client:
        client.writer.write(alter_partition_frame(200_000))
        assert decode_response(ASKED, await client.receive()).error_code == 0
    large = [one for one in served.events if isinstance(one, AlterPartitionReceived)]
    assert max(len(one.partitions) for one in large) == 200_000


@pytest.mark.long
@pytest.mark.parametrize("partitions", [1000, 3000])
async def test_incomplete_large_requests_do_not_delay_brokers(
    served: ServedEndpoint, partitions: int
) -> None:
    """Clients that are not brokers are disconnected for the size, or share little memory."""
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
        await anyio.sleep(1)  # Brokers send requests meanwhile.


async def test_incomplete_large_requests_in_the_name_of_a_broker_do_not_delay_other_brokers(
    serve: Serve,
) -> None:
    """The requests use that broker's epoch, too, so they delay only that broker's large
    requests."""
    served = await serve(brokers=(KNOWN, Broker(2, KNOWN.epoch, ())))
    frame = alter_partition_frame(100_000, 2)
    async with connected(6, served.port) as liars, answered_in_time(served, 3000):
        for client in liars:
            client.writer.write(pack(">i", 8 * MIB - 8) + frame[4:])
        await anyio.sleep(1)  # Brokers send requests meanwhile.


@pytest.mark.parametrize("partitions", [1, 5000])
async def test_broker_has_one_request_of_a_kind_in_flight(
    served: ServedEndpoint, partitions: int
) -> None:
    served.answers_itself = False
    async with connected(3, served.port) as clients:
        for client in clients[:2]:
            client.writer.write(alter_partition_frame(partitions))
        (first,) = await served.has_events(1)
        clients[2].send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        _, other = await served.has_events(2)
        assert isinstance(other, AllocateProducerIdsReceived)
        served.endpoint.answer(AlterPartitionResponse(first.request, 0))
        _, _, second = await served.has_events(3)
        assert isinstance(second, AlterPartitionReceived)


async def test_many_small_requests_in_the_name_of_a_broker_do_not_delay_other_brokers(
    serve: Serve,
) -> None:
    served = await serve(brokers=(KNOWN, Broker(2, KNOWN.epoch, ())))
    frame = alter_partition_frame(1000, 2)
    assert len(frame) < SMALL_BYTES
    async with connected(200, served.port) as liars, answered_in_time(served, 100):
        for client in liars:
            client.writer.write(frame * 3)
        await anyio.sleep(1)  # Brokers send requests meanwhile.


async def test_client_with_many_requests_does_not_block_others(served: ServedEndpoint) -> None:
    """20,000 small requests, each answered at once by the front."""
    burst = encode_request(RequestHead(API_VERSIONS, 0, 1), "test", api_versions(0)) * 20_000
    async with connected(3, served.port) as clients, answered_in_time(served):
        for client in clients:
            client.writer.write(burst)
        await anyio.sleep(1)  # Brokers send requests meanwhile.


async def test_stalled_large_request_frees_its_memory_for_the_next(serve: Serve) -> None:
    """The largest requests of non-brokers fill the memory, each until its timeout."""
    served = await serve(large_transfer_ms=2000)
    async with connected(3, served.port) as (holder, client, broker):
        holder.writer.write(pack(">i", MIB) + HEAD + bytes(MIB - 1000))
        await holder.writer.drain()
        # The front reads what has arrived before, too.
        await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        client.writer.write(alter_partition_frame(5000, STRANGER))
        with anyio.move_on_after(1):
            await client.receive()
            raise AssertionError("answered while the other request held the memory")
        with anyio.fail_after(10):
            await client.receive()
        assert await holder.closed()


@asynccontextmanager
async def repeating(served: ServedEndpoint, frame: bytes, count: int) -> AsyncIterator[None]:
    """`count` clients send a request, and again after each response."""

    async def repeat() -> None:
        async with Client(served.port) as client:
            while True:
                client.writer.write(frame)
                await client.receive()

    async with asyncio.TaskGroup() as tasks:
        clients = [tasks.create_task(repeat()) for _ in range(count)]
        yield
        for one in clients:
            one.cancel()


@pytest.mark.sampled
@pytest.mark.parametrize("partitions", [1000, 3000])
async def test_complete_large_requests_of_non_brokers_are_processed_one_by_one(
    served: ServedEndpoint, partitions: int
) -> None:
    """1 MB each, 35,000 partitions, repeated, from an unregistered broker."""
    frame = alter_partition_frame(35_000, STRANGER)
    began = time.perf_counter()

    async with repeating(served, frame, 6), answered_in_time(served, partitions):
        await anyio.sleep(2)  # Brokers send requests meanwhile.
    of_others = [
        one
        for one in served.events
        if isinstance(one, AlterPartitionReceived) and one.broker == STRANGER
    ]
    assert 0 < len(of_others) <= 2 + (time.perf_counter() - began) * PACE / len(frame)


async def test_small_requests_of_non_brokers_are_rate_limited(served: ServedEndpoint) -> None:
    """Each of them is written to the event log."""
    frame = alter_partition_frame(600, STRANGER)
    began = time.perf_counter()

    async with repeating(served, frame, 50), answered_in_time(served):
        await anyio.sleep(3)  # Brokers send requests meanwhile.
    of_others = [one for one in served.events if one.broker == STRANGER]
    assert len(of_others) <= (MIB + (time.perf_counter() - began) * PACE) / len(frame) + 1


async def test_clients_that_read_no_answers_do_not_delay_forwarding(
    with_broker: ServedEndpoint, broker: ScriptedBroker
) -> None:
    async def large_answer(received: Received) -> bytes | None:
        return received.answer(bytes(4 * 1024 * 1024))

    broker.script = large_answer
    async with answered_in_time(with_broker), connected(20, with_broker.port) as clients:
        for client in clients:
            for _ in range(5):
                client.send(METADATA, 12, metadata_request())
        await broker.has_received(20)


async def test_disconnected_client_is_logged(
    served: ServedEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(served.port) as liar:
        liar.writer.write(pack(">i", 2**31 - 1) + HEAD)
        assert await liar.closed()
    async with Client(
        served.port
    ) as broker:  # The front reports its closed connections before this answer.
        await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
    assert "closed the connection of 127.0.0.1: a request of 2147483647 bytes" in caplog.text
