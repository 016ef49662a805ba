"""The throttles of moves that --cancel rolls back, on a simulated cluster."""

import json
import shlex

import pytest

from controller.core import znodes
from controller.core.znodes import REASSIGN_PARTITIONS, REASSIGNMENTS
from controller.operator.reassignment import throttling
from controller.operator.reassignment.cancelling import cancel_all
from controller.operator.reassignment.executing import execute
from controller.operator.reassignment.throttling import settle_throttles
from tests.controller.core.cluster import DAEMON
from tests.controller.core.procedures.reassignment.interrupting import request, submit
from tests.controller.core.procedures.reassignment.reassigning import T0
from tests.controller.operator.reassignment.stage import Stage, targets


async def throttled() -> Stage:
    """t-0 moves to [4,2,3] with a throttle."""
    stage = Stage()
    wanted = targets(t0=(4, 2, 3))
    await execute(stage.cluster, stage.report(), wanted, 1000, additional=False, dry_run=False)
    return stage


async def cancel_and_settle(stage: Stage) -> dict[str, object]:
    """Cancel, and let the rollback complete. Returns the command's output."""
    report = stage.report()
    await cancel_all(stage.cluster, report, dry_run=False)
    await settle_throttles(stage.cluster, report, report.awaited)
    return report.data


def config(stage: Stage, path: str) -> dict[str, str]:
    return znodes.read_config(path, stage.world.data(path))


async def test_cancel_clears_the_throttles_after_the_rollback() -> None:
    stage = await throttled()
    data = await cancel_and_settle(stage)
    assert stage.world.topic("t").assignments[0].replicas == (1, 2, 3)
    assert stage.lines[-2:] == [
        "Clearing broker-level throttles on brokers 1,2,3,4,5,6",
        "Clearing topic-level throttles on topic t",
    ]
    assert config(stage, znodes.topic_config_path("t")) == {}
    assert config(stage, znodes.broker_config_path(4)) == {}
    assert data["throttles_cleared"] is True
    assert "throttles_left" not in data


async def test_cancel_without_throttles_prints_nothing_about_them() -> None:
    stage = Stage()
    submit(stage.world, {T0: (4, 5, 6)})
    await cancel_and_settle(stage)
    assert stage.lines[-1] == "Successfully submitted cancellation of reassignments."
    assert stage.client.writes == 1


async def test_cancel_without_pending_reassignments_keeps_throttles() -> None:
    stage = Stage()
    path = znodes.broker_config_path(1)
    stage.world.put(path, znodes.write_config({"leader.replication.throttled.rate": "5"}))
    await cancel_and_settle(stage)
    assert config(stage, path) == {"leader.replication.throttled.rate": "5"}


async def test_throttles_of_a_rollback_under_way_are_reported_with_how_to_clear_them() -> None:
    stage = await throttled()
    stage.without_controller()
    data = await cancel_and_settle(stage)
    assert stage.warnings[-1] == (
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
    assert stage.lines[-1].splitlines()[-1] == command
    words = shlex.split(command)
    assert words[0] == "echo"
    assert json.loads(words[1])["partitions"][0]["replicas"] == [1, 2, 3]
    assert words[2:] == [
        *("|", "refold", "reassign", "--zookeeper", "zk:2181/a b"),
        *("--verify", "--wait", "--reassignment-json-file", "/dev/stdin"),
    ]


async def slow_rollback() -> Stage:
    """A throttled move under a refold that does not react yet."""
    stage = await throttled()
    stage.without_controller()
    stage.world.take_role(DAEMON)
    return stage


async def test_cancel_waits_shortly_for_the_rollback_to_clear_the_throttles() -> None:
    stage = await slow_rollback()

    def roll_back() -> None:
        stage.world.change_topic_quietly("t", {0: (1, 2, 3)})
        for path in (REASSIGN_PARTITIONS, REASSIGNMENTS):
            stage.world.remove_quietly(path)

    async with stage.while_waiting(roll_back):
        data = await cancel_and_settle(stage)
    assert data["throttles_cleared"] is True


async def test_cancel_ends_before_a_slow_rollback_and_reports_the_throttles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = await slow_rollback()
    monkeypatch.setattr(throttling, "ROLLBACK_SECONDS", 0.2)
    data = await cancel_and_settle(stage)
    assert "throttles remain, because the rollback has not ended" in stage.warnings[-1]
    assert "clear_throttles_with" in data


async def test_throttles_needed_by_another_route_are_kept_and_reported() -> None:
    stage = Stage()
    stage.world.create_topic("u", {0: (1, 2)})
    wanted = targets(t0=(4, 2, 3))
    await execute(stage.cluster, stage.report(), wanted, 1000, additional=False, dry_run=False)
    request(stage.world, {("u", 0): (3, 4)})
    data = await cancel_and_settle(stage)
    assert "throttles remain, because partitions are being reassigned: u-0" in stage.warnings[-1]
    assert "throttles_cleared" not in data
    assert config(stage, znodes.broker_config_path(4)) != {}


async def test_unreadable_configuration_is_reported() -> None:
    stage = await throttled()
    stage.without_controller()
    stage.world.put_quietly(znodes.broker_config_path(2), b"garbage")
    await cancel_and_settle(stage)
    assert any("whether brokers/2 has a throttle is unknown" in one for one in stage.warnings)
    assert "of brokers 1,3,4;" in stage.warnings[-1]


async def test_repeated_cancel_reports_the_throttles() -> None:
    stage = await throttled()
    stage.without_controller()
    await cancel_and_settle(stage)
    data = await cancel_and_settle(stage)
    assert "clear_throttles_with" in data
