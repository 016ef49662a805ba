"""The incidents of `make demo-0.8`, each with its checks, and the replay of all logs."""

from collections.abc import AsyncIterator

import pytest

from tests.controller.kafka_0_8_broker.test_brokers import assert_world_decides_the_same
from tools.demo.kafka_0_8 import scenes
from tools.demo.kafka_0_8.brokers import Brokers
from tools.demo.kafka_0_8.traffic import DemoTraffic
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]


@pytest.fixture
async def traffic(brokers: Brokers) -> AsyncIterator[DemoTraffic]:
    """Producers for topic orders, which is new for them. No acknowledged record may be lost."""
    ends = {name: len(await brokers.client.consume_all(name)) for name in scenes.ORDERS}
    async with brokers.traffic(*scenes.ORDERS) as traffic:
        yield traffic
    assert await traffic.lost() == []
    for name, count in traffic.counts().items():
        assert count
        assert len(await brokers.client.consume_all(name)) >= ends[name] + count


@pytest.mark.ci
async def test_killed_leader_is_replaced(brokers: Brokers, traffic: DemoTraffic) -> None:
    await scenes.leader_killed(brokers, traffic)


async def test_state_changes_wait_for_a_bounced_broker(brokers: Brokers) -> None:
    await scenes.bounced(brokers)


async def test_partition_moves_away_from_its_leader(brokers: Brokers, traffic: DemoTraffic) -> None:
    await scenes.reassigned(brokers, traffic)


async def test_topic_is_deleted_while_a_broker_is_down(brokers: Brokers) -> None:
    await scenes.deleted_while_down(brokers)


async def test_sessions_that_end_in_a_hang_of_zookeeper_are_begun_again(
    brokers: Brokers, traffic: DemoTraffic
) -> None:
    await scenes.zookeeper_hangs(brokers, traffic)


async def test_leader_that_misses_the_end_of_its_session_commits_nothing(brokers: Brokers) -> None:
    await scenes.expired_leader(brokers)


async def test_world_decides_every_log_in_the_same_way(brokers: Brokers) -> None:
    """The last test: the logs of all runs above, also of those that were killed."""
    for broker in brokers.stage.lab.brokers_0_8:
        if broker.running:
            await broker.stop()
    for name, log in brokers.logs().items():
        status, output = await run("replay", str(log))
        assert status == 0, f"{name}: {output}"
        assert_world_decides_the_same(log)
