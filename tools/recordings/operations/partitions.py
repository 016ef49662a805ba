"""Reassignments of partitions, and elections of their leaders."""

import asyncio
from random import Random
from typing import Any

from kafka import TopicPartition

from controller.core import znodes
from tools.recordings.recorded_cluster import RecordedCluster

UNKNOWN_BROKER = 77

Plan = dict[TopicPartition, list[int]]


async def reassign(cluster: RecordedCluster, rng: Random) -> None:
    """Reassign partitions through AlterPartitionReassignments."""
    plan = await plan_of(cluster, rng)
    if plan:
        with cluster.journal.action("reassign_execute", via="admin", plan=_entries(plan)) as action:
            answer = await cluster.ask(lambda admin: admin.alter_partition_reassignments(plan))
            action["output"] = str(answer)


async def cancel_reassignments(cluster: RecordedCluster, rng: Random) -> None:
    """Cancel some reassignments in progress, and one that does not exist, through
    AlterPartitionReassignments."""
    changing = await under_way(cluster)
    if not changing:
        return
    some = rng.sample(changing, rng.randint(1, len(changing)))
    with cluster.journal.action("reassign_cancel", via="admin", partitions=some) as action:
        plan = {one: None for one in [*some, TopicPartition("never-there", 0)]}
        answer = await cluster.ask(lambda admin: admin.alter_partition_reassignments(plan))
        action["output"] = str(answer)


async def reassign_by_znode(cluster: RecordedCluster, rng: Random) -> None:
    """Reassign partitions through /admin/reassign_partitions, with content that no tool would
    write; sometimes the znode is deleted."""
    plan = await plan_of(cluster, rng)
    if rng.random() < 0.3:
        plan[TopicPartition("never-there", 0)] = [1, 2]
    for partition in list(plan):
        odd = rng.random()
        if odd < 0.1:
            plan[partition] = [*plan[partition], plan[partition][0]]
        elif odd < 0.15:
            plan[partition] = [*plan[partition], UNKNOWN_BROKER]
        elif odd < 0.18:
            plan[partition] = []
        elif odd < 0.21:
            plan[TopicPartition(partition.topic, 50)] = plan.pop(partition)
    with cluster.journal.action("reassign_znode", plan=_entries(plan)):
        content = {"version": 1, "partitions": _entries(plan)}
        await cluster.znodes.create(znodes.REASSIGN_PARTITIONS, content)
    if rng.random() < 0.15:
        await asyncio.sleep(rng.uniform(0, 2))
        with cluster.journal.action("reassign_znode_delete"):
            await cluster.znodes.delete(znodes.REASSIGN_PARTITIONS)


async def plan_of(cluster: RecordedCluster, rng: Random) -> Plan:
    """A few partitions with new replicas, whose brokers need not be running."""
    topics = await cluster.topics()
    names = [
        TopicPartition(topic, int(number))
        for topic, partitions in sorted(topics.items())
        for number in sorted(partitions, key=int)
    ]
    some = rng.sample(names, min(len(names), rng.choice((1, 2, 3, 5))))
    most = min(4, len(cluster.ids))
    return {name: cluster.replicas(rng, rng.randint(1, most)) for name in some}


async def under_way(cluster: RecordedCluster) -> list[TopicPartition]:
    """The partitions that are being reassigned."""
    found = []
    for topic in await cluster.topics():
        znode = await cluster.znodes.read(znodes.topic_path(topic)) or {}
        changing = {*znode.get("adding_replicas", {}), *znode.get("removing_replicas", {})}
        found += [TopicPartition(topic, int(number)) for number in sorted(changing)]
    return found


def _entries(plan: Plan) -> list[dict[str, Any]]:
    return [
        {"topic": one.topic, "partition": one.partition, "replicas": replicas}
        for one, replicas in plan.items()
    ]


async def elect_leaders(cluster: RecordedCluster, rng: Random) -> None:
    """Preferred or unclean, through ElectLeaders: some partitions or all."""
    plan = await plan_of(cluster, rng)
    unclean = rng.random() < 0.4
    partitions = _by_topic(plan) if rng.random() < 0.7 else None
    kind = "unclean" if unclean else "preferred"
    with cluster.journal.action(
        "elect_leaders", via="admin", kind=kind, partitions=partitions or "all"
    ) as action:
        answer = await cluster.ask(
            lambda admin: admin.elect_leaders(int(unclean), partitions, raise_errors=False)
        )
        action["output"] = str(answer)


async def elect_by_znode(cluster: RecordedCluster, rng: Random) -> None:
    """Elect leaders through /admin/preferred_replica_election, sometimes with a topic that does not
    exist."""
    names = [
        {"topic": one.topic, "partition": one.partition} for one in await plan_of(cluster, rng)
    ]
    if rng.random() < 0.2:
        names.append({"topic": "never-there", "partition": 0})
    with cluster.journal.action("elect_leaders", via="znode", kind="preferred", partitions=names):
        content = {"version": 1, "partitions": names}
        await cluster.znodes.create(znodes.PREFERRED_ELECTION, content)


def _by_topic(plan: Plan) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in plan:
        found.setdefault(one.topic, []).append(one.partition)
    return found
