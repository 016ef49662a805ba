"""ZooKeeper itself."""

import asyncio
from random import Random

from tools.recordings.scene import Scene


async def restart_zookeeper(scene: Scene, rng: Random) -> None:
    """ZooKeeper is stopped or killed, and started again."""
    kill = rng.random() < 0.5
    await scene.znodes.close()
    with scene.journal.action("zookeeper_stop", signal="SIGKILL" if kill else "SIGTERM"):
        if kill:
            scene.zookeeper.kill()
        else:
            await scene.zookeeper.stop()
    await asyncio.sleep(rng.choice((0.0, 1.0, 3.0, 8.0)))
    with scene.journal.action("zookeeper_start"):
        await scene.zookeeper.start()
    await scene.znodes.again()
