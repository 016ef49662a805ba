"""Clients change znodes of reassignments under way."""

from typing import Any

import pytest

from controller.core import znodes
from controller.core.operations import SetData
from controller.core.values import ANY_VERSION
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    Reassignment,
    reassignment_path,
    reassignments_path,
    write_reassignment,
)
from controller.operator.reassignment.cancelling import cancel_all
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.executing import execute, execute_extra
from controller.operator.reassignment.generating import generate
from controller.operator.reassignment.listing import list_reassignments
from controller.operator.reassignment.report import DONE, NOT_AS_REQUESTED
from controller.operator.reassignment.requesting import request as run_request
from controller.operator.reassignment.verifying import verify, verify_ids
from tests.controller.core.procedures.reassignment.interrupting import (
    entries_json,
    identity,
    record,
    request,
    request_quietly,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, Name, reassign
from tests.controller.operator.reassignment.harness import ReassignHarness, targets

U0, V0 = ("u", 0), ("v", 0)
OTHER = write_reassignment(Reassignment((4, 6), 1, True, (6, 4)))


def under_way() -> ReassignHarness:
    """t-0 moves by an entry, u-0 by a request, and v-0 does not move."""
    harness = ReassignHarness()
    for topic in "uv":
        harness.world.create_topic(topic, {0: (1, 2)})
    submit(harness.world, {T0: (4, 5, 6)})
    request(harness.world, {U0: (3, 4)})
    return harness


def change(harness: ReassignHarness, data: bytes, *names: Name) -> None:
    """The controller does not react yet."""
    for name in names:
        harness.world.put_quietly(reassignment_path(*name), data)


@pytest.mark.parametrize("data", [b"garbage", b"{}", OTHER])
async def test_damaged_record_does_not_block_a_request_which_repairs_it(data: bytes) -> None:
    harness = under_way()
    before = record(harness.world), record(harness.world, U0)
    change(harness, data, T0, U0)
    report = harness.report()
    await run_request(
        harness.cluster, report, targets(v0=(3, 4)), None, timeout_ms=10_000, dry_run=False
    )
    assert report.status == DONE
    assert harness.lines[-1].startswith("v-0: started")
    warnings = [one for one in harness.warnings if "refold rewrites znodes that it did not" in one]
    assert [one.split()[1] for one in warnings] == [
        "/admin/reassignments/t/0",
        "/admin/reassignments/u/0",
    ]
    assert (record(harness.world), record(harness.world, U0)) == before


async def test_extra_entries_are_submitted_nevertheless() -> None:
    harness = under_way()
    change(harness, b"garbage", T0, U0)
    await execute_extra(harness.cluster, harness.report(), targets(v0=(3, 4)), None, dry_run=False)
    assert "Successfully started partition reassignment for v-0" in harness.lines
    assert record(harness.world, V0) is not None


async def test_entries_are_submitted_nevertheless() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    request(harness.world, {U0: (3, 4)})
    change(harness, b"garbage", U0)
    report = harness.report()
    wanted = targets(t0=(4, 5, 6))
    await execute(harness.cluster, report, wanted, None, additional=False, dry_run=False)
    assert record(harness.world) is not None
    assert record(harness.world, U0) is not None


async def test_target_can_be_changed_although_its_record_is_unreadable() -> None:
    harness = under_way()
    change(harness, b"garbage", U0)
    await run_request(
        harness.cluster,
        harness.report(),
        targets(u0=(5, 6)),
        None,
        timeout_ms=10_000,
        dry_run=False,
    )
    assert harness.lines[-1].startswith("u-0: changed")


@pytest.mark.parametrize("data", [b"garbage", OTHER])
async def test_cancellation_ignores_damaged_records(data: bytes) -> None:
    harness = under_way()
    change(harness, data, T0, U0)
    await cancel_all(harness.cluster, harness.report(), dry_run=True)
    [line] = [one for one in harness.lines if one.startswith("Rolling back")]
    assert line == (
        "Rolling back the current pending reassignments Map(t-0 -> Map(replicas -> "
        "Buffer(4, 5, 6), original_replicas -> Buffer(1, 2, 3)))"
    )
    await cancel_all(harness.cluster, harness.report(), dry_run=False)
    assert harness.world.topic("t").assignments[0].replicas == (1, 2, 3)
    assert record(harness.world, U0) == Reassignment((3, 4), 2, False, (1, 2))


async def test_reassignment_with_deleted_entry_and_record_is_in_progress() -> None:
    harness = under_way()
    harness.world.remove_quietly("/admin/reassignments")
    harness.world.remove(znodes.REASSIGN_PARTITIONS)
    await list_reassignments(harness.cluster, harness.report())
    assert "(/admin/reassign_partitions)" in harness.output
    assert "(/admin/reassignments)" in harness.output
    assert not harness.warnings  # refold notices the deleted entry, and checks all records
    await cancel_all(harness.cluster, harness.report(), dry_run=False)
    assert harness.world.topic("t").assignments[0].replicas == (1, 2, 3)


async def test_list_has_the_route_and_the_content_of_a_changed_record() -> None:
    harness = under_way()
    change(harness, OTHER, T0)
    change(harness, b"garbage", U0)
    await list_reassignments(harness.cluster, harness.report())
    assert "  t-0: 0 of 3 replicas caught up, waits for 4,5,6 (/admin/reassign_partitions)" in (
        harness.lines
    )
    assert "  u-0: 0 of 2 replicas caught up, waits for 3,4 (/admin/reassignments)" in harness.lines
    assert any("u/0 cannot be read as a reassignment" in one for one in harness.warnings)
    assert any(
        "/admin/reassignments/t/0 says from 6,4 to 4,6, /brokers/topics/t says from 1,2,3 "
        "to 4,5,6; refold rewrites znodes that it did not write itself: a topic's znode at "
        "once, a record at its next check" in one
        for one in harness.warnings
    )


async def test_originals_that_are_not_replicas_are_ignored() -> None:
    harness = under_way()
    change(harness, write_reassignment(Reassignment((4, 5, 6), 3, True, (7, 6, 5))), T0)
    await cancel_all(harness.cluster, harness.report(), dry_run=True)
    assert "original_replicas -> Buffer(1, 2, 3)" in harness.output


async def test_id_of_a_damaged_record_is_reported_as_changed() -> None:
    harness = under_way()
    czxid, _ = identity(harness.world, U0)
    change(harness, b"garbage", U0)
    report = harness.report()
    await verify_ids(harness.cluster, report, [czxid])
    assert report.status == NOT_AS_REQUESTED
    assert harness.lines[0] == f"Reassignment {czxid:#x} of u-0 was changed by hand."


async def test_record_of_a_partition_that_does_not_move_does_not_block() -> None:
    harness = ReassignHarness()
    request(harness.world, {T0: (4, 5, 6)})
    change(harness, b"garbage", T0)
    harness.world.change_topic_quietly("t", {0: (1, 2, 3)})
    await list_reassignments(harness.cluster, harness.report())
    assert harness.lines == ["No partition reassignments found."]


@pytest.mark.parametrize("path", [znodes.REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA])
async def test_unreadable_entries_without_refold_need_the_operator(
    path: str,
) -> None:
    harness = ReassignHarness()
    harness.without_controller()
    harness.world.put_quietly(path, b"garbage")
    with pytest.raises(
        ReassignmentRefused, match=rf"{path} cannot be read .*: repair or delete the znode"
    ):
        await cancel_all(harness.cluster, harness.report(), dry_run=False)
    with pytest.raises(
        ReassignmentRefused, match=rf"{path} cannot be read .*: repair or delete the znode"
    ):
        await execute_extra(
            harness.cluster, harness.report(), targets(t0=(4,)), None, dry_run=False
        )


async def test_unreadable_entries_under_refold_advise_a_retry() -> None:
    harness = ReassignHarness()
    harness.world.put_quietly(znodes.REASSIGN_PARTITIONS, b"garbage")
    with pytest.raises(
        ReassignmentRefused, match="refold is deleting or rewriting the znode: try again"
    ):
        await cancel_all(harness.cluster, harness.report(), dry_run=False)


async def test_unreadable_request_does_not_block_cancel() -> None:
    harness = under_way()
    path = request_quietly(harness.world, {V0: (3, 4)})
    harness.world.ask(SetData(path, b"garbage", ANY_VERSION))
    assert path.startswith(REASSIGNMENT_REQUESTS)
    await cancel_all(harness.cluster, harness.report(), dry_run=False)
    assert harness.world.data(REASSIGN_CANCEL) is not None
    assert harness.world.topic("t").assignments[0].replicas == (1, 2, 3)


# Deleted records --------------------------------------------------------------------------------


WITHOUT = (
    "reassigned without a record in /admin/reassignments: a stock controller started it, or the "
    "record was deleted. refold rewrites a deleted record, with another id, at its next check"
)


async def test_reassignment_without_record_is_listed_with_possible_causes() -> None:
    harness = under_way()
    harness.world.remove_quietly("/admin/reassignments")
    await list_reassignments(harness.cluster, harness.report())
    [warning] = harness.warnings
    assert warning.startswith(f"Warning: t-0,u-0: {WITHOUT}")


async def test_unknown_id_may_be_that_of_a_reassignment_with_a_deleted_record() -> None:
    harness = under_way()
    czxid, _ = identity(harness.world, U0)
    harness.world.remove_quietly(reassignments_path("u"))
    report = harness.report()
    await verify_ids(harness.cluster, report, [czxid])
    assert harness.lines == [f"Reassignment {czxid:#x} is done."]
    [warning] = harness.warnings
    assert warning.startswith(f"Warning: u-0: {WITHOUT}")


async def test_missing_records_under_a_stock_controller_are_not_reported() -> None:
    harness = ReassignHarness()
    reassign(harness.world, 4, 5, 6)
    harness.hand_over(1)
    await list_reassignments(harness.cluster, harness.report())
    assert harness.lines[1].startswith("t-0: ")
    assert not harness.warnings


async def test_request_for_a_reassignment_with_a_deleted_record_is_refused_with_advice() -> None:
    harness = under_way()
    harness.world.remove_quietly(reassignments_path("u"))
    with pytest.raises(
        ReassignmentRefused,
        match=r"u-0: already being reassigned, by an unrecorded route: wait until",
    ):
        await run_request(
            harness.cluster, harness.report(), targets(u0=(5,)), None, timeout_ms=9, dry_run=False
        )


async def test_reassignment_that_starts_during_the_read_has_its_record() -> None:
    """The records are read before the topics."""
    harness = ReassignHarness()
    harness.client.before_topics = lambda: request(harness.world, {T0: (4, 5, 6)})
    await list_reassignments(harness.cluster, harness.report())
    assert "t-0: replicas: 4,5,6,1,2,3. adding: 4,5,6. removing: 1,2,3. id: 0x" in harness.output
    assert not harness.warnings


# Topics -----------------------------------------------------------------------------------------


UNREADABLE = "/brokers/topics/bad cannot be read as a topic"


def with_bad_topic() -> ReassignHarness:
    """v-0 does not move, and the topic "bad" is unreadable."""
    harness = under_way()
    harness.world.create_topic("bad", {0: (1, 2)})
    harness.world.put_quietly(znodes.topic_path("bad"), b"garbage")
    return harness


async def test_unreadable_topic_is_reported_and_the_others_listed() -> None:
    harness = with_bad_topic()
    await list_reassignments(harness.cluster, harness.report())
    assert {"t-0", "u-0"} == {one.split(":")[0] for one in harness.lines[1:] if one[0] != " "}
    [warning] = harness.warnings
    assert warning.startswith(f"Warning: {UNREADABLE}")
    assert warning.endswith("none can be submitted; repair the znode")


async def test_request_for_an_unreadable_topic_is_listed() -> None:
    harness = with_bad_topic()
    harness.without_controller()
    request_quietly(harness.world, {("bad", 0): (3, 4)})
    await list_reassignments(harness.cluster, harness.report())
    assert "bad-0: cannot be read, requested: 3,4." in harness.lines


@pytest.mark.parametrize("submit_it", [execute_extra, run_request])
async def test_unreadable_topic_does_not_block_other_submissions(submit_it: Any) -> None:
    harness = with_bad_topic()
    more = {"timeout_ms": 10_000} if submit_it is run_request else {}
    good, bad = targets(v0=(3, 4)), {**targets(v0=(3, 4)), ("bad", 0): (3, 4)}
    with pytest.raises(ReassignmentRefused, match=f"^{UNREADABLE}.*repair the znode$"):
        await submit_it(harness.cluster, harness.report(), bad, None, dry_run=False, **more)
    assert record(harness.world, V0) is None
    await submit_it(harness.cluster, harness.report(), good, None, dry_run=False, **more)
    assert record(harness.world, V0) is not None


async def test_unreadable_topic_does_not_block_cancel() -> None:
    harness = with_bad_topic()
    harness.world.put_quietly(znodes.REASSIGN_PARTITIONS, entries_json({("bad", 0): (3, 4)}))
    await cancel_all(harness.cluster, harness.report(), dry_run=False)
    assert harness.world.topic("t").assignments[0].replicas == (1, 2, 3)


async def test_partitions_of_an_unreadable_topic_are_not_verified() -> None:
    harness = with_bad_topic()
    report = harness.report()
    wanted = {("bad", 0): (1, 2), V0: (1, 2)}
    await verify(
        harness.cluster, report, wanted, wait=True, preserve_throttles=False, dry_run=False
    )
    assert harness.lines[1:] == [
        "The replicas of partition bad-0 cannot be read.",
        "Reassignment of partition v-0 is completed.",
    ]
    assert report.status == NOT_AS_REQUESTED
    assert len(harness.warnings) == 1


async def test_throttles_are_kept_while_a_topic_is_unreadable() -> None:
    """Its partitions may be moving."""
    harness = ReassignHarness()
    harness.world.create_topic("bad", {0: (1, 2)})
    harness.world.put_quietly(znodes.topic_path("bad"), b"garbage")
    rests = targets(t0=(1, 2, 3))
    report = harness.report()
    await verify(
        harness.cluster, report, rests, wait=False, preserve_throttles=False, dry_run=False
    )
    assert report.status == DONE
    assert "throttles_cleared" not in report.data
    assert harness.warnings == [
        "Warning: throttles are not cleared, because these topics cannot be read and may be in "
        "reassignment: bad"
    ]


async def test_generate_rejects_an_unreadable_topic() -> None:
    harness = with_bad_topic()
    with pytest.raises(ReassignmentRefused, match=f"^Topic none not found.\n{UNREADABLE}"):
        await generate(
            harness.cluster, harness.report(), ["v", "none", "bad"], [1, 2], rack_aware=True
        )


async def test_record_of_a_completed_topic_is_ignored() -> None:
    harness = ReassignHarness()
    request(harness.world, {T0: (4, 5, 6)})
    harness.without_controller()
    harness.world.change_topic_quietly("t", {0: (1, 2, 6)})
    await list_reassignments(harness.cluster, harness.report())
    assert harness.lines == ["No partition reassignments found."]
    [warning] = harness.warnings
    assert (
        "/admin/reassignments/t/0 says from 1,2,3 to 4,5,6, /brokers/topics/t says "
        "1,2,6 and no reassignment; when refold takes the role, the topic's znode takes "
        "precedence" in warning
    )
