"""--execute and --execute-extra on a simulated cluster, whose controller carries them out."""

from collections.abc import Awaitable, Callable

import pytest

from controller.core import znodes
from controller.core.operations import Create
from controller.core.znodes import Entry, read_entries
from controller.operator.reassignment import executing
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.executing import execute, execute_extra
from tests.controller.core.cluster import DAEMON
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    entries,
    extra,
    record,
    request_quietly,
    submit,
    submit_extra,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, catch_up, reassign
from tests.controller.operator.reassignment.harness import ReassignHarness, Targets, targets


async def run_execute(
    harness: ReassignHarness, wanted: Targets, throttle: int | None = None, *, dry_run: bool = False
) -> dict[str, object]:
    report = harness.report()
    await execute(harness.cluster, report, wanted, throttle, additional=False, dry_run=dry_run)
    return report.data


async def run_extra(
    harness: ReassignHarness, wanted: Targets, throttle: int | None = None, *, dry_run: bool = False
) -> None:
    await execute_extra(harness.cluster, harness.report(), wanted, throttle, dry_run=dry_run)


async def refused(harness: ReassignHarness, wanted: Targets) -> str:
    """The error of --execute, which has written nothing."""
    writes = harness.client.writes
    with pytest.raises(ReassignmentRefused) as fault:
        await run_execute(harness, wanted)
    assert harness.client.writes == writes
    return str(fault.value)


async def test_originals_are_added_and_the_rollback_assignment_is_printed() -> None:
    harness = ReassignHarness()
    data = await run_execute(harness, targets(t0=(4, 5, 6)))
    assert entries(harness.world) == {T0: Entry((4, 5, 6), (1, 2, 3))}
    assert '"replicas":[1,2,3]' in harness.output
    assert (
        "Save this to use as the --reassignment-json-file option during rollback" in harness.output
    )
    assert "Successfully started partition reassignment for t-0" in harness.output
    assert data["submitted"] == [["t", 0]]
    assert record(harness.world) is not None
    assert not harness.warnings


async def test_submitted_reassignment_completes() -> None:
    harness = ReassignHarness()
    await run_execute(harness, targets(t0=(4, 5, 6)))
    catch_up(harness.world, 4, 5, 6)
    assert harness.world.topic("t").assignments[0].replicas == (4, 5, 6)
    assert entries(harness.world) is None


async def test_dry_run_prints_the_steps_and_writes_nothing() -> None:
    harness = ReassignHarness()
    data = await run_execute(harness, targets(t0=(4, 5, 6)), 1000, dry_run=True)
    assert harness.client.writes == 0
    steps = data["steps"]
    assert isinstance(steps, list)
    assert "set leader.replication.throttled.replicas=0:1,0:2,0:3" in steps[0]
    assert steps[-2] == "check that the version of /brokers/topics/t is 1"
    assert steps[-1].startswith("create /admin/reassign_partitions: ")
    assert '"original_replicas":[1,2,3]' in steps[-1]


async def test_throttle_is_set_before_the_entry_and_announced_to_brokers() -> None:
    harness = ReassignHarness()
    await run_execute(harness, targets(t0=(4, 2, 3)), 1000)
    topic = znodes.read_config("t", harness.world.data(znodes.topic_config_path("t")))
    assert topic == {
        "leader.replication.throttled.replicas": "0:1,0:2,0:3",
        "follower.replication.throttled.replicas": "0:4",
    }
    for broker in (1, 2, 3, 4):
        path = znodes.broker_config_path(broker)
        assert znodes.read_config(path, harness.world.data(path)) == {
            "leader.replication.throttled.rate": "1000",
            "follower.replication.throttled.rate": "1000",
        }
    assert harness.world.data(znodes.broker_config_path(5)) is None
    changes = await harness.client.children(znodes.CONFIG_CHANGES)
    expected = [harness.world.data(f"{znodes.CONFIG_CHANGES}/{one}") for one in changes]
    assert b'{"version":2,"entity_path":"topics/t"}' in expected
    assert b'{"version":2,"entity_path":"brokers/4"}' in expected
    assert "The inter-broker throttle limit was set to 1000 B/s" in harness.output
    assert "You must run --verify periodically" in harness.output


