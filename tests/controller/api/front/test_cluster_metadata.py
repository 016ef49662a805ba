"""Metadata and DescribeCluster of clients that brokers would not know."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import anyio
import pytest
from kio.schema.errors import ErrorCode

from controller.api.cluster_metadata import (
    AnnouncedPartition,
    ClusterMetadata,
    MetadataQuery,
    RequestedTopic,
    TopicMetadata,
)
from controller.core import error_codes as codes
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.values import NO_LEADER, Broker, Endpoint
from tests.controller.api.client import METADATA, Client, api_versions, request_schema
from tests.controller.api.conftest import NOT_WITHIN_S, OWN_ID, Serve, ServedEndpoint
from tests.controller.api.front.test_identification import LISTENER, SASL, log_in_plain

DESCRIBE_CLUSTER = 60
API_VERSIONS = 18
FIND_COORDINATOR = 10
ALICE = ClientIdentity("User:alice", "127.0.0.1")
BROKER = Broker(1, 10, (Endpoint(LISTENER, "SASL_PLAINTEXT", "one", 9092),), "rack")
TOPIC_ID = UUID(int=7).bytes
PARTITION = AnnouncedPartition(codes.LISTENER_NOT_FOUND, 0, NO_LEADER, 3, (1, 2), (1, 2), (2,))
KNOWN = ClusterMetadata(
    "cluster",
    (BROKER,),
    (
        TopicMetadata(codes.NONE, "t", TOPIC_ID, False, (PARTITION,), 1 << 8),
        TopicMetadata(codes.TOPIC_AUTHORIZATION_FAILED, "secret"),
    ),
    0,
)


@pytest.fixture
async def secured(serve: Serve) -> ServedEndpoint:
    served = await serve(security={LISTENER: SASL})
    served.metadata = KNOWN
    return served


def metadata(version: int, *names: str, **more: Any) -> Any:
    schema = request_schema(METADATA, version)
    no_id = {"topic_id": None} if version >= 10 else {}
    topics = tuple(schema.MetadataRequestTopic(name=name, **no_id) for name in names)
    return schema.MetadataRequest(topics=topics, **more)


def everything(version: int) -> Any:
    schema = request_schema(METADATA, version)
    if version == 0:
        return schema.MetadataRequest(topics=())
    with_topics = {"include_topic_authorized_operations": False} if version >= 8 else {}
    with_cluster = {"include_cluster_authorized_operations": False} if 8 <= version <= 10 else {}
    return schema.MetadataRequest(topics=None, **with_topics, **with_cluster)


async def answers(served: ServedEndpoint, *requests: tuple[int, int, Any]) -> list[Any]:
    async with Client(served.port) as client:
        await log_in_plain(client, "secret")
        return [await client.ask(*one) for one in requests]


@pytest.mark.sampled
@pytest.mark.parametrize("version", range(13))
async def test_metadata_is_answered_in_every_version(secured: ServedEndpoint, version: int) -> None:
    (answer,) = await answers(secured, (METADATA, version, everything(version)))
    assert secured.queries == [MetadataQuery(ALICE, LISTENER, None)]
    assert [(one.node_id, one.host) for one in answer.brokers] == [(1, "one"), (1000, "127.0.0.1")]
    topic, secret = answer.topics
    assert secret.error_code is ErrorCode.topic_authorization_failed
    (partition,) = topic.partitions
    assert partition.replica_nodes == ((1,) if version == 0 else (1, 2))
    expected = ErrorCode.listener_not_found if version >= 6 else ErrorCode.leader_not_available
    assert partition.error_code is expected
    if version >= 1:
        assert answer.controller_id == OWN_ID
    if version >= 2:
        assert answer.cluster_id == "cluster"
    if version >= 10:
        assert topic.topic_id == UUID(bytes=TOPIC_ID)


async def test_query_has_the_topics_and_the_operations_that_the_client_wants(
    secured: ServedEndpoint,
) -> None:
    wants = {
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    schema = request_schema(METADATA, 12)
    by_id = schema.MetadataRequest(
        topics=(schema.MetadataRequestTopic(name=None, topic_id=UUID(bytes=TOPIC_ID)),),
        include_topic_authorized_operations=False,
    )
    first, second = await answers(
        secured, (METADATA, 8, metadata(8, "t", "secret", **wants)), (METADATA, 12, by_id)
    )
    assert secured.queries == [
        MetadataQuery(ALICE, LISTENER, (RequestedTopic("t"), RequestedTopic("secret")), True, True),
        MetadataQuery(ALICE, LISTENER, (RequestedTopic(None, TOPIC_ID),)),
    ]
    assert first.cluster_authorized_operations == 0
    assert first.topics[0].topic_authorized_operations == 1 << 8
    assert second.topics[0].name == "t"


async def test_describe_cluster_names_the_daemon_as_a_broker_and_controller(
    secured: ServedEndpoint,
) -> None:
    for version in (0, 1):
        request = request_schema(DESCRIBE_CLUSTER, version).DescribeClusterRequest(
            include_cluster_authorized_operations=True
        )
        (answer,) = await answers(secured, (DESCRIBE_CLUSTER, version, request))
        assert answer.error_code is ErrorCode.none
        assert (answer.cluster_id, answer.controller_id) == ("cluster", OWN_ID)
        assert [one.broker_id for one in answer.brokers] == [1, OWN_ID]
        assert answer.cluster_authorized_operations == 0
    assert secured.queries[-1] == MetadataQuery(ALICE, LISTENER, (), False, True)


async def test_describe_cluster_of_kraft_controllers_is_an_error(secured: ServedEndpoint) -> None:
    schema = request_schema(DESCRIBE_CLUSTER, 1)
    requests = [
        (
            DESCRIBE_CLUSTER,
            1,
            schema.DescribeClusterRequest(
                include_cluster_authorized_operations=False, endpoint_type=kind
            ),
        )
        for kind in (2, 9)
    ]
    errors = [one.error_code for one in await answers(secured, *requests)]
    assert errors == [ErrorCode.mismatched_endpoint_type, ErrorCode.unsupported_endpoint_type]


async def test_metadata_closes_the_connection_while_the_daemon_is_not_controller(
    secured: ServedEndpoint,
) -> None:
    secured.metadata = None
    async with Client(secured.port) as client:
        await log_in_plain(client, "secret")
        client.send(METADATA, 12, everything(12))
        assert await client.closed()


async def test_at_most_sixteen_clients_are_answered_at_once(secured: ServedEndpoint) -> None:
    """The next client is answered when one of them has its response."""
    secured.metadata_is_known = anyio.Event()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(secured.port)) for _ in range(18)]
        for client in clients:
            await log_in_plain(client, "secret")
        asked = [asyncio.create_task(one.ask(METADATA, 12, everything(12))) for one in clients]
        with anyio.fail_after(5):
            await secured.has_queries(16)
        with anyio.move_on_after(NOT_WITHIN_S):
            await secured.has_queries(17)
        assert len(secured.queries) == 16
        secured.metadata_is_known.set()
        with anyio.fail_after(5):
            found = await asyncio.gather(*asked)
    assert [one.cluster_id for one in found] == ["cluster"] * 18


async def test_versions_are_those_of_a_broker_in_zookeeper_mode(secured: ServedEndpoint) -> None:
    (offered,) = await answers(secured, (API_VERSIONS, 3, api_versions()))
    spans = {one.api_key: (one.min_version, one.max_version) for one in offered.api_keys}
    assert (spans[METADATA], spans[DESCRIBE_CLUSTER]) == ((0, 12), (0, 1))
    # KafkaAdminClient asks Metadata if there is no DescribeTopicPartitions.
    assert not {74, 75} & set(spans)


async def test_request_that_only_a_broker_answers_is_counted_and_logged_once(
    secured: ServedEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    request = request_schema(FIND_COORDINATOR, 0).FindCoordinatorRequest(key="group")
    for _ in range(3):
        async with Client(secured.port) as client:
            await log_in_plain(client, "secret")
            client.send(FIND_COORDINATOR, 0, request)
            assert await client.closed()
    await secured.has_counted(
        "3 closed connections", lambda one: one.closed.get("not passed on") == 3
    )
    (line,) = [one.getMessage() for one in caplog.records if "FindCoordinator" in one.getMessage()]
    assert line.startswith(
        "closed the connection of 127.0.0.1: FindCoordinator is a request for a broker, which "
    )
