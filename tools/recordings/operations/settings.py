"""Configurations, listeners, features and producer ids."""

from collections.abc import Mapping
from random import Random

from kafka.admin import ConfigResource, ConfigResourceType

from tools.recordings.clients import produce_idempotently
from tools.recordings.recorded_cluster import RecordedCluster

UNLIMITED = "100000000"


async def throttle(cluster: RecordedCluster, rng: Random) -> None:
    """Change the throttle of reassignments."""
    await set_rate(cluster, rng.choice(("1000", "20000", UNLIMITED)))
    replicas = {
        "leader.replication.throttled.replicas": "*",
        "follower.replication.throttled.replicas": "*",
    }
    for topic in await cluster.topics():
        await _alter(cluster, ConfigResourceType.TOPIC, topic, replicas)


async def set_rate(cluster: RecordedCluster, rate: str) -> None:
    """Set the bytes per second of throttled replicas on every running broker."""
    rates = {
        "leader.replication.throttled.rate": rate,
        "follower.replication.throttled.rate": rate,
    }
    for number in [one.broker_id for one in cluster.in_state("running")]:
        await _alter(cluster, ConfigResourceType.BROKER, str(number), rates)


async def allow_unclean(cluster: RecordedCluster, rng: Random) -> None:
    """Change unclean.leader.election.enable of a topic, a broker or all brokers."""
    setting = {"unclean.leader.election.enable": rng.choice(("true", "true", "false"))}
    match rng.choice(("topic", "topic", "broker", "default")):
        case "topic":
            topics = await cluster.topics()
            if topics:
                name = rng.choice(sorted(topics))
                await _alter(cluster, ConfigResourceType.TOPIC, name, setting)
        case "broker":
            running = cluster.in_state("running")
            if running:
                name = str(rng.choice(running).broker_id)
                await _alter(cluster, ConfigResourceType.BROKER, name, setting)
        case "default":
            await _alter_default(cluster, setting)


async def change_topic_config(cluster: RecordedCluster, rng: Random) -> None:
    """Change a setting that the controller ignores."""
    topics = await cluster.topics()
    if topics:
        setting = rng.choice(
            ({"retention.ms": "600000"}, {"min.insync.replicas": "2"}, {"min.insync.replicas": "1"})
        )
        await _alter(cluster, ConfigResourceType.TOPIC, rng.choice(sorted(topics)), setting)


async def change_listeners(cluster: RecordedCluster, rng: Random) -> None:
    """Add a listener to a broker or remove it: its registration changes."""
    running = cluster.in_state("running")
    if not running:
        return
    broker = rng.choice(running)
    listeners = f"PLAINTEXT://{broker.connect}"
    if rng.random() < 0.7:
        listeners += f",EXTRA://127.0.0.1:{broker.listeners['EXTRA']}"
    changes = {"listeners": listeners, "advertised.listeners": listeners}
    await _alter(cluster, ConfigResourceType.BROKER, str(broker.broker_id), changes)


async def update_features(cluster: RecordedCluster, rng: Random) -> None:
    """UpdateFeatures with features that no broker supports, which is rejected."""
    feature = rng.choice(("metadata.version", "never-there"))
    level = rng.choice((0, 1, 7))
    with cluster.journal.action("update_features", feature=feature, level=level) as action:
        answer = await cluster.ask(
            lambda admin: admin.update_features({feature: level}, timeout_ms=5000)
        )
        action["output"] = str(answer)


async def take_producer_ids(cluster: RecordedCluster, rng: Random) -> None:
    """New idempotent producers: from protocol version 3.0 on, the controller allocates their
    ids."""
    topics = await cluster.topics()
    if not topics:
        return
    topic = rng.choice(sorted(topics))
    for broker in cluster.in_state("running"):
        with cluster.journal.action("producer_ids", broker=broker.broker_id, topic=topic):
            await produce_idempotently(broker.connect, topic)


async def _alter(
    cluster: RecordedCluster, kind: ConfigResourceType, name: str, changes: Mapping[str, str]
) -> None:
    with cluster.journal.action(
        f"{kind.name.lower()}_config", resource=name, configs=dict(changes)
    ) as action:
        resource = ConfigResource(kind, name, dict(changes))
        action["output"] = str(
            await cluster.ask(lambda admin: admin.alter_configs([resource], raise_on_unknown=False))
        )


async def _alter_default(cluster: RecordedCluster, changes: Mapping[str, str]) -> None:
    running = cluster.in_state("running")
    if not running:
        return
    added = ",".join(f"{key}={value}" for key, value in changes.items())
    with cluster.journal.action("broker_config", resource="", configs=dict(changes)) as action:
        result = await cluster.tools.run(
            "kafka-configs",
            *("--bootstrap-server", running[0].connect, "--alter"),
            *("--entity-type", "brokers", "--entity-default", "--add-config", added),
        )
        action |= {"rc": result.status, "output": result.output + result.problems}