async def test_throttle_keeps_other_configurations() -> None:
    harness = ReassignHarness()
    path = znodes.topic_config_path("t")
    harness.world.put(path, znodes.write_config({"retention.ms": "5"}))
    await run_execute(harness, targets(t0=(4, 5, 6)), 1000)
    assert znodes.read_config(path, harness.world.data(path))["retention.ms"] == "5"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (targets(u0=(1,)), "contains non-existent partitions: u-0"),
        (targets(t1=(1,)), "contains non-existent partitions: t-1"),
        (targets(t0=(1, 9)), "contains non-existent brokerIDs: 9"),
        (targets(t0=(1, DAEMON)), f"Broker {DAEMON} is the controller, which holds no replicas."),
    ],
)
async def test_nonexistent_targets_are_rejected(wanted: Targets, expected: str) -> None:
    assert expected in await refused(ReassignHarness(), wanted)


async def test_all_problems_are_reported_at_once() -> None:
    text = await refused(ReassignHarness(), targets(t0=(8,), u0=(9,)))
    assert text.splitlines() == [
        "The proposed assignment contains non-existent partitions: u-0",
        "The proposed assignment contains non-existent brokerIDs: 8,9",
    ]


async def test_kept_replica_may_be_dead() -> None:
    harness = ReassignHarness()
    harness.world.unregister(3)
    harness.world.run()
    await run_execute(harness, targets(t0=(3, 4)))
    assert entries(harness.world) == {T0: Entry((3, 4), (1, 2, 3))}


async def test_topic_being_deleted_is_refused() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    harness.world.put_quietly(znodes.delete_topic_path("t"), b"")
    assert "being deleted: t" in await refused(harness, targets(t0=(4,)))


async def test_submission_during_a_cancellation_is_rejected() -> None:
    harness = ReassignHarness()
    cancel_all(harness.world)
    text = await refused(harness, targets(t0=(4,)))
    assert "/admin/reassign_cancel exists" in text
    assert "--remove-cancel" in text
    with pytest.raises(ReassignmentRefused, match="/admin/reassign_cancel exists"):
        await run_extra(harness, targets(t0=(4,)))


async def test_execute_during_a_cancellation_advises_to_remove_it_first() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    harness.without_controller()
    submit(harness.world, {T0: (4, 5, 6)})
    cancel_all(harness.world)
    text = await refused(harness, targets(u0=(3, 4)))
    assert text == (
        "/admin/reassign_cancel exists: no reassignment can be submitted until it is removed with "
        "--remove-cancel. /admin/reassign_partitions has 1 partition, being rolled back or waiting "
        "for the removal, too"
    )
    await run_execute(harness, targets(t0=(4, 5, 6)))
    assert harness.output == "There is an existing assignment running."
    assert "until it is removed with --remove-cancel" in harness.warnings[0]


async def test_partition_of_another_route_is_refused_with_the_name_of_the_route() -> None:
    harness = ReassignHarness()
    harness.by_api(4, 5, 6)
    text = await refused(harness, targets(t0=(2,)))
    assert text == (
        "t-0: already being reassigned, by the AlterPartitionReassignments API: wait until the "
        "reassignment completes, or end it with --cancel and a file over --bootstrap-server"
    )
    harness = ReassignHarness()
    harness.without_controller()
    request_quietly(harness.world, {T0: (4,)})
    text = await refused(harness, targets(t0=(2,)))
    assert "t-0: already being reassigned, by /admin/reassignment_requests" in text


def with_least_in_sync(least: bytes, path: str = znodes.topic_config_path("t")) -> ReassignHarness:
    """t-0 on one broker of six, with a min.insync.replicas of its topic or of the cluster."""
    harness = ReassignHarness(6, 1)
    config = b'{"version":1,"config":{"min.insync.replicas":"%s"}}' % least
    harness.world.put(path, config)
    return harness


