"""refold's endpoint with SASL_SSL and Kafka's ACLs, next to brokers with the same settings. The
responses to clients without rights are compared with those of a stock controller."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiokafka.errors import KafkaError

from controller.core import znodes
from controller.core.authorization import THE_CLUSTER
from tests.controller.daemon.lab_cluster import timed
from tests.lab.secured.calls import CALLS, api_name
from tests.lab.secured.secured_cluster import OWN_ID
from tests.lab.secured.secured_endpoint import (
    ALTER_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    LIST_REASSIGNMENTS,
    TIMEOUT,
    SecuredEndpoint,
    add_scram_user,
    ask,
    create_topic,
    schema,
)
from tools.lab.secured import BROKER_PASSWORD, CLIENT, CLIENT_PASSWORD, USER

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


def calls_about_topics() -> dict[str, tuple[int, int, Any]]:
    """Requests that change nothing here."""
    create, delete = schema(CREATE_TOPICS, 7), schema(DELETE_TOPICS, 5)
    grow = schema(CREATE_PARTITIONS, 3)
    topics = tuple(
        create.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        for name in ("allowed", "orders", "secret")
    )
    new = tuple(
        grow.CreatePartitionsTopic(name=name, count=9, assignments=None)
        for name in ("allowed", "secret")
    )
    return {
        "create": (
            CREATE_TOPICS,
            7,
            create.CreateTopicsRequest(topics=topics, validate_only=True),
        ),
        "delete": (
            DELETE_TOPICS,
            5,
            delete.DeleteTopicsRequest(topic_names=("orders", "nothing"), timeout=TIMEOUT),
        ),
        "grow": (
            CREATE_PARTITIONS,
            3,
            grow.CreatePartitionsRequest(topics=new, timeout=TIMEOUT, validate_only=True),
        ),
    }


def calls() -> Mapping[str, tuple[int, int, Any]]:
    about_the_cluster = {
        one.name: (one.key, one.version, one.request(OWN_ID))
        for one in CALLS
        if one.resource == THE_CLUSTER and not one.is_local
    }
    return calls_about_topics() | about_the_cluster


LISTING = api_name(LIST_REASSIGNMENTS)
TEXTS = (api_name(ALTER_REASSIGNMENTS), LISTING)
"""Kafka's text describes the connection there (docs/security.md#authorization)."""


async def answers_of(secured: SecuredEndpoint) -> dict[str, str]:
    """The controller's answers to alice, call by call."""
    found = {}
    connection = await secured.connect(await secured.controller_port(), CLIENT, CLIENT_PASSWORD)
    try:
        for name, call in calls().items():
            answer = repr(await ask(connection, *call))
            if name in TEXTS:
                answer = answer.partition("error_message=")[0]
            found[name] = answer
    finally:
        connection.close()
    return found


async def test_clients_without_rights_get_the_answers_of_a_stock_controller(
    secured: SecuredEndpoint,
) -> None:
    await create_topic(secured, "orders", (1, 2))
    without_rights = await answers_of(secured)
    assert all("authorization_failed" in one for one in without_rights.values()), without_rights
    await secured.set_acls("Topic", "allowed", "Create", "Alter")
    await secured.set_acls("Topic", "orders", "Describe")
    await secured.set_acls("Cluster", "kafka-cluster", "Describe")

    async def is_seen() -> bool:
        return (await answers_of(secured))[LISTING] != without_rights[LISTING]

    await timed(is_seen, "refold has the ACLs")
    with_rights = await answers_of(secured)
    assert await secured.daemon.stop() == 0
    assert await answers_of(secured) == with_rights


async def test_brokers_log_in_to_the_controller(secured: SecuredEndpoint, tmp_path: Path) -> None:
    await create_topic(secured, "orders", (1, 2))
    first, _ = secured.lab.brokers
    await first.stop()

    async def state() -> Any:
        async with secured.client as client:
            (znode,) = await client.read((znodes.state_path("orders", 0),))
        assert znode is not None
        return znodes.read_state("", znode.data, znode.version)

    # The controlled shutdown moved the leader; the ISR shrank and grows again by AlterPartition.
    assert (await state()).leader == 2
    await first.start()

    async def is_in_sync() -> bool:
        return set((await state()).isr) == {1, 2}

    await timed(is_in_sync, "broker 1 is in sync again")
    assert await secured.daemon.stop() == 0
    content = b"".join(one.read_bytes() for one in secured.logs.rglob("*") if one.is_file())
    assert f"User:{USER}".encode() in content
    for secret in (BROKER_PASSWORD, CLIENT_PASSWORD):
        assert secret.encode() not in content


async def test_scram_credential_that_is_written_at_the_controller_is_valid_there(
    secured: SecuredEndpoint,
) -> None:
    with pytest.raises(KafkaError):
        await secured.connect(secured.port, "carol", "carol-secret", "SCRAM-SHA-512")
    salted = hashlib.pbkdf2_hmac("sha512", b"carol-secret", b"salt", 4096)
    await add_scram_user(secured, "carol", salted)
    with anyio.fail_after(10):
        connection = await secured.connect(secured.port, "carol", "carol-secret", "SCRAM-SHA-512")
    listing = calls()[LISTING]
    assert "authorization_failed" in repr(await ask(connection, *listing))
    connection.close()
