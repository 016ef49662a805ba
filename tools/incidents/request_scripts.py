"""The scripts of the incidents with requests that only faulty clients send, and with too many
requests. They begin as those in `scripts`."""

from controller.core import znodes
from tools.incidents import endpoint
from tools.incidents.incident_cluster import UNREGISTERED, IncidentCluster

TOPIC = "orders"
_UNCLEAN = {"unclean.leader.election.enable": "true"}
_RECOVERING = 1


async def rare_requests(cluster: IncidentCluster) -> None:
    """Clients name a topic twice and one that is reserved; brokers request producer ids with an
    epoch above theirs, a repeated member of an ISR, and others for a leader that recovers.
    A deleted topic has foreign znodes. A broker shuts down that has the only replica of a topic.
    One replica of a new topic is not online."""
    await cluster.make("single", {0: [2]})
    partly = {"version": 1, "partitions": {"0": [1, UNREGISTERED]}}
    await cluster.znodes.create(znodes.topic_path("partly"), partly)
    await cluster.until_partitions("partly", 1)
    await cluster.make("unclean", {0: [3, 2, 1]}, _UNCLEAN)
    epoch = await cluster.broker_epoch(1)
    await cluster.send(endpoint.create_topic("__cluster_metadata", {0: [1]}))
    await cluster.send(endpoint.create_topic("twice", {0: [1]}, times=2))
    await cluster.send(endpoint.allocate_producer_ids(1, epoch + 1))
    topic_id = await cluster.topic_id("moved")
    repeated = await cluster.state("moved", 0) | {"isr": [1, 1]}
    await cluster.send(endpoint.alter_partition(1, epoch, topic_id, 0, repeated))
    for path in ("/brokers/topics/moved/notes", "/brokers/topics/moved/notes/first"):
        await cluster.znodes.create(path, {})
    await cluster.ask(lambda admin: admin.delete_topics(["moved"], raise_errors=False))
    await cluster.until_gone("moved")
    await cluster.broker(2).stop()
    await cluster.until_no_leader_is(2)
    await cluster.broker(2).start()
    await cluster.until_in_sync("unclean")
    await _add_to_recovering(cluster)
    await cluster.until_in_sync(TOPIC)
    await cluster.until_in_sync("unclean")


async def _add_to_recovering(cluster: IncidentCluster) -> None:
    """The only replica in sync disappears. The next leader is paused, so that it does not end its
    recovery before a request in its name has a larger ISR."""
    topic_id = await cluster.topic_id("unclean")
    alone = await cluster.state("unclean", 0) | {"isr": [3]}
    epoch = await cluster.broker_epoch(3)
    await cluster.send(endpoint.alter_partition(3, epoch, topic_id, 0, alone))
    await cluster.until_isr("unclean", 0, {3})
    cluster.broker(2).pause()
    await cluster.znodes.delete(znodes.broker_path(3))
    await cluster.until_led("unclean", 0, by=2)
    larger = await cluster.state("unclean", 0) | {"isr": [2, 1]}
    epoch = await cluster.broker_epoch(2)
    await cluster.send(
        endpoint.alter_partition(2, epoch, topic_id, 0, larger, recovery_state=_RECOVERING)
    )
    dead = larger | {"isr": [2, 3]}
    await cluster.send(endpoint.alter_partition(2, epoch, topic_id, 0, dead))
    cluster.broker(2).resume()
    cluster.broker(3).kill()
    await cluster.broker(3).start()


async def exceeded_quota(cluster: IncidentCluster) -> None:
    """A client exceeds its quota for partitions that are created and deleted, which the controller
    reads at its take-over: newer versions of its requests are refused, older ones are carried out
    and throttled. Then the quota is deleted."""
    entity = "users/ANONYMOUS/clients/incident"
    await cluster.znodes.create(znodes.user_config_path("ANONYMOUS"), {"version": 1, "config": {}})
    await cluster.znodes.create("/config/users/ANONYMOUS/clients")
    quota = {"version": 1, "config": {"controller_mutation_rate": "1"}}
    await cluster.znodes.create(znodes.config_path(entity), quota)
    await cluster.hand_back()
    await cluster.take_over()
    many = {number: [1] for number in range(60)}
    await cluster.send(endpoint.create_topic("many", many, version=7))
    await cluster.send(endpoint.create_topic("refused", {0: [1]}, version=7))
    await cluster.send(endpoint.create_partitions("moved", 4))
    await cluster.send(endpoint.delete_topic("moved", version=5))
    await cluster.send(endpoint.create_topic("throttled", {0: [1]}))
    await cluster.send(endpoint.delete_topic("moved", version=4))
    await cluster.znodes.delete(znodes.config_path(entity))
    change = {"version": 2, "entity_path": entity}
    await cluster.znodes.create(f"{znodes.CONFIG_CHANGE_PREFIX}0000009999", change)
    await cluster.until_gone("moved")
    free = endpoint.create_topic("free", {0: [1]}, version=7)
    while (await cluster.send(free)).topics[0].error_code:
        # refold may not have read the change yet.
        continue
