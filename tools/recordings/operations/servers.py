"""Failures of servers: brokers and ZooKeeper are killed, stopped or paused, log directories are
lost."""

import asyncio
from random import Random

from tools.recordings.brokers import RecordedBroker
from tools.recordings.operations.by_hand import delete_controller_znode
from tools.recordings.recorded_cluster import RecordedCluster

SESSION_SECONDS = 6.0


async def kill_broker(cluster: RecordedCluster, rng: Random) -> None:
    """SIGKILL; the broker is started again later."""
    await _take_down(cluster, rng, await some_broker(cluster, rng), "SIGKILL")


async def stop_broker(cluster: RecordedCluster, rng: Random) -> None:
    """SIGTERM, a controlled shutdown; the broker is started again later."""
    await _take_down(cluster, rng, await some_broker(cluster, rng), "SIGTERM")


async def kill_controller(cluster: RecordedCluster, rng: Random) -> None:
    """SIGKILL to the broker that is controller."""
    await _take_down(cluster, rng, await cluster.controller(), "SIGKILL")


async def stop_controller(cluster: RecordedCluster, rng: Random) -> None:
    """SIGTERM to the broker that is controller."""
    await _take_down(cluster, rng, await cluster.controller(), "SIGTERM")


async def pause_broker(cluster: RecordedCluster, rng: Random) -> None:
    """SIGSTOP for less or more than the session timeout."""
    await _pause(cluster, rng, await some_broker(cluster, rng))


async def pause_controller(cluster: RecordedCluster, rng: Random) -> None:
    """SIGSTOP of the controller; sometimes another one is elected meanwhile."""
    broker = await cluster.controller()
    await _pause(cluster, rng, broker)
    if broker is not None and rng.random() < 0.3:
        await delete_controller_znode(cluster, rng)


async def roll(cluster: RecordedCluster, rng: Random) -> None:
    """Restart every broker in turn with SIGTERM."""
    for broker in rng.sample(cluster.brokers, len(cluster.brokers)):
        if broker.state == "running":
            await stop(cluster, broker)
            await asyncio.sleep(rng.choice((0.0, 1.0)))
            await cluster.start(broker)


async def roll_protocol(cluster: RecordedCluster, rng: Random) -> None:
    """Restart every broker in turn with another inter.broker.protocol.version."""
    protocol = rng.choice(("2.6", "2.7", "2.8", "3.0", "3.9"))
    for broker in rng.sample(cluster.brokers, len(cluster.brokers)):
        if broker.state == "running":
            await stop(cluster, broker)
            broker.config["inter.broker.protocol.version"] = protocol
            with cluster.journal.action("protocol", broker=broker.broker_id, version=protocol):
                await cluster.start(broker)


async def some_broker(cluster: RecordedCluster, rng: Random) -> RecordedBroker | None:
    """A running broker, if at least one other is running."""
    running = cluster.in_state("running")
    return rng.choice(running) if len(running) > 1 else None


async def _take_down(
    cluster: RecordedCluster, rng: Random, broker: RecordedBroker | None, signal: str
) -> None:
    if broker is None or len(cluster.in_state("running")) == 1:
        return
    controller = await cluster.znodes.controller()
    given = {"broker": broker.broker_id, "was_controller": controller == broker.broker_id}
    if signal == "SIGKILL":
        with cluster.journal.action("broker_kill", signal=signal, **given):
            broker.kill()
    else:
        await stop(cluster, broker)

    async def start_later() -> None:
        await asyncio.sleep(rng.choice((0.0, 2.0, 4.0, 8.0, 12.0, 20.0)))
        if broker.state == "down":
            await cluster.start(broker)

    cluster.in_background(start_later())


async def stop(cluster: RecordedCluster, broker: RecordedBroker) -> None:
    """SIGTERM, and wait until it exits."""
    with cluster.journal.action("broker_stop", broker=broker.broker_id, signal="SIGTERM"):
        await broker.stop()


async def _pause(cluster: RecordedCluster, rng: Random, broker: RecordedBroker | None) -> None:
    if broker is None or len(cluster.in_state("running")) == 1:
        return
    with cluster.journal.action("broker_pause", broker=broker.broker_id, signal="SIGSTOP"):
        broker.pause()

    async def resume_later() -> None:
        await asyncio.sleep(SESSION_SECONDS * rng.choice((0.1, 0.5, 0.8, 1.1, 1.5, 2.5)))
        if broker.state == "paused":
            with cluster.journal.action("broker_continue", broker=broker.broker_id):
                broker.resume()

    cluster.in_background(resume_later())


async def lose_log_dir(cluster: RecordedCluster, rng: Random) -> None:
    """A log directory is lost while its broker is running; a restart restores it."""
    broker = await some_broker(cluster, rng)
    if broker is None or len(broker.log_dirs) == 1:
        return
    lost = rng.choice(broker.log_dirs)
    away = lost.with_name(f"{lost.name}-away")
    if not lost.is_dir() or away.exists():
        return
    with cluster.journal.action("log_dir_lost", broker=broker.broker_id, log_dir=lost.name):
        lost.rename(away)
        lost.touch()  # a file: the directory cannot be created again

    async def restore_later() -> None:
        await asyncio.sleep(rng.uniform(4, 20))
        if broker.state == "running":
            await stop(cluster, broker)
        with cluster.journal.action("log_dir_back", broker=broker.broker_id, log_dir=lost.name):
            restore_log_dirs(broker)
        if broker.state == "down":
            await cluster.start(broker)

    cluster.in_background(restore_later())


def restore_log_dirs(broker: RecordedBroker) -> None:
    """Restore the directories that were moved away; the broker must be down."""
    for log_dir in broker.log_dirs:
        away = log_dir.with_name(f"{log_dir.name}-away")
        if away.exists():
            log_dir.unlink(missing_ok=True)
            away.rename(log_dir)


async def restart_zookeeper(cluster: RecordedCluster, rng: Random) -> None:
    """ZooKeeper is stopped or killed, and started again."""
    kill = rng.random() < 0.5
    await cluster.znodes.close()
    with cluster.journal.action("zookeeper_stop", signal="SIGKILL" if kill else "SIGTERM"):
        if kill:
            cluster.zookeeper.kill()
        else:
            await cluster.zookeeper.stop()
    await asyncio.sleep(rng.choice((0.0, 1.0, 3.0, 8.0)))
    with cluster.journal.action("zookeeper_start"):
        await cluster.zookeeper.start()
    await cluster.znodes.reconnect()
