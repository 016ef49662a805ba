"""--cancel and --remove-cancel on a simulated cluster."""

from typing import Any

import pytest

from controller.core import znodes
from controller.core.operations import Delete, SetData
from controller.core.values import ANY_VERSION
from controller.core.znodes import (
    CANCEL_CONTENT,
    FORCED_CANCEL_CONTENT,
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS,
    REASSIGNMENT_REQUESTS,
    Entry,
)
from controller.operator.reassignment.cancelling import cancel_all as cancel
from controller.operator.reassignment.cancelling import remove_cancel
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.listing import list_reassignments
from controller.operator.reassignment.report import DONE, NOT_DONE_YET
from controller.operator.reassignment.verifying import verify
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    entries,
    request,
    request_quietly,
    submit,
    submit_extra,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, catch_up
from tests.controller.operator.reassignment.harness import (
    ReassignHarness,
    targets,
    waiting_for_originals,
)


async def run_cancel(
    harness: ReassignHarness, *, force: bool = False, dry_run: bool = False
) -> dict[str, object]:
    report = harness.report()
    await cancel(harness.cluster, report, force=force, dry_run=dry_run)
    return report.data


async def run_list(harness: ReassignHarness) -> dict[str, Any]:
    report = harness.report()
    await list_reassignments(harness.cluster, report)
    return report.data


async def run_remove(harness: ReassignHarness, *, dry_run: bool = False) -> None:
    await remove_cancel(harness.cluster, harness.report(), dry_run=dry_run)


async def test_cancel_prints_and_does_what_kip_236_shows() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    catch_up(harness.world, 4)
    data = await run_cancel(harness)
    assert harness.lines == [
        "Rolling back the current pending reassignments Map(t-0 -> Map(replicas -> "
        "Buffer(4, 5, 6), original_replicas -> Buffer(1, 2, 3)))",
        "Successfully submitted cancellation of reassignments.",
    ]
    assert data["rolled_back"] == [
        {"topic": "t", "partition": 0, "replicas": [4, 5, 6], "original_replicas": [1, 2, 3]}
    ]
    assert "until then no reassignment starts" in harness.warnings[-1]
    assert harness.world.data(REASSIGN_CANCEL) == CANCEL_CONTENT
    assert harness.world.topic("t").assignments[0].replicas == (1, 2, 3)
    assert entries(harness.world) is None
    await run_remove(harness)
    assert harness.lines == ["Successfully remove the znode /admin/reassign_cancel."]
    assert harness.world.data(REASSIGN_CANCEL) is None


async def test_originals_missing_in_the_entry_are_printed() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    submit(harness.world, {T0: (4, 5, 6)})
    await run_cancel(harness)
    assert "original_replicas -> Buffer(1, 2, 3)" in harness.lines[0]
    assert "there is no controller" in harness.warnings[0]


async def test_cancel_without_pending_reassignments_creates_nothing() -> None:
    harness = ReassignHarness()
    await run_cancel(harness)
    assert harness.lines == ["There are no pending reassignments in /admin/reassign_partitions."]
    assert harness.world.data(REASSIGN_CANCEL) is None
    assert harness.client.writes == 0


async def test_cancel_without_pending_reassignments_names_an_existing_cancellation() -> None:
    harness = ReassignHarness()
    cancel_all(harness.world)
    await run_cancel(harness)
    assert harness.warnings == [
        "Warning: /admin/reassign_cancel exists until it is removed with --remove-cancel; until "
        "then no reassignment starts, and those of other routes do not end"
    ]


async def test_cancel_names_reassignments_of_other_routes() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    request_quietly(harness.world, {T0: (4,)})
    await run_cancel(harness)
    assert harness.warnings == [
        "Warning: reassignments of other routes, which --cancel does not end: t-0"
    ]


async def test_cancel_warns_that_other_routes_make_no_progress() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    submit(harness.world, {T0: (4, 5, 6)})
    request(harness.world, {("u", 0): (3, 4)})
    await run_cancel(harness)
    assert harness.warnings[-1] == (
        "Warning: reassignments of other routes, which make no progress until then: u-0"
    )
    catch_up(harness.world, 3, 4, name=("u", 0))
    await list_reassignments(harness.cluster, harness.report())
    assert "  u-0: 2 of 2 replicas caught up (/admin/reassignments)" in harness.lines
    assert harness.warnings[-1].endswith("those that are not cancelled do not end")
    await run_remove(harness)
    assert harness.world.topic("u").assignments[0].replicas == (3, 4)


async def test_dry_run_changes_nothing() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    await run_cancel(harness, dry_run=True)
    assert harness.lines[-1] == '1. create /admin/reassign_cancel: {"version":1}'
    assert entries(harness.world) == {T0: Entry((4, 5, 6), (1, 2, 3))}
    assert harness.client.writes == 0


