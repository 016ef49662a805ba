"""A cluster whose ZooKeeper has TLS and SASL, and whose brokers have SASL_SSL and ACLs. A daemon
with such an endpoint is its controller."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from aiokafka.conn import AIOKafkaConnection, create_conn

from controller.core.operations import OK, Create, CreateSequential, WriteOperation
from controller.core.znodes.acls import (
    EXTENDED_ACL_CHANGES,
    LITERAL_ACL_CHANGES,
    Acl,
    ResourcePattern,
    acls_path,
)
from controller.wire.aiokafka_request import AiokafkaRequest
from controller.wire.client_requests import RequestHead, decode_response, encode_request
from tests.controller.api.client import request_schema
from tests.controller.daemon.lab_cluster import timed
from tests.lab.secured.secured_cluster import OWN_ID, SecuredCluster
from tools.lab import Lab
from tools.lab.certificates import PASSWORD
from tools.lab.ports import HOST, free_port
from tools.lab.refold import Refold
from tools.lab.secured import BROKER_PASSWORD, CLIENT, LISTENER, USER, SecuredFiles

CONTROLLED_SHUTDOWN, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 7, 19, 20, 37
ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 43, 45, 46
ALTER_SCRAM, UPDATE_FEATURES, ALTER_PARTITION, ALLOCATE = 51, 57, 56, 67
TIMEOUT = timedelta(seconds=10)


class SecuredEndpoint(SecuredCluster):
    """The cluster, and a daemon that is its controller. `options` and `settings` are the
    daemon's."""

    def __init__(
        self, lab: Lab, files: SecuredFiles, folder: Path, *options: str, **settings: str
    ) -> None:
        self.port = free_port()
        self._listeners = f"{LISTENER}://{HOST}:{self.port}"
        config = {"refold.listeners": self._listeners, **settings}
        super().__init__(lab, files, folder, {**files.authorized_config(), **config})
        self.daemon = self.new_daemon(*options)

    def new_daemon(self, *options: str, listeners: str | None = None) -> Refold:
        """A daemon with the settings of the file, not yet started."""
        return super().new_daemon(*options, listeners=listeners or self._listeners)

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
        acls = [Acl(f"User:{CLIENT}", "Allow", operation, "*") for operation in operations]
        await self.write_acls(ResourcePattern(kind, name), acls)

    async def write_acls(self, pattern: ResourcePattern, acls: Sequence[Acl]) -> None:
        """The first ACLs of this pattern, announced as a broker does."""
        kind, name, is_prefix = pattern
        change = f"{kind}:{name}".encode()
        if is_prefix:
            change = msgspec.json.encode(
                {"version": 1, "resourceType": kind, "name": name, "patternType": "PREFIXED"}
            )
        changes = EXTENDED_ACL_CHANGES if is_prefix else LITERAL_ACL_CHANGES
        writes: tuple[WriteOperation, ...] = (
            Create(acls_path(pattern), msgspec.json.encode({"version": 1, "acls": acls})),
            CreateSequential(f"{changes}/acl_changes_", change),
        )
        async with self.client as client:
            assert await client.write(writes) == OK


def write_client_properties(path: Path, secured: SecuredEndpoint, user: str, password: str) -> None:
    """Write the settings of a Java client."""
    path.write_text(
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}";\n'
        f"ssl.truststore.location={secured.files.authority.pkcs12}\n"
        f"ssl.truststore.password={PASSWORD}\n"
        "ssl.truststore.type=PKCS12\n"
    )


async def ask(connection: AIOKafkaConnection, key: int, version: int, request: Any) -> Any:
    def header(correlation_id: int, client_id: str) -> bytes:
        return encode_request(RequestHead(key, version, correlation_id), client_id, request)[4:]

    answer: bytes = await connection.send(AiokafkaRequest(header))
    return decode_response(RequestHead(key, version, 0), answer)


def schema(key: int, version: int) -> Any:
    return request_schema(key, version)


async def add_scram_user(secured: SecuredEndpoint, user: str, salted: bytes) -> None:
    """The brokers' user gives a user a SCRAM-SHA-512 credential, with the salt "salt"."""
    scram = schema(ALTER_SCRAM, 0)
    upsertion = scram.ScramCredentialUpsertion(
        name=user, mechanism=2, iterations=4096, salt=b"salt", salted_password=salted
    )
    connection = await secured.connect(secured.port, USER, BROKER_PASSWORD)
    request = scram.AlterUserScramCredentialsRequest(deletions=(), upsertions=(upsertion,))
    answer = await ask(connection, ALTER_SCRAM, 0, request)
    connection.close()
    assert not answer.results[0].error_code


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


@asynccontextmanager
async def running_endpoint(
    folder: Path, *options: str, everywhere: Mapping[str, str] | None = None, **settings: str
) -> AsyncIterator[SecuredEndpoint]:
    """The cluster with two brokers, while its daemon is controller. `options` and `settings` are
    the daemon's; `everywhere`: settings of the brokers and of the daemon."""
    everywhere = everywhere or {}
    files = SecuredFiles(folder / "files")
    async with Lab(folder / "lab") as lab:
        await files.start_zookeeper(lab)
        await files.start_brokers(lab, 2, {**files.authorized_config(), **everywhere})
        given = {**everywhere, **settings}
        made = SecuredEndpoint(lab, files, folder / "refold", *options, **given)
        await made.daemon.start()
        try:
            await made.until_controller()
            await made.until_failover_is_done()
            yield made
        finally:
            await made.daemon.kill_if_running()