@pytest.mark.parametrize("path", [znodes.topic_config_path("t"), znodes.broker_config_path(None)])
@pytest.mark.parametrize("submit", [run_execute, run_extra])
async def test_fewer_replicas_than_min_insync_replicas_cause_a_warning(
    path: str, submit: Callable[[ReassignHarness, Targets], Awaitable[object]]
) -> None:
    harness = with_least_in_sync(b"2", path)
    await submit(harness, targets(t0=(4, 5)))
    assert harness.warnings == [
        "Warning: t-0 has fewer replicas (1) than min.insync.replicas=2 of its topic: producers "
        "with acks=all fail until it has more replicas"
    ]
    assert record(harness.world) is not None


async def test_topics_minimum_has_priority_and_an_invalid_one_causes_no_warning() -> None:
    harness = with_least_in_sync(b"1")
    harness.world.put(
        znodes.broker_config_path(None), b'{"version":1,"config":{"min.insync.replicas":"2"}}'
    )
    await run_execute(harness, targets(t0=(4, 5)))
    assert record(harness.world) is not None
    await run_execute(with_least_in_sync(b"many"), targets(t0=(4, 5)))


async def test_stock_controller_does_not_check_the_minimum() -> None:
    harness = with_least_in_sync(b"2")
    harness.hand_over(2)
    await run_execute(harness, targets(t0=(4, 5)))
    assert entries(harness.world) == {T0: Entry((4, 5))}


async def test_under_a_stock_controller_the_advice_does_not_need_refold() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    await run_execute(harness, targets(t0=(4, 5, 6)))
    harness.hand_over(2)
    text = await refused(harness, targets(u0=(3, 4)))
    assert text.endswith(
        "Wait for it, or use --bootstrap-server without --zookeeper, which can add more and end it"
    )
    harness.world.remove_quietly(znodes.REASSIGN_PARTITIONS)
    text = await refused(harness, targets(t0=(3, 4)))
    assert text == (
        "t-0: already being reassigned, by /admin/reassign_partitions: wait until the "
        "reassignment completes, or end it with --cancel and a file over --bootstrap-server"
    )


async def test_resubmission_only_changes_the_throttle() -> None:
    harness = ReassignHarness()
    await run_execute(harness, targets(t0=(4, 5, 6)))
    assert "use --execute-extra" not in harness.output
    text = await refused(harness, targets(t0=(4, 5)))
    assert "There is an existing assignment running" in text
    assert "--execute-extra" in text
    before = entries(harness.world)
    await run_execute(harness, targets(t0=(4, 5, 6)), 77)
    assert harness.lines[0] == "There is an existing assignment running."
    path = znodes.broker_config_path(4)
    config = znodes.read_config(path, harness.world.data(path))
    assert config["follower.replication.throttled.rate"] == "77"
    assert entries(harness.world) == before


async def test_topic_changed_meanwhile_is_read_again() -> None:
    harness = ReassignHarness()
    other = {0: (2, 1, 3)}
    harness.client.before_write = lambda: harness.world.change_topic_quietly("t", other)
    await run_execute(harness, targets(t0=(4, 5, 6)))
    assert harness.client.writes == 2
    *_, submission = harness.client.written
    assert isinstance(submission, Create)
    assert read_entries(submission.path, submission.data).entries == {
        T0: Entry((4, 5, 6), (2, 1, 3))
    }


async def test_concurrent_submission_is_not_overwritten() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    harness.client.before_write = lambda: submit(harness.world, {("u", 0): (3, 4)})
    with pytest.raises(ReassignmentRefused, match="was written just now"):
        await run_execute(harness, targets(t0=(4, 5, 6)))
    assert list(entries(harness.world) or ()) == [("u", 0)]


async def test_originals_of_a_move_under_way_exclude_added_replicas() -> None:
    harness = ReassignHarness()
    assert reassign(harness.world, 4, 5, 6) == 0
    harness.hand_over(2)
    state = await harness.cluster.admin.describe(["t"])
    assert state.origin(T0) == (1, 2, 3)
    assert state.assignments[T0].replicas == (4, 5, 6, 1, 2, 3)


