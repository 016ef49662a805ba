"""The znodes of a cluster whose controller changes while they are read."""

from controller.operator.cluster_znodes import read_cluster
from controller.operator.zookeeper_client import ExistingZnode, ZooKeeperClient

STATE = "/brokers/topics/t/partitions/0/state"


class ChangingCluster(ZooKeeperClient):
    """ZooKeeper with one partition; a new controller writes its state before it is read."""

    def __init__(self) -> None:
        self.content = {
            "/controller_epoch": b"1",
            "/brokers/topics": b"",
            "/brokers/topics/t": b'{"version":1,"partitions":{"0":[1]}}',
        }

    async def children(self, path: str) -> list[str]:
        return ["t"] if path == "/brokers/topics" else []

    async def read(self, paths: tuple[str, ...]) -> list[ExistingZnode | None]:
        if STATE in paths:
            self.content["/controller_epoch"] = b"2"
            self.content[STATE] = b'{"controller_epoch":2}'
        found = [self.content.get(one) for one in paths]
        return [None if data is None else ExistingZnode(data, 0, 1, 1, 0) for data in found]


async def test_epoch_is_not_older_than_the_states() -> None:
    found = await read_cluster(ChangingCluster())
    assert found[STATE].data == b'{"controller_epoch":2}'
    assert found["/controller_epoch"].data == b"2"
