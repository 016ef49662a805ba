"""Probes ZooKeeper, brokers, listeners, the clock and the disk for the checks. Probes change
nothing permanently, and return failures as part of the status."""

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Final

import anyio
from aiozk import ZKClient
from aiozk.exc import ZKError
from anyio.abc import ByteStream
from anyio.to_thread import run_sync

from controller.api.errors import CannotListen
from controller.api.listening import listen
from controller.brokers.connection import BrokerConnection
from controller.brokers.errors import ChannelError
from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.outcomes import ZnodeColumns
from controller.core.topic_configs import OF_CLUSTER, ConfigEntry
from controller.core.values import Broker, Endpoint
from controller.core.znodes import CLUSTER_ID, read_cluster_id
from controller.core.znodes.acls import CLUSTER, Acl, acls_parent, read_acls
from controller.operator.asked_brokers import of_each
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.status import (
    BrokerStatus,
    ClusterStatus,
    ControllerStatus,
    DiskStatus,
    ServerStatus,
    SystemStatus,
    ZooKeeperStatus,
)
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.security.tls import ReloadedContext
from controller.security.tls_errors import reason_of
from controller.settings.settings import Settings
from controller.settings.table import AUTHORIZER, DECIDING, POLICIES
from controller.wire.apis import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from controller.zookeeper.connection import PLAIN as ZOOKEEPER_PLAIN
from controller.zookeeper.servers import ConnectString, ServerAddress
from eventstore.errors import LogExposed
from eventstore.folders import require_not_replaceable, require_private

SERVER_SECONDS_MAX: Final = 3.0
BROKER_MS_MAX: Final = 5_000
_SYNCS: Final = 5
_VERSION: Final = re.compile(r"version: (\d+\.\d+\.\d+)")


async def probe_all(settings: Settings) -> SystemStatus:
    """Probe everything once. Failures are part of the status and raise nothing."""
    zookeeper = await probe_zookeeper(settings)
    security = settings.security.zookeeper
    servers = await probe_servers(settings.zookeeper.servers, security.tls)
    cluster = zookeeper.cluster
    # aiozk, which reads the clock, has neither TLS nor SASL, and connects only to servers that
    # answer srvr with their version.
    can_read_clock = (
        security == ZOOKEEPER_PLAIN
        and cluster is not None
        and cluster.chroot_exists
        and any(one.version for one in servers)
    )
    return SystemStatus(
        zookeeper=zookeeper,
        servers=servers,
        brokers=await probe_brokers(settings, cluster.brokers if cluster else ()),
        disk=await run_sync(probe_disk, settings.log_dir),
        listening_fault=await run_sync(probe_listeners, settings.listeners),
        clock_ahead_ms=await probe_clock(settings.zookeeper) if can_read_clock else None,
    )


async def probe_zookeeper(
    settings: Settings, on_slow: Callable[[str], None] | None = None
) -> ZooKeeperStatus:
    """The state of the cluster in ZooKeeper. Failures are part of the status and raise nothing.
    `on_slow` as for ZooKeeperClient."""
    try:
        async with ZooKeeperClient(
            settings.zookeeper,
            settings.connection_timeout_ms,
            settings.security.zookeeper,
            on_slow,
        ) as reader:
            return ZooKeeperStatus(cluster=await _cluster(reader, settings.broker_id))
    except ZooKeeperUnavailable as error:
        return ZooKeeperStatus(fault=str(error))


async def _cluster(reader: ZooKeeperClient, own_id: int) -> ClusterStatus:
    if not await reader.exists("/"):
        return ClusterStatus(chroot_exists=False)
    is_kafka = await reader.exists(znodes.BROKER_IDS)
    names = [one for one in await reader.children(znodes.BROKER_IDS) if one.isdecimal()]
    ids = sorted(map(int, names))
    dynamic = znodes.broker_config_path(own_id)
    single = (znodes.CONTROLLER, znodes.MIGRATION, CLUSTER_ID, dynamic)
    found = await reader.znodes((*single, *map(znodes.broker_path, ids)))
    brokers: list[Broker] = []
    unreadable: list[str] = []
    versions: dict[int, int] = {}
    for place, broker in enumerate(ids, len(single)):
        if found.errors[place]:
            continue
        try:
            brokers.append(znodes.read_broker(broker, found.data[place], found.czxids[place]))
            versions[broker] = znodes.registration_version(found.data[place])
        except ZnodeError as error:
            unreadable.append(str(error))
    return ClusterStatus(
        chroot_exists=True,
        is_kafka=is_kafka,
        cluster_id=read_cluster_id(found.data[2]),
        registered=tuple(ids),
        brokers=tuple(brokers),
        unreadable=tuple(unreadable),
        registration_versions=versions,
        controller=_controller(found),
        migrating="" if found.errors[1] else _migration_state(found.data[1]),
        dynamic_keys=_keys(dynamic, found.data[3]),
        cluster_acls=await _cluster_acls(reader),
    )


