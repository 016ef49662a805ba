"""A cluster whose ZooKeeper has TLS and SASL, and whose brokers have SASL_SSL and ACLs. A daemon
with such an endpoint is its controller."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from aiokafka.conn import AIOKafkaConnection, create_conn

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

OWN_ID = 1000
CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 19, 20, 37
ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS = 43, 45, 46
ALTER_SCRAM, UPDATE_FEATURES, ALTER_PARTITION, ALLOCATE = 51, 57, 56, 67
TIMEOUT = timedelta(seconds=10)


class SecuredEndpoint:
    """The cluster, and a daemon that is its controller."""

    def __init__(
        self, lab: Lab, files: SecuredFiles, folder: Path, *options: str, **settings: str
    ) -> None:
        folder.mkdir()
        self.lab = lab
        self.port = free_port()
        self.config = config = folder / "server.properties"
        content = {
            **files.authorized_config(),
            "refold.login.config": str(files.client_jaas()),
            "zookeeper.session.timeout.ms": "6000",
            "refold.broker.id": str(OWN_ID),
            "refold.log.dir": str(folder / "logs"),
            "refold.listeners": f"{LISTENER}://{HOST}:{self.port}",
            **settings,
        }
        config.write_text("".join(f"{key}={text}\n" for key, text in content.items()))
        self.settings: Settings = load([], {}, config).settings
        self.files = files
        self.logs = folder / "logs"
        self.daemon = self.new_daemon(*options)

    def new_daemon(self, *options: str) -> Refold:
        """A daemon with the settings of the file, not yet started."""
        return Refold(
            self.files.zookeeper_connect,
            OWN_ID,
            self.logs,
            *("--config", str(self.config), "--take-over", *options),
            listeners=f"{LISTENER}://{HOST}:{self.port}",
        )

    async def until_controller(self) -> None:
        """Wait until the daemon is controller."""

        async def is_controller() -> bool:
            assert self.daemon.running, self.daemon.last_output()
            return await self.controller_id() == OWN_ID

        await timed(is_controller, "refold is controller")

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
        await lab.start_brokers(
            2,
            listeners=[LISTENER],
            config={**files.authorized_config(), **everywhere},
            java_options=(
                "-Xmx384m",
                f"-Djava.security.auth.login.config={files.client_jaas()}",
            ),
        )
        given = {**everywhere, **settings}
        made = SecuredEndpoint(lab, files, folder / "refold", *options, **given)
        await made.daemon.start()
        try:
            await made.until_controller()
            yield made
        finally:
            await made.daemon.kill_if_running()
