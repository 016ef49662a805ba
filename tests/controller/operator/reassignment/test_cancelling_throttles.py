"""The throttles of moves that --cancel rolls back, on a simulated cluster."""

import json
import shlex
from typing import cast

import pytest

from controller.core import znodes
from controller.core.znodes import REASSIGN_PARTITIONS, REASSIGNMENTS
from controller.operator.reassignment import throttling
from controller.operator.reassignment.cancelling import cancel_all
from controller.operator.reassignment.executing import execute
from controller.operator.reassignment.throttling import clear_throttles_after_rollback
from controller.operator.reassignment.verifying import verify
from tests.controller.core.cluster import DAEMON
from tests.controller.core.procedures.reassignment.interrupting import request, submit
from tests.controller.core.procedures.reassignment.reassigning import T0
from tests.controller.operator.reassignment.harness import ReassignHarness, targets

RATE = "leader.replication.throttled.rate"


async def throttled() -> ReassignHarness:
    """t-0 moves to [4,2,3] with a throttle."""
    harness = ReassignHarness()
    wanted = targets(t0=(4, 2, 3))
    await execute(harness.cluster, harness.report(), wanted, 1000, additional=False, dry_run=False)
    return harness


async def cancel_and_clear_throttles(harness: ReassignHarness) -> dict[str, object]:
    """Cancel, and let the rollback complete. Returns the command's output."""
    report = harness.report()
    await cancel_all(harness.cluster, report, dry_run=False)
    await clear_throttles_after_rollback(harness.cluster, report, report.awaited)
    return report.data


def config(harness: ReassignHarness, path: str) -> dict[str, str]:
    return znodes.read_config(path, harness.world.data(path))


async def test_cancel_clears_the_throttles_after_the_rollback() -> None:
    harness = await throttled()
    data = await cancel_and_clear_throttles(harness)
    assert harness.world.topic("t").assignments[0].replicas == (1, 2, 3)
    assert harness.lines[-2:] == [
        "Clearing broker-level throttles on brokers 1,2,3,4,5,6",
        "Clearing topic-level throttles on topic t",
    ]
    assert config(harness, znodes.topic_config_path("t")) == {}
    assert config(harness, znodes.broker_config_path(4)) == {}
    assert data["throttles_cleared"] is True
    assert "throttles_left" not in data


async def test_move_of_another_topic_is_named_as_the_reason_why_throttles_remain() -> None:
    harness = await throttled()
    harness.world.create_topic("u", {0: (1, 2)})
    request(harness.world, {("u", 0): (5, 6)})
    await cancel_and_clear_throttles(harness)
    assert "throttles remain, because partitions are being reassigned: u-0:" in harness.warnings[-1]
    rests = targets(t0=(1, 2, 3))
    report = harness.report()
    await verify(
        harness.cluster, report, rests, wait=False, preserve_throttles=False, dry_run=False
    )
    assert harness.warnings[-1] == (
        "Warning: throttles are not cleared, because partitions are being reassigned: u-0"
    )


async def dead_targets() -> ReassignHarness:
    """t-0 moves to [4,5,3] with a throttle, and brokers 5 and 6 fail. Broker 6, which the move
    does not name, has a throttle of an operator."""
    harness = ReassignHarness()
    wanted = targets(t0=(4, 5, 3))
    await execute(harness.cluster, harness.report(), wanted, 1000, additional=False, dry_run=False)
    harness.world.put(znodes.broker_config_path(6), znodes.write_config({RATE: "7"}))
    for broker in (5, 6):
        harness.world.stop_broker(broker)
    return harness


async def test_cancel_clears_the_throttles_of_dead_brokers_that_the_move_names() -> None:
    harness = await dead_targets()
    await cancel_and_clear_throttles(harness)
    assert "Clearing broker-level throttles on brokers 1,2,3,4,5" in harness.lines
    assert config(harness, znodes.broker_config_path(5)) == {}
    changes = sorted(await harness.client.children(znodes.CONFIG_CHANGES))
    last = [harness.world.data(f"{znodes.CONFIG_CHANGES}/{one}") for one in changes[-2:]]
    assert last == [
        b'{"version":2,"entity_path":"brokers/5"}',
        b'{"version":2,"entity_path":"topics/t"}',
    ]
    assert config(harness, znodes.broker_config_path(6)) == {RATE: "7"}


async def test_cancel_clears_a_dead_target_whose_topic_throttle_was_removed() -> None:
    harness = await dead_targets()
    harness.world.put(znodes.topic_config_path("t"), znodes.write_config({}))
    await cancel_and_clear_throttles(harness)
    assert config(harness, znodes.broker_config_path(5)) == {}


