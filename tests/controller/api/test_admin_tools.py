"""Requests of admin tools to the controller, through the endpoint and its front process."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from struct import pack
from typing import Any

import anyio
import pytest
from kio.index import load_payload_module
from kio.static.constants import EntityType

from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponse,
)
from controller.core.api_requests.topics import (
    CreatedTopic,
    CreateTopicsReceived,
    CreateTopicsResponse,
    NewTopic,
)
from tests.controller.api.client import Client, connected
from tests.controller.api.conftest import Serve, ServedEndpoint
from tests.controller.api.latency import answered_in_time

CREATE_TOPICS, ELECT_LEADERS, REASSIGN, LIST_REASSIGNMENTS = 19, 43, 45, 46
MIB = 1024 * 1024


def schema_of(api_key: int, version: int) -> Any:
    return load_payload_module(api_key, version, EntityType.request)


def create_topics(*names: str, timeout_s: float = 30, version: int = 7) -> Any:
    schema = schema_of(CREATE_TOPICS, version)
    topics = (
        schema.CreatableTopic(
            name=name, num_partitions=3, replication_factor=-1, assignments=(), configs=()
        )
        for name in names
    )
    return schema.CreateTopicsRequest(topics=tuple(topics), timeout=timedelta(seconds=timeout_s))


def reassign(partitions: int, replicas: tuple[int, ...] | None = (1, 2, 3)) -> Any:
    schema = schema_of(REASSIGN, 0)
    targets = (
        schema.ReassignablePartition(partition_index=one, replicas=replicas)
        for one in range(partitions)
    )
    topic = schema.ReassignableTopic(name="t", partitions=tuple(targets))
    return schema.AlterPartitionReassignmentsRequest(topics=(topic,))


def list_reassignments() -> Any:
    return schema_of(LIST_REASSIGNMENTS, 0).ListPartitionReassignmentsRequest(topics=None)


def created(event: Any) -> CreateTopicsResponse:
    """A response that all topics were created."""
    done = (CreatedTopic(one.name, 0, None, bytes(range(16)), 3, 1) for one in event.topics)
    return CreateTopicsResponse(event.request, tuple(done))


async def test_created_topic_is_answered_with_its_configuration(served: ServedEndpoint) -> None:
    async with Client(served.port) as tool:
        head = tool.send(CREATE_TOPICS, 7, create_topics("t"))
        (event,) = await served.has_events(1)
        new = NewTopic("t", 3, -1, [], [])
        assert event == CreateTopicsReceived(
            event.request, 7, event.timeout_ms, False, [new], client_id="test"
        )
        assert 20_000 < event.timeout_ms <= 30_000
        assert served.channels[0].startswith("api:")
        served.endpoint.answer(created(event))
        (topic,) = (await tool.answer_to(head)).topics
    configs = {one.name: (one.value, one.config_source) for one in topic.configs}
    assert (topic.error_code, topic.num_partitions) == (0, 3)
    assert configs["min.insync.replicas"] == ("2", 4), "from the daemon's settings"


async def test_reassignments_and_elections_are_controller_events(served: ServedEndpoint) -> None:
    async with Client(served.port) as tool:
        head = tool.send(REASSIGN, 0, reassign(1, None))
        (event,) = await served.has_events(1)
        assert isinstance(event, AlterPartitionReassignmentsReceived)
        refused = PartitionResult("t", 0, 85)
        served.endpoint.answer(AlterPartitionReassignmentsResponse(event.request, 0, (refused,)))
        (topic,) = (await tool.answer_to(head)).responses
        assert [one.error_code for one in topic.partitions] == [85]
        all_partitions = schema_of(ELECT_LEADERS, 2).ElectLeadersRequest(
            election_type=1, topic_partitions=None
        )
        head = tool.send(ELECT_LEADERS, 2, all_partitions)
        _, event = await served.has_events(2)
        assert event == ElectLeadersReceived(event.request, 2, "unclean", None, event.timeout_ms)
        assert 50_000 < event.timeout_ms <= 60_000
        served.endpoint.answer(ElectLeadersResponse(event.request, 0))
        assert (await tool.answer_to(head)).replica_election_results == ()


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (CREATE_TOPICS, 8, b""),
        (CREATE_TOPICS, 7, b"\xff\xff\xff\xff\x0f"),
        (ELECT_LEADERS, 2, b"\x07\0" + bytes(5)),
    ],
)
async def test_malformed_admin_request_closes_the_connection(
    served: ServedEndpoint, api_key: int, version: int, body: bytes
) -> None:
    frame = pack(">hhihB", api_key, version, 5, -1, 0) + body
    async with Client(served.port) as liar:
        liar.writer.write(pack(">i", len(frame)) + frame)
        assert await liar.closed()
    assert not served.events


async def test_requests_that_wait_for_brokers_do_not_delay_others(serve: Serve) -> None:
    """Each kind has half of the memory, so the size of other requests does not matter."""
    served = await serve(waiting_requests_max=10)
    served.answers_itself = False
    large = create_topics(*(f"{'t' * 200}{one}" for one in range(2 * MIB // 220)))
    async with connected(11, served.port) as waiting, Client(served.port) as tool:
        for client in waiting[:2]:
            client.send(CREATE_TOPICS, 7, large)
        await served.has_events(2)
        for client in waiting[2:]:
            client.send(CREATE_TOPICS, 7, create_topics("t"))
        await served.has_only(10)
        head = tool.send(REASSIGN, 0, reassign(10_000))
        *_, event = await served.has_events(11)
        served.endpoint.answer(AlterPartitionReassignmentsResponse(event.request, 0))
        assert (await tool.answer_to(head)).error_code == 0
        served.endpoint.answer(created(served.events[5]))
        await served.has_only(12)


async def test_request_that_waits_for_brokers_frees_its_slot(serve: Serve) -> None:
    """Also if its client has disconnected: the controller has carried out what it can by then."""
    served = await serve(waiting_requests_max=2)
    async with connected(3, served.port) as (waiting, next_one, last):
        async with Client(served.port) as gone:
            gone.send(CREATE_TOPICS, 7, create_topics("gone"))
            (of_gone,) = await served.has_events(1)
        head = waiting.send(CREATE_TOPICS, 7, create_topics("waiting"))
        _, of_waiting = await served.has_events(2)
        next_one.send(CREATE_TOPICS, 7, create_topics("next"))
        await served.has_only(2)
        served.endpoint.answer_later(of_gone.request)
        await served.has_events(3)
        last.send(CREATE_TOPICS, 7, create_topics("last"))
        await served.has_only(3)
        served.endpoint.answer_later(of_waiting.request)
        await served.has_events(4)
        for event in (of_gone, of_waiting):
            served.endpoint.answer(created(event))
        (topic,) = (await waiting.answer_to(head)).topics
        assert topic.name == "waiting"


async def test_request_without_a_slot_before_its_timeout_times_out(serve: Serve) -> None:
    """The request is not carried out. Its connection stays open."""
    served = await serve(waiting_requests_max=1)
    async with connected(2, served.port) as (first, second):
        first.send(CREATE_TOPICS, 7, create_topics("t"))
        (event,) = await served.has_events(1)
        answer = await second.ask(CREATE_TOPICS, 7, create_topics("u", "v", timeout_s=0.2))
        assert [(one.name, one.error_code) for one in answer.topics] == [("u", 7), ("v", 7)]
        assert len(served.events) == 1
        served.endpoint.answer(created(event))
        second.send(CREATE_TOPICS, 7, create_topics("u"))
        await served.has_events(2)


async def test_timeout_of_a_request_starts_when_it_arrives(serve: Serve) -> None:
    served = await serve(waiting_requests_max=1)
    async with connected(2, served.port) as (first, second):
        first.send(CREATE_TOPICS, 7, create_topics("t"))
        (event,) = await served.has_events(1)
        second.send(CREATE_TOPICS, 7, create_topics("u"))
        second.send(CREATE_TOPICS, 7, create_topics("x", timeout_s=0))
        await served.has_only(1)
        await asyncio.sleep(0.3)  # The second request waits for its turn.
        served.endpoint.answer(created(event))
        _, waited = await served.has_events(2)
        assert isinstance(waited, CreateTopicsReceived)
        assert waited.timeout_ms <= 30_000 - 300
        served.endpoint.answer(created(waited))
        *_, untimed = await served.has_events(3)
        assert isinstance(untimed, CreateTopicsReceived)
        assert untimed.timeout_ms == 0


async def test_response_at_shutdown_reaches_the_client(served: ServedEndpoint) -> None:
    async with connected(20, served.port) as tools, Client(served.port) as silent:
        heads = [
            tool.send(CREATE_TOPICS, 7, create_topics(f"t{number}"))
            for number, tool in enumerate(tools)
        ]
        silent.send(CREATE_TOPICS, 7, create_topics("never answered"))
        for event in await served.has_events(21):
            if event.topics[0].name != "never answered":
                served.endpoint.answer(created(event))
        await served.endpoint.close()
        for number, (tool, head) in enumerate(zip(tools, heads, strict=True)):
            (topic,) = (await tool.answer_to(head)).topics
            assert topic.name == f"t{number}"
            assert await tool.closed()
        assert await silent.closed()


async def test_requests_of_non_brokers_get_a_tenth_of_queued_max_requests(serve: Serve) -> None:
    served = await serve(waiting_requests_max=20)
    served.answers_itself = False
    async with connected(3, served.port) as tools:
        for tool in tools:
            tool.send(LIST_REASSIGNMENTS, 0, list_reassignments())
        await served.has_only(2)
        served.endpoint.answer(ListPartitionReassignmentsResponse(served.events[0].request, 0))
        await served.has_only(3)


async def test_50_concurrent_clients_create_topics(served: ServedEndpoint) -> None:
    """Each gets its own answer, in whatever order the requests are answered."""
    async with connected(50, served.port) as tools:
        heads = [
            tool.send(CREATE_TOPICS, 7, create_topics(f"t{number}"))
            for number, tool in enumerate(tools)
        ]
        for event in reversed(await served.has_events(50)):
            served.endpoint.answer(created(event))
        for number, (tool, head) in enumerate(zip(tools, heads, strict=True)):
            (topic,) = (await tool.answer_to(head)).topics
            assert topic.name == f"t{number}"


async def test_client_that_disconnects_during_a_request_delays_no_other(serve: Serve) -> None:
    served = await serve(waiting_requests_max=2)
    async with Client(served.port) as gone:
        gone.send(CREATE_TOPICS, 7, create_topics("t"))
        await served.has_events(1)
    async with Client(served.port) as half:
        half.writer.write(pack(">ihhi", 5 * 1024, CREATE_TOPICS, 7, 5) + bytes(1024))
        await half.writer.drain()
    async with Client(served.port) as tool:
        head = tool.send(CREATE_TOPICS, 7, create_topics("u"))
        first, second = await served.has_events(2)
        served.endpoint.answer(created(first))
        served.endpoint.answer(created(second))
        (topic,) = (await tool.answer_to(head)).topics
        assert topic.name == "u"


async def test_1000_topics_in_one_request_do_not_delay_brokers(served: ServedEndpoint) -> None:
    async with answered_in_time(served), Client(served.port) as tool:
        head = tool.send(CREATE_TOPICS, 7, create_topics(*(f"t{one}" for one in range(1000))))
        asked = await served.first(CreateTopicsReceived)
        assert len(asked.topics) == 1000
        served.endpoint.answer(created(asked))
        assert len((await tool.answer_to(head)).topics) == 1000


@pytest.mark.long
async def test_200_000_partitions_in_one_reassignment_do_not_delay_brokers(
    served: ServedEndpoint,
) -> None:
    async with answered_in_time(served), Client(served.port) as tool:
        head = tool.send(REASSIGN, 0, reassign(200_000))
        asked = await served.first(AlterPartitionReassignmentsReceived)
        answers = tuple(PartitionResult("t", one.partition, 0) for one in asked.partitions)
        served.endpoint.answer(AlterPartitionReassignmentsResponse(asked.request, 0, answers))
        (topic,) = (await tool.answer_to(head)).responses
        assert len(topic.partitions) == 200_000


async def test_request_of_a_tool_has_a_maximum_size(served: ServedEndpoint) -> None:
    async with AsyncExitStack() as stack:
        liars = [await stack.enter_async_context(Client(served.port)) for _ in range(2)]
        for api_key, liar in zip((CREATE_TOPICS, LIST_REASSIGNMENTS), liars, strict=True):
            liar.writer.write(pack(">ihhi", 4 * MIB + 1, api_key, 0, 5))
            assert await liar.closed()


async def test_incomplete_large_requests_of_tools_do_not_delay_brokers(
    served: ServedEndpoint,
) -> None:
    async with connected(6, served.port) as large, answered_in_time(served, 3000):
        for client in large:
            client.writer.write(pack(">ihhi", 4 * MIB, REASSIGN, 0, 5) + bytes(4 * MIB - 1000))
        await anyio.sleep(1)  # Brokers send requests meanwhile.
