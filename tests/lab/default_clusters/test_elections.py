"""Leaders change without a dead broker: by the rebalance, and by unclean elections."""

import pytest

from tests.lab.default_clusters.cluster import DefaultLabCluster, tool

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

INTERVAL = "leader.imbalance.check.interval.seconds"
CONFIGS = "kafka.admin.ConfigCommand"
UNCLEAN = "unclean.leader.election.enable=true"


async def test_leaders_return_to_preferred_replicas_after_a_rolling_restart(
    lab_cluster: DefaultLabCluster,
) -> None:
    daemon = await lab_cluster.controlling(settings={INTERVAL: 2})
    preferred = {0: 1, 1: 2, 2: 3}
    await lab_cluster.create_topic("rolled", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    for broker in lab_cluster.lab.brokers:
        await lab_cluster.until_in_sync("rolled", 3)
        await lab_cluster.stop_in_order(broker)
        await broker.start()
    await lab_cluster.until_in_sync("rolled", 3)
    await lab_cluster.until_led("rolled", preferred)
    assert await daemon.stop() == 0


@pytest.mark.parametrize(
    ("topic", "entity"),
    [
        ("allowed", ("--entity-type", "topics", "--entity-name", "allowed")),
        ("default", ("--entity-type", "brokers", "--entity-default")),
    ],
)
async def test_offline_partition_gets_a_leader_when_unclean_election_is_enabled(
    lab_cluster: DefaultLabCluster, topic: str, entity: tuple[str, ...]
) -> None:
    """Broker 2 was out of sync when broker 1 died; broker 3 receives the configuration change."""
    daemon = await lab_cluster.controlling()
    first, second, third = lab_cluster.lab.brokers
    await lab_cluster.create_topic(topic, {0: [1, 2]})
    await lab_cluster.until_in_sync(topic, 2)
    await second.stop()
    await lab_cluster.until_in_sync(topic, 1, without=2)
    await first.stop()
    await lab_cluster.until_led(topic, {0: -1})
    await second.start()
    await lab_cluster.until_led(topic, {0: -1})
    alter = ("--bootstrap-server", third.connect, *entity, "--alter")
    await tool(lab_cluster.lab, CONFIGS, *alter, "--add-config", UNCLEAN)
    await lab_cluster.until_led(topic, {0: 2})
    assert (await lab_cluster.view.states(topic))[0]["leader_recovery_state"] == 1
    await first.start()
    await lab_cluster.until_in_sync(topic, 2)
    await tool(lab_cluster.lab, CONFIGS, *alter, "--delete-config", UNCLEAN.partition("=")[0])
    assert await daemon.stop() == 0
