"""The controller role: take-over, standby, hand-back, and kill."""

import asyncio

import pytest

from tests.controller.daemon.scene import OWN_ID, Scene
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

HAND_BACK_SECONDS_MAX = 2.0
OTHER_ID = 1001


@pytest.mark.ci
async def test_take_over_decides_and_hands_back(scene: Scene) -> None:
    epoch = await scene.view.controller_epoch()
    daemon = await scene.controlling()
    assert await scene.view.controller_epoch() == epoch + 1
    await scene.create_topic("made", {0: [1, 2, 3], 1: [2, 3, 1]})
    await scene.until_in_sync("made", 3)
    ended, seconds = await asyncio.gather(daemon.stop(), scene.until_stock_controller())
    assert ended == 0, daemon.last_output()
    assert seconds < HAND_BACK_SECONDS_MAX
    (log,) = scene.logs()
    status, output = await run("log", "verify", str(log))
    assert status == 0, output
    assert "not closed" not in output


async def test_standby_waits_until_the_stock_controller_dies(scene: Scene) -> None:
    stock = await scene.view.controller()
    daemon = scene.daemon()
    await daemon.start()
    await scene.until_reported(daemon, "standing_by")
    assert await scene.view.controller() == stock
    # All stock brokers: another one could be elected first.
    for broker in scene.lab.brokers:
        broker.kill()
    await scene.until_controller(OWN_ID, daemon)
    for broker in scene.lab.brokers:
        await broker.start()
    await scene.create_topic("after", {0: [1, 2, 3]})
    assert await daemon.stop() == 0


@pytest.mark.ci
async def test_killed_daemon_is_followed_by_a_stock_broker(scene: Scene) -> None:
    daemon = await scene.controlling()
    await scene.create_topic("before-the-kill", {0: [1, 2, 3]})
    daemon.kill()
    await daemon.ended()
    await scene.until_stock_controller()
    again = await scene.controlling()
    await scene.create_topic("after-the-kill", {0: [2, 3, 1]})
    assert await again.stop() == 0
    killed, ended = [await run("log", "verify", str(log)) for log in scene.logs()]
    assert "not closed" in killed[1]
    assert (ended[0], "not closed" in ended[1]) == (0, False), ended[1]


async def test_second_daemon_takes_the_role_of_a_killed_one(scene: Scene) -> None:
    first = await scene.controlling(settings={"zookeeper.session.timeout.ms": 2000})
    second = scene.daemon(broker_id=OTHER_ID)
    await second.start()
    await scene.until_reported(second, "standing_by")
    await scene.create_topic("of-the-first", {0: [1, 2, 3]})
    first.kill()
    await first.ended()
    with scene.brokers_paused():
        await scene.until_controller(OTHER_ID, second)
    await scene.create_topic("of-the-second", {0: [2, 3, 1]})
    assert await second.stop() == 0


async def test_two_daemons_with_take_over_elect_one(scene: Scene) -> None:
    """Each takes the role once, when its session starts."""
    first = await scene.controlling()
    second = await scene.controlling(broker_id=OTHER_ID)
    await scene.until_reported(first, "resigned")
    assert first.running
    epoch = await scene.view.controller_epoch()
    await scene.create_topic("of-one", {0: [1, 2, 3]})
    assert await scene.view.controller_epoch() == epoch
    assert await second.stop() == 0
    assert await first.stop() == 0


async def test_id_of_an_active_daemon_is_refused(scene: Scene) -> None:
    first = await scene.controlling()
    second = scene.daemon("--take-over")
    await second.start()
    assert await second.ended() == 2
    assert "the id 1000 is in use" in second.last_output()
    assert first.running
    assert await scene.view.controller() == OWN_ID


async def test_one_of_two_daemons_with_the_same_id_is_controller(scene: Scene) -> None:
    daemons = [scene.daemon(), scene.daemon()]
    for daemon in daemons:
        await daemon.start()
        await scene.until_reported(daemon, "standing_by")
    epoch = await scene.view.controller_epoch()
    with scene.brokers_paused():
        await scene.view.delete("/controller")
        await scene.until_controller(OWN_ID)
    await scene.create_topic("of-one-id", {0: [1, 2, 3]})
    assert await scene.view.controller_epoch() == epoch + 1
    assert [await daemon.stop() for daemon in daemons] == [0, 0]


@pytest.mark.ci
@pytest.mark.parametrize("take_over", [True, False])
async def test_daemon_paused_beyond_its_session_changes_nothing(
    scene: Scene, take_over: bool
) -> None:
    daemon = scene.daemon(*(["--take-over"] if take_over else []))
    await daemon.start()
    if not take_over:
        await scene.until_reported(daemon, "standing_by")
        with scene.brokers_paused():
            await scene.view.delete("/controller")
            await scene.until_controller(OWN_ID)
    await scene.until_controller(OWN_ID, daemon)
    topic = f"slept-{take_over}"
    await scene.create_topic(topic, {0: [1, 2, 3], 1: [2, 3, 1]})
    await scene.until_in_sync(topic, 3)
    daemon.pause()
    await scene.until_stock_controller()
    # When it resumes, a broker is dead and the other controller has handled the failure.
    scene.lab.brokers[0].kill()
    await scene.until_led(topic, {0: 2, 1: 2})
    epoch = await scene.view.controller_epoch()
    states = await scene.view.states(topic)
    daemon.resume()
    await scene.until_reported(daemon, "resigned")
    if take_over:
        await scene.until_controller(OWN_ID, daemon)
        assert await scene.view.controller_epoch() == epoch + 1
    else:
        assert await scene.view.controller() != OWN_ID
        assert await scene.view.states(topic) == states
    await scene.lab.brokers[0].start()
    await scene.until_in_sync(topic, 3)
    now = await scene.view.states(topic)
    for number, state in now.items():
        assert state["controller_epoch"] >= states[number]["controller_epoch"]
        assert state["leader"] == states[number]["leader"]
    assert await daemon.stop() == 0