async def test_stock_controller_gets_a_readable_znode_and_a_warning_is_printed() -> None:
    harness = ReassignHarness()
    harness.hand_over(2)
    await run_execute(harness, targets(t0=(4, 5, 6)))
    assert entries(harness.world) == {T0: Entry((4, 5, 6))}
    (warning,) = harness.warnings
    assert "broker 2, a stock controller, has the role" in warning
    with pytest.raises(ReassignmentRefused, match="broker 2, a stock controller, has the role"):
        await run_extra(harness, targets(t0=(4,)))


async def test_unreadable_znode_is_reported() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    harness.world.put_quietly(znodes.REASSIGN_PARTITIONS, b"nonsense")
    assert "/admin/reassign_partitions cannot be read" in await refused(harness, targets(t0=(4,)))


async def test_too_large_submission_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executing, "DATA_BYTES_MAX", 100)
    text = await refused(ReassignHarness(), targets(t0=(4, 5, 6)))
    assert "/admin/reassign_partitions would have" in text
    assert "--request, which splits it" in text


# --execute-extra --------------------------------------------------------------------------------


async def test_extra_entries_start_while_others_are_blocked() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    await run_execute(harness, targets(t0=(4, 5, 6)))
    await run_extra(harness, targets(u0=(3, 4)))
    assert entries(harness.world) == {
        T0: Entry((4, 5, 6), (1, 2, 3)),
        ("u", 0): Entry((3, 4), (1, 2)),
    }
    assert extra(harness.world) is None
    assert "Rolling back" not in harness.output
    catch_up(harness.world, 3, 4, name=("u", 0))
    assert harness.world.topic("u").assignments[0].replicas == (3, 4)


async def test_extra_entry_for_a_pending_partition_reports_the_rollback() -> None:
    harness = ReassignHarness()
    await run_execute(harness, targets(t0=(1, 2, 4)))
    await run_extra(harness, targets(t0=(1, 2, 5)))
    assert (
        "Rolling back the current pending reassignments Map(t-0 -> Map(replicas -> "
        "Buffer(1, 2, 4), original_replicas -> Buffer(1, 2, 3)))"
    ) in harness.lines
    assert entries(harness.world) == {T0: Entry((1, 2, 5), (1, 2, 3))}


async def test_extra_entries_are_merged_and_the_last_one_is_used() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    harness.without_controller()
    submit_extra(harness.world, {T0: (4,), ("u", 0): (3,)})
    harness.client.before_write = lambda: submit_extra(harness.world, {T0: (4,), ("u", 0): (2,)})
    await run_extra(harness, targets(t0=(5,)))
    assert extra(harness.world) == {T0: Entry((5,)), ("u", 0): Entry((2,))}
    assert harness.client.writes == 2


async def test_extra_entry_for_a_partition_of_another_route_is_refused() -> None:
    harness = ReassignHarness()
    harness.by_api(4, 5, 6)
    with pytest.raises(
        ReassignmentRefused,
        match="already being reassigned, by the AlterPartitionReassignments API",
    ):
        await run_extra(harness, targets(t0=(2,)))


async def test_dry_run_of_an_extra_entry_prints_the_step() -> None:
    harness = ReassignHarness()
    await run_extra(harness, targets(t0=(4, 5, 6)), dry_run=True)
    assert harness.client.writes == 0
    assert "1. create /admin/reassign_partitions_extra: " in harness.lines[-1]


async def test_missing_cluster_is_rejected() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    harness.world.remove_quietly(znodes.BROKER_IDS)
    harness.world.remove_quietly(znodes.TOPICS)
    assert "there is no Kafka cluster" in await refused(harness, targets(t0=(4,)))
    harness.world.ask(Create(znodes.BROKER_IDS))
    assert "non-existent partitions" in await refused(harness, targets(t0=(4,)))
