"""Leaders that change though no broker died: by themselves, and when unclean ones are allowed."""

import pytest

from tests.lab.default_clusters.cluster import DefaultScene, tool

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

INTERVAL = "leader.imbalance.check.interval.seconds"
CONFIGS = "kafka.admin.ConfigCommand"
UNCLEAN = "unclean.leader.election.enable=true"


async def test_after_a_rolling_restart_leaders_go_back_by_themselves(scene: DefaultScene) -> None:
    daemon = await scene.controlling(settings={INTERVAL: 2})
    preferred = {0: 1, 1: 2, 2: 3}
    await scene.create_topic("rolled", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    for broker in scene.lab.brokers:
        await scene.until_in_sync("rolled", 3)
        await scene.stop_in_order(broker)
        await broker.start()
    await scene.until_in_sync("rolled", 3)
    await scene.until_led("rolled", preferred)
    assert await daemon.stop() == 0


@pytest.mark.parametrize(
    ("topic", "entity"),
    [
        ("allowed", ("--entity-type", "topics", "--entity-name", "allowed")),
        ("default", ("--entity-type", "brokers", "--entity-default")),
    ],
)
async def test_a_partition_that_waits_is_led_once_unclean_leaders_are_allowed(
    scene: DefaultScene, topic: str, entity: tuple[str, ...]
) -> None:
    """2 was out of sync when 1 died; 3 is asked to change the configuration."""
    daemon = await scene.controlling()
    first, second, third = scene.lab.brokers
    await scene.create_topic(topic, {0: [1, 2]})
    await scene.until_in_sync(topic, 2)
    await second.stop()
    await scene.until_in_sync(topic, 1, without=2)
    await first.stop()
    await scene.until_led(topic, {0: -1})
    await second.start()
    await scene.until_led(topic, {0: -1})
    alter = ("--bootstrap-server", third.connect, *entity, "--alter")
    await tool(scene.lab, CONFIGS, *alter, "--add-config", UNCLEAN)
    await scene.until_led(topic, {0: 2})
    assert (await scene.view.states(topic))[0]["leader_recovery_state"] == 1
    await first.start()
    await scene.until_in_sync(topic, 2)
    await tool(scene.lab, CONFIGS, *alter, "--delete-config", UNCLEAN.partition("=")[0])
    assert await daemon.stop() == 0
