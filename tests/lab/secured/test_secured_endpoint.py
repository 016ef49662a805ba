"""refold's endpoint with SASL_SSL and Kafka's ACLs, next to brokers with the same settings. What
clients without rights get is compared with the answers of a stock controller."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import KafkaError

from controller.core import znodes
from controller.core.operations import OK, Create, CreateSequential, WriteOperation
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.settings.settings import Settings, load
from controller.wire.aiokafka_request import AiokafkaRequest
from controller.wire.client_requests import RequestHead, decode_response, encode_request
from tests.controller.api.client import request_schema
from tests.controller.daemon.lab_cluster import timed
from tools.lab import Lab
from tools.lab.ports import HOST, free_port
from tools.lab.refold import Refold
from tools.lab.secured import BROKER_PASSWORD, LISTENER, USER, SecuredFiles

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

OWN_ID = 1000
ALICE_PASSWORD = "alice-secret"
CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 43, 45, 46
TIMEOUT = timedelta(seconds=10)
ALTER_SCRAM, UPDATE_FEATURES, ALTER_PARTITION, ALLOCATE = 51, 57, 56, 67


def broker_settings(files: SecuredFiles) -> dict[str, str]:
    """As the lab's, with a second user, SCRAM, and Kafka's authorizer."""
    key = f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config"
    config = dict(files.broker_config())
    return config | {
        key: config[key].removesuffix(";") + f' user_alice="{ALICE_PASSWORD}";',
        f"listener.name.{LISTENER.lower()}.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{USER}",
    }


class SecuredEndpoint:
    """The cluster, and a daemon that is its controller."""

    def __init__(
        self,
        lab: Lab,
        files: SecuredFiles,
        folder: Path,
        more: Mapping[str, str],
        options: Sequence[str],
    ) -> None:
        folder.mkdir()
        self.lab = lab
        self.port = free_port()
        config = folder / "server.properties"
        content = {
            **broker_settings(files),
            "refold.login.config": str(files.client_jaas()),
            "zookeeper.session.timeout.ms": "6000",
            "refold.broker.id": str(OWN_ID),
            "refold.log.dir": str(folder / "logs"),
            "refold.listeners": f"{LISTENER}://{HOST}:{self.port}",
            **more,
        }
        config.write_text("".join(f"{key}={text}\n" for key, text in content.items()))
        self.settings: Settings = load([], {}, config).settings
        self.daemon = Refold(
            files.zookeeper_connect,
            OWN_ID,
            folder / "logs",
            *("--config", str(config), "--take-over", *options),
            listeners=f"{LISTENER}://{HOST}:{self.port}",
        )
        self.logs = folder / "logs"

    @property
    def client(self) -> ZooKeeperClient:
        return ZooKeeperClient(self.settings.zookeeper, 6000, self.settings.security.zookeeper)

    async def controller_id(self) -> int | None:
        async with self.client as client:
            (znode,) = await client.read((znodes.CONTROLLER,))
        holder = None if znode is None else znodes.read_controller(znode.data)
        return None if holder is None else holder.brokerid

    async def controller_port(self) -> int:
        """The port of the controller, when there is one."""
        found: list[int] = []
        ports = {id: one.port for id, one in enumerate(self.lab.brokers, 1)} | {OWN_ID: self.port}

        async def named() -> bool:
            holder = await self.controller_id()
            if holder is not None:
                found.append(ports[holder])
            return holder is not None

        await timed(named, "there is a controller")
        return found[-1]

    async def connect(
        self,
        port: int,
        user: str,
        password: str,
        mechanism: str = "PLAIN",
        client_id: str = "lab",
    ) -> Any:
        known = self.settings.security.brokers.listeners[LISTENER].arguments()
        login = {
            "client_id": client_id,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
        }
        return await create_conn(HOST, port, request_timeout_ms=60_000, **(known | login))

    async def set_acls(self, kind: str, name: str, *operations: str) -> None:
        """Allow alice these operations, and announce it as a broker does."""
        entries = [
            {
                "principal": "User:alice",
                "permissionType": "Allow",
                "operation": operation,
                "host": "*",
            }
            for operation in operations
        ]
        writes: tuple[WriteOperation, ...] = (
            Create(
                f"/kafka-acl/{kind}/{name}", msgspec.json.encode({"version": 1, "acls": entries})
            ),
            CreateSequential("/kafka-acl-changes/acl_changes_", f"{kind}:{name}".encode()),
        )
        async with self.client as client:
            assert await client.write(writes) == OK


async def ask(connection: AIOKafkaConnection, key: int, version: int, request: Any) -> Any:
    def header(correlation_id: int, client_id: str) -> bytes:
        return encode_request(RequestHead(key, version, correlation_id), client_id, request)[4:]

    answer: bytes = await connection.send(AiokafkaRequest(header))
    return decode_response(RequestHead(key, version, 0), answer)


def schema(key: int, version: int) -> Any:
    return request_schema(key, version)


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


def calls_about_the_cluster() -> dict[str, tuple[int, int, Any]]:
    """As `calls_about_topics`."""
    elect, features = schema(ELECT_LEADERS, 2), schema(UPDATE_FEATURES, 1)
    alter, scram = schema(ALTER_REASSIGNMENTS, 0), schema(ALTER_SCRAM, 0)
    partition = schema(ALTER_PARTITION, 2)
    return {
        "elect": (
            ELECT_LEADERS,
            2,
            elect.ElectLeadersRequest(
                election_type=0,
                topic_partitions=(elect.TopicPartitions(topic="orders", partitions=(0,)),),
            ),
        ),
        "alter reassignments": (
            ALTER_REASSIGNMENTS,
            0,
            alter.AlterPartitionReassignmentsRequest(
                topics=(
                    alter.ReassignableTopic(
                        name="orders",
                        partitions=(alter.ReassignablePartition(partition_index=0, replicas=None),),
                    ),
                )
            ),
        ),
        "list reassignments": (
            LIST_REASSIGNMENTS,
            0,
            schema(LIST_REASSIGNMENTS, 0).ListPartitionReassignmentsRequest(topics=None),
        ),
        "update features": (
            UPDATE_FEATURES,
            1,
            features.UpdateFeaturesRequest(feature_updates=(), validate_only=True),
        ),
        "delete credentials": (
            ALTER_SCRAM,
            0,
            scram.AlterUserScramCredentialsRequest(
                deletions=(scram.ScramCredentialDeletion(name="bob", mechanism=2),), upsertions=()
            ),
        ),
        "alter partition": (
            ALTER_PARTITION,
            2,
            partition.AlterPartitionRequest(broker_id=1, broker_epoch=1, topics=()),
        ),
        "producer ids": (
            ALLOCATE,
            0,
            schema(ALLOCATE, 0).AllocateProducerIdsRequest(broker_id=1, broker_epoch=1),
        ),
    }


def calls() -> Mapping[str, tuple[int, int, Any]]:
    return calls_about_topics() | calls_about_the_cluster()


@asynccontextmanager
async def secured_endpoint(
    tmp_path: Path, *options: str, **more: str
) -> AsyncIterator[SecuredEndpoint]:
    """A secured cluster with refold, which has these options, as its controller. `more`: settings
    of the brokers and of refold, with underscores for dots."""
    given = {key.replace("_", "."): text for key, text in more.items()}
    files = SecuredFiles(tmp_path / "files")
    async with Lab(tmp_path / "lab") as lab:
        await files.start_zookeeper(lab)
        await lab.start_brokers(
            2,
            listeners=[LISTENER],
            config=broker_settings(files) | given,
            java_options=(
                "-Xmx384m",
                f"-Djava.security.auth.login.config={files.client_jaas()}",
            ),
        )
        made = SecuredEndpoint(lab, files, tmp_path / "refold", given, options)
        await made.daemon.start()
        try:

            async def is_controller() -> bool:
                assert made.daemon.running, made.daemon.last_output()
                return await made.controller_id() == OWN_ID

            await timed(is_controller, "refold is controller")
            yield made
        finally:
            await made.daemon.kill_if_running()


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[SecuredEndpoint]:
    async with secured_endpoint(tmp_path) as made:
        yield made


async def create_topic(secured: SecuredEndpoint, name: str, replicas: tuple[int, ...]) -> None:
    """The brokers' user creates a topic at the controller."""
    create = schema(CREATE_TOPICS, 7)
    assignment = create.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    topic = create.CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=(assignment,),
        configs=(),
    )
    connection = await secured.connect(secured.port, USER, BROKER_PASSWORD)
    request = create.CreateTopicsRequest(topics=(topic,))
    answer = await ask(connection, CREATE_TOPICS, 7, request)
    connection.close()
    assert not answer.topics[0].error_code, answer


