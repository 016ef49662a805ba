"""Brokers that die, are stopped, or stand still."""

import asyncio
from random import Random

from tools.recordings.acts.by_hand import delete_controller_znode
from tools.recordings.brokers import RecordedBroker
from tools.recordings.scene import Scene

SESSION_SECONDS = 6.0


async def kill_broker(scene: Scene, rng: Random) -> None:
    """SIGKILL; it comes back later."""
    await _take_down(scene, rng, await some_broker(scene, rng), "SIGKILL")


async def stop_broker(scene: Scene, rng: Random) -> None:
    """SIGTERM, a controlled shutdown; it comes back later."""
    await _take_down(scene, rng, await some_broker(scene, rng), "SIGTERM")


async def kill_controller(scene: Scene, rng: Random) -> None:
    """SIGKILL to the broker that is controller."""
    await _take_down(scene, rng, await scene.controller(), "SIGKILL")


async def stop_controller(scene: Scene, rng: Random) -> None:
    """SIGTERM to the broker that is controller."""
    await _take_down(scene, rng, await scene.controller(), "SIGTERM")


async def pause_broker(scene: Scene, rng: Random) -> None:
    """SIGSTOP for less or more than the session."""
    await _pause(scene, rng, await some_broker(scene, rng))


async def pause_controller(scene: Scene, rng: Random) -> None:
    """SIGSTOP of the controller; perhaps another one is elected meanwhile."""
    broker = await scene.controller()
    await _pause(scene, rng, broker)
    if broker is not None and rng.random() < 0.3:
        await delete_controller_znode(scene, rng)


async def roll(scene: Scene, rng: Random) -> None:
    """Restart every broker in turn, by SIGTERM."""
    for broker in rng.sample(scene.brokers, len(scene.brokers)):
        if broker.state == "running":
            await stop(scene, broker)
            await asyncio.sleep(rng.choice((0.0, 1.0)))
            await scene.start(broker)


async def roll_protocol(scene: Scene, rng: Random) -> None:
    """Restart every broker in turn with another inter.broker.protocol.version."""
    protocol = rng.choice(("2.6", "2.7", "2.8", "3.0", "3.9"))
    for broker in rng.sample(scene.brokers, len(scene.brokers)):
        if broker.state == "running":
            await stop(scene, broker)
            broker.config["inter.broker.protocol.version"] = protocol
            with scene.journal.action("protocol", broker=broker.broker_id, version=protocol):
                await scene.start(broker)


async def some_broker(scene: Scene, rng: Random) -> RecordedBroker | None:
    """A running one, if others are left."""
    running = scene.in_state("running")
    return rng.choice(running) if len(running) > 1 else None


async def _take_down(scene: Scene, rng: Random, broker: RecordedBroker | None, signal: str) -> None:
    if broker is None or len(scene.in_state("running")) == 1:
        return
    controller = await scene.znodes.controller()
    given = {"broker": broker.broker_id, "was_controller": controller == broker.broker_id}
    if signal == "SIGKILL":
        with scene.journal.action("broker_kill", signal=signal, **given):
            broker.kill()
    else:
        await stop(scene, broker)

    async def later() -> None:
        await asyncio.sleep(rng.choice((0.0, 2.0, 4.0, 8.0, 12.0, 20.0)))
        if broker.state == "down":
            await scene.start(broker)

    scene.aside(later())


async def stop(scene: Scene, broker: RecordedBroker) -> None:
    """SIGTERM, and wait for the end."""
    with scene.journal.action("broker_stop", broker=broker.broker_id, signal="SIGTERM"):
        await broker.stop()


async def _pause(scene: Scene, rng: Random, broker: RecordedBroker | None) -> None:
    if broker is None or len(scene.in_state("running")) == 1:
        return
    with scene.journal.action("broker_pause", broker=broker.broker_id, signal="SIGSTOP"):
        broker.pause()

    async def later() -> None:
        await asyncio.sleep(SESSION_SECONDS * rng.choice((0.1, 0.5, 0.8, 1.1, 1.5, 2.5)))
        if broker.state == "paused":
            with scene.journal.action("broker_continue", broker=broker.broker_id):
                broker.resume()

    scene.aside(later())
