"""Cancellations of real reassignments: throttled with a producer, and with dead brokers."""

import asyncio
import time
from collections.abc import Callable

import pytest

from controller.core import znodes
from controller.core.znodes import REASSIGN_CANCEL
from tests.controller.daemon.lab_cluster import timed
from tests.lab.default_clusters.cluster import until_more
from tests.lab.interrupted.moving import ABSENT_BROKER, Moving
from tools.lab.traffic import Traffic

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

Record = Callable[[str, object], None]

BYTES_A_SECOND = 200_000
RECORDS = 400
"""20 MB, which takes at least 100 s at that rate."""
COMPARED_BYTES_A_SECOND = 1_500_000
"""The rate at which the leader sends 60 MB to three brokers."""
MUCH_FASTER = 3
SECONDS_MAX = 15.0
"""A limit for "within seconds", with reserve for a busy machine."""


async def half_way(moving: Moving, topic: str) -> None:
    """Waits until the new replicas have some of the data, but less than half of it."""

    async def some() -> bool:
        return all(moving.bytes_on(broker, topic) > 0 for broker in (4, 5, 6))

    await timed(some, "the new replicas fetch")
    assert all(moving.bytes_on(one, topic) < RECORDS * 50_000 / 2 for one in (4, 5, 6))


async def execute(moving: Moving, topic: str, target: list[int]) -> None:
    """Starts a reassignment with a throttle with which it takes about 40 s."""
    given = {(topic, 0): target}
    await moving.reassign("--execute", "--throttle", str(COMPARED_BYTES_A_SECOND), given=given)


async def test_throttled_reassignment_is_cancelled_within_seconds(
    moving: Moving, record_property: Record
) -> None:
    daemon = await moving.controlling()
    topic = "throttled"
    await moving.create_topic(topic, {0: [1, 2, 3]})
    await moving.fill(topic, RECORDS)
    await moving.until_in_sync(topic, 3)
    async with Traffic(moving.lab.bootstrap, topic) as traffic:
        await until_more(traffic)
        given = {(topic, 0): [4, 5, 6]}
        await moving.reassign("--execute", "--throttle", str(BYTES_A_SECOND), given=given)
        await half_way(moving, topic)
        before = (await moving.view.states(topic))[0]
        printed, assigned, deleted = await asyncio.gather(
            moving.reassign("--cancel"),
            moving.until_assigned(topic, [1, 2, 3]),
            moving.until_files(topic, [1, 2, 3]),
        )
        await until_more(traffic)
        lost = await traffic.finish()
    record_property("cancelled, seconds", (assigned, deleted))
    assert max(assigned, deleted) < SECONDS_MAX
    assert lost == set()
    assert traffic.refused == 0
    assert "Successfully submitted cancellation of reassignments." in printed
    assert "Rolling back the current pending reassignments Map(throttled-0" in printed
    after = (await moving.view.states(topic))[0]
    assert after["leader"] == before["leader"] == 1
    assert sorted(after["isr"]) == [1, 2, 3]
    assert await moving.view.exists(REASSIGN_CANCEL)
    await moving.until_nothing_is_left()
    printed = await moving.reassign("--remove-cancel")
    assert "Successfully remove the znode /admin/reassign_cancel." in printed
    assert await daemon.stop() == 0


