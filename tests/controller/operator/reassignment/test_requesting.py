"""--request, --verify --id and --remove-cancel with requests, on a simulated cluster."""

from typing import Any

import pytest
from msgspec import structs

from controller.core import znodes
from controller.core.operations import Delete
from controller.core.values import ANY_VERSION
from controller.core.znodes import REASSIGNMENT_REQUESTS, write_request
from controller.operator.reassignment import requesting
from controller.operator.reassignment.cancelling import remove_cancel
from controller.operator.reassignment.cluster_state import ClusterState
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.report import DONE, NOT_AS_REQUESTED, NOT_DONE_YET
from controller.operator.reassignment.requesting import request, split_targets
from controller.operator.reassignment.verifying import verify_ids
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    identity,
    record,
    request_quietly,
    requests,
    submit,
    submit_extra,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, catch_up
from tests.controller.operator.reassignment.harness import ReassignHarness, Targets, targets


async def run_request(
    harness: ReassignHarness,
    wanted: Targets,
    *,
    dry_run: bool = False,
    timeout_ms: int = 0,
    throttle: int | None = None,
) -> tuple[int, dict[str, object]]:
    report = harness.report()
    await request(harness.cluster, report, wanted, throttle, timeout_ms=timeout_ms, dry_run=dry_run)
    return report.status, report.data


async def verified(harness: ReassignHarness, *czxids: int) -> int:
    report = harness.report()
    await verify_ids(harness.cluster, report, czxids)
    return report.status


async def test_request_prints_the_id_and_the_rollback_assignment() -> None:
    harness = ReassignHarness()
    status, data = await run_request(harness, targets(t0=(4, 5, 6)))
    czxid, _ = identity(harness.world)
    assert status == DONE
    assert '"replicas":[1,2,3]' in harness.lines[0]
    assert "another --request for a rollback" in harness.lines[0]
    assert f"t-0: started, /admin/reassignments/t/0 has czxid {czxid:#x}" in harness.lines
    assert data["requested"] == [
        {"topic": "t", "partition": 0, "outcome": "started", "czxid": f"{czxid:#x}"}
    ]
    assert requests(harness.world) == []


async def test_verify_by_id_reports_ongoing_changed_and_done() -> None:
    harness = ReassignHarness()
    await run_request(harness, targets(t0=(4, 5, 6)))
    czxid, _ = identity(harness.world)
    assert await verified(harness, czxid) == NOT_DONE_YET
    assert harness.lines[0] == f"Reassignment {czxid:#x} of t-0 is ongoing, to 4,5,6."
    assert "t-0: 0 of 3 replicas caught up, waits for 4,5,6" in harness.lines[1]
    await run_request(harness, targets(t0=(2, 3, 4)))
    assert f"t-0: changed, /admin/reassignments/t/0 has czxid {czxid:#x}" in harness.lines
    assert await verified(harness, czxid) == NOT_AS_REQUESTED
    assert harness.lines[0] == f"Reassignment {czxid:#x} of t-0 is changed, to 2,3,4."
    catch_up(harness.world, 4)
    assert await verified(harness, czxid) == DONE
    assert harness.lines == [f"Reassignment {czxid:#x} is done."]
    assert harness.world.topic("t").assignments[0].replicas == (2, 3, 4)


async def test_changed_status_takes_precedence_over_in_progress() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    await run_request(harness, targets(t0=(4, 5, 6), u0=(3, 4)))
    await run_request(harness, targets(t0=(4, 5)))
    ids = identity(harness.world)[0], identity(harness.world, ("u", 0))[0]
    assert await verified(harness, *ids) == NOT_AS_REQUESTED
    assert await verified(harness, ids[1]) == NOT_DONE_YET


async def test_request_completed_at_once_is_reported() -> None:
    harness = ReassignHarness()
    status, _ = await run_request(harness, targets(t0=(3, 2)))
    assert status == DONE
    assert "t-0: already done" in harness.lines


async def test_first_request_of_a_cluster_creates_the_parent_znode() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    harness.world.ask(Delete(REASSIGNMENT_REQUESTS, ANY_VERSION))
    status, _ = await run_request(harness, targets(t0=(4,)))
    assert status == NOT_DONE_YET
    assert "t-0: the controller has not handled the request yet; it stays pending" in harness.lines
    assert "there is no controller" in harness.warnings[0]
    assert len(requests(harness.world)) == 1


async def test_request_waits_for_a_controller() -> None:
    harness = ReassignHarness()
    harness.hand_over(2)
    harness.world.ask(Delete(znodes.CONTROLLER, ANY_VERSION))
    async with harness.while_waiting(harness.world.run):
        status, _ = await run_request(harness, targets(t0=(4, 5, 6)), timeout_ms=60_000)
    assert status == DONE
    assert record(harness.world) is not None


