"""Reads of a live cluster by commands."""

import pytest

from controller.operator.zookeeper_client import ExistingZnode, ZooKeeperClient
from replay.cli.live_cluster import read_topics
from replay.errors import ReplayError


class ClusterOfTwoTopics(ZooKeeperClient):
    """ZooKeeper with the topics orders and payments."""

    def __init__(self) -> None:
        self.content = {
            "/brokers/topics": b"",
            "/brokers/topics/orders": b'{"version":1,"partitions":{}}',
            "/brokers/topics/payments": b'{"version":1,"partitions":{}}',
        }

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return ["orders", "payments"] if path == "/brokers/topics" else []

    async def read(self, paths: tuple[str, ...]) -> list[ExistingZnode | None]:
        found = [self.content.get(one) for one in paths]
        return [None if data is None else ExistingZnode(data, 0, 1, 1, 0) for data in found]


async def test_unknown_topic_is_an_error_with_the_topics_of_the_cluster() -> None:
    expected = "no topic order; did you mean orders[?] Topics: orders, payments"
    with pytest.raises(ReplayError, match=expected):
        await read_topics(ClusterOfTwoTopics(), ["payments", "order"])


async def test_only_the_chosen_topics_are_read() -> None:
    found = await read_topics(ClusterOfTwoTopics(), ["payments"])
    assert "/brokers/topics/payments" in found
    assert "/brokers/topics/orders" not in found
