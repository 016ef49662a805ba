"""--execute, --cancel with a file, --list and --verify over Kafka's APIs."""

import pytest

from controller.core.values import Assignment
from controller.operator.reassignment.cancelling import cancel_listed
from controller.operator.reassignment.cluster import ClusterConnection, KafkaClusterAdmin
from controller.operator.reassignment.cluster_state import ControllerKind
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.executing import execute
from controller.operator.reassignment.kafka_admin import KafkaAdmin, PartitionMetadata
from controller.operator.reassignment.listing import list_reassignments
from controller.operator.reassignment.report import DONE, NOT_AS_REQUESTED, NOT_DONE_YET
from controller.operator.reassignment.verifying import verify
from tests.controller.operator.reassignment.harness import Targets, targets
from tests.controller.operator.reassignment.scripted_admin import DAEMON, Output, ScriptedAdmin


@pytest.fixture
def admin() -> ScriptedAdmin:
    return ScriptedAdmin()


def cluster(admin: KafkaAdmin) -> ClusterConnection:
    return ClusterConnection(None, KafkaClusterAdmin(admin))


async def run_execute(
    admin: ScriptedAdmin,
    wanted: Targets,
    throttle: int | None = None,
    *,
    additional: bool = False,
    dry_run: bool = False,
) -> Output:
    output = Output()
    await execute(cluster(admin), output, wanted, throttle, additional=additional, dry_run=dry_run)
    return output


async def run_cancel(admin: ScriptedAdmin, *, dry_run: bool = False, keep: bool = False) -> Output:
    output = Output()
    given = targets(t0=(4, 2, 3))
    await cancel_listed(cluster(admin), output, given, preserve_throttles=keep, dry_run=dry_run)
    return output


async def test_execute_prints_the_present_assignment_and_sends_the_request(
    admin: ScriptedAdmin,
) -> None:
    output = await run_execute(admin, targets(t0=(4, 2, 3)))
    assert '"replicas":[1,2,3]' in output.lines[0]
    assert output.lines[-1] == "Successfully started partition reassignment for t-0"
    assert admin.asked == [("alter", {("t", 0): (4, 2, 3)})]
    assert output.data["route"] == "the AlterPartitionReassignments API"


async def test_throttle_is_set_before_the_request(admin: ScriptedAdmin) -> None:
    admin.unresponsive.add(3)
    output = await run_execute(admin, targets(t0=(4, 2, 3)), 1000)
    assert [what for what, _ in admin.asked] == [
        "topics t",
        "broker 1",
        "broker 2",
        "broker 4",
        "alter",
    ]
    assert "no throttle for brokers/3: node 3 does not answer" in output.warnings[0]


async def test_dry_run_sends_no_request(admin: ScriptedAdmin) -> None:
    output = await run_execute(admin, targets(t0=(4, 2, 3)), 1000, dry_run=True)
    assert output.lines[-1].endswith("AlterPartitionReassignments of t-0: 4,2,3")
    assert admin.asked == []


async def test_second_execute_requires_additional(admin: ScriptedAdmin) -> None:
    admin.partitions["u", 0] = PartitionMetadata((1, 4), (1,), 1)
    admin.moving["u", 0] = Assignment((4, 1), (4,), (1,))
    with pytest.raises(ReassignmentRefused, match="Use --additional to override this") as refused:
        await run_execute(admin, targets(t0=(4, 2, 3)))
    assert "nothing starts while /admin/reassign_cancel exists" in str(refused.value)
    assert admin.asked == []
    await run_execute(admin, targets(t0=(4, 2, 3)), additional=True)
    assert admin.asked == [("alter", {("t", 0): (4, 2, 3)})]


async def test_reassignment_in_progress_can_get_another_target(admin: ScriptedAdmin) -> None:
    admin.moving["t", 0] = Assignment((4, 2, 3, 1), (4,), (1,))
    output = await run_execute(admin, targets(t0=(4, 1)), additional=True)
    assert '"replicas":[2,3,1]' in output.lines[0]
    assert admin.asked == [("alter", {("t", 0): (4, 1)})]


async def test_rejections_of_the_controller_are_reported(admin: ScriptedAdmin) -> None:
    admin.refusals["t", 0] = "/admin/reassign_cancel exists"
    with pytest.raises(ReassignmentRefused) as fault:
        await run_execute(admin, targets(t0=(4, 2, 3)))
    assert str(fault.value).splitlines() == [
        "Error reassigning partition(s):",
        "t-0: /admin/reassign_cancel exists",
    ]


@pytest.mark.parametrize(
    ("replicas", "why"),
    [((9,), "non-existent brokerIDs: 9"), ((DAEMON,), f"Broker {DAEMON} is the controller")],
)
async def test_brokers_that_cannot_be_targets_are_rejected(
    admin: ScriptedAdmin, replicas: tuple[int, ...], why: str
) -> None:
    with pytest.raises(ReassignmentRefused, match=why):
        await run_execute(admin, targets(t0=replicas))