async def test_verify_after_a_slow_rollback_clears_the_throttles_of_a_dead_target() -> None:
    harness = await dead_targets()
    harness.without_controller()
    data = await cancel_and_clear_throttles(harness)
    assert "of brokers 1,2,3,4,5;" in harness.warnings[-1]
    assert "brokers/5" in cast("dict[str, object]", data["throttles_left"])
    harness.world.change_topic_quietly("t", {0: (1, 2, 3)})
    for path in (REASSIGN_PARTITIONS, REASSIGNMENTS):
        harness.world.remove_quietly(path)
    await verify(
        harness.cluster,
        harness.report(),
        targets(t0=(1, 2, 3)),
        wait=True,
        preserve_throttles=False,
        dry_run=False,
    )
    assert config(harness, znodes.broker_config_path(5)) == {}
    assert config(harness, znodes.broker_config_path(6)) == {RATE: "7"}


async def test_cancel_without_throttles_prints_nothing_about_them() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    await cancel_and_clear_throttles(harness)
    assert harness.lines[-1] == "Successfully submitted cancellation of reassignments."
    assert harness.client.writes == 1


async def test_cancel_without_pending_reassignments_keeps_throttles() -> None:
    harness = ReassignHarness()
    path = znodes.broker_config_path(1)
    harness.world.put(path, znodes.write_config({"leader.replication.throttled.rate": "5"}))
    await cancel_and_clear_throttles(harness)
    assert config(harness, path) == {"leader.replication.throttled.rate": "5"}


async def test_throttles_of_a_rollback_under_way_are_reported_with_how_to_clear_them() -> None:
    harness = await throttled()
    harness.without_controller()
    data = await cancel_and_clear_throttles(harness)
    assert harness.warnings[-1] == (
        "Warning: throttles remain, because the rollback has not ended: "
        "leader.replication.throttled.rate, follower.replication.throttled.rate of brokers "
        "1,2,3,4; leader.replication.throttled.replicas, follower.replication.throttled.replicas "
        "of topics t"
    )
    assert data["throttles_left"] == {
        **{
            f"brokers/{one}": [
                "leader.replication.throttled.rate",
                "follower.replication.throttled.rate",
            ]
            for one in (1, 2, 3, 4)
        },
        "topics/t": [
            "leader.replication.throttled.replicas",
            "follower.replication.throttled.replicas",
        ],
    }
    command = data["clear_throttles_with"]
    assert isinstance(command, str)
    assert harness.lines[-1].splitlines()[-1] == command
    words = shlex.split(command)
    assert words[0] == "echo"
    assert json.loads(words[1])["partitions"][0]["replicas"] == [1, 2, 3]
    assert words[2:] == [
        *("|", "refold", "reassign", "--zookeeper", "zk:2181/a b"),
        *("--verify", "--wait", "--reassignment-json-file", "/dev/stdin"),
    ]


async def slow_rollback() -> ReassignHarness:
    """A throttled move under a refold that does not react yet."""
    harness = await throttled()
    harness.without_controller()
    harness.world.take_role(DAEMON)
    return harness


async def test_cancel_waits_shortly_for_the_rollback_to_clear_the_throttles() -> None:
    harness = await slow_rollback()

    def roll_back() -> None:
        harness.world.change_topic_quietly("t", {0: (1, 2, 3)})
        for path in (REASSIGN_PARTITIONS, REASSIGNMENTS):
            harness.world.remove_quietly(path)

    async with harness.while_waiting(roll_back):
        data = await cancel_and_clear_throttles(harness)
    assert data["throttles_cleared"] is True


async def test_cancel_ends_before_a_slow_rollback_and_reports_the_throttles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = await slow_rollback()
    monkeypatch.setattr(throttling, "ROLLBACK_SECONDS", 0.2)
    data = await cancel_and_clear_throttles(harness)
    assert "throttles remain, because the rollback has not ended" in harness.warnings[-1]
    assert "clear_throttles_with" in data


async def test_throttles_needed_by_another_route_are_kept_and_reported() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    wanted = targets(t0=(4, 2, 3))
    await execute(harness.cluster, harness.report(), wanted, 1000, additional=False, dry_run=False)
    request(harness.world, {("u", 0): (3, 4)})
    data = await cancel_and_clear_throttles(harness)
    assert "throttles remain, because partitions are being reassigned: u-0" in harness.warnings[-1]
    assert "throttles_cleared" not in data
    assert config(harness, znodes.broker_config_path(4)) != {}


async def test_unreadable_configuration_is_reported() -> None:
    harness = await throttled()
    harness.without_controller()
    harness.world.put_quietly(znodes.broker_config_path(2), b"garbage")
    await cancel_and_clear_throttles(harness)
    assert any("whether brokers/2 has a throttle is unknown" in one for one in harness.warnings)
    assert "of brokers 1,3,4;" in harness.warnings[-1]


async def test_repeated_cancel_reports_the_throttles() -> None:
    harness = await throttled()
    harness.without_controller()
    await cancel_and_clear_throttles(harness)
    data = await cancel_and_clear_throttles(harness)
    assert "clear_throttles_with" in data
