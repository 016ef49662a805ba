"""Who is controller: taking the role, standing by, handing it back, and what a kill does."""

import asyncio

import pytest

from tests.daemon.scene import OWN_ID, SESSION_MS, WAIT_SECONDS, Scene
from tools.lab.cluster_view import until
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

HAND_BACK_SECONDS_MAX = 2.0


@pytest.mark.ci
async def test_takes_over_decides_and_hands_back(scene: Scene) -> None:
    epoch = await scene.view.controller_epoch()
    daemon = await scene.controlling()
    assert await scene.view.controller_epoch() == epoch + 1
    await scene.create_topic("made", {0: [1, 2, 3], 1: [2, 3, 1]})
    await scene.until_in_sync("made", 3)
    ended, seconds = await asyncio.gather(daemon.stop(), scene.until_stock_controller())
    assert ended == 0, daemon.last_words()
    assert seconds < HAND_BACK_SECONDS_MAX
    (log,) = scene.logs()
    status, output = await run("log", "verify", str(log))
    assert status == 0, output
    assert "not closed" not in output


async def test_stands_by_until_the_stock_controller_dies(scene: Scene) -> None:
    stock = await scene.view.controller()
    daemon = scene.daemon()
    await daemon.start()
    await until(lambda: told(daemon, "standing_by"), WAIT_SECONDS, "standing by")
    assert await scene.view.controller() == stock
    # Only one other stays, so that the daemon is not beaten in the election by chance.
    await scene.take_role_from_brokers(daemon)
    assert daemon.running
    assert await daemon.stop() == 0


async def told(daemon: object, code: str) -> bool:
    return any(one.get("code") == code for one in daemon.messages())  # type: ignore[attr-defined]
