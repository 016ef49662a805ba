"""The znodes of a live cluster, as the commands see those of an imported log."""

from typing import Final

from controller.operator.cluster_znodes import read_cluster
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.zookeeper.servers import ConnectString
from replay.agreement.znode_view import ZnodeView
from replay.errors import ReplayError
from replay.world.tree import Tree, Znode

_TIMEOUT_MS: Final = 10_000


def shown(connect: ConnectString) -> str:
    """A connect string for people."""
    return f"ZooKeeper at {','.join(map(str, connect.servers))}{connect.chroot}"


async def live_znodes(connect: ConnectString, topic: str | None = None) -> ZnodeView:
    """The znodes of a cluster; of the topics only `topic`, if it is given. Raises ReplayError if
    ZooKeeper is not reachable, or there is no Kafka cluster."""
    try:
        async with ZooKeeperClient(connect, _TIMEOUT_MS) as client:
            found = await read_cluster(client, topic)
    except ZooKeeperUnavailable as error:
        raise ReplayError(f"{shown(connect)}: {error}") from error
    if not found:
        raise ReplayError(
            f"{shown(connect)} has no Kafka cluster: does --zookeeper have the brokers' chroot?"
        )
    tree = Tree()
    tree.load(
        {
            path: Znode(one.data, one.czxid, one.mzxid, 0, 0, one.version, 0, one.owner, one.czxid)
            for path, one in found.items()
        }
    )
    return ZnodeView(tree, "")
