"""Access to a cluster, through ZooKeeper or through Kafka's APIs."""

import os
import shlex
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

import msgspec

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.operations import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    OK,
    Create,
    CreateSequential,
    SetData,
    WriteOperation,
)
from controller.core.values import NO_LEADER, Assignment
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.reassignment.cluster_state import (
    ClusterState,
    ControllerKind,
    CurrentController,
    Leadership,
)
from controller.operator.reassignment.documents import Partition
from controller.operator.reassignment.errors import BadInput, KafkaUnavailable, ReassignmentRefused
from controller.operator.reassignment.kafka_admin import AdminMetadata, KafkaAdmin
from controller.operator.reassignment.kafka_client import KafkaClient
from controller.operator.reassignment.progress import Sizes
from controller.operator.reassignment.steps import Configure
from controller.operator.reassignment.zookeeper_state import describe
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.settings.client_options import client_options
from controller.settings.errors import SettingsError
from controller.settings.settings import zookeeper_of
from controller.settings.sources import RawSetting
from controller.zookeeper.connection import ZooKeeperSecurity
from controller.zookeeper.errors import BadConnectString
from controller.zookeeper.servers import parse_connect_string

TRIES_MAX: Final = 20
"""Attempts at a conditional write while another writer keeps changing the znode."""

ZOOKEEPER_MS: Final = 15_000
"""Time limit for a session, and for each response."""

_OVERTAKEN: Final = (BAD_VERSION, NODE_EXISTS, NO_NODE)
_BROKERS: Final = "brokers"
_ZOOKEEPER_CONFIG: Final = "--zk-tls-config-file"


class ClusterAdmin(Protocol):
    """The operations that both ways of access support."""

    async def describe(self, topics: Iterable[str] | None) -> ClusterState:
        """The state of these topics (None: all relevant ones) and of all reassignments."""

    async def describe_all(self) -> ClusterState:
        """The state of all topics."""

    async def configure(self, step: Configure) -> None:
        """Change configurations."""


class ZooKeeperClusterAdmin:
    """Access through ZooKeeper. All methods raise ZooKeeperUnavailable, and
    ReassignmentRefused if znodes cannot be used."""

    def __init__(self, store: ZooKeeperClient) -> None:
        self.client = store

    async def describe(self, topics: Iterable[str] | None) -> ClusterState:
        """The state of these topics (None: all topics) and of all reassignments."""
        return await describe(self.client, topics)

    async def describe_all(self) -> ClusterState:
        """The state of all topics."""
        return await describe(self.client, None)

    async def configuration(self, entity: str) -> dict[str, str]:
        """The configuration of an entity such as "topics/t". Raises ReassignmentRefused if
        its znode cannot be read."""
        path = znodes.config_path(entity)
        (znode,) = await self.client.read((path,))
        try:
            return znodes.read_config(path, znode.data if znode else None)
        except ZnodeError as error:
            raise ReassignmentRefused(f"{error}: fix the znode") from error

    async def configure(self, step: Configure) -> None:
        """Write the entity's znode and notify the brokers, as Kafka's AdminZkClient."""
        path = znodes.config_path(step.entity)
        for _ in range(TRIES_MAX):
            (znode,) = await self.client.read((path,))
            try:
                current = znodes.read_config(path, znode.data if znode else None)
            except ZnodeError as error:
                raise ReassignmentRefused(f"{error}: fix the znode") from error
            wanted = {key: one for key, one in current.items() if key not in step.removed}
            wanted |= step.given
            if wanted == current:
                return
            content = znodes.write_config(wanted)
            write: WriteOperation = Create(path, content)
            if znode is not None:
                write = SetData(path, content, znode.version)
            change = msgspec.json.encode({"version": 2, "entity_path": step.entity})
            error_code = await self.client.write(
                (write, CreateSequential(znodes.CONFIG_CHANGE_PREFIX, change))
            )
            if error_code == OK:
                return
            if error_code not in _OVERTAKEN:
                raise ReassignmentRefused(f"{path} cannot be written (ZooKeeper code {error_code})")
        raise ReassignmentRefused(f"{path} keeps being changed by another writer: try later")


class KafkaClusterAdmin:
    """Access through Kafka's APIs. All methods raise KafkaUnavailable and ReassignmentRefused."""

    def __init__(self, admin: KafkaAdmin) -> None:
        self.api = admin

    async def describe(self, topics: Iterable[str] | None) -> ClusterState:
        """The state of these topics (None: only those of reassignments) and of all
        reassignments."""
        moving = await self.api.reassignments()
        names = sorted({*(topics or ()), *(topic for topic, _ in moving)})
        return await self._view(moving, await self.api.metadata(names))

    async def describe_all(self) -> ClusterState:
        """The state of all topics that the client may see."""
        return await self._view(await self.api.reassignments(), await self.api.metadata(None))

    async def _view(
        self, moving: dict[Partition, Assignment], metadata: AdminMetadata
    ) -> ClusterState:
        controller = CurrentController(ControllerKind.NONE)
        brokers = dict(metadata.nodes)
        if metadata.controller in brokers:
            is_refold = await self.api.is_refold(metadata.controller)
            controller = CurrentController(
                ControllerKind.REFOLD if is_refold else ControllerKind.STOCK, metadata.controller
            )
            if is_refold:
                del brokers[metadata.controller]
        assignments = {
            name: Assignment(tuple(one.replicas)) for name, one in metadata.partitions.items()
        }
        return ClusterState(
            controller,
            brokers,
            assignments | moving,
            {
                name: Leadership(one.leader, tuple(one.isr))
                for name, one in metadata.partitions.items()
            },
        )

    async def configure(self, step: Configure) -> None:
        """A broker's configuration is set on that broker, a topic's on any broker."""
        kind, _, name = step.entity.partition("/")
        if kind == _BROKERS:
            await self.api.configure_broker(int(name), step.given, step.removed)
        else:
            await self.api.configure_topics({name: step.given}, step.removed)


