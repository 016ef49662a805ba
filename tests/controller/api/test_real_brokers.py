"""Real brokers whose controller is the endpoint, with stock tools and clients that connect
through it. Also with a stock broker in the controller role."""

import asyncio
import json
from functools import partial

import anyio
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiozk import ZKClient
from kio.index import load_request_schema

from controller.brokers.channels import BrokerChannels
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.topics import (
    CreatedTopic,
    CreateTopicsReceived,
    CreateTopicsResponse,
)
from controller.core.api_requests.topics import NewTopic as NewTopicAsked
from controller.core.commands import CommandId, OpenChannel, UpdateMetadataRequest
from controller.core.events import BrokerResponded, Event
from controller.core.values import Broker, Endpoint
from tests.controller.api.client import METADATA, Client, metadata_request
from tests.controller.api.conftest import OWN_ID, Serve, ServedEndpoint
from tests.lab.default_clusters.cluster import tool
from tools.lab import Lab, broker_view
from tools.lab.broker import KafkaBroker
from tools.lab.cluster_view import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

TOPIC = "t"
DESCRIBE_CLUSTER = 60
CONTROLLER_ZNODE = json.dumps(
    {"version": 2, "brokerid": OWN_ID, "timestamp": "0", "kraftControllerEpoch": -1}
)
METADATA_SECONDS_MAX = 30.0
HIGH_EPOCH = 1000
"""Above the epoch of the stock controller, so that brokers reject its requests."""


def endpoint_of(port: int) -> Endpoint:
    return Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port)


async def knows_a_controller(broker: KafkaBroker) -> bool:
    """aiokafka's admin client fails if the broker does not know a controller yet."""
    return await broker_view.controller(broker) is not None


@pytest.fixture
async def cluster(lab: Lab, serve: Serve) -> ServedEndpoint:
    """Two brokers with a topic, and an endpoint that forwards to them."""
    await lab.start_zookeeper()
    brokers = await lab.start_brokers(2)
    for broker in brokers:
        await until(
            partial(knows_a_controller, broker), METADATA_SECONDS_MAX, "it has a controller"
        )
    admin = AIOKafkaAdminClient(bootstrap_servers=lab.bootstrap)
    try:
        await admin.start()
        await admin.create_topics([NewTopic(TOPIC, 2, 2)])
    finally:
        await admin.close()
    served = await serve()
    live = [Broker(one.broker_id, 1, (endpoint_of(one.port),)) for one in brokers]
    served.endpoint.set_brokers(live)
    return served


async def make_controller(served: ServedEndpoint, lab: Lab) -> None:
    """End the stock controller's role, and announce the endpoint to all brokers as controller
    and live broker."""
    zookeeper = ZKClient(lab.zookeepers[0].connect)
    await zookeeper.start()
    transaction = zookeeper.begin_transaction()
    transaction.delete("/controller")
    transaction.create("/controller", CONTROLLER_ZNODE)
    await transaction.commit()
    await zookeeper.close()
    await announce_controller(served, lab)


async def announce_controller(served: ServedEndpoint, lab: Lab) -> None:
    live = [Broker(one.broker_id, 1, (endpoint_of(one.port),)) for one in lab.brokers]
    everyone = (*live, Broker(OWN_ID, 1, (endpoint_of(served.port),)))
    answers = asyncio.Queue[BrokerResponded](maxsize=10)

    def send(event: Event, channel: str) -> None:
        if isinstance(event, BrokerResponded):
            answers.put_nowait(event)

    channels = BrokerChannels(send, client_id=str(OWN_ID))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channels.run)
        for broker in live:
            channels.open(OpenChannel(broker.id, 1, broker.endpoints[0]))
            request = UpdateMetadataRequest(broker.id, -1, 8, OWN_ID, HIGH_EPOCH, (), everyone)
            channels.send(CommandId(1, broker.id), request)
            answered = await answers.get()
            assert answered == BrokerResponded(CommandId(1, broker.id), broker.id, 1, 0, [])
        tasks.cancel_scope.cancel()


async def produce_and_consume(bootstrap: str, *, idempotent: bool = True) -> None:
    """An idempotent producer and a consumer with a group, for which __consumer_offsets is
    created."""
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=idempotent
    ) as producer:
        for number in range(10):
            await producer.send_and_wait(TOPIC, b"%d" % number)
    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, group_id="g", auto_offset_reset="earliest"
    )
    async with consumer:
        read = {(await consumer.getone()).value for _ in range(10)}
        await consumer.commit()
    assert len(read) == 10


