"""Requests that are forwarded to a live broker, and requests that the daemon answers itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from struct import pack
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from controller.core.values import Broker, Endpoint
from controller.wire.client_requests import RequestHead, encode_request
from tests.controller.api.client import (
    API_VERSIONS,
    METADATA,
    Client,
    allocate_producer_ids,
    api_versions,
    metadata_request,
    request_schema,
)
from tests.controller.api.conftest import OWN_ID, Serve, ServedEndpoint, echo
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS
from tests.scripted_broker import OFFERED, Received, ScriptedBroker, never
from tests.waiting import until_found
from tools.lab.ports import free_port

CREATE_TOPICS, ALTER_REPLICA_LOG_DIRS = 19, 34
FROM_A_CONTROLLER = LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
DESCRIBE_CONFIGS, DESCRIBE_LOG_DIRS, ALTER_CONFIGS = 32, 35, 44
LIST_GROUPS, LIST_TRANSACTIONS = 16, 66
BROKER, TOPIC = 4, 2


async def test_request_and_answer_are_forwarded_unchanged(
    with_broker: ServedEndpoint, broker: ScriptedBroker
) -> None:
    async with Client(with_broker.port) as client:
        for correlation in (77, 78):
            head = RequestHead(METADATA, 12, correlation)
            frame = encode_request(head, "a client", metadata_request())
            client.writer.write(frame)
            assert await client.receive() == pack(">i", correlation) + frame[4:]
    assert len(broker.received) == 2


async def test_large_requests_and_answers_are_streamed(
    with_broker: ServedEndpoint, broker: ScriptedBroker
) -> None:
    body = bytes(range(256)) * 4096 * 20
    frame = pack(">hhih", METADATA, 12, 5, -1) + body
    async with Client(with_broker.port) as client:
        client.writer.write(pack(">i", len(frame)) + frame)
        assert await client.receive() == pack(">i", 5) + frame
    assert [one.frame for one in broker.received] == [frame]


async def test_own_and_forwarded_answers_keep_the_order_of_the_requests(
    with_broker: ServedEndpoint, broker: ScriptedBroker
) -> None:
    async def slow(received: Received) -> bytes | None:
        await asyncio.sleep(0.1)  # The broker is slow.
        return received.answer(b"")

    broker.script = slow
    async with Client(with_broker.port) as client:
        heads = [
            client.send(METADATA, 12, metadata_request()),
            client.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids()),
            client.send(METADATA, 12, metadata_request()),
        ]
        for head in heads:
            assert (await client.receive())[:4] == pack(">i", head.correlation_id)


async def test_offered_versions_are_the_brokers_without_unsupported_apis(
    with_broker: ServedEndpoint,
) -> None:
    async with Client(with_broker.port) as client:
        answer = await client.ask(API_VERSIONS, 3, api_versions())
    spans = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    left_out = {*FROM_A_CONTROLLER, ALTER_REPLICA_LOG_DIRS}
    ours = {20: (0, 6), 37: (0, 3), 43: (0, 2), 46: (0, 0), 51: (0, 0), 57: (0, 1)}
    assert spans == {key: span for key, span in OFFERED.items() if key not in left_out} | ours
    assert answer.supported_features[0].name == "x"
    assert (answer.finalized_features_epoch, answer.finalized_features[0].max_version_level) == (
        7,
        2,
    )


@pytest.mark.parametrize(
    ("api_key", "version"),
    [
        *((CREATE_TOPICS, 8), (ALTER_REPLICA_LOG_DIRS, 2), (LEADER_AND_ISR, 7)),
        *((METADATA, 13), (9999, 0)),
    ],
)
async def test_unsupported_api_closes_the_connection(
    with_broker: ServedEndpoint, broker: ScriptedBroker, api_key: int, version: int
) -> None:
    async with Client(with_broker.port) as client:
        client.writer.write(pack(">ihhih", 10, api_key, version, 5, -1))
        assert await client.closed()
    assert not broker.received


async def test_daemon_has_no_groups_transactions_or_partitions(with_broker: ServedEndpoint) -> None:
    async with Client(with_broker.port) as client:
        request = request_schema(LIST_GROUPS, 4).ListGroupsRequest()
        assert (await client.ask(LIST_GROUPS, 4, request)).groups == ()
        request = request_schema(LIST_TRANSACTIONS, 0).ListTransactionsRequest()
        assert (await client.ask(LIST_TRANSACTIONS, 0, request)).transaction_states == ()
        for version in (1, 4):
            request = request_schema(DESCRIBE_LOG_DIRS, version).DescribeLogDirsRequest(topics=None)
            answer = await client.ask(DESCRIBE_LOG_DIRS, version, request)
            (directory,) = answer.results
            assert (directory.error_code, directory.topics) == (ErrorCode.none, ())


def alter_configs(kind: int, name: str) -> Any:
    schema = request_schema(ALTER_CONFIGS, 1)
    config = schema.AlterableConfig(
        name="leader.replication.throttled.rate", config_operation=1, value=None
    )
    resource = schema.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=(config,)
    )
    return schema.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


async def test_configurations_of_the_daemon_are_described_empty_and_altered_without_effect(
    with_broker: ServedEndpoint, broker: ScriptedBroker
) -> None:
    schema = request_schema(DESCRIBE_CONFIGS, 4)
    resource = schema.DescribeConfigsResource(resource_type=BROKER, resource_name=str(OWN_ID))
    async with Client(with_broker.port) as client:
        described = await client.ask(
            DESCRIBE_CONFIGS, 4, schema.DescribeConfigsRequest(resources=(resource,))
        )
        altered = await client.ask(ALTER_CONFIGS, 1, alter_configs(BROKER, str(OWN_ID)))
    (result,) = described.results
    assert (result.error_code, result.resource_name, result.configs) == (
        ErrorCode.none,
        str(OWN_ID),
        (),
    )
    (response,) = altered.responses
    assert (response.error_code, response.resource_type) == (ErrorCode.none, BROKER)
    assert not broker.received


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, str(OWN_ID)), (BROKER, ""), (BROKER, "1")])
async def test_configurations_of_brokers_are_forwarded(
    with_broker: ServedEndpoint, broker: ScriptedBroker, kind: int, name: str
) -> None:
    async with Client(with_broker.port) as client:
        client.send(ALTER_CONFIGS, 1, alter_configs(kind, name))
        await client.receive()
    assert len(broker.received) == 1


async def test_produce_request_with_acks_0_has_no_answer(
    with_broker: ServedEndpoint, broker: ScriptedBroker
) -> None:
    async def silent_for_produce(received: Received) -> bytes | None:
        return await (never if received.api_key == 0 else echo)(received)

    broker.script = silent_for_produce
    schema = request_schema(0, 9)
    produce = schema.ProduceRequest(
        transactional_id=None, acks=0, timeout=timedelta(seconds=1), topic_data=()
    )
    async with Client(with_broker.port) as client:
        client.send(0, 9, produce)
        head = client.send(METADATA, 12, metadata_request())
        assert (await client.receive())[:4] == pack(">i", head.correlation_id)
    assert len(broker.received) == 2


async def test_produce_request_with_false_lengths_closes_the_connection(
    with_broker: ServedEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """The length of its transactional id exceeds the address space."""
    frame = pack(">hhih", 0, 9, 5, -1) + b"\0" + b"\xff" * 20 + b"\1" + bytes(20)
    async with Client(with_broker.port) as client:
        client.writer.write(pack(">i", len(frame)) + frame)
        assert await client.closed()
    async with Client(with_broker.port) as client:
        await client.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
    assert "a Produce request ends before its acks" in caplog.text


async def test_no_request_is_forwarded_to_a_broker_without_api_versions(
    serve: Serve, broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.offers_error = ErrorCode.unsupported_version
    served = await serve()
    served.endpoint.set_brokers([broker.registered(7)])
    async with Client(served.port) as client:
        client.send(METADATA, 12, metadata_request())
        assert await client.closed()
    assert not broker.received
    assert "broker 7: ApiVersions failed with error" in caplog.text


async def test_client_whose_broker_dies_is_disconnected_and_can_reconnect(serve: Serve) -> None:
    served = await serve()
    first, second = ScriptedBroker(echo), ScriptedBroker(echo)
    async with second.listening():
        async with first.listening():
            served.endpoint.set_brokers([first.registered(1)])
            async with Client(served.port) as client:
                client.send(METADATA, 12, metadata_request())
                await client.receive()
                served.endpoint.set_brokers([second.registered(2)])
                # The client knows the version table of the first broker.
                client.send(METADATA, 12, metadata_request())
                assert await client.closed()
        async with Client(served.port) as client:
            client.send(METADATA, 12, metadata_request())
            await client.receive()
    assert (len(first.received), len(second.received)) == (1, 1)


async def test_broker_that_closes_its_connection_closes_the_clients(
    with_broker: ServedEndpoint, broker: ScriptedBroker
) -> None:
    async def close(received: Received) -> bytes | None:
        return None

    broker.script = close
    async with Client(with_broker.port) as client:
        client.send(METADATA, 12, metadata_request())
        assert await client.closed()


async def test_broker_that_does_not_answer_is_abandoned_at_the_timeout(
    serve: Serve, broker: ScriptedBroker
) -> None:
    served, broker.script = await serve(request_timeout_ms=300), never
    served.endpoint.set_brokers([broker.registered()])
    async with Client(served.port) as client:
        client.send(METADATA, 12, metadata_request())
        assert await client.closed()


async def test_unreachable_broker_does_not_delay_other_clients(
    serve: Serve, broker: ScriptedBroker
) -> None:
    served = await serve()
    dead = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", free_port())
    served.endpoint.set_brokers([Broker(5, 1, (dead,)), broker.registered()])
    for _ in range(4):
        async with Client(served.port) as client:
            client.send(METADATA, 12, metadata_request())
            await client.receive()
    assert len(broker.received) == 4


async def test_request_is_forwarded_to_the_listener_of_the_same_name(serve: Serve) -> None:
    served = await serve(names=("INTERNAL", "EXTERNAL"))
    inside, outside = ScriptedBroker(echo), ScriptedBroker(echo)
    endpoints = (
        Endpoint("INTERNAL", "PLAINTEXT", "127.0.0.1", inside.port),
        Endpoint("EXTERNAL", "PLAINTEXT", "127.0.0.1", outside.port),
    )
    async with inside.listening(), outside.listening():
        served.endpoint.set_brokers([Broker(1, 10, endpoints)])
        async with Client(served.ports["EXTERNAL"]) as client:
            client.send(METADATA, 12, metadata_request())
            await client.receive()
    assert (len(inside.received), len(outside.received)) == (0, 1)


async def test_requests_are_not_forwarded_to_a_listener_with_an_identity(
    serve: Serve, broker: ScriptedBroker
) -> None:
    served = await serve()
    secured = Endpoint("PLAINTEXT", "SASL_PLAINTEXT", "127.0.0.1", broker.port)
    served.endpoint.set_brokers([Broker(1, 10, (secured,))])
    async with Client(served.port) as client:
        client.send(METADATA, 12, metadata_request())
        assert await client.closed()
    assert not broker.received


# Brokers that do not answer --------------------------------------------------------------------


@asynccontextmanager
async def two_brokers(
    served: ServedEndpoint,
) -> AsyncIterator[tuple[ScriptedBroker, ScriptedBroker]]:
    """Two known brokers, chosen in turn."""
    first, second = ScriptedBroker(echo), ScriptedBroker(echo)
    async with first.listening(), second.listening():
        served.endpoint.set_brokers([first.registered(1), second.registered(2)])
        for broker in (first, second):
            async with asyncio.timeout(5):
                while not broker.received:
                    async with Client(served.port) as client:
                        await answered(client)
        yield first, second


async def answered(client: Client) -> None:
    client.send(METADATA, 12, metadata_request())
    async with asyncio.timeout(10):
        await client.receive()


async def test_read_request_to_a_paused_broker_is_retried_on_another(
    served: ServedEndpoint,
) -> None:
    async with two_brokers(served) as (first, second), AsyncExitStack() as stack:
        before = [await stack.enter_async_context(Client(served.port)) for _ in range(4)]
        for client in before:
            await answered(client)
        asked = len(first.received)
        assert asked >= 2, "it has its share of requests"
        first.is_paused = True
        await asyncio.gather(*map(answered, before))
        hung = len(second.received)
        for _ in range(4):
            async with Client(served.port) as client, asyncio.timeout(0.5):
                await answered(client)
        assert len(second.received) == hung + 4, "the other broker gets no new requests"
        versions = first.answered_versions
        first.resume()
        await first.has_answered_versions(versions + 1)
        asked = len(first.received)
        async with asyncio.timeout(10):
            while len(first.received) == asked:
                async with Client(served.port) as client:
                    await answered(client)


async def test_write_request_is_not_repeated(serve: Serve) -> None:
    served = await serve(request_timeout_ms=3000)
    async with two_brokers(served) as (first, second), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(served.port)) for _ in range(2)]
        for client in clients:
            await answered(client)
        first.is_paused = True
        for client in clients:
            client.send(ALTER_CONFIGS, 1, alter_configs(TOPIC, "t"))
        assert sorted([await client.closed() for client in clients]) == [False, True]
        for broker in (first, second):
            assert [one.api_key for one in broker.received].count(ALTER_CONFIGS) == 1


async def test_slow_broker_that_responds_is_waited_for(served: ServedEndpoint) -> None:
    async with two_brokers(served) as (first, second), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(served.port)) for _ in range(2)]
        for client in clients:
            await answered(client)
        versions = first.answered_versions

        async def slow(received: Received) -> bytes | None:
            await first.has_answered_versions(versions + 2)
            return await echo(received)

        first.script = slow
        counted = len(first.received), len(second.received)
        await asyncio.gather(*map(answered, clients))
        assert (len(first.received), len(second.received)) == (counted[0] + 1, counted[1] + 1)


async def test_client_waits_while_no_broker_responds(serve: Serve) -> None:
    """The request is sent to each broker once."""
    served = await serve()
    async with two_brokers(served) as (first, second), Client(served.port) as client:

        def received() -> int:
            return len(first.received) + len(second.received)

        before = received()
        first.is_paused = second.is_paused = True
        client.send(METADATA, 12, metadata_request())
        await until_found(lambda: received() == before + 2, "both brokers have the request")
        await asyncio.sleep(1.5)  # No broker responds to the front's checks.
        first.resume()
        second.resume()
        async with asyncio.timeout(5):
            await client.receive()
        assert received() == before + 2
