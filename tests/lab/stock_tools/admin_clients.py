"""The admin clients of aiokafka and kafka-python, with the same requests as Kafka's tools."""

import asyncio
import base64
import uuid
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from kafka import KafkaAdminClient, TopicPartition

from tests.lab.stock_tools.calls import FEWER_EPOCHS
from tests.lab.stock_tools.comparable_output import of_client
from tests.lab.stock_tools.harness import Harness
from tests.lab.stock_tools.steps import Reason, Row

OPEN_FIELDS = ("topic_id", "throttle_time_ms", "correlation_id", "cluster_id")
"""Fields that differ between runs, or that belong to the transport of a response."""

OPEN_ORDERS = ("isr", "isr_nodes")


async def of_aiokafka(harness: Harness) -> list[Row]:
    """Creates, alters, describes and deletes topics."""
    client = AIOKafkaAdminClient(bootstrap_servers=harness.placeholders()["brokers"])
    await client.start()
    rows: list[Row] = []

    async def ask(call_name: str, answer: Awaitable[Any]) -> None:
        rows.append(Row("aiokafka", call_name, of_client(await _answered(answer), harness)))

    made = [
        NewTopic("aio", -1, -1, {0: [1, 2], 1: [2, 3]}, {"retention.ms": "1000"}),
        NewTopic("aio-wrong", 1, 9),
        NewTopic("aio-twice", -1, -1, {0: [1, 1]}),
    ]
    topic = ConfigResource(ConfigResourceType.TOPIC, "aio", {"retention.ms": "2000"})
    await ask("create_topics, validate only", client.create_topics(made, validate_only=True))
    await ask("create_topics", client.create_topics(made))
    await harness.settled()
    await ask("create_topics again", client.create_topics(made[:1]))
    await ask("create_partitions, fewer", client.create_partitions({"aio": NewPartitions(1)}))
    await ask("create_partitions", client.create_partitions({"aio": NewPartitions(3, [[3, 4]])}))
    await ask("alter_configs", client.alter_configs([topic]))
    await harness.settled()
    await ask("describe_configs", client.describe_configs([topic]))
    await ask("describe_topics", client.describe_topics(["aio"]))
    await ask("delete_topics", client.delete_topics(["aio", "nowhere"]))
    await client.close()
    return rows


async def of_kafka_python(harness: Harness) -> list[Row]:
    """The same calls, and reassignments and elections."""
    rows: list[Row] = []
    bootstrap = harness.placeholders()["brokers"].split(",")
    client = await asyncio.to_thread(KafkaAdminClient, bootstrap_servers=bootstrap)

    async def ask(call_name: str, call: Callable[[], Any], reason: Reason | None = None) -> None:
        answer = await _answered(asyncio.to_thread(call))
        rows.append(Row("kafka-python", call_name, of_client(answer, harness), reason))

    made = {
        "kp-by-id": {"assignments": {0: [2, 4]}},
        "kp": {"assignments": {0: [1, 2], 1: [2, 3]}, "configs": {"retention.ms": "1000"}},
        "kp-wrong": {"num_partitions": 1, "replication_factor": 9},
        "kp-config": {"num_partitions": 1, "replication_factor": 1, "configs": {"no.such": "1"}},
    }
    target = {TopicPartition("kp", 0): [3, 4], TopicPartition("nowhere", 0): [1, 2]}
    with closing(client):
        for what, validate_only in (
            ("create_topics, validate only", True),
            ("create_topics", False),
        ):
            await ask(
                what,
                lambda validate_only=validate_only: client.create_topics(  # type: ignore[misc]
                    made, validate_only=validate_only, raise_errors=False
                ),
            )
        await harness.settled()
        await ask(
            "describe_cluster", lambda: _node_of_controller(client.describe_cluster(), harness)
        )
        await ask(
            "create_partitions", lambda: client.create_partitions({"kp": 1}, raise_errors=False)
        )
        await ask(
            "alter_partition_reassignments", lambda: client.alter_partition_reassignments(target)
        )
        await harness.settled()
        await ask("list_partition_reassignments", client.list_partition_reassignments)
        await ask(
            "cancel a reassignment that does not exist",
            lambda: client.alter_partition_reassignments({TopicPartition("kp", 0): None}),
        )
        for election in (0, 1):
            await ask(
                f"elect_leaders, type {election}",
                lambda election=election: client.elect_leaders(  # type: ignore[misc]
                    election, {"kp": [0, 1, 7]}, raise_errors=False
                ),
            )
        await harness.settled()
        await ask("describe_topics", lambda: client.describe_topics(["kp"]), FEWER_EPOCHS)
        for what, names in (
            ("a known id", [uuid_of(await harness.topic_id("kp-by-id"))]),
            ("an unknown id", [uuid.UUID(int=1)]),
            ("by name", ["kp", "nowhere", "kp-by-id"]),
        ):
            await ask(
                f"delete_topics, {what}",
                lambda names=names: client.delete_topics(  # type: ignore[misc]
                    names, raise_errors=False
                ),
            )
            await harness.settled()
    return rows


async def kafka_python_lists(harness: Harness) -> list[Row]:
    """Lists the reassignments in progress."""
    bootstrap = harness.placeholders()["brokers"].split(",")
    client = await asyncio.to_thread(KafkaAdminClient, bootstrap_servers=bootstrap)
    with closing(client):
        listed = await _answered(asyncio.to_thread(client.list_partition_reassignments))
    return [
        Row("kafka-python", "list_partition_reassignments, in progress", of_client(listed, harness))
    ]


def uuid_of(topic_id: str) -> uuid.UUID:
    """A topic's id as kafka-python has it."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(f"{topic_id}=="))


def _node_of_controller(cluster: dict[str, Any], harness: Harness) -> dict[str, Any]:
    """A described cluster, with the controller's node described relative to the cluster."""
    ids = sorted(one["broker_id"] for one in cluster["brokers"])
    return {
        "brokers with data": [one for one in ids if one <= len(harness.lab.brokers)],
        "the controller is in the list": cluster["controller_id"] in ids,
        "the controller is the right one": cluster["controller_id"] == harness.controller_id,
    }


async def _answered(answer: Awaitable[Any]) -> Any:
    """A response, or an exception, as plain values."""
    try:
        return _plain(await answer)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _plain(value: Any) -> Any:
    for method in ("to_object", "to_dict"):
        if hasattr(value, method):
            return _plain(getattr(value, method)())
    if isinstance(value, dict):
        named = {str(name): _plain(one) for name, one in value.items()}
        return {
            name: sorted(one) if name in OPEN_ORDERS else one
            for name, one in named.items()
            if name not in OPEN_FIELDS
        }
    if isinstance(value, list | tuple):
        found = [_plain(one) for one in value]
        # Kafka returns topics and configurations in the order of a hash map.
        return sorted(found, key=repr) if found and isinstance(found[0], dict) else found
    if isinstance(value, type):
        return value.__name__
    return value
