"""The daemon is killed after each of the seven steps of a cancellation; then it is started again,
another takes its place at once, or a stock controller has the role in between."""

import signal

import pytest

from tests.controller.daemon.scene import OWN_ID
from tests.lab.default_clusters.cluster import until_more
from tests.lab.interrupted.moving import NOBODY, Moving
from tools.lab.refold import Refold
from tools.lab.traffic import Traffic

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

FAILS = """
import os
import signal

from replay.cli.main import main
from controller.core.procedures import rollback
from controller.core.procedures.reassignment.cancel_znode import read_cancel

AFTER = {after}

async def fails(controller, rolled_back):
    await steps[AFTER - 1](controller, rolled_back)
    # Nothing is carried out before something is waited for.
    await read_cancel(controller)
    os.kill(os.getpid(), signal.SIGKILL)

steps = rollback.STEPS
rollback.STEPS = (*steps[: AFTER - 1], fails, *steps[AFTER:])
main()
"""
"""A daemon that dies when a step is done."""

OTHER_ID = 1001


async def killed_after(moving: Moving, topic: str, step: int) -> None:
    """[1,2] on the way to a dead broker and 3, which is in sync; cancelled, cut short."""
    daemon = moving.failing(FAILS.format(after=step))
    await daemon.start()
    await moving.until_controller(OWN_ID, daemon)
    await moving.create_topic(topic, {0: [1, 2]})
    await moving.submit({(topic, 0): [3, NOBODY]})
    await moving.until_isr(topic, {0: 3})
    await moving.reassign("--cancel")
    assert await daemon.ended() == -signal.SIGKILL


async def assert_rolled_back(moving: Moving, topic: str, daemon: Refold) -> None:
    """Exactly the originals, in order, and no file of another."""
    await moving.until_assigned(topic, [1, 2])
    await moving.until_files(topic, [1, 2])
    await moving.until_in_sync(topic, 2)
    await moving.until_nothing_is_left()
    assert await daemon.stop() == 0


@pytest.mark.parametrize("step", range(1, 8))
async def test_started_again_it_goes_on(moving: Moving, step: int) -> None:
    """With its id. Brokers are too slow to take the role when its session ends."""
    topic = f"started-again-{step}"
    await killed_after(moving, topic, step)
    with moving.brokers_paused():
        daemon = moving.daemon("--take-over")
        await daemon.start()
        await moving.until_reported(daemon, "elected")
    await moving.until_reported(daemon, "failover_done")
    await assert_rolled_back(moving, topic, daemon)


@pytest.mark.parametrize("step", range(1, 8))
async def test_another_daemon_goes_on(moving: Moving, step: int) -> None:
    topic = f"next-daemon-{step}"
    await killed_after(moving, topic, step)
    daemon = await moving.controlling(broker_id=OTHER_ID)
    await assert_rolled_back(moving, topic, daemon)


@pytest.mark.parametrize("step", range(1, 8))
async def test_a_stock_controller_in_between_and_then_the_daemon(moving: Moving, step: int) -> None:
    topic = f"stock-between-{step}"
    await killed_after(moving, topic, step)
    await moving.until_stock_controller()
    if step < 5:
        # It goes on with what stands in the topic's znode.
        await moving.until_files(topic, [1, 2, 3])
        await moving.until_isr(topic, {0: 3})
    daemon = await moving.controlling()
    await assert_rolled_back(moving, topic, daemon)


async def test_no_acknowledged_record_is_lost_meanwhile(moving: Moving) -> None:
    topic = "traffic-meanwhile"
    daemon = moving.failing(FAILS.format(after=3))
    await daemon.start()
    await moving.until_controller(OWN_ID, daemon)
    await moving.create_topic(topic, {0: [1, 2]})
    async with Traffic(moving.lab.bootstrap, topic) as traffic:
        await until_more(traffic)
        await moving.submit({(topic, 0): [3, NOBODY]})
        await moving.until_isr(topic, {0: 3})
        await moving.reassign("--cancel")
        await daemon.ended()
        await moving.until_stock_controller()
        again = await moving.controlling()
        await moving.until_assigned(topic, [1, 2])
        await until_more(traffic)
        assert await traffic.finish() == set()
    await assert_rolled_back(moving, topic, again)


async def test_after_an_orderly_end_a_stock_controller_goes_on_with_the_entries(
    moving: Moving,
) -> None:
    """They are stripped of what stock brokers cannot read."""
    topic = "handed-back"
    daemon = await moving.controlling()
    await moving.create_topic(topic, {0: [1, 2]})
    await moving.submit({(topic, 0): [3, NOBODY]})
    await moving.until_isr(topic, {0: 3})
    assert await daemon.stop() == 0
    await moving.until_stock_controller()
    entries = await moving.view.content("/admin/reassign_partitions")
    assert entries["partitions"] == [{"topic": topic, "partition": 0, "replicas": [3, NOBODY]}]
    again = await moving.controlling()
    await moving.reassign("--cancel")
    await assert_rolled_back(moving, topic, again)
