"""Manual changes of znodes that belong to the cluster."""

import asyncio
from random import Random

from controller.core import znodes
from tools.recordings.recorded_cluster import RecordedCluster

_REQUESTS = (znodes.REASSIGN_PARTITIONS, znodes.PREFERRED_ELECTION)


async def delete_controller_znode(cluster: RecordedCluster, rng: Random) -> None:
    """/controller is deleted."""
    controller = await cluster.znodes.controller()
    with cluster.journal.action("controller_znode_delete", controller=controller):
        await cluster.znodes.delete(znodes.CONTROLLER)


async def delete_registration(cluster: RecordedCluster, rng: Random) -> None:
    """A broker's registration is deleted; later the broker is restarted, to register again. The
    broker itself does not notice."""
    running = cluster.in_state("running")
    if len(running) < 2:
        return
    broker = rng.choice(running)
    with cluster.journal.action("registration_delete", broker=broker.broker_id):
        await cluster.znodes.delete(znodes.broker_path(broker.broker_id))
    await asyncio.sleep(rng.uniform(0, 3))
    if broker.state == "running":
        with cluster.journal.action("broker_kill", broker=broker.broker_id):
            broker.kill()
        await cluster.start(broker)


async def delete_marker(cluster: RecordedCluster, rng: Random) -> None:
    """A topic deletion is cancelled: its marker in /admin/delete_topics is deleted."""
    markers = await cluster.znodes.children(znodes.DELETE_TOPICS)
    if markers:
        name = rng.choice(markers)
        with cluster.journal.action("deletion_marker_delete", topic=name):
            await cluster.znodes.delete(znodes.delete_topic_path(name))


async def write_no_json(cluster: RecordedCluster, rng: Random) -> None:
    """A request that cannot be parsed."""
    path = rng.choice(_REQUESTS)
    content = rng.choice(("", "nothing", {"version": 1}, {"version": 1, "partitions": [{}]}))
    with cluster.journal.action("request_no_json", path=path, content=content):
        await cluster.znodes.create(path, content)


async def touch_topic(cluster: RecordedCluster, rng: Random) -> None:
    """A topic's znode is written again, with its partitions in another order."""
    topics = await cluster.topics()
    if topics:
        name = rng.choice(sorted(topics))
        with cluster.journal.action("topic_touch", topic=name):
            znode = await cluster.znodes.read(znodes.topic_path(name))
            znode["partitions"] = dict(reversed(znode["partitions"].items()))
            await cluster.znodes.set(znodes.topic_path(name), znode)


async def overwrite_state(cluster: RecordedCluster, rng: Random) -> None:
    """A partition's state is written again unchanged, so that its version is not the one that the
    controller knows."""
    topics = await cluster.topics()
    if topics:
        name = rng.choice(sorted(topics))
        states = await cluster.states(name)
        if states:
            number = rng.choice(sorted(states))
            path = znodes.state_path(name, number)
            with cluster.journal.action("state_overwrite", path=path):
                await cluster.znodes.set(path, states[number])
