"""The controller role: take-over, standby, hand-back, and kill."""

import asyncio

import pytest

from tests.controller.daemon.lab_cluster import OWN_ID, LabCluster
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

HAND_BACK_SECONDS_MAX = 2.0
OTHER_ID = 1001


@pytest.mark.ci
async def test_take_over_decides_and_hands_back(lab_cluster: LabCluster) -> None:
    epoch = await lab_cluster.view.controller_epoch()
    daemon = await lab_cluster.controlling()
    assert await lab_cluster.view.controller_epoch() == epoch + 1
    await lab_cluster.create_topic("made", {0: [1, 2, 3], 1: [2, 3, 1]})
    await lab_cluster.until_in_sync("made", 3)
    ended, seconds = await asyncio.gather(daemon.stop(), lab_cluster.until_stock_controller())
    assert ended == 0, daemon.last_output()
    assert seconds < HAND_BACK_SECONDS_MAX
    (log,) = lab_cluster.logs()
    status, output = await run("log", "verify", str(log))
    assert status == 0, output
    assert "not closed" not in output


async def test_standby_waits_until_the_stock_controller_dies(lab_cluster: LabCluster) -> None:
    stock = await lab_cluster.view.controller()
    daemon = lab_cluster.daemon()
    await daemon.start()
    await lab_cluster.until_reported(daemon, "standing_by")
    assert await lab_cluster.view.controller() == stock
    # All stock brokers: another one could be elected first.
    for broker in lab_cluster.lab.brokers:
        broker.kill()
    await lab_cluster.until_controller(OWN_ID, daemon)
    for broker in lab_cluster.lab.brokers:
        await broker.start()
    await lab_cluster.create_topic("after", {0: [1, 2, 3]})
    assert await daemon.stop() == 0


@pytest.mark.ci
async def test_killed_daemon_is_followed_by_a_stock_broker(lab_cluster: LabCluster) -> None:
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic("before-the-kill", {0: [1, 2, 3]})
    daemon.kill()
    await daemon.ended()
    await lab_cluster.until_stock_controller()
    again = await lab_cluster.controlling()
    await lab_cluster.create_topic("after-the-kill", {0: [2, 3, 1]})
    assert await again.stop() == 0
    killed, ended = [await run("log", "verify", str(log)) for log in lab_cluster.logs()]
    assert "not closed" in killed[1]
    assert (ended[0], "not closed" in ended[1]) == (0, False), ended[1]


async def test_second_daemon_takes_the_role_of_a_killed_one(lab_cluster: LabCluster) -> None:
    first = await lab_cluster.controlling(settings={"zookeeper.session.timeout.ms": 2000})
    second = lab_cluster.daemon(broker_id=OTHER_ID)
    await second.start()
    await lab_cluster.until_reported(second, "standing_by")
    await lab_cluster.create_topic("of-the-first", {0: [1, 2, 3]})
    first.kill()
    await first.ended()
    with lab_cluster.brokers_paused():
        await lab_cluster.until_controller(OTHER_ID, second)
    await lab_cluster.create_topic("of-the-second", {0: [2, 3, 1]})
    assert await second.stop() == 0


async def test_two_daemons_with_take_over_elect_one(lab_cluster: LabCluster) -> None:
    """Each takes the role once, when its session starts."""
    first = await lab_cluster.controlling()
    second = await lab_cluster.controlling(broker_id=OTHER_ID)
    await lab_cluster.until_reported(first, "resigned")
    assert first.running
    epoch = await lab_cluster.view.controller_epoch()
    await lab_cluster.create_topic("of-one", {0: [1, 2, 3]})
    assert await lab_cluster.view.controller_epoch() == epoch
    assert await second.stop() == 0
    assert await first.stop() == 0


async def test_id_of_an_active_daemon_is_refused(lab_cluster: LabCluster) -> None:
    first = await lab_cluster.controlling()
    second = lab_cluster.daemon("--take-over")
    await second.start()
    assert await second.ended() == 2
    assert "the id 1000 is in use" in second.last_output()
    assert first.running
    assert await lab_cluster.view.controller() == OWN_ID


async def test_one_of_two_daemons_with_the_same_id_is_controller(lab_cluster: LabCluster) -> None:
    daemons = [lab_cluster.daemon(), lab_cluster.daemon()]
    for daemon in daemons:
        await daemon.start()
        await lab_cluster.until_reported(daemon, "standing_by")
    epoch = await lab_cluster.view.controller_epoch()
    with lab_cluster.brokers_paused():
        await lab_cluster.view.delete("/controller")
        await lab_cluster.until_controller(OWN_ID)
    await lab_cluster.create_topic("of-one-id", {0: [1, 2, 3]})
    assert await lab_cluster.view.controller_epoch() == epoch + 1
    assert [await daemon.stop() for daemon in daemons] == [0, 0]


@pytest.mark.ci
@pytest.mark.parametrize("take_over", [True, False])
async def test_daemon_paused_beyond_its_session_changes_nothing(
    lab_cluster: LabCluster, take_over: bool
) -> None:
    daemon = lab_cluster.daemon(*(["--take-over"] if take_over else []))
    await daemon.start()
    if not take_over:
        await lab_cluster.until_reported(daemon, "standing_by")
        with lab_cluster.brokers_paused():
            await lab_cluster.view.delete("/controller")
            await lab_cluster.until_controller(OWN_ID)
    await lab_cluster.until_controller(OWN_ID, daemon)
    topic = f"slept-{take_over}"
    await lab_cluster.create_topic(topic, {0: [1, 2, 3], 1: [2, 3, 1]})
    await lab_cluster.until_in_sync(topic, 3)
    daemon.pause()
    await lab_cluster.until_stock_controller()
    # When it resumes, a broker is dead and the other controller has handled the failure.
    lab_cluster.lab.brokers[0].kill()
    await lab_cluster.until_led(topic, {0: 2, 1: 2})
    epoch = await lab_cluster.view.controller_epoch()
    states = await lab_cluster.view.states(topic)
    daemon.resume()
    await lab_cluster.until_reported(daemon, "resigned")
    if take_over:
        await lab_cluster.until_controller(OWN_ID, daemon)
        assert await lab_cluster.view.controller_epoch() == epoch + 1
    else:
        assert await lab_cluster.view.controller() != OWN_ID
        assert await lab_cluster.view.states(topic) == states
    await lab_cluster.lab.brokers[0].start()
    await lab_cluster.until_in_sync(topic, 3)
    now = await lab_cluster.view.states(topic)
    for number, state in now.items():
        assert state["controller_epoch"] >= states[number]["controller_epoch"]
        assert state["leader"] == states[number]["leader"]
    assert await daemon.stop() == 0
