"""The znodes of a live cluster, as the commands see those of an imported log."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.values import Broker
from controller.operator.cluster_znodes import read_brokers_and_configs, read_cluster
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_client import ExistingZnode, ZooKeeperClient
from controller.zookeeper.connection import PLAIN, ZooKeeperSecurity
from controller.zookeeper.servers import ConnectString
from replay.cluster_view.selecting import require_among
from replay.errors import ReplayError
from replay.znode_tree.tree import Tree, Znode
from replay.znode_view import ZnodeView

_TIMEOUT_MS: Final = 10_000


def shown(connect: ConnectString) -> str:
    """The source of what was read."""
    return f"ZooKeeper at {connect}"


async def live_znodes(
    connect: ConnectString, topics: Collection[str] = (), security: ZooKeeperSecurity = PLAIN
) -> ZnodeView:
    """The znodes of a cluster; of the topics only `topics`, if there are any. Raises ReplayError if
    ZooKeeper is not reachable, or there is no Kafka cluster or topic of this name."""
    found = await _read_znodes(connect, security, partial(read_topics, topics=topics))
    if not found:
        raise ReplayError(
            f"{shown(connect)} has no Kafka cluster: does --zookeeper have the brokers' chroot?"
        )
    return _view(found)


async def read_topics(
    client: ZooKeeperClient, topics: Collection[str]
) -> Mapping[str, ExistingZnode]:
    """The result of `read_cluster`. Raises ReplayError, which names the topics that exist, if a
    cluster does not have one of `topics`."""
    found = await read_cluster(client, topics)
    missing = [one for one in topics if znodes.topic_path(one) not in found]
    if found and missing:
        existing = dict.fromkeys(await client.children(znodes.TOPICS), ())
        for one in missing:
            require_among(existing, one, None, "the cluster has no {}")
    return found


async def live_brokers_and_configs(
    connect: ConnectString, topics: Collection[str], security: ZooKeeperSecurity
) -> ZnodeView:
    """Read only the registrations of the brokers and the dynamic configuration of these topics.
    Raises ReplayError if ZooKeeper is not reachable."""
    read = partial(read_brokers_and_configs, topics=topics)
    return _view(await _read_znodes(connect, security, read))


async def _read_znodes(
    connect: ConnectString,
    security: ZooKeeperSecurity,
    read: Callable[[ZooKeeperClient], Awaitable[Mapping[str, ExistingZnode]]],
) -> Mapping[str, ExistingZnode]:
    try:
        async with ZooKeeperClient(connect, _TIMEOUT_MS, security) as client:
            return await read(client)
    except (ZooKeeperUnavailable, ReplayError) as error:
        raise ReplayError(f"{shown(connect)}: {error}") from error


def _view(found: Mapping[str, ExistingZnode]) -> ZnodeView:
    tree = Tree()
    tree.load(
        {
            path: Znode(one.data, one.czxid, one.mzxid, 0, 0, one.version, 0, one.owner, one.czxid)
            for path, one in found.items()
        }
    )
    return ZnodeView(tree, "")


def registered_brokers(view: ZnodeView) -> tuple[Broker, ...]:
    """The registered brokers by id, without those whose registration cannot be read."""
    found = []
    for name in filter(znodes.is_broker_id, view.children(znodes.BROKER_IDS)):
        znode = view.find(znodes.broker_path(int(name)))
        with suppress(ZnodeError):
            if znode is not None:
                found.append(znodes.read_broker(int(name), znode.data, znode.czxid))
    return tuple(sorted(found, key=lambda one: one.id))


def owners_of(view: ZnodeView, brokers: Iterable[Broker]) -> dict[int, int]:
    """The sessions that own the registrations of these brokers."""
    found = ((one.id, view.find(znodes.broker_path(one.id))) for one in brokers)
    return {id: znode.owner for id, znode in found if znode is not None}
