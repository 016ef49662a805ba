"""Creating, extending and deleting topics."""

import asyncio
from random import Random
from typing import Any

from controller.core import znodes
from tools.recordings.clients import consume_in_group
from tools.recordings.recorded_cluster import RecordedCluster

_NAMES = ("t-{:02}", "t_{:02}", "t.{:02}", "big{:02}")
_FEW_TOPICS = 9
_VIA = ("admin", "admin", "znode")


async def create_topic(cluster: RecordedCluster, rng: Random) -> None:
    """Create a topic through the admin client, with or without an assignment, or through znodes."""
    topics = await cluster.topics()
    if len(topics) >= _FEW_TOPICS:
        return await delete_topic(cluster, rng)
    name = rng.choice(_NAMES).format(rng.randrange(100))
    await _create(cluster, rng, name)


async def delete_topic(cluster: RecordedCluster, rng: Random) -> None:
    """Delete a topic through the admin client or a znode; sometimes it is created again soon
    after."""
    topics = await cluster.topics()
    name = rng.choice(sorted(topics)) if topics and rng.random() < 0.95 else "never-there"
    with cluster.journal.action("topic_delete", topic=name, via=rng.choice(_VIA)) as action:
        if action["via"] == "znode":
            await cluster.znodes.create(znodes.delete_topic_path(name))
        else:
            action["output"] = str(await cluster.ask(lambda admin: admin.delete_topics([name])))
    if rng.random() < 0.3 and name in topics:
        await asyncio.sleep(rng.choice((0.0, 0.2, 1.0, 3.0)))
        await _create(cluster, rng, name)
    await cluster.follow_topics()


async def add_partitions(cluster: RecordedCluster, rng: Random) -> None:
    """Add partitions through the admin client or a znode, also during a reassignment."""
    topics = await cluster.topics()
    if not topics:
        return
    name = rng.choice(sorted(topics))
    count = len(topics[name])
    added = rng.choice((1, 1, 2, 4))
    factor = len(next(iter(topics[name].values())))
    assignment = [cluster.replicas(rng, min(factor, len(cluster.ids))) for _ in range(added)]
    with cluster.journal.action(
        "partitions_add",
        topic=name,
        via=rng.choice(_VIA),
        total=count + added,
        assignment=assignment,
    ) as action:
        if action["via"] == "znode":
            znode = await cluster.znodes.read(znodes.topic_path(name))
            for number, brokers in enumerate(assignment, count):
                znode["partitions"][str(number)] = brokers
            await cluster.znodes.set(znodes.topic_path(name), znode)
        else:
            requested: Any = {"count": count + added, "assignments": assignment}
            if rng.random() < 0.5:
                requested = count + added
            answer = await cluster.ask(lambda admin: admin.create_partitions({name: requested}))
            action["output"] = str(answer)


async def _create(cluster: RecordedCluster, rng: Random, name: str) -> None:
    partitions = rng.choice((1, 2, 3, 5, 8, 20))
    factor = rng.randint(1, min(4, len(cluster.ids)))
    assignment = [cluster.replicas(rng, factor) for _ in range(partitions)]
    configs = {"unclean.leader.election.enable": "true"} if rng.random() < 0.15 else {}
    via = rng.choice(_VIA)
    with cluster.journal.action("topic_create", topic=name, via=via, configs=configs) as action:
        if via == "znode":
            action["assignment"] = assignment
            await cluster.znodes.create(
                znodes.topic_config_path(name), {"version": 1, "config": configs}
            )
            by_number = {str(number): one for number, one in enumerate(assignment)}
            content = {"version": 1, "partitions": by_number}
            await cluster.znodes.create(znodes.topic_path(name), content)
        else:
            requested: dict[str, Any] = {"configs": configs}
            if rng.random() < 0.5:
                requested |= {"num_partitions": partitions, "replication_factor": factor}
            else:
                requested["assignments"] = dict(enumerate(assignment))
            action |= requested
            answer = await cluster.ask(lambda admin: admin.create_topics({name: requested}))
            action["output"] = str(answer)
    await cluster.follow_topics()


async def join_group(cluster: RecordedCluster, rng: Random) -> None:
    """A consumer group, for which brokers create __consumer_offsets."""
    topics = await cluster.topics()
    if topics:
        topic = rng.choice(sorted(topics))
        with cluster.journal.action("consumer_group", topic=topic):
            await consume_in_group(cluster.lab.bootstrap, topic)
