"""The daemon is killed after each of the seven steps of a rollback. Then it is started again,
another daemon takes the role at once, or a stock controller has the role first."""

import json
import signal

import pytest

from controller.core import znodes
from tests.controller.daemon.lab_cluster import OWN_ID
from tests.lab.default_clusters.cluster import until_more
from tests.lab.incidents.requests import election_request
from tests.lab.interrupted.failpoint import program_after_step
from tests.lab.interrupted.moving import ABSENT_BROKER, Moving
from tools.lab.refold import Refold
from tools.lab.traffic import Traffic

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

OTHER_ID = 1001


async def killed_after(moving: Moving, topic: str, step: int) -> None:
    """Kills the daemon during the rollback of a move from [1,2] to a dead broker and 3, which is in
    sync."""
    daemon = moving.failing(program_after_step(step))
    await daemon.start()
    await moving.until_controller(OWN_ID, daemon)
    await moving.create_topic(topic, {0: [1, 2]})
    await moving.submit({(topic, 0): [3, ABSENT_BROKER]})
    await moving.until_isr(topic, {0: 3})
    await moving.reassign("--cancel")
    assert await daemon.ended() == -signal.SIGKILL


async def assert_rolled_back(moving: Moving, topic: str, daemon: Refold) -> None:
    """Asserts that the replicas are exactly the originals, in order, also on disk."""
    await moving.until_assigned(topic, [1, 2])
    await moving.until_files(topic, [1, 2])
    await moving.until_in_sync(topic, 2)
    await moving.until_nothing_is_left()
    assert await daemon.stop() == 0


@pytest.mark.parametrize("step", range(1, 8))
async def test_restarted_daemon_continues_the_rollback(moving: Moving, step: int) -> None:
    """The daemon has the same id. Brokers are paused, so that none takes the role when its session
    ends."""
    topic = f"started-again-{step}"
    await killed_after(moving, topic, step)
    with moving.brokers_paused():
        daemon = moving.daemon("--take-over")
        await daemon.start()
        await moving.until_reported(daemon, "elected")
    await moving.until_reported(daemon, "failover_done")
    await assert_rolled_back(moving, topic, daemon)


@pytest.mark.parametrize("step", range(1, 8))
async def test_another_daemon_continues_the_rollback(moving: Moving, step: int) -> None:
    topic = f"next-daemon-{step}"
    await killed_after(moving, topic, step)
    daemon = await moving.controlling(broker_id=OTHER_ID)
    await assert_rolled_back(moving, topic, daemon)


@pytest.mark.parametrize("step", range(1, 8))
async def test_daemon_after_a_stock_controller_continues_the_rollback(
    moving: Moving, step: int
) -> None:
    topic = f"stock-between-{step}"
    await killed_after(moving, topic, step)
    await moving.until_stock_controller()
    if step < 5:
        # The stock controller continues the reassignment in the topic's znode.
        await moving.until_files(topic, [1, 2, 3])
        await moving.until_isr(topic, {0: 3})
    daemon = await moving.controlling()
    await assert_rolled_back(moving, topic, daemon)


async def test_interrupted_rollback_loses_no_acknowledged_record(moving: Moving) -> None:
    topic = "traffic-meanwhile"
    daemon = moving.failing(program_after_step(3))
    await daemon.start()
    await moving.until_controller(OWN_ID, daemon)
    await moving.create_topic(topic, {0: [1, 2]})
    async with Traffic(moving.lab.bootstrap, topic) as traffic:
        await until_more(traffic)
        await moving.submit({(topic, 0): [3, ABSENT_BROKER]})
        await moving.until_isr(topic, {0: 3})
        await moving.reassign("--cancel")
        await daemon.ended()
        await moving.until_stock_controller()
        again = await moving.controlling()
        await moving.until_assigned(topic, [1, 2])
        await until_more(traffic)
        assert await traffic.finish() == set()
    await assert_rolled_back(moving, topic, again)


async def test_producers_continue_without_a_controller_if_the_leader_was_a_target(
    moving: Moving,
) -> None:
    """The leader outside of the originals follows before its replica is deleted."""
    topic = "led-by-a-target"
    long_session = {"zookeeper.session.timeout.ms": 30_000}
    daemon = moving.failing(program_after_step(3), settings=long_session)
    await daemon.start()
    await moving.until_controller(OWN_ID, daemon)
    await moving.create_topic(topic, {0: [1, 2]})
    async with Traffic(moving.lab.bootstrap, topic) as traffic:
        await until_more(traffic)
        await moving.submit({(topic, 0): [3, ABSENT_BROKER]})
        await moving.until_isr(topic, {0: 3})
        request = json.dumps(election_request([(topic, 0)]))
        await moving.view.create(znodes.PREFERRED_ELECTION, request)
        await moving.until_led(topic, {0: 3})
        await moving.reassign("--cancel")
        assert await daemon.ended() == -signal.SIGKILL
        await until_more(traffic)
        assert await moving.view.controller() == OWN_ID, "another controller has taken the role"
        again = await moving.controlling(broker_id=OTHER_ID)
        await moving.until_assigned(topic, [1, 2])
        await until_more(traffic)
        assert await traffic.finish() == set()
    await assert_rolled_back(moving, topic, again)


async def test_stock_controller_continues_with_the_entries_after_a_hand_back(
    moving: Moving,
) -> None:
    """The daemon removes the fields that stock brokers cannot read."""
    topic = "handed-back"
    daemon = await moving.controlling()
    await moving.create_topic(topic, {0: [1, 2]})
    await moving.submit({(topic, 0): [3, ABSENT_BROKER]})
    await moving.until_isr(topic, {0: 3})
    assert await daemon.stop() == 0
    await moving.until_stock_controller()
    entries = await moving.view.content("/admin/reassign_partitions")
    assert entries["partitions"] == [
        {"topic": topic, "partition": 0, "replicas": [3, ABSENT_BROKER]}
    ]
    again = await moving.controlling()
    await moving.reassign("--cancel")
    await assert_rolled_back(moving, topic, again)
