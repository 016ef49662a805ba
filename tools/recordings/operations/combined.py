"""Several operations at once."""

import asyncio
from random import Random

from controller.core import znodes
from tools.recordings.operations import FEW_SECONDS, perform
from tools.recordings.operations.by_hand import delete_controller_znode
from tools.recordings.operations.partitions import reassign, reassign_by_znode, under_way
from tools.recordings.operations.servers import kill_broker, kill_controller
from tools.recordings.operations.topics import add_partitions, create_topic, delete_topic
from tools.recordings.recorded_cluster import RecordedCluster


async def lose_controller_within(cluster: RecordedCluster, rng: Random) -> None:
    """A request is made, and the controller fails shortly after."""
    operation = rng.choice(
        (create_topic, delete_topic, delete_topic, reassign, reassign_by_znode, add_partitions)
    )
    cluster.in_background(perform(operation, cluster, rng))
    await asyncio.sleep(rng.choice(FEW_SECONDS))
    await rng.choice((kill_controller, kill_controller, delete_controller_znode))(cluster, rng)


async def lose_two(cluster: RecordedCluster, rng: Random) -> None:
    """Two brokers fail at almost the same time."""
    await kill_broker(cluster, rng)
    await asyncio.sleep(rng.choice(FEW_SECONDS))
    await kill_broker(cluster, rng)


async def delete_under_way(cluster: RecordedCluster, rng: Random) -> None:
    """A topic that is being reassigned is deleted."""
    changing = await under_way(cluster)
    if not changing:
        await reassign(cluster, rng)
        changing = await under_way(cluster)
    for name in sorted({one.topic for one in changing})[:1]:
        with cluster.journal.action("topic_delete", topic=name, via="znode"):
            await cluster.znodes.create(znodes.delete_topic_path(name))
        await cluster.follow_topics()