TEXTS = ("alter reassignments", "list reassignments")
"""Kafka's text describes the connection there (docs/security.md#authorization)."""


async def answers_of(secured: SecuredEndpoint) -> dict[str, str]:
    """What alice gets from the controller, call by call."""
    found = {}
    connection = await secured.connect(await secured.controller_port(), "alice", ALICE_PASSWORD)
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
        return (await answers_of(secured))["list reassignments"] != without_rights[
            "list reassignments"
        ]

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
    for secret in (BROKER_PASSWORD, ALICE_PASSWORD):
        assert secret.encode() not in content


async def test_scram_credential_that_is_written_at_the_controller_is_valid_there(
    secured: SecuredEndpoint,
) -> None:
    with pytest.raises(KafkaError):
        await secured.connect(secured.port, "carol", "carol-secret", "SCRAM-SHA-512")
    scram = schema(ALTER_SCRAM, 0)
    salted = hashlib.pbkdf2_hmac("sha512", b"carol-secret", b"salt", 4096)
    upsertion = scram.ScramCredentialUpsertion(
        name="carol", mechanism=2, iterations=4096, salt=b"salt", salted_password=salted
    )
    connection = await secured.connect(secured.port, USER, BROKER_PASSWORD)
    request = scram.AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,))
    answer = await ask(connection, ALTER_SCRAM, 0, request)
    connection.close()
    assert not answer.results[0].error_code
    with anyio.fail_after(10):
        connection = await secured.connect(secured.port, "carol", "carol-secret", "SCRAM-SHA-512")
    listing = calls()["list reassignments"]
    assert "authorization_failed" in repr(await ask(connection, *listing))
    connection.close()