def _keys(path: str, data: bytes | None) -> tuple[str, ...]:
    """The keys of a dynamic configuration. The controller reports one that cannot be read."""
    try:
        return tuple(sorted(znodes.read_config(path, data)))
    except ZnodeError:
        return ()


async def _cluster_acls(reader: ZooKeeperClient) -> tuple[Acl, ...] | None:
    """The ACLs of all patterns of the cluster. The controller reports those that cannot be
    read."""
    try:
        paths = [
            f"{parent}/{name}"
            for parent in (acls_parent(CLUSTER, is_prefix=one) for one in (False, True))
            for name in await reader.children(parent)
        ]
        data = (await reader.znodes(tuple(paths))).data if paths else []
        pairs = [(path, one) for path, one in zip(paths, data, strict=True) if one is not None]
        return tuple(acl for path, one in pairs for acl in read_acls(path, one))
    except (ZnodeError, ZooKeeperUnavailable):
        return None


def _controller(found: ZnodeColumns) -> ControllerStatus | None:
    if found.errors[0]:
        return None
    holder = znodes.read_controller(found.data[0])
    return ControllerStatus(
        broker_id=holder.brokerid if holder else None,
        kraft_epoch=holder.kraftControllerEpoch if holder else -1,
        session_id=found.owners[0],
    )


def _migration_state(data: bytes | None) -> str:
    """The state of a migration in /migration; controller -1 means none."""
    try:
        controller = znodes.read_migration(data).kraft_controller_id
    except ZnodeError as error:
        return f"a migration may be in progress: {error}"
    return f"KRaft controller {controller} migrates this cluster" if controller >= 0 else ""


async def probe_servers(
    servers: Sequence[ServerAddress], tls: ReloadedContext | None = None
) -> tuple[ServerStatus, ...]:
    """Probe whether each ZooKeeper server accepts connections, and its version."""
    found: dict[ServerAddress, ServerStatus] = {}

    async def probe(server: ServerAddress) -> None:
        found[server] = await _probe_server(server, tls)

    async with anyio.create_task_group() as tasks:
        for server in servers:
            tasks.start_soon(probe, server)
    return tuple(found[server] for server in servers)


async def _probe_server(server: ServerAddress, tls: ReloadedContext | None) -> ServerStatus:
    answer = b""
    try:
        with anyio.fail_after(SERVER_SECONDS_MAX):
            async with await _open_connection(server, tls) as stream:
                await stream.send(b"srvr")
                async for part in stream:
                    answer += part
    except TimeoutError:
        return ServerStatus(server=str(server), fault=f"no reply in {SERVER_SECONDS_MAX:g} s")
    except (OSError, UnicodeError) as error:
        # UnicodeError: an impossible host name.
        return ServerStatus(server=str(server), fault=reason_of(error))
    except anyio.BrokenResourceError:
        # The server closes the connection if it does not allow the command.
        return ServerStatus(server=str(server))
    version = _VERSION.search(answer.decode(errors="replace"))
    return ServerStatus(server=str(server), version=version[1] if version else None)


async def _open_connection(server: ServerAddress, tls: ReloadedContext | None) -> ByteStream:
    if tls is None:
        return await anyio.connect_tcp(server.host, server.port)
    return await anyio.connect_tcp(
        server.host, server.port, ssl_context=tls.current(), tls_standard_compatible=False
    )


async def probe_brokers(settings: Settings, brokers: Sequence[Broker]) -> tuple[BrokerStatus, ...]:
    """Ask each broker on the controller's listener. A status says:

    - whether the broker answers;
    - which of the controller's requests it supports;
    - which policies and which of the `DECIDING` settings it has.
    """
    return await of_each(brokers, lambda one: _probe_broker(settings, one))