async def test_cancel_ends_active_reassignments_and_clears_throttles(admin: ScriptedAdmin) -> None:
    admin.moving["t", 0] = Assignment((4, 2, 3, 1), (4,), (1,))
    output = await run_cancel(admin)
    assert output.lines[0] == "Successfully cancelled partition reassignment for: t-0"
    assert admin.asked[0] == ("alter", {("t", 0): None})
    assert [what for what, _ in admin.asked[1:]] == [
        *("broker 1", "broker 2", "broker 3", "broker 4"),
        "topics t",
    ]


async def test_cancel_names_the_throttle_of_a_dead_target_and_how_to_clear_it(
    admin: ScriptedAdmin,
) -> None:
    admin.moving["t", 0] = Assignment((9, 2, 3, 1), (9,), (1,))
    admin.unresponsive.add(9)
    output = await run_cancel(admin)
    assert output.lines[1] == "Clearing broker-level throttles on brokers 1,2,3,4,9"
    assert output.warnings == [
        "Warning: the throttle of brokers/9 may remain: node 9 does not answer. Clear it with "
        "--verify and --zookeeper, or with --verify when the broker is alive"
    ]
    assert list(output.data["throttles_left"]) == ["brokers/9"]
    assert "throttles_cleared" not in output.data


async def test_cancel_without_active_reassignments_reports_that(admin: ScriptedAdmin) -> None:
    output = await run_cancel(admin, keep=True)
    assert output.lines == ["None of the specified partition reassignments are active."]
    assert admin.asked == []


async def test_cancel_reports_refusals(admin: ScriptedAdmin) -> None:
    admin.moving["t", 0] = Assignment((4, 2, 3, 1), (4,), (1,))
    admin.refusals["t", 0] = "no"
    with pytest.raises(
        ReassignmentRefused, match=r"Error cancelling partition reassignment for:\nt-0: no"
    ):
        await run_cancel(admin)


async def test_dry_run_of_cancel_sends_no_request(admin: ScriptedAdmin) -> None:
    admin.moving["t", 0] = Assignment((4, 2, 3, 1), (4,), (1,))
    output = await run_cancel(admin, dry_run=True)
    assert output.lines[1] == "1. AlterPartitionReassignments of t-0: cancel"
    assert len(output.lines) == 1 + 1 + 4 + 1
    assert admin.asked == []


async def test_list_has_the_remaining_bytes_and_no_route(admin: ScriptedAdmin) -> None:
    admin.partitions["t", 0] = PartitionMetadata((4, 2, 3, 1), (1, 2, 3), 2)
    admin.moving["t", 0] = Assignment((4, 2, 3, 1), (4,), (1,))
    output = Output()
    await list_reassignments(cluster(admin), output)
    assert output.lines == [
        "Current partition reassignments:",
        "t-0: replicas: 4,2,3,1. adding: 4. removing: 1.",
        "  t-0: 2 of 3 replicas caught up, waits for 4, 2.0 KiB left (a route shown only "
        "with --zookeeper)",
    ]
    admin.unresponsive.add(4)
    output = Output()
    await list_reassignments(cluster(admin), output)
    assert "left" not in output.lines[-1]


async def test_verify_in_progress_keeps_throttles(admin: ScriptedAdmin) -> None:
    admin.moving["t", 0] = Assignment((4, 2, 3, 1), (4,), (1,))
    output = Output()
    wanted = targets(t0=(4, 2, 3))
    await verify(
        cluster(admin), output, wanted, wait=False, preserve_throttles=False, dry_run=False
    )
    assert output.status == NOT_DONE_YET
    assert admin.asked == []


@pytest.mark.parametrize(("in_any_order", "status"), [(True, DONE), (False, NOT_AS_REQUESTED)])
async def test_originals_after_an_api_cancellation_may_have_another_order(
    admin: ScriptedAdmin, in_any_order: bool, status: int
) -> None:
    output = Output()
    await verify(
        cluster(admin),
        output,
        targets(t0=(3, 2, 1)),
        wait=True,
        preserve_throttles=True,
        dry_run=False,
        in_any_order=in_any_order,
    )
    assert output.status == status


@pytest.mark.parametrize(
    ("controller", "kind"),
    [(DAEMON, ControllerKind.REFOLD), (2, ControllerKind.STOCK), (-1, ControllerKind.NONE)],
)
async def test_kind_of_the_controller_is_recognized(
    admin: ScriptedAdmin, controller: int, kind: ControllerKind
) -> None:
    admin.controller = controller
    state = await KafkaClusterAdmin(admin).describe(["t"])
    assert state.controller.kind is kind
    assert (DAEMON in state.brokers) is (kind is not ControllerKind.REFOLD)
