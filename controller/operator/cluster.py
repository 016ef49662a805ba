"""Reads from ZooKeeper what the checks need to know of a cluster."""

import msgspec
from msgspec import Struct

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.outcomes import Znodes
from controller.core.values import Broker
from controller.core.znodes import CLUSTER_ID, read_cluster_id
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.facts import ClusterFacts, ControllerFacts, ZooKeeperFacts
from controller.operator.zookeeper_reader import ZooKeeperReader
from controller.settings.settings import Settings


class _Migration(Struct):
    kraft_controller_id: int


async def read_zookeeper(settings: Settings) -> ZooKeeperFacts:
    """What a session on the configured servers shows; never raises for what is wrong there."""
    try:
        async with ZooKeeperReader(settings.zookeeper, settings.connection_timeout_ms) as reader:
            return ZooKeeperFacts(cluster=await _cluster(reader))
    except ZooKeeperUnavailable as error:
        return ZooKeeperFacts(fault=str(error))


async def _cluster(reader: ZooKeeperReader) -> ClusterFacts:
    if not await reader.exists("/"):
        return ClusterFacts(chroot_exists=False)
    is_kafka = await reader.exists(znodes.BROKER_IDS)
    names = [one for one in await reader.children(znodes.BROKER_IDS) if one.isdecimal()]
    ids = sorted(map(int, names))
    single = (znodes.CONTROLLER, znodes.MIGRATION, CLUSTER_ID)
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
    return ClusterFacts(
        chroot_exists=True,
        is_kafka=is_kafka,
        cluster_id=read_cluster_id(found.data[2]),
        registered=tuple(ids),
        brokers=tuple(brokers),
        unreadable=tuple(unreadable),
        registration_versions=versions,
        controller=_controller(found),
        migrating="" if found.errors[1] else _migrating(found.data[1]),
    )


def _controller(found: Znodes) -> ControllerFacts | None:
    if found.errors[0]:
        return None
    holder = znodes.read_controller(found.data[0])
    return ControllerFacts(
        broker_id=holder.brokerid if holder else None,
        kraft_epoch=holder.kraftControllerEpoch if holder else -1,
        is_ephemeral=found.owners[0] != 0,
    )


def _migrating(data: bytes | None) -> str:
    """What /migration says of a migration; its controller -1 stands for none (MigrationZNode)."""
    try:
        controller = msgspec.json.decode(data or b"", type=_Migration).kraft_controller_id
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return f"it cannot be read, a migration may be under way: {error}"
    return f"KRaft controller {controller} migrates this cluster" if controller >= 0 else ""
