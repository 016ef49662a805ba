"""The recordings with which ZooKeeper's files are tested."""

from tests.replay.stock_clusters.zookeeper_log.conftest import incident

__all__ = ["incident"]
