"""Several acts at once."""

import asyncio
from random import Random

from tools.recordings.acts import FEW_SECONDS, perform
from tools.recordings.acts.by_hand import delete_controller_znode
from tools.recordings.acts.partitions import reassign, reassign_by_znode, under_way
from tools.recordings.acts.servers import kill_broker, kill_controller
from tools.recordings.acts.topics import add_partitions, create_topic, delete_topic
from tools.recordings.scene import Scene


async def lose_controller_within(scene: Scene, rng: Random) -> None:
    """A request is made, and the controller fails shortly after."""
    act = rng.choice(
        (create_topic, delete_topic, delete_topic, reassign, reassign_by_znode, add_partitions)
    )
    scene.in_background(perform(act, scene, rng))
    await asyncio.sleep(rng.choice(FEW_SECONDS))
    await rng.choice((kill_controller, kill_controller, delete_controller_znode))(scene, rng)


async def lose_two(scene: Scene, rng: Random) -> None:
    """Two brokers fail at almost the same time."""
    await kill_broker(scene, rng)
    await asyncio.sleep(rng.choice(FEW_SECONDS))
    await kill_broker(scene, rng)


async def delete_under_way(scene: Scene, rng: Random) -> None:
    """A topic that is being reassigned is deleted."""
    changing = await under_way(scene)
    if not changing:
        await reassign(scene, rng)
        changing = await under_way(scene)
    for name in sorted({one.topic for one in changing})[:1]:
        with scene.journal.action("topic_delete", topic=name, via="znode"):
            await scene.znodes.create(f"/admin/delete_topics/{name}")
        await scene.follow_topics()
