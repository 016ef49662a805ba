"""--verify, --list and --generate on a simulated cluster."""

import pytest

from controller.core import znodes
from controller.core.values import Broker
from controller.operator.reassignment import verifying
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.generating import generate, propose
from controller.operator.reassignment.listing import list_reassignments
from controller.operator.reassignment.progress import PartitionProgress, lines_of, progress_of
from controller.operator.reassignment.report import DONE, NOT_AS_REQUESTED, NOT_DONE_YET
from controller.operator.reassignment.verifying import verify
from tests.controller.core.cluster import DAEMON
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    identity,
    request,
    submit,
    submit_extra,
)
from tests.controller.core.procedures.reassignment.reassigning import T0, catch_up, reassign
from tests.controller.operator.reassignment.harness import ReassignHarness, Targets, targets


async def run_verify(
    harness: ReassignHarness,
    wanted: Targets,
    *,
    wait: bool = False,
    preserve_throttles: bool = False,
    dry_run: bool = False,
) -> int:
    report = harness.report()
    await verify(
        harness.cluster,
        report,
        wanted,
        wait=wait,
        preserve_throttles=preserve_throttles,
        dry_run=dry_run,
    )
    return report.status


async def test_verify_reports_states_with_kafkas_text() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    submit(harness.world, {T0: (4, 5, 6)})
    catch_up(harness.world, 4)
    status = await run_verify(harness, targets(t0=(4, 5, 6), u0=(2, 1), v0=(1,)))
    assert status == NOT_DONE_YET
    assert harness.lines == [
        "Status of partition reassignment:",
        "Reassignment of partition t-0 is still in progress.",
        "There is no active reassignment of partition u-0, but replica set is 1,2 rather than 2,1.",
        "There is no partition v-0.",
        "  t-0: 1 of 3 replicas caught up, waits for 5,6 (/admin/reassign_partitions)",
    ]
    assert await run_verify(harness, targets(u0=(2, 1))) == NOT_AS_REQUESTED
    catch_up(harness.world, 5, 6)
    assert await run_verify(harness, targets(t0=(4, 5, 6))) == DONE
    assert harness.lines[1] == "Reassignment of partition t-0 is completed."


@pytest.mark.parametrize("route", ["extra", "request", "api"])
async def test_reassignment_by_any_route_is_in_progress(route: str) -> None:
    harness = ReassignHarness()
    match route:
        case "extra":
            harness.without_controller()
            submit_extra(harness.world, {T0: (4, 5, 6)})
        case "request":
            request(harness.world, {T0: (4, 5, 6)})
        case _:
            harness.by_api(4, 5, 6)
    assert await run_verify(harness, targets(t0=(4, 5, 6))) == NOT_DONE_YET


async def test_verify_clears_throttles_when_no_reassignment_is_under_way() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    topic, broker = znodes.topic_config_path("t"), znodes.broker_config_path(5)
    limits = {"leader.replication.throttled.replicas": "0:1", "retention.ms": "5"}
    harness.world.put(topic, znodes.write_config(limits))
    harness.world.put(broker, znodes.write_config({"follower.replication.throttled.rate": "1"}))
    submit(harness.world, {("u", 0): (3, 4)})
    await run_verify(harness, targets(t0=(1, 2, 3)))
    assert "Clearing" not in harness.output
    catch_up(harness.world, 3, 4, name=("u", 0))
    await run_verify(harness, targets(t0=(1, 2, 3)), preserve_throttles=True)
    assert "Clearing" not in harness.output
    await run_verify(harness, targets(t0=(1, 2, 3)), dry_run=True)
    assert harness.client.writes == 0
    assert "remove leader.replication.throttled.replicas" in harness.output
    await run_verify(harness, targets(t0=(1, 2, 3)))
    assert harness.lines[-2:] == [
        "Clearing broker-level throttles on brokers 1,2,3,4,5,6",
        "Clearing topic-level throttles on topic t",
    ]
    assert znodes.read_config(topic, harness.world.data(topic)) == {"retention.ms": "5"}
    assert znodes.read_config(broker, harness.world.data(broker)) == {}
    # Only changed configurations were written and announced.
    assert harness.client.writes == 2


async def test_throttles_are_kept_while_another_topic_moves_by_kafkas_api() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("u", {0: (1, 2)})
    assert reassign(harness.world, 4, 5, 6) == 0
    assert await run_verify(harness, targets(u0=(1, 2))) == DONE
    assert "Clearing" not in harness.output