async def test_existing_cancel_does_not_cancel_later_submissions() -> None:
    harness = ReassignHarness()
    cancel_all(harness.world)
    submit(harness.world, {T0: (4, 5, 6)})
    report = harness.report()
    await cancel(harness.cluster, report, dry_run=False)
    assert report.status == NOT_DONE_YET
    assert not harness.lines
    assert "/admin/reassign_cancel exists already. t-0: not rolled back yet" in harness.warnings[0]
    await run_remove(harness)
    await run_cancel(harness)
    assert harness.lines[-1] == "Successfully submitted cancellation of reassignments."
    assert harness.world.topic("t").assignments[0].replicas == (1, 2, 3)


async def test_concurrent_cancel_is_reported() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    submit(harness.world, {T0: (4, 5, 6)})
    harness.client.before_write = lambda: cancel_all(harness.world)
    report = harness.report()
    await cancel(harness.cluster, report, dry_run=False)
    assert report.status == NOT_DONE_YET
    assert "Successfully" not in harness.output


async def test_entry_removed_by_a_stock_controller_is_cancelled() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    harness.world.remove_quietly(REASSIGN_PARTITIONS)
    await run_cancel(harness)
    assert (
        "t-0 -> Map(replicas -> Buffer(4, 5, 6), original_replicas -> Buffer(1, 2, 3))"
        in (harness.lines[0])
    )
    assert harness.world.topic("t").assignments[0].replicas == (1, 2, 3)


async def test_target_of_a_cancelled_partition_is_its_originals() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    harness.without_controller()
    cancel_all(harness.world)
    await list_reassignments(harness.cluster, harness.report())
    assert harness.lines[-1] == (
        "  t-0: 3 of 3 replicas caught up (/admin/reassign_partitions, cancelled)"
    )


async def test_rollback_that_only_an_unclean_leader_could_end_is_reported() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    catch_up(harness.world, 4)
    for broker in (1, 2, 3):
        harness.world.unregister(broker)
    harness.world.run()
    cancel_all(harness.world)
    harness.world.run()
    await list_reassignments(harness.cluster, harness.report())
    [line] = [one for one in harness.lines if one.startswith("  t-0:")]
    assert line.endswith(
        "; the rollback waits until enough originals are alive and in sync (min.insync.replicas of "
        "the controller's configuration) (/admin/reassign_partitions, cancelled)"
    )


async def test_entry_waiting_for_the_removal_is_not_cancelled() -> None:
    harness = ReassignHarness()
    cancel_all(harness.world)
    submit(harness.world, {T0: (4, 5, 6)})
    await list_reassignments(harness.cluster, harness.report())
    assert harness.lines[-1] == (
        "  t-0: to 4,5,6, starts after /admin/reassign_cancel is removed "
        "(/admin/reassign_partitions)"
    )


async def test_cancel_under_refold_without_kip_236_is_refused() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    harness.world.ask(Delete(REASSIGNMENT_REQUESTS, ANY_VERSION))
    with pytest.raises(ReassignmentRefused, match=r"a refold controller, .* kip-236\.enable=false"):
        await run_cancel(harness)
    assert harness.client.writes == 0


async def test_cancel_under_a_stock_controller_is_refused() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    harness.hand_over(2)
    with pytest.raises(
        ReassignmentRefused, match=r"broker 2, a stock controller, .* /admin/reassign_cancel"
    ):
        await run_cancel(harness)
    assert harness.client.writes == 0


async def test_remove_without_a_cancellation_is_reported() -> None:
    harness = ReassignHarness()
    await run_remove(harness)
    assert harness.lines == ["There is no znode /admin/reassign_cancel."]
    assert harness.client.writes == 0


async def test_remove_before_the_end_of_the_rollback_reports_what_continues() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    submit(harness.world, {T0: (4, 5, 6)})
    await run_cancel(harness)
    await run_remove(harness, dry_run=True)
    assert "not rolled back yet, or submitted later: t-0" in harness.warnings[0]
    assert harness.lines[-1] == "1. delete /admin/reassign_cancel"
    assert harness.world.data(REASSIGN_CANCEL) is not None
    await run_remove(harness)
    assert harness.world.data(REASSIGN_CANCEL) is None


async def test_extra_entries_that_wait_start_after_the_removal() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    await run_cancel(harness)
    submit_extra(harness.world, {T0: (5, 6)})
    assert entries(harness.world) is None
    await run_remove(harness)
    assert entries(harness.world) == {T0: Entry((5, 6), (1, 2, 3))}


# --force ----------------------------------------------------------------------------------------


