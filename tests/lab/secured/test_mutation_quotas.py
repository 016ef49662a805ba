"""Controller mutation quotas (KIP-599) of refold, compared with those of a stock controller."""

import time
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from controller.core import znodes
from controller.core.operations import OK, Create, CreateSequential, WriteOperation
from tests.controller.daemon.lab_cluster import timed
from tests.lab.secured.secured_endpoint import (
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    SecuredEndpoint,
    ask,
    schema,
)
from tools.lab.secured import BROKER_PASSWORD, CLIENT_PASSWORD, USER

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

TIMEOUT = timedelta(seconds=60)
PARTITIONS = 80
"""This many new partitions exceed a rate of 1 per second by 69 s."""
TOLERANCE_S = 3.0


class Answered(NamedTuple):
    """The error and message of a response, and when the client may continue, in seconds since the
    first call."""

    error: str
    message: str | None
    until_s: float


async def set_quota(secured: SecuredEndpoint, entity: str, rate: str) -> None:
    """As kafka-configs."""
    content = znodes.write_config({"controller_mutation_rate": rate})
    changed = znodes.write_config_change(entity)
    writes: tuple[WriteOperation, ...] = (
        Create(f"/config/{entity}", content),
        CreateSequential(f"{znodes.CONFIG_CHANGES}/config_change_", changed),
    )
    async with secured.client as client:
        assert await client.write(writes) == OK


def create(version: int, topic: str, partitions: int) -> tuple[int, int, Any]:
    module = schema(CREATE_TOPICS, version)
    new = module.CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    return (
        CREATE_TOPICS,
        version,
        module.CreateTopicsRequest(topics=(new,), timeout=TIMEOUT),
    )


def grow(version: int, topic: str, count: int) -> tuple[int, int, Any]:
    module = schema(CREATE_PARTITIONS, version)
    grown = module.CreatePartitionsTopic(name=topic, count=count, assignments=None)
    request = module.CreatePartitionsRequest(topics=(grown,), timeout=TIMEOUT, validate_only=False)
    return CREATE_PARTITIONS, version, request


def delete(version: int, topic: str) -> tuple[int, int, Any]:
    module = schema(DELETE_TOPICS, version)
    return (
        DELETE_TOPICS,
        version,
        module.DeleteTopicsRequest(topic_names=(topic,), timeout=TIMEOUT),
    )


def calls(prefix: str) -> dict[str, tuple[int, int, Any]]:
    """In this order: the first one exceeds the quota."""
    one, other = f"{prefix}-1", f"{prefix}-2"
    return {
        "first": create(7, one, PARTITIONS),
        "create, strict": create(7, other, 1),
        "create, permissive": create(5, other, 1),
        "grow, strict": grow(3, other, 4),
        "grow, permissive": grow(2, other, 4),
        "delete, strict": delete(5, other),
        "delete, permissive": delete(4, other),
        "oldest version": create(1, f"{prefix}-3", 1),
    }


async def answers_of(
    secured: SecuredEndpoint, prefix: str, user: str, password: str, client_id: str
) -> dict[str, Answered]:
    """A client's answers from the controller, each time on a new connection."""
    port = await secured.controller_port()
    found = {}
    begun = 0.0
    for name, call in calls(prefix).items():
        connection = await secured.connect(port, user, password, client_id=client_id)
        answer = await ask(connection, *call)
        begun = begun or time.monotonic()
        connection.close()
        (one,) = (
            getattr(answer, "topics", None)
            or getattr(answer, "results", None)
            or (answer.responses)
        )
        throttle = getattr(answer, "throttle_time", timedelta()).total_seconds()
        until_s = time.monotonic() - begun + throttle if throttle else 0.0
        message = getattr(one, "error_message", None)
        text = message and message.replace(prefix, "topic")
        found[name] = Answered(one.error_code.name, text, until_s)
    return found


def is_same(one: Answered, other: Answered) -> bool:
    return one[:2] == other[:2] and abs(one.until_s - other.until_s) < TOLERANCE_S


async def test_quotas_are_applied_as_by_a_stock_controller(secured: SecuredEndpoint) -> None:
    await set_quota(secured, "users/alice", "1")
    await set_quota(secured, "clients/app", "1")
    await secured.set_acls("Cluster", "kafka-cluster", "Create")
    await secured.set_acls("Topic", "*", "Alter", "Delete", "DescribeConfigs")
    clients = {
        "alice": ("alice", CLIENT_PASSWORD, "any"),
        "app": (USER, BROKER_PASSWORD, "app"),
        "free": (USER, BROKER_PASSWORD, "free"),
    }

    async def is_allowed() -> bool:
        module = schema(CREATE_TOPICS, 7)
        call = create(7, "dry", 1)[2]
        dry = module.CreateTopicsRequest(topics=call.topics, timeout=TIMEOUT, validate_only=True)
        connection = await secured.connect(secured.port, "alice", CLIENT_PASSWORD)
        answer = await ask(connection, CREATE_TOPICS, 7, dry)
        connection.close()
        return not answer.topics[0].error_code

    await timed(is_allowed, "refold has the ACLs")
    of_refold = {
        name: await answers_of(secured, f"refold-{name}", *client)
        for name, client in clients.items()
    }
    assert await secured.daemon.stop() == 0
    of_kafka = {
        name: await answers_of(secured, f"kafka-{name}", *client)
        for name, client in clients.items()
    }
    for name, answers in of_kafka.items():
        for call, answer in answers.items():
            assert is_same(of_refold[name][call], answer), (
                name,
                call,
                of_refold[name][call],
                answer,
            )
    assert all(one.until_s == 0 for one in of_kafka["free"].values())
    assert of_kafka["alice"]["create, strict"].error == "throttling_quota_exceeded"
    content = b"".join(one.read_bytes() for one in secured.logs.rglob("*") if one.is_file())
    assert b"quota exceeded: controller_mutation_rate of user alice" in content