async def test_verify_wait_prints_progress() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    steps = {"0 of 3 replicas caught up": (4,), "1 of 3 replicas caught up": (5, 6)}

    def move_on() -> None:
        for progress, brokers in steps.items():
            if progress in harness.lines[-1]:
                catch_up(harness.world, *brokers)
                steps.pop(progress)
                return

    async with harness.while_waiting(move_on):
        assert await run_verify(harness, targets(t0=(4, 5, 6)), wait=True) == DONE
    progress = [line for line in harness.lines if "caught up" in line]
    assert [line.split(" (")[0] for line in progress] == [
        "t-0: 0 of 3 replicas caught up, waits for 4,5,6",
        "t-0: 1 of 3 replicas caught up, waits for 5,6",
    ]


async def test_list_has_every_route_with_identity_and_cancellation() -> None:
    harness = ReassignHarness()
    for topic in "uvw":
        harness.world.create_topic(topic, {0: (1, 2)})
    request(harness.world, {("u", 0): (3, 4)})
    submit(harness.world, {("v", 0): (3, 4)})
    harness.by_api(4, 5, 6)
    report = harness.report()
    await list_reassignments(harness.cluster, report)
    by_api, asked, legacy = (f"{identity(harness.world, (one, 0))[0]:#x}" for one in "tuv")
    assert harness.lines == [
        "Current partition reassignments:",
        f"t-0: replicas: 4,5,6,1,2,3. adding: 4,5,6. removing: 1,2,3. id: {by_api}.",
        "  t-0: 0 of 3 replicas caught up, waits for 4,5,6 (the AlterPartitionReassignments API)",
        f"u-0: replicas: 3,4,1,2. adding: 3,4. removing: 1,2. id: {asked}.",
        "  u-0: 0 of 2 replicas caught up, waits for 3,4 (/admin/reassignments)",
        f"v-0: replicas: 3,4,1,2. adding: 3,4. removing: 1,2. id: {legacy}.",
        "  v-0: 0 of 2 replicas caught up, waits for 3,4 (/admin/reassign_partitions)",
    ]
    first = report.data["reassignments"][0]
    assert first["original_replicas"] == (1, 2, 3)
    assert not harness.warnings
    cancel_all(harness.world)
    submit_extra(harness.world, {("w", 0): (3, 4)})
    report = harness.report()
    await list_reassignments(harness.cluster, report)
    waits = "starts after /admin/reassign_cancel is removed (/admin/reassign_partitions_extra)"
    assert f"  w-0: to 3,4, {waits}" in harness.lines
    assert "v-0" not in harness.output
    assert "/admin/reassign_cancel exists" in harness.warnings[0]


async def test_target_that_waits_for_the_end_of_a_cancellation_is_listed() -> None:
    harness = ReassignHarness()
    request(harness.world, {T0: (4, 2, 3)})
    cancel_all(harness.world)
    request(harness.world, {T0: (5, 2, 3)})
    request(harness.world, {T0: (6, 2, 3)})
    report = harness.report()
    await list_reassignments(harness.cluster, report)
    assert harness.lines[-1] == (
        "  t-0: 2 of 3 replicas caught up, waits for 4 (/admin/reassignments); goes to 6,2,3 after "
        "/admin/reassign_cancel is removed"
    )
    [listed] = report.data["reassignments"]
    assert listed["progress"].next_target == (6, 2, 3)


async def test_extra_entry_of_a_partition_that_is_rolled_back_is_listed() -> None:
    harness = ReassignHarness()
    harness.world.put(
        znodes.topic_config_path("t"), b'{"version":1,"config":{"min.insync.replicas":"3"}}'
    )
    submit(harness.world, {T0: (4, 5, 6)})
    for broker in (4, 5):
        catch_up(harness.world, broker)
    harness.world.unregister(2)
    harness.world.run()
    cancel_all(harness.world)
    submit_extra(harness.world, {T0: (6, 2, 3)})
    await list_reassignments(harness.cluster, harness.report())
    assert harness.lines[-1].endswith(
        "(/admin/reassign_partitions, cancelled); goes to 6,2,3 after /admin/reassign_cancel is "
        "removed"
    )


async def test_move_started_by_a_stock_controller_is_listed_without_a_known_route() -> None:
    harness = ReassignHarness()
    harness.world.change_topic_quietly(
        "t", {0: (4, 1, 2, 3)}, adding_replicas={"0": [4]}, removing_replicas={"0": [3]}
    )
    await list_reassignments(harness.cluster, harness.report())
    assert harness.lines[-1] == (
        "  t-0: 2 of 3 replicas caught up, waits for 4 (an unrecorded route)"
    )
    assert "a stock controller started it, or the record was deleted" in harness.warnings[-1]


async def test_id_of_a_move_by_kafkas_api_can_be_verified() -> None:
    harness = ReassignHarness()
    harness.by_api(4, 5, 6)
    czxid = identity(harness.world)[0]
    report = harness.report()
    await verifying.verify_ids(harness.cluster, report, [czxid])
    assert harness.lines[0].startswith(f"Reassignment {czxid:#x} of t-0 is ")
    assert harness.lines[0].endswith(", to 4,5,6.")
    assert harness.lines[1].endswith("(the AlterPartitionReassignments API)")


