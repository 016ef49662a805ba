"""The cluster is found by its znodes, in the first state or in later transactions."""

import pytest
from msgspec import structs

from replay.errors import ReplayError
from replay.stock_clusters.imports.kafka_root import (
    KafkaRoot,
    SeveralClustersError,
    check_only,
    find_kafka,
)
from replay.stock_clusters.zookeeper_log.transactions import OpCode, Transaction
from replay.znode_tree.tree import Tree
from tests.replay.stock_clusters.zookeeper_log.samples import at, create

CLUSTER_ID = b'{"version":"1","id":"abc"}'


def tree(*paths: str) -> Tree:
    made = Tree()
    for path in paths:
        data = CLUSTER_ID if path.endswith("/cluster/id") else b""
        made.put(path, structs.replace(made.get("/"), data=data))
    return made


def makes(*paths: str) -> list[Transaction]:
    return [
        at(zxid, OpCode.CREATE, create(path, 1, CLUSTER_ID if "cluster" in path else b""))
        for zxid, path in enumerate(paths, 1)
    ]


@pytest.mark.parametrize("sign", ["/controller_epoch", "/brokers/ids"])
@pytest.mark.parametrize("chroot", ["", "/prod/k1"])
def test_cluster_is_found_by_its_znodes(chroot: str, sign: str) -> None:
    there = tree(chroot + sign, f"{chroot}/cluster/id", "/other")
    assert find_kafka(there, (), None) == KafkaRoot(chroot, "abc", is_only=True)


@pytest.mark.parametrize("chroot", ["", "/prod/k1"])
def test_cluster_that_is_created_later_is_found(chroot: str) -> None:
    following = makes(*(chroot + one for one in ("/brokers", "/brokers/ids", "/cluster/id")))
    assert find_kafka(Tree(), following, None) == KafkaRoot(chroot, "abc", is_only=True)
    registered = makes(f"{chroot}/brokers/ids", f"{chroot}/brokers/ids/1", f"{chroot}/cluster/id")
    assert find_kafka(Tree(), registered, None).cluster_id == ""


def test_several_clusters_require_a_chroot() -> None:
    both = tree("/a/brokers/ids", "/a/cluster/id", "/b/brokers/ids", "/brokers/ids")
    with pytest.raises(SeveralClustersError, match="under /, /a, /b: choose one with --chroot"):
        find_kafka(both, (), None)
    assert find_kafka(both, (), "/a") == KafkaRoot("/a", "abc", is_only=False)
    assert find_kafka(both, (), "").chroot == ""


def test_unknown_chroot_is_rejected_with_the_existing_ones() -> None:
    with pytest.raises(ReplayError, match="no Kafka cluster is under /c, there is /a, /b"):
        find_kafka(tree("/a/brokers/ids"), makes("/b/brokers/ids"), "/c")
    assert find_kafka(tree("/a/brokers/ids"), makes("/c/brokers/ids"), "/c").chroot == "/c"


def test_zookeeper_without_kafka_is_rejected() -> None:
    with pytest.raises(ReplayError, match="no Kafka cluster is in this ZooKeeper"):
        find_kafka(Tree(), makes("/other"), None)


def test_second_cluster_that_is_created_later_is_rejected() -> None:
    root = KafkaRoot("/a", "abc", is_only=True)
    check_only(root, "/a/brokers/ids")
    check_only(root, "/b/anything")
    with pytest.raises(SeveralClustersError, match="/a, /b"):
        check_only(root, "/b/brokers/ids")