async def test_removal_says_that_a_rollback_for_an_extra_entry_goes_on() -> None:
    harness = waiting_for_originals(has_controller=True)
    await run_cancel(harness)
    submit_extra(harness.world, {T0: (5, 6)})
    await run_remove(harness, dry_run=True)
    assert harness.warnings == [
        "Warning: t-0: not rolled back yet; the rollback continues, and the entry of "
        "/admin/reassign_partitions_extra begins afterwards"
    ]


async def test_force_creates_the_znode_and_names_the_partitions_at_risk() -> None:
    harness = waiting_for_originals()
    await run_cancel(harness, force=True)
    assert harness.world.data(REASSIGN_CANCEL) == FORCED_CANCEL_CONTENT
    assert harness.warnings[0].startswith(
        "Warning: --force: replicas that are not originals leave the ISR although fewer than "
        "min(min.insync.replicas, number of originals) originals are in sync."
    )
    assert "producers with acks=all are rejected" in harness.warnings[0]
    assert harness.warnings[1] == (
        "Warning: t-0: 1 of 3 originals are in sync (in sync: brokers 1; originals: brokers "
        "1,2,3); required without --force: 2"
    )


async def test_force_does_not_print_a_minimum_that_only_the_controller_knows() -> None:
    harness = waiting_for_originals()
    harness.world.remove_quietly(znodes.topic_config_path("t"))
    await run_cancel(harness, force=True)
    assert harness.warnings[1] == (
        "Warning: t-0: 1 of 3 originals are in sync (in sync: brokers 1; originals: brokers "
        "1,2,3); required without --force: as many as "
        "min.insync.replicas of the controller's configuration"
    )


async def test_force_with_enough_originals_in_sync_names_no_partition() -> None:
    harness = waiting_for_originals()
    harness.world.set_isr("t", 0, (1, 2, 4))
    await run_cancel(harness, force=True)
    assert not any("required without --force" in one for one in harness.warnings)


async def test_force_replaces_an_existing_cancellation_by_a_forced_one() -> None:
    harness = waiting_for_originals()
    cancel_all(harness.world)
    report = harness.report()
    await cancel(harness.cluster, report, dry_run=False)
    assert report.status == NOT_DONE_YET
    assert (
        "t-0: the rollback waits until enough originals are in sync; --cancel --force does"
        in (harness.warnings[1])
    )
    data = await run_cancel(harness, force=True)
    assert harness.world.data(REASSIGN_CANCEL) == FORCED_CANCEL_CONTENT
    assert harness.lines[-1] == "Successfully submitted cancellation of reassignments."
    assert data["rolled_back"] == [
        {"topic": "t", "partition": 0, "replicas": [4, 5, 6], "original_replicas": [1, 2, 3]}
    ]


async def test_list_reports_how_many_originals_a_rollback_waits_for() -> None:
    harness = waiting_for_originals()
    cancel_all(harness.world)
    await list_reassignments(harness.cluster, harness.report())
    assert "; the rollback waits until 2 originals are alive and in sync (" in harness.output
    await run_cancel(harness, force=True)
    await list_reassignments(harness.cluster, harness.report())
    assert "the rollback waits" not in harness.output


async def test_list_reports_a_rollback_that_waits_for_an_unknown_number() -> None:
    harness = waiting_for_originals()
    harness.world.remove_quietly(znodes.topic_config_path("t"))
    cancel_all(harness.world)
    data = await run_list(harness)
    assert "; the rollback waits until enough originals are alive and in sync (" in harness.output
    assert data["reassignments"][0]["progress"].waits_for_originals is None


async def test_list_shows_the_wait_although_the_other_replicas_are_dead() -> None:
    harness = waiting_for_originals()
    harness.world.set_isr("t", 0, (1,))
    cancel_all(harness.world)
    await run_list(harness)
    assert "; the rollback waits until 2 originals are alive and in sync (" in harness.output
    for broker in (4, 5, 6):
        harness.world.unregister(broker)
    await run_list(harness)
    assert "; the rollback waits until 2 originals are alive and in sync (" in harness.output


def completed_by_a_stock_controller() -> ReassignHarness:
    """While t-0 is being rolled back, broker 2 takes the role and completes the move. Two of three
    originals are dead."""
    harness = waiting_for_originals()
    cancel_all(harness.world)
    harness.world.seize_role(2)
    harness.world.change_topic_quietly("t", {0: (4, 5, 6)})
    harness.world.set_isr("t", 0, (4, 5, 6))
    for broker in (1, 3):
        harness.world.unregister(broker)
    return harness


async def test_list_reports_a_move_that_a_stock_controller_completed_as_such() -> None:
    harness = completed_by_a_stock_controller()
    data = await run_list(harness)
    assert harness.lines == ["No partition reassignments found."]
    assert harness.warnings[0] == (
        "Warning: another controller completed the reassignments of t-0: --cancel does not undo "
        "them, and refold removes their entries and records when it takes the role"
    )
    assert data["completed_elsewhere"] == [["t", 0]]