@pytest.mark.ci
async def test_clients_and_tools_bootstrap_from_the_endpoint(
    lab: Lab, cluster: ServedEndpoint
) -> None:
    bootstrap = f"127.0.0.1:{cluster.port}"
    await produce_and_consume(bootstrap)
    described = await tool(
        lab,
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", bootstrap, "--describe", "--topic", TOPIC),
    )
    assert "PartitionCount: 2" in described
    assert not cluster.events, "the stock controller has the role"


async def test_brokers_and_tools_use_the_endpoint_as_controller(
    lab: Lab, cluster: ServedEndpoint
) -> None:
    bootstrap = f"127.0.0.1:{cluster.port}"
    await produce_and_consume(bootstrap, idempotent=False)
    await make_controller(cluster, lab)
    await produce_and_consume(bootstrap)
    asked = [one for one in cluster.events if isinstance(one, AllocateProducerIdsReceived)]
    assert asked, "a broker needed producer ids for the idempotent producer"
    to_us = ("--bootstrap-server", bootstrap)
    own_id = ("--entity-type", "brokers", "--entity-name", str(OWN_ID))
    configs = "kafka.admin.ConfigCommand"
    throttle = "leader.replication.throttled.rate"
    async with asyncio.TaskGroup() as tasks:
        topics = tasks.create_task(
            tool(lab, "org.apache.kafka.tools.TopicCommand", *to_us, "--describe")
        )
        altered = tasks.create_task(
            tool(lab, configs, *to_us, *own_id, "--alter", "--add-config", f"{throttle}=1")
        )
    assert "PartitionCount: 2" in topics.result()
    assert f"Completed updating config for broker {OWN_ID}" in altered.result()
    async with asyncio.TaskGroup() as tasks:
        groups = tasks.create_task(
            tool(
                lab,
                "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
                *(*to_us, "--list"),
            )
        )
        log_dirs = tasks.create_task(
            tool(
                lab,
                "org.apache.kafka.tools.LogDirsCommand",
                *(*to_us, "--describe", "--broker-list", str(OWN_ID)),
            )
        )
    assert groups.result().split() == ["g"]
    assert f'"broker":{OWN_ID}' in log_dirs.result()
    assert '"error":null' in log_dirs.result()


async def test_tools_send_the_endpoint_what_they_send_a_controller(
    lab: Lab, cluster: ServedEndpoint
) -> None:
    """The tools find the endpoint in a broker's metadata."""
    await make_controller(cluster, lab)
    describe = load_request_schema(DESCRIBE_CLUSTER, 0)(include_cluster_authorized_operations=False)
    async with Client(cluster.port) as client:
        for api_key, version, request in (
            (METADATA, 12, metadata_request()),
            (DESCRIBE_CLUSTER, 0, describe),
        ):
            answer = await client.ask(api_key, version, request)
            assert answer.controller_id == OWN_ID
            assert f"{OWN_ID}" in str(answer.brokers), "clients know its address"
    create = tool(
        lab,
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", lab.bootstrap, "--create", "--topic", "new"),
        *("--partitions", "3", "--config", "retention.ms=5"),
    )
    async with asyncio.TaskGroup() as tasks:
        printed = tasks.create_task(create)
        event = await cluster.first(CreateTopicsReceived)
        assert event.topics == [NewTopicAsked("new", 3, -1, [], [("retention.ms", "5")])]
        done = CreatedTopic("new", 0, None, bytes(range(16)), 3, 1, (("retention.ms", "5"),))
        cluster.endpoint.answer(CreateTopicsResponse(event.request, (done,)))
    assert "Created topic new." in printed.result()


async def test_stopping_broker_requests_a_controlled_shutdown_from_the_endpoint(
    lab: Lab, cluster: ServedEndpoint
) -> None:
    """ControlledShutdown is sent without an ApiVersions request before."""
    await make_controller(cluster, lab)
    stopping = lab.brokers[1]
    async with asyncio.TaskGroup() as tasks:
        stopped = tasks.create_task(stopping.stop())
        events = await cluster.has_events(1)
        shutdowns = [one for one in events if isinstance(one, ControlledShutdownReceived)]
        assert [one.broker for one in shutdowns] == [stopping.broker_id]
        cluster.endpoint.answer(ControlledShutdownResponse(shutdowns[0].request, 0))
        await stopped
