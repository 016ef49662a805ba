"""/admin/reassign_cancel is deleted before the daemon reads it: it cancels nevertheless."""

import asyncio

import pytest

from controller.core.znodes import CANCEL_CONTENT, REASSIGN_CANCEL
from tests.lab.interrupted.moving import ABSENT_BROKER, Moving

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

DELAYS_MS = (0, 0, 1, 1, 2, 2, 3, 3)


async def cancel_briefly(moving: Moving, delay_ms: float) -> None:
    """Creates the znode and deletes it after a delay."""
    await moving.view.create(REASSIGN_CANCEL, CANCEL_CONTENT.decode())
    await asyncio.sleep(delay_ms / 1000)  # The znode exists for this time.
    await moving.view.delete(REASSIGN_CANCEL)


async def test_cancellation_of_a_few_milliseconds_is_processed(moving: Moving) -> None:
    daemon = await moving.controlling()
    topic = "briefly-cancelled"
    await moving.create_topic(topic, {0: [1, 2]})
    await moving.until_in_sync(topic, 2)
    for delay_ms in DELAYS_MS:
        await moving.submit({(topic, 0): [3, ABSENT_BROKER]})
        await moving.until_adding(topic)
        await cancel_briefly(moving, delay_ms)
        await moving.until_assigned(topic, [1, 2])
        await moving.until_nothing_is_left()
    assert await daemon.stop() == 0


async def test_cancellation_while_the_daemon_is_paused_is_processed(moving: Moving) -> None:
    daemon = await moving.controlling()
    topic = "cancelled-while-paused"
    await moving.create_topic(topic, {0: [1, 2]})
    await moving.until_in_sync(topic, 2)
    await moving.submit({(topic, 0): [3, ABSENT_BROKER]})
    await moving.until_adding(topic)
    daemon.pause()
    await cancel_briefly(moving, 500)
    daemon.resume()
    await moving.until_assigned(topic, [1, 2])
    await moving.until_nothing_is_left()
    notice = await moving.until_reported(daemon, "reassignments_cancelled")
    assert "was deleted before the controller read it" in notice["message"]
    assert await daemon.stop() == 0
