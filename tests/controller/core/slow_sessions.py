"""A ZooKeeper that ends sessions late, and a daemon that loses its session there."""

from controller.core import znodes
from controller.core.events import SessionExpired
from controller.core.operations import Create
from replay.world.requests import GetData
from replay.world.simulation import PERSISTENT
from replay.world.zookeeper import ZooKeeper
from tests.controller.core.cluster import Cluster


class ZooKeeperWithSlowSessions(ZooKeeper):
    """A server that keeps the sessions of clients which have ended them, until `expire`."""

    @classmethod
    def of_a_cluster(cls) -> "ZooKeeperWithSlowSessions":
        server = cls()
        session = server.create_session()
        for path in PERSISTENT:
            server.apply(session, Create(path), 0)
        return server

    def end_session(self, session: int) -> None:
        pass

    def expire(self, session: int) -> None:
        super().end_session(session)


def lose_the_session(cluster: Cluster) -> int:
    """The daemon loses its session, which stays open on the server. Returns the lost session."""
    old = cluster.session
    cluster.happen(SessionExpired(old), "session")
    cluster.connect()
    return old


def owner(cluster: Cluster) -> int:
    """The session that owns /controller."""
    stat = cluster.ask(GetData(znodes.CONTROLLER)).stat
    return stat.ephemeral_owner if stat else 0


def assert_elected(cluster: Cluster, epoch: int) -> None:
    """The daemon is active with this epoch, and elects a leader for a new topic."""
    cluster.create_topic("works", {0: [1]})
    assert (cluster.is_active, cluster.epoch()) == (True, epoch)
    assert owner(cluster) == cluster.session
    assert cluster.state("works", 0) == f"leader 1 e 0 isr [1] v 0 ce {epoch}"
