"""Znodes that are changed by hand in a real cluster during reassignments."""

import json

import pytest

from controller.core import znodes
from controller.core.znodes import reassignment_path
from tests.controller.daemon.lab_cluster import timed
from tests.lab.interrupted.moving import ABSENT_BROKER, Moving

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

TOPIC_BY_HAND = {
    "garbage": "garbage",
    "no reassignment": '{"version":2,"partitions":{"0":[1,2]}}',
    "another target": (
        '{"version":2,"partitions":{"0":[5,1,2]},'
        '"adding_replicas":{"0":[5]},"removing_replicas":{"0":[1]}}'
    ),
}


@pytest.mark.parametrize("what", TOPIC_BY_HAND)
async def test_overwritten_topic_is_repaired_and_can_be_cancelled(
    moving: Moving, what: str
) -> None:
    daemon = await moving.controlling()
    topic = f"by-hand-{what.replace(' ', '-')}"
    path = znodes.topic_path(topic)
    await moving.create_topic(topic, {0: [1, 2]})
    await moving.submit({(topic, 0): [3, ABSENT_BROKER]})
    await moving.until_isr(topic, {0: 3})
    before = await moving.view.content(path)
    await moving.view.overwrite(path, TOPIC_BY_HAND[what])
    notice = await moving.until_reported(daemon, "assignment_mended")
    assert notice["subject"] == f"{topic}-0"
    assert f" in {path} during a reassignment" in notice["message"]

    async def as_before() -> bool:
        return bool(await moving.view.content(path) == before)

    await timed(as_before, f"{path} is as before")
    assert f"{topic}-0: replicas: 3,9,1,2. adding: 3,9" in await moving.reassign("--list")
    await moving.reassign("--cancel")
    await moving.until_assigned(topic, [1, 2])
    await moving.until_files(topic, [1, 2])
    await moving.until_nothing_is_left()
    assert await daemon.stop() == 0


async def test_partition_that_a_tool_adds_when_reassignments_begin_is_kept(moving: Moving) -> None:
    """As kafka-topics --zookeeper --alter does. The daemon processes the request first."""
    daemon = await moving.controlling()
    topic = "grown-by-hand"
    await moving.create_topic(topic, {0: [1, 2], 1: [1, 2]})
    await moving.until_in_sync(topic, 2)
    daemon.pause()
    await moving.request({topic: {0: [3, 4], 1: [3, 4]}})
    content = await moving.view.topic(topic)
    assert content is not None
    content["partitions"]["2"] = [5, 6]
    await moving.view.overwrite(znodes.topic_path(topic), json.dumps(content))
    daemon.resume()
    for partition, replicas in {0: [3, 4], 1: [3, 4], 2: [5, 6]}.items():
        await moving.until_assigned(topic, replicas, partition)
        await moving.until_files(topic, replicas, partition)
    await moving.until_nothing_is_left()
    assert await daemon.stop() == 0


async def test_unreadable_topic_does_not_delay_other_reassignments(moving: Moving) -> None:
    daemon = await moving.controlling()
    for topic in ("unreadable", "moved-meanwhile", "requested-meanwhile"):
        await moving.create_topic(topic, {0: [1, 2]})
    path = znodes.topic_path("unreadable")
    before = json.dumps(await moving.view.topic("unreadable"))
    await moving.view.overwrite(path, "garbage")
    await moving.until_reported(daemon, "unreadable_znode")
    output = await moving.reassign("--execute", given={("unreadable", 0): [3, 4]}, status=1)
    assert f"{path} cannot be read as a topic" in output
    await moving.reassign("--execute", given={("moved-meanwhile", 0): [3, 4]})
    await moving.reassign("--request", given={("requested-meanwhile", 0): [4, 3]})
    await moving.until_assigned("moved-meanwhile", [3, 4])
    await moving.until_assigned("requested-meanwhile", [4, 3])
    assert f"{path} cannot be read as a topic" in await moving.reassign("--list")
    await moving.view.overwrite(path, before)
    await moving.reassign("--request", given={("unreadable", 0): [3, 4]})
    await moving.until_assigned("unreadable", [3, 4])
    assert await daemon.stop() == 0


async def test_deleted_record_is_reported_and_created_again(moving: Moving) -> None:
    """The daemon reads the records only when a reassignment is submitted."""
    never = {"auto.leader.rebalance.enable": "false"}
    daemon = await moving.controlling(settings=never)
    await moving.create_topic("no-record", {0: [1, 2]})
    await moving.create_topic("another", {0: [1, 2]})
    await moving.request({"no-record": {0: [3, ABSENT_BROKER]}})
    await moving.until_isr("no-record", {0: 3})
    path = reassignment_path("no-record", 0)
    before = await moving.view.content(path)
    await moving.view.delete(path)
    assert "no-record-0: reassigned without a record" in await moving.reassign("--list")
    await moving.reassign("--request", given={("another", 0): [3, 4]})
    notice = await moving.until_reported(daemon, "record_mended")
    assert notice["subject"] == path
    await moving.until_repaired(path, before)
    assert "reassigned without a record" not in await moving.reassign("--list")
    await moving.request({"no-record": {0: [1, 2]}})
    await moving.until_assigned("no-record", [1, 2])
    await moving.until_assigned("another", [3, 4])
    await moving.until_nothing_is_left()
    assert await daemon.stop() == 0
