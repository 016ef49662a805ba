"""Directories with partitions that fail."""

import asyncio
from random import Random

from tools.recordings.acts.brokers import some_broker, stop
from tools.recordings.brokers import RecordedBroker
from tools.recordings.scene import Scene


async def lose_log_dir(scene: Scene, rng: Random) -> None:
    """A directory with partitions goes away while its broker runs; a restart brings it back."""
    broker = await some_broker(scene, rng)
    if broker is None or len(broker.log_dirs) == 1:
        return
    lost = rng.choice(broker.log_dirs)
    away = lost.with_name(f"{lost.name}-away")
    if not lost.is_dir() or away.exists():
        return
    with scene.journal.action("log_dir_lost", broker=broker.broker_id, log_dir=lost.name):
        lost.rename(away)
        lost.touch()  # a file: the directory cannot be made again

    async def later() -> None:
        await asyncio.sleep(rng.uniform(4, 20))
        if broker.state == "running":
            await stop(scene, broker)
        with scene.journal.action("log_dir_back", broker=broker.broker_id, log_dir=lost.name):
            restore_log_dirs(broker)
        if broker.state == "down":
            await scene.start(broker)

    scene.aside(later())


def restore_log_dirs(broker: RecordedBroker) -> None:
    """Bring back the directories that were moved away; the broker must be down."""
    for log_dir in broker.log_dirs:
        away = log_dir.with_name(f"{log_dir.name}-away")
        if away.exists():
            log_dir.unlink(missing_ok=True)
            away.rename(log_dir)