async def _probe_broker(settings: Settings, broker: Broker) -> BrokerStatus:
    configuration = settings.configuration()
    protocol = configuration.protocol
    wanted = (
        (LEADER_AND_ISR, protocol.leader_and_isr),
        (UPDATE_METADATA, protocol.update_metadata),
        (STOP_REPLICA, protocol.stop_replica),
    )
    endpoint = broker.endpoint(configuration.controller_listener)
    if endpoint is None:
        names = ", ".join(one.listener for one in broker.endpoints)
        fault = f"has no listener {configuration.controller_listener}, only {names}"
        return BrokerStatus(broker=broker.id, fault=fault)
    timeout_ms = min(settings.socket_timeout_ms, BROKER_MS_MAX)
    try:
        connection = await BrokerConnection.open(
            endpoint, str(settings.broker_id), timeout_ms, settings.security.brokers
        )
        try:
            versions = [(api.name, one, connection.version_for(api, one)) for api, one in wanted]
            entries, settings_fault = await _settings_of(connection, broker.id)
        finally:
            connection.close()
    except ChannelError as error:
        return BrokerStatus(broker=broker.id, fault=str(error))
    return BrokerStatus(
        broker=broker.id,
        versions=tuple(versions),
        policies={one.name: one.value or "" for one in entries if one.name in POLICIES},
        deciding={
            one.name: one.value or ""
            for one in entries
            if one.name in DECIDING and one.source != OF_CLUSTER
        },
        authorizer=next((one.value or "" for one in entries if one.name == AUTHORIZER), ""),
        settings_fault=settings_fault,
    )


async def _settings_of(connection: BrokerConnection, broker: int) -> tuple[list[ConfigEntry], str]:
    """The policies of a broker, the settings by which a controller decides and the authorizer, and
    why they are unknown."""
    try:
        return await connection.settings_of(broker, (*POLICIES, *DECIDING, AUTHORIZER)), ""
    except ChannelError as error:
        return [], str(error)


def probe_listeners(listeners: Sequence[Endpoint]) -> str:
    """Why the daemon cannot listen there now, empty if it can."""
    try:
        bound = listen(listeners)
    except CannotListen as fault:
        return str(fault)
    for one in bound:
        one.socket.close()
    return ""


async def probe_clock(connect: ConnectString) -> int | None:
    """How many milliseconds this machine's clock is ahead of ZooKeeper's; None if unknown.

    ZooKeeper reveals its time only in znodes: an ephemeral znode is created and deleted.
    """
    # aiozk would create a missing chroot, so it does not receive one.
    client = ZKClient(",".join(map(str, connect.servers)), session_timeout=SERVER_SECONDS_MAX)
    path = f"{connect.chroot}/refold-clock-{token_hex(8)}"
    with anyio.move_on_after(SERVER_SECONDS_MAX):
        try:
            await client.start()
            before_s = time.time()
            await client.create(path, ephemeral=True)
            after_s = time.time()
            _, stat = await client.get(path)
            await client.delete(path, force=True)
            return int((before_s + after_s) * 500) - int(stat.created)
        except (ZKError, OSError):
            return None
        finally:
            with anyio.move_on_after(SERVER_SECONDS_MAX, shield=True):
                await client.close()
    return None


def probe_disk(folder: Path) -> DiskStatus:
    """Probe the log directory, or its nearest existing parent. Blocks for a few fsyncs."""
    existing = folder
    try:
        existing = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
        if not existing.is_dir():
            return DiskStatus(folder=folder, fault=f"{existing} is not a folder")
        if existing == folder:
            require_private(folder)
        else:
            require_not_replaceable(folder)
        with tempfile.TemporaryFile(dir=existing) as file:
            sync_ms = max(_sync_ms(file.fileno()) for _ in range(_SYNCS))
        free_bytes = shutil.disk_usage(existing).free
    except OSError as error:
        return DiskStatus(folder=folder, fault=f"{existing}: {error.strerror}")
    except LogExposed as error:
        return DiskStatus(folder=folder, fault=error.text)
    return DiskStatus(folder=folder, free_bytes=free_bytes, sync_ms=sync_ms)


def _sync_ms(file: int) -> float:
    began = time.perf_counter()
    os.write(file, bytes(4096))
    os.fsync(file)
    return (time.perf_counter() - began) * 1000