async def test_list_shows_what_was_requested_after_a_stock_controller_completed_a_move() -> None:
    harness = completed_by_a_stock_controller()
    submit_extra(harness.world, {T0: (5, 6)})
    data = await run_list(harness)
    assert harness.lines[1].startswith("t-0: replicas: 4,5,6.")
    assert "completed_elsewhere" not in data


async def test_cancel_does_not_name_a_move_that_a_stock_controller_completed() -> None:
    harness = completed_by_a_stock_controller()
    harness.world.remove_quietly(REASSIGN_CANCEL)
    harness.world.remove_quietly("/controller")
    await run_cancel(harness)
    assert harness.lines == ["There are no pending reassignments in /admin/reassign_partitions."]
    assert harness.client.writes == 0


async def test_verify_reports_a_move_that_a_stock_controller_completed_as_complete() -> None:
    harness = completed_by_a_stock_controller()
    report = harness.report()
    await verify(
        harness.cluster,
        report,
        targets(t0=(4, 5, 6)),
        wait=False,
        preserve_throttles=False,
        dry_run=False,
    )
    assert report.status == DONE
    assert "Reassignment of partition t-0 is completed." in harness.lines
    assert report.data["throttles_cleared"] is True


async def test_list_reports_a_waiting_conflict_of_the_extra_znode() -> None:
    harness = waiting_for_originals()
    submit_extra(harness.world, {T0: (5, 6)})
    await run_list(harness)
    assert harness.lines[-1] == (
        "  t-0: 0 of 2 replicas caught up, waits for 5,6; the rollback waits until 2 originals are "
        "alive and in sync (/admin/reassign_partitions)"
    )
    harness.world.set_isr("t", 0, (1, 2, 4))
    await run_list(harness)
    assert "the rollback waits" not in harness.output


async def test_list_does_not_report_a_younger_move_of_a_stock_controller_as_cancelled() -> None:
    harness = ReassignHarness()
    cancel_all(harness.world)
    submit(harness.world, {T0: (4, 1, 2)})
    harness.world.change_topic_quietly(
        "t", {0: (4, 1, 2, 3)}, adding_replicas={"0": [4]}, removing_replicas={"0": [3]}
    )
    await run_list(harness)
    assert harness.lines[-1] == (
        "  t-0: 2 of 3 replicas caught up, waits for 4 (/admin/reassign_partitions)"
    )


async def test_dry_run_of_force_over_a_plain_cancellation_prints_the_version() -> None:
    harness = waiting_for_originals()
    cancel_all(harness.world)
    await run_cancel(harness, force=True, dry_run=True)
    assert harness.lines[-1] == (
        '1. set /admin/reassign_cancel, if its version is 0: {"version":1,"force":true}'
    )
    assert harness.world.data(REASSIGN_CANCEL) == CANCEL_CONTENT


async def test_force_is_repeated_when_the_znode_was_changed_meanwhile() -> None:
    harness = waiting_for_originals()
    harness.client.before_write = lambda: cancel_all(harness.world)
    await run_cancel(harness, force=True)
    assert harness.world.data(REASSIGN_CANCEL) == FORCED_CANCEL_CONTENT
    assert isinstance(harness.client.written[0], SetData)


async def test_force_twice_reports_the_existing_cancellation() -> None:
    harness = waiting_for_originals()
    await run_cancel(harness, force=True)
    writes = harness.client.writes
    report = harness.report()
    await cancel(harness.cluster, report, force=True, dry_run=False)
    assert report.status == NOT_DONE_YET
    assert "exists already" in harness.warnings[0]
    assert "--force does not wait" not in "".join(harness.warnings)
    assert harness.client.writes == writes


async def test_force_cancels_no_later_submission() -> None:
    harness = waiting_for_originals()
    harness.world.change_topic_quietly("u", {0: (1, 2)})
    cancel_all(harness.world)
    submit(harness.world, {T0: (4, 5, 6), ("u", 0): (3, 4)})
    report = harness.report()
    await cancel(harness.cluster, report, force=True, dry_run=False)
    assert report.status == NOT_DONE_YET
    assert [one["topic"] for one in report.data["rolled_back"]] == ["t"]
    assert harness.warnings[-1].startswith("Warning: u-0: submitted later, and not cancelled; ")


async def test_force_with_only_later_submissions_changes_nothing() -> None:
    harness = ReassignHarness()
    cancel_all(harness.world)
    submit(harness.world, {T0: (4, 5, 6)})
    report = harness.report()
    await cancel(harness.cluster, report, force=True, dry_run=False)
    assert report.status == NOT_DONE_YET
    assert harness.world.data(REASSIGN_CANCEL) == CANCEL_CONTENT
