"""The daemon's answers to Metadata and DescribeCluster for clients without rights, and with."""

import asyncio

import pytest

from controller.api.cluster_metadata import ClusterMetadata, MetadataQuery, RequestedTopic
from controller.core import error_codes as codes
from controller.core.values import NO_LEADER
from controller.daemon import cluster_metadata
from controller.daemon.cluster_metadata import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, MetadataReader
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.admin.test_authorization import (
    ALICE,
    ROOT,
    acls,
    allows,
    denies,
    started,
)

TOPIC = "/kafka-acl/Topic/t"
LISTENER = "PLAINTEXT"


async def answered(cluster: Cluster, query: MetadataQuery) -> ClusterMetadata:
    found = await MetadataReader(cluster.fold, "id").read(query)
    assert found is not None
    return found


async def test_all_topics_are_those_that_the_client_may_describe() -> None:
    cluster = started(allows("Read"), path=TOPIC)
    cluster.create_topic("hidden", {0: [1, 2]})
    cluster.run()
    for client, expected in ((ALICE, ["t"]), (ROOT, ["t", "hidden"])):
        found = await answered(cluster, MetadataQuery(client, LISTENER, None))
        assert [one.name for one in found.topics] == expected
        assert [one.id for one in found.brokers] == [1, 2]


async def test_topic_without_the_right_is_refused_by_name_whether_it_exists_or_not() -> None:
    cluster = started()
    asked = (RequestedTopic("t"), RequestedTopic("nowhere"), RequestedTopic("__consumer_offsets"))
    found = await answered(cluster, MetadataQuery(ALICE, LISTENER, asked))
    assert [(one.error, one.name, one.id, one.partitions) for one in found.topics] == [
        (codes.TOPIC_AUTHORIZATION_FAILED, one.name, None, ()) for one in asked
    ]
    assert [one.is_internal for one in found.topics] == [False, False, True]


async def test_topic_without_the_right_keeps_its_name_if_it_is_asked_for_by_id() -> None:
    cluster = started(allows("Describe"), denies("Describe"), path=TOPIC)
    topic_id = cluster.fold.controller.context.topics["t"].id
    asked = (RequestedTopic(None, topic_id), RequestedTopic(None, bytes(16)))
    found = await answered(cluster, MetadataQuery(ALICE, LISTENER, asked))
    assert [(one.error, one.name, one.id) for one in found.topics] == [
        (codes.TOPIC_AUTHORIZATION_FAILED, None, topic_id),
        (codes.UNKNOWN_TOPIC_ID, None, bytes(16)),
    ]


async def test_topic_that_does_not_exist_is_unknown_and_an_illegal_name_is_invalid() -> None:
    cluster = started()
    asked = (RequestedTopic("nowhere"), RequestedTopic("a b"))
    found = await answered(cluster, MetadataQuery(ROOT, LISTENER, asked, True))
    assert found.topics[0].operations == bits(TOPIC_OPERATIONS, *TOPIC_OPERATIONS)
    errors = [one.error for one in found.topics]
    assert errors == [codes.UNKNOWN_TOPIC_OR_PARTITION, codes.INVALID_TOPIC_EXCEPTION]


async def test_operations_are_those_that_acls_allow() -> None:
    cluster = started(allows("Alter"), path=TOPIC)
    query = MetadataQuery(ALICE, LISTENER, (RequestedTopic("t"),), True, True)
    found = await answered(cluster, query)
    assert found.topics[0].operations == bits(TOPIC_OPERATIONS, "Alter", "Describe")
    assert found.operations == 0
    cluster.put_with_parents("/kafka-acl/Cluster/kafka-cluster", acls(allows("Alter")))
    cluster.put_with_parents("/kafka-acl-changes/acl_changes_0000000000", b"Cluster:kafka-cluster")
    cluster.run()
    found = await answered(cluster, query)
    assert found.operations == bits(CLUSTER_OPERATIONS, "Alter", "Describe")
    found = await answered(cluster, MetadataQuery(ROOT, LISTENER, None, True, True))
    assert found.operations == bits(CLUSTER_OPERATIONS, *CLUSTER_OPERATIONS)
    assert found.topics[0].operations == bits(TOPIC_OPERATIONS, *TOPIC_OPERATIONS)


def bits(codes_of: dict[str, int], *names: str) -> int:
    return sum(1 << codes_of[name] for name in names)


async def test_leader_that_the_client_cannot_reach_is_not_named() -> None:
    cluster = started()
    query = MetadataQuery(ROOT, LISTENER, (RequestedTopic("t"),))
    (partition,) = (await answered(cluster, query)).topics[0].partitions
    assert (partition.error, partition.leader, partition.replicas) == (0, 1, (1, 2))
    assert partition.offline == ()
    found = await answered(cluster, MetadataQuery(ROOT, "OTHER", (RequestedTopic("t"),)))
    (partition,) = found.topics[0].partitions
    assert (partition.error, partition.leader) == (codes.LISTENER_NOT_FOUND, NO_LEADER)
    assert partition.offline == (1, 2)
    assert found.brokers == ()
    for broker in (2, 1):
        cluster.stop_broker(broker)
        cluster.run()
    (partition,) = (await answered(cluster, query)).topics[0].partitions
    assert (partition.error, partition.leader) == (codes.LEADER_NOT_AVAILABLE, NO_LEADER)


async def test_daemon_that_is_not_controller_knows_nothing() -> None:
    cluster = Cluster(1, 2)
    query = MetadataQuery(ALICE, LISTENER, None)
    assert await MetadataReader(cluster.fold, "id").read(query) is None


async def test_answer_that_takes_long_lets_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_metadata, "SLICE_SECONDS", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)  # The others run meanwhile.

    cluster = started()
    for number in range(3):
        cluster.create_topic(f"more-{number}", {0: [1]})
    cluster.run()
    counting = asyncio.create_task(count())
    found = await answered(cluster, MetadataQuery(ROOT, LISTENER, None))
    counting.cancel()
    assert turns >= len(found.topics) == 4