async def test_list_without_reassignments_is_empty() -> None:
    harness = ReassignHarness()
    await list_reassignments(harness.cluster, harness.report())
    assert harness.lines == ["No partition reassignments found."]


async def test_unreadable_znodes_are_listed() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    harness.world.put_quietly("/admin/reassign_partitions_extra", b"nonsense")
    await list_reassignments(harness.cluster, harness.report())
    assert "/admin/reassign_partitions_extra cannot be read" in harness.warnings[0]


async def test_progress_has_bytes_if_all_brokers_answer() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    catch_up(harness.world, 4)
    harness.world.unregister(6)
    harness.world.run()
    state = await harness.cluster.admin.describe(())
    assert state.leaderships[T0].leader == 1
    sizes = {1: {T0: 3000}, 5: {T0: 1000}, 6: {}}
    (one,) = progress_of(state, [T0], sizes)
    assert (one.caught_up, one.lagging, one.offline) == ((4,), (5, 6), (6,))
    assert one.bytes_left == 5000
    assert "waits for 5,6 (not alive: 6), 4.9 KiB left" in one.line
    (one,) = progress_of(state, [T0], {1: {T0: 3000}, 5: {T0: 1000}})
    assert one.bytes_left is None


def test_progress_of_many_partitions_is_one_line() -> None:
    one = PartitionProgress(
        "t", 0, "/admin/reassign_partitions", (1, 2), (1,), (2,), bytes_left=1024
    )
    assert len(lines_of([one] * 20)) == 20
    assert lines_of([one] * 21) == ["21 partitions: 21 of 42 replicas caught up, 21.0 KiB left"]
    unknown = PartitionProgress("t", 1, "/admin/reassign_partitions", (1, 2), (1,), (2,))
    assert lines_of([one] * 20 + [unknown]) == ["21 partitions: 21 of 42 replicas caught up"]


# --generate -------------------------------------------------------------------------------------


async def run_generate(harness: ReassignHarness, *brokers: int) -> dict[str, dict[str, object]]:
    report = harness.report()
    await generate(harness.cluster, report, ["t"], brokers, rack_aware=True)
    return report.data


async def test_proposal_uses_the_given_brokers() -> None:
    harness = ReassignHarness()
    harness.world.create_topic("t", {number: (1, 2, 3) for number in range(4)})
    data = await run_generate(harness, 4, 5, 6)
    proposed = data["proposed"]["partitions"]
    assert isinstance(proposed, list)
    assert [one["partition"] for one in proposed] == [0, 1, 2, 3]
    assert all(sorted(one["replicas"]) == [4, 5, 6] for one in proposed)
    assert harness.lines[0].startswith("Current partition replica assignment\n{")
    assert harness.lines[1].startswith("Proposed partition reassignment configuration\n{")
    assert harness.client.writes == 0


async def test_current_assignment_of_a_move_is_its_origin() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    data = await run_generate(harness, 1, 2, 3)
    (current,) = data["current"]["partitions"]  # type: ignore[misc]
    assert current["replicas"] == [1, 2, 3]
    assert "t-0: being reassigned;" in harness.warnings[0]


async def test_missing_brokers_and_topics_are_rejected() -> None:
    harness = ReassignHarness()
    with pytest.raises(ReassignmentRefused, match="not alive: 8,9"):
        await run_generate(harness, 1, 8, 9)
    with pytest.raises(
        ReassignmentRefused, match=f"{DAEMON} is the controller, which holds no replicas"
    ):
        await run_generate(harness, 1, DAEMON)
    with pytest.raises(
        ReassignmentRefused, match="Replication factor: 3 larger than available brokers: 2"
    ):
        await run_generate(harness, 1, 2)
    with pytest.raises(ReassignmentRefused, match=r"Topic x not found\."):
        await generate(harness.cluster, harness.report(), ["x"], [1], rack_aware=True)


def racks(*names: str | None) -> list[Broker]:
    return [Broker(number, 1, (), rack) for number, rack in enumerate(names, 1)]


def test_proposal_alternates_racks_unless_they_are_disabled() -> None:
    current = {("t", number): (1, 2) for number in range(6)}
    brokers = racks("a", "a", "b", "b")
    proposed = propose(current, brokers, lambda bound: 0, rack_aware=True)
    assert all(len({brokers[one - 1].rack for one in two}) == 2 for two in proposed.values())
    with pytest.raises(ReassignmentRefused, match="Add --disable-rack-aware"):
        propose(current, racks("a", None), lambda bound: 0, rack_aware=True)
    assert propose(current, racks("a", None), lambda bound: 0, rack_aware=False)