async def test_request_ignored_by_the_controller_is_reported() -> None:
    harness = ReassignHarness()
    harness.without_controller()

    def delete_request() -> None:
        for one in requests(harness.world):
            harness.world.ask(Delete(f"{REASSIGNMENT_REQUESTS}/{one}", ANY_VERSION))

    harness.client.after_write = delete_request
    status, _ = await run_request(harness, targets(t0=(4,)))
    assert status == NOT_AS_REQUESTED
    assert harness.warnings[-1] == (
        "Warning: t-0: the controller did not start the reassignment: see its log for the reason, "
        "or the request was deleted"
    )


async def test_request_is_refused_for_another_route_or_during_a_cancellation() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    with pytest.raises(
        ReassignmentRefused, match="already being reassigned, by /admin/reassign_partitions"
    ):
        await run_request(harness, targets(t0=(4,)))
    cancel_all(harness.world)
    with pytest.raises(ReassignmentRefused, match="/admin/reassign_cancel exists"):
        await run_request(harness, targets(t0=(4,)))
    harness.hand_over(2)
    with pytest.raises(ReassignmentRefused, match="broker 2, a stock controller"):
        await run_request(harness, targets(t0=(4,)))
    assert harness.client.writes == 0


async def test_target_is_changed_whatever_the_present_minimum() -> None:
    harness = ReassignHarness(6, 1)
    await run_request(harness, targets(t0=(4, 5)))
    harness.world.put(
        znodes.topic_config_path("t"), b'{"version":1,"config":{"min.insync.replicas":"2"}}'
    )
    status, _ = await run_request(harness, targets(t0=(5, 6)))
    assert status == DONE
    assert harness.lines[-1].startswith("t-0: changed")


async def test_large_requests_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {("t", number): (1, 2, 3) for number in range(100)}
    parts = split_targets(wanted, 200)
    assert all(len(write_request(one)) <= 200 for one in parts)
    merged = {name: one for part in parts for name, one in part.items()}
    assert merged == wanted
    assert sum(map(len, parts)) == 100
    assert split_targets(wanted, 1_000_000) == [wanted]
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    monkeypatch.setattr(requesting, "DATA_BYTES_MAX", 60)
    await run_request(harness, targets(t0=(4, 5, 6), u0=(3, 4)))
    assert "Submitted the request in 2 parts." in harness.lines
    assert record(harness.world) is not None
    assert record(harness.world, ("u", 0)) is not None


async def test_dry_run_prints_the_request() -> None:
    harness = ReassignHarness()
    _, data = await run_request(harness, targets(t0=(4, 5, 6)), dry_run=True, throttle=10)
    steps = data["steps"]
    assert isinstance(steps, list)
    assert steps[-1] == (
        "create /admin/reassignment_requests/request_NNNNNNNNNN: "
        '{"version":1,"assignments":{"t":{"0":[4,5,6]}}}'
    )
    assert len(steps) == 1 + 6 + 1
    assert harness.client.writes == 0


async def test_fewer_replicas_than_min_insync_replicas_are_refused() -> None:
    harness = ReassignHarness(6, 1)
    config = b'{"version":1,"config":{"min.insync.replicas":"2"}}'
    harness.world.put(znodes.topic_config_path("t"), config)
    with pytest.raises(ReassignmentRefused, match="decrease that first, or use --execute"):
        await run_request(harness, targets(t0=(4, 5)))


# --remove-cancel --------------------------------------------------------------------------------


@pytest.mark.parametrize("submits", [submit_extra, request_quietly])
async def test_remove_cancel_names_requests_and_entries_of_the_extra_znode(submits: Any) -> None:
    harness = ReassignHarness()
    cancel_all(harness.world)
    harness.without_controller()
    submits(harness.world, {T0: (4, 5, 6)})
    await remove_cancel(harness.cluster, harness.report(), dry_run=False)
    assert "not rolled back yet, or submitted later: t-0" in harness.warnings[0]


async def test_reassignment_that_ends_while_the_state_is_read_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = ReassignHarness()
    admin, describe = harness.cluster.admin, harness.cluster.admin.describe

    async def describe_while_it_ends(topics: set[str]) -> ClusterState:
        state = await describe(topics)
        if state.znodes.records:
            catch_up(harness.world, 4, 5, 6)
            return structs.replace(await describe(topics), assignments=state.assignments)
        return state

    monkeypatch.setattr(admin, "describe", describe_while_it_ends)
    status, _ = await run_request(harness, targets(t0=(4, 5, 6)), timeout_ms=10_000)
    assert status == DONE
    assert not harness.warnings
    assert "t-0: already done" in harness.lines