class ClusterConnection:
    """A cluster that is reached through ZooKeeper, brokers, or both. `options` are the command
    line options that name it."""

    def __init__(
        self,
        zookeeper: ZooKeeperClusterAdmin | None,
        kafka: KafkaClusterAdmin | None,
        options: Sequence[str] = (),
    ) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._options = options

    def command(self, *arguments: str) -> str:
        """A command line for the same cluster, quoted for a shell."""
        return shlex.join(("refold", "reassign", *self._options, *arguments))

    @property
    def admin(self) -> ClusterAdmin:
        """Access through ZooKeeper, if available."""
        return self._zookeeper or self.kafka

    @property
    def has_zookeeper(self) -> bool:
        """Whether the operations of KIP-236 are available."""
        return self._zookeeper is not None

    @property
    def zookeeper(self) -> ZooKeeperClusterAdmin:
        """Only call this if the options require ZooKeeper."""
        assert self._zookeeper is not None
        return self._zookeeper

    @property
    def kafka(self) -> KafkaClusterAdmin:
        """Only call this if the options require brokers."""
        assert self._kafka is not None
        return self._kafka

    async def sizes(self, state: ClusterState, partitions: Sequence[Partition]) -> Sizes:
        """For partitions with lagging replicas: the log sizes of the leaders and of those replicas.

        Brokers that do not answer are omitted. Without brokers to ask, the result is empty.
        """
        if self._kafka is None:
            return {}
        wanted: dict[int, list[Partition]] = {}
        for partition in partitions:
            leadership = state.leaderships.get(partition)
            if leadership is None or leadership.leader == NO_LEADER:
                continue
            lagging = [one for one in state.target(partition) if one not in leadership.isr]
            for broker in (leadership.leader, *lagging) if lagging else ():
                wanted.setdefault(broker, []).append(partition)
        found: dict[int, dict[Partition, int]] = {}
        for broker, named in wanted.items():
            if broker not in state.brokers:
                continue
            try:
                found[broker] = await self._kafka.api.log_sizes(broker, named)
            except KafkaUnavailable:
                continue
        return found


@asynccontextmanager
async def connected(
    zookeeper: str | None,
    bootstrap: str | None,
    command_config: Path | None,
    zookeeper_config: Path | None = None,
) -> AsyncIterator[ClusterConnection]:
    """Connect to a cluster. `zookeeper_config`: a file with TLS and the login for ZooKeeper.
    Raises BadInput, ZooKeeperUnavailable, KafkaUnavailable."""
    async with AsyncExitStack() as stack:
        zookeeper_client: ZooKeeperClient | None = None
        if zookeeper is not None:
            try:
                connect = parse_connect_string(zookeeper)
            except BadConnectString as error:
                raise BadInput(f"--zookeeper: {error}") from None
            security = _security(zookeeper, zookeeper_config)
            try:
                zookeeper_client = await stack.enter_async_context(
                    ZooKeeperClient(connect, ZOOKEEPER_MS, security)
                )
            except ZooKeeperUnavailable as error:
                text = f"cannot connect to ZooKeeper at {zookeeper}: {error}: check --zookeeper"
                raise ZooKeeperUnavailable(text) from error
        kafka_client: KafkaClient | None = None
        if bootstrap is not None:
            try:
                options = client_options(command_config, "--command-config")
            except SettingsError as error:
                raise BadInput("\n".join(error.problems)) from None
            kafka_client = await stack.enter_async_context(KafkaClient(bootstrap, options))
        yield ClusterConnection(
            ZooKeeperClusterAdmin(zookeeper_client) if zookeeper_client else None,
            KafkaClusterAdmin(KafkaAdmin(kafka_client)) if kafka_client else None,
            _options(zookeeper, bootstrap, command_config, zookeeper_config),
        )


def _security(zookeeper: str, config: Path | None) -> ZooKeeperSecurity:
    """How the session is secured, by the rules of the daemon: its settings are in this file and in
    the environment. Raises BadInput."""
    try:
        flag = RawSetting("zookeeper.connect", zookeeper, "--zookeeper")
        return zookeeper_of([flag], os.environ, config, _ZOOKEEPER_CONFIG).security
    except SettingsError as error:
        raise BadInput("\n".join(error.problems)) from None


def _options(
    zookeeper: str | None,
    bootstrap: str | None,
    command_config: Path | None,
    zookeeper_config: Path | None,
) -> list[str]:
    given = {
        "--zookeeper": zookeeper,
        _ZOOKEEPER_CONFIG: zookeeper_config,
        "--bootstrap-server": bootstrap,
        "--command-config": command_config,
    }
    return [text for name, one in given.items() if one is not None for text in (name, str(one))]