async def test_second_reassignment_takes_much_longer_than_a_cancellation(
    moving: Moving, record_property: Record
) -> None:
    """Without a cancellation, /admin/reassign_partitions accepts no other target before the first
    reassignment has ended. Data, producer and throttle are the same for both."""
    daemon = await moving.controlling()
    seconds = {}
    for topic in ("cancelled", "reversed"):
        await moving.create_topic(topic, {0: [1, 2, 3]})
        await moving.fill(topic, RECORDS)
        await moving.until_in_sync(topic, 3)
        async with Traffic(moving.lab.bootstrap, topic) as traffic:
            await until_more(traffic)
            await execute(moving, topic, [4, 5, 6])
            await half_way(moving, topic)
            began = time.monotonic()
            if topic == "cancelled":
                await moving.reassign("--cancel")
            else:
                await moving.until_assigned(topic, [4, 5, 6])
                await execute(moving, topic, [1, 2, 3])
            await moving.until_assigned(topic, [1, 2, 3])
            await moving.until_files(topic, [1, 2, 3])
            seconds[topic] = time.monotonic() - began
            assert await traffic.finish() == set()
        if topic == "cancelled":
            await moving.reassign("--remove-cancel")
    record_property("seconds", seconds)
    assert seconds["cancelled"] * MUCH_FASTER < seconds["reversed"]
    assert await daemon.stop() == 0


async def test_cancellation_with_dead_brokers_loses_no_record(moving: Moving) -> None:
    daemon = await moving.controlling()
    topic = "moved-leader"
    await moving.create_topic(topic, {0: [1, 2, 3]})
    async with Traffic(moving.lab.bootstrap, topic) as traffic:
        await until_more(traffic)
        await moving.submit({(topic, 0): [4, 5, 6, ABSENT_BROKER]})
        await moving.until_isr(topic, {0: 6})
        moving.lab.brokers[5].kill()
        moving.lab.brokers[0].kill()
        await moving.until_led(topic, {0: 4})
        await moving.reassign("--cancel")
        await moving.until_assigned(topic, [1, 2, 3])
        await moving.until_led(topic, {0: 2})
        await until_more(traffic)
        assert moving.with_files(topic) == [1, 2, 3, 6]
        for broker in (moving.lab.brokers[0], moving.lab.brokers[5]):
            await broker.start()
        await moving.until_in_sync(topic, 3)
        lost = await traffic.finish()
    assert lost == set()
    assert sorted((await moving.view.states(topic))[0]["isr"]) == [1, 2, 3]
    assert await daemon.stop() == 0


async def test_rollback_waits_for_an_original_in_sync(moving: Moving) -> None:
    """A rollback never elects an unclean leader. It waits for as many originals as the brokers'
    min.insync.replicas says, which is 2, until the topic has a lower value."""
    daemon = await moving.controlling()
    topic = "waits"
    await moving.create_topic(topic, {0: [1, 2]})
    await moving.until_in_sync(topic, 2)
    await moving.submit({(topic, 0): [3, ABSENT_BROKER]})
    await moving.until_isr(topic, {0: 3})
    for broker in moving.lab.brokers[:2]:
        broker.kill()

    async def are_gone() -> bool:
        paths = (f"{znodes.BROKER_IDS}/{one}" for one in (1, 2))
        return not any([await moving.view.exists(one) for one in paths])

    # It may become leader earlier, as the preferred replica of the target.
    await timed(are_gone, "the sessions of brokers 1 and 2 have ended")
    await moving.until_led(topic, {0: 3})
    await moving.reassign("--cancel")
    notice = await moving.until_reported(daemon, "rollback_waits")
    assert (
        "2 of the original replicas 1,2 must be live and in sync, and none is" in notice["message"]
    )
    assert (await moving.view.states(topic))[0]["leader"] == 3
    await moving.reassign("--remove-cancel")
    notice = await moving.until_reported(daemon, "rollback_given_up")
    assert notice["message"].endswith(
        f"the rollback ends, and the reassignment to 3,{ABSENT_BROKER} continues"
    )
    await moving.view.configure(f"topics/{topic}", {"min.insync.replicas": "1"})
    await moving.reassign("--cancel")
    await moving.lab.brokers[0].start()
    await moving.until_assigned(topic, [1, 2])
    assert (await moving.view.states(topic))[0]["leader"] == 1
    await moving.lab.brokers[1].start()
    await moving.until_nothing_is_left()
    assert await daemon.stop() == 0
