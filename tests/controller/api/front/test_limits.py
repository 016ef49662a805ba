"""The limits of Kafka's keys in server.properties, on a running front process."""

import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from struct import pack
from typing import Any

import anyio
import pytest
from msgspec.structs import asdict

from controller.core.api_requests.alter_partition import AlterPartitionResponse
from controller.core.api_requests.producer_ids import AllocateProducerIdsResponse
from controller.core.values import Broker
from controller.settings.settings import load
from controller.settings.sources import RawSetting
from controller.wire.client_requests import RequestHead, encode_request
from tests.controller.api.client import (
    METADATA,
    Client,
    allocate_producer_ids,
    alter_partition,
    connected,
    metadata_request,
)
from tests.controller.api.conftest import KNOWN, Serve, ServedEndpoint
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION
from tests.scripted_broker import ScriptedBroker, never

NEEDED = [
    RawSetting("zookeeper.connect", "zk:2181", "test"),
    RawSetting("broker.id", "1000", "test"),
    RawSetting("refold.log.dir", "/logs", "test"),
]
STRANGER = 99
"""An unregistered broker."""

ServeBy = Callable[..., Awaitable[ServedEndpoint]]
LIVE = (KNOWN, Broker(2, KNOWN.epoch, ()), Broker(3, KNOWN.epoch, ()))


@pytest.fixture
def serve_by(serve: Serve, tmp_path: Path) -> ServeBy:
    """Start an endpoint with lines of server.properties. Keyword arguments are limits without a
    key."""

    async def started(*lines: str, **limits: int) -> ServedEndpoint:
        file = tmp_path / "server.properties"
        file.write_text("\n".join(lines))
        settings, warnings = load(NEEDED, {}, file)
        assert warnings == ()
        return await serve(brokers=LIVE, **{**asdict(settings.limits), **limits})

    return started


async def ask(client: Client) -> None:
    """Send the controller a request, which must be answered."""
    with anyio.fail_after(5):
        await client.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())


async def test_connection_beyond_max_connections_replaces_an_idle_one(
    serve_by: ServeBy, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve_by("max.connections=2")
    async with Client(served.port) as first, Client(served.port, "127.0.0.2") as silent:
        await ask(first)
        async with Client(served.port) as third:
            assert await silent.closed()
            await ask(third)
            await ask(first)
    assert (
        "closed the connection of 127.0.0.2: too many connections, and 127.0.0.1 needs one"
    ) in caplog.text


@pytest.mark.parametrize("liar", [allocate_producer_ids(STRANGER), allocate_producer_ids(1, 9)])
async def test_connection_of_a_client_is_never_kept_in_place_of_a_brokers(
    serve_by: ServeBy, liar: Any
) -> None:
    """A broker is recognized by its id and its epoch."""
    served = await serve_by("max.connections=2")
    async with Client(served.port) as broker, Client(served.port) as other:
        await ask(broker)
        await other.ask(ALLOCATE_PRODUCER_IDS, 0, liar)
        async with Client(served.port) as third:
            assert await other.closed()
            await ask(third)
            await ask(broker)


async def test_connection_beyond_max_connections_per_ip_replaces_one_of_its_address(
    serve_by: ServeBy,
) -> None:
    served = await serve_by("max.connections.per.ip=1")
    async with (
        Client(served.port, "127.0.0.2") as other,
        Client(served.port) as first,
        Client(served.port) as second,
    ):
        assert await first.closed()
        await ask(second)
        await ask(other)


async def test_connection_idle_for_connections_max_idle_ms_is_closed(serve_by: ServeBy) -> None:
    served = await serve_by("connections.max.idle.ms=300")
    async with Client(served.port) as new, Client(served.port) as asked:
        await ask(asked)
        assert await new.closed()
        assert await asked.closed()


async def test_connections_with_unlimited_idle_time_stay_open(serve_by: ServeBy) -> None:
    served = await serve_by("connections.max.idle.ms=-1", first_request_ms=300)
    async with Client(served.port) as new, Client(served.port) as asked:
        await ask(asked)
        assert await new.closed()
        async with Client(served.port) as later:
            assert await later.closed()
        await ask(asked)


async def test_request_timeout_ms_limits_the_broker_that_a_request_is_forwarded_to(
    serve_by: ServeBy, broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Kafka, it does not limit how slow a client may be."""
    broker.script = never
    served = await serve_by("request.timeout.ms=200")
    served.endpoint.set_brokers([broker.registered()])
    head = RequestHead(ALLOCATE_PRODUCER_IDS, 0, 5)
    frame = encode_request(head, "test", allocate_producer_ids())
    async with Client(served.port) as slow, Client(served.port) as client:
        slow.writer.write(frame[:-1])
        await slow.writer.drain()
        client.send(METADATA, 12, metadata_request())
        assert await client.closed()
        slow.writer.write(frame[-1:])
        assert (await slow.answer_to(head)).producer_id_len == 1000
    assert "a broker did not answer in time (request.timeout.ms)" in caplog.text


async def test_socket_request_max_bytes(serve_by: ServeBy, broker: ScriptedBroker) -> None:
    served = await serve_by("socket.request.max.bytes=1000")
    served.endpoint.set_brokers([broker.registered()])
    async with Client(served.port) as client:
        for api_key, version in ((METADATA, 12), (ALTER_PARTITION, 1)):
            async with Client(served.port) as liar:
                liar.writer.write(pack(">ihhi", 1001, api_key, version, 5))
                assert await liar.closed()
        frame = pack(">hhi", METADATA, 12, 5) + bytes(992)
        client.writer.write(pack(">i", len(frame)) + frame)
        assert await client.receive() == pack(">i", 5) + frame


async def test_request_beyond_queued_max_requests_waits_for_an_answer(serve_by: ServeBy) -> None:
    served = await serve_by("queued.max.requests=2")
    served.answers_itself = False
    async with connected(3, served.port) as clients:
        for client, broker in zip(clients, LIVE, strict=True):
            client.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids(broker.id))
        await served.has_only(2)
        served.endpoint.answer(AllocateProducerIdsResponse(served.events[0].request, 0))
        await served.has_only(3)


async def test_non_brokers_get_a_tenth_of_queued_max_requests(serve_by: ServeBy) -> None:
    served = await serve_by("queued.max.requests=20")
    served.answers_itself = False
    async with connected(3, served.port) as others, Client(served.port) as broker:
        for client in others:
            client.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids(STRANGER))
        await served.has_only(2)
        broker.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        await served.has_only(3)
        served.endpoint.answer(AllocateProducerIdsResponse(served.events[0].request, 0))
        await served.has_only(4)


async def test_request_beyond_queued_max_request_bytes_waits_for_an_answer(
    serve_by: ServeBy,
) -> None:
    """Of two requests of 80 KB, the second is read when the first has been answered."""
    served = await serve_by("socket.request.max.bytes=100000", "queued.max.request.bytes=100000")
    served.answers_itself = False
    async with connected(2, served.port) as clients:
        for client, broker in zip(clients, LIVE, strict=False):
            client.send(ALTER_PARTITION, 1, alter_partition(3000, broker.id))
            await served.has_only(1)
        served.endpoint.answer(AlterPartitionResponse(served.events[0].request, 0))
        await served.has_only(2)


async def test_fewer_possible_connections_than_configured_are_reported(
    serve_by: ServeBy, caplog: pytest.LogCaptureFixture
) -> None:
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    served = await serve_by(f"max.connections={files}")
    async with Client(served.port) as client:
        await ask(client)
    assert (
        f"instead of max.connections={files}: this process may open only {files} files"
        in caplog.text
    )
