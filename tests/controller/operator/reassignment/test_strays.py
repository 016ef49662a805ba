"""--list-strays and --delete-strays on a simulated cluster."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from controller.core import znodes
from controller.core.operations import Create, CreateSequential, Delete
from controller.core.values import ANY_VERSION
from controller.core.znodes import (
    REPLICA_DELETIONS,
    ReplicaDeletion,
    deletion_path,
    read_deletion,
    write_deletion,
)
from controller.operator.reassignment import stray_deleting
from controller.operator.reassignment.cluster import ClusterConnection, KafkaClusterAdmin
from controller.operator.reassignment.documents import Partition
from controller.operator.reassignment.errors import KafkaUnavailable, ReassignmentRefused
from controller.operator.reassignment.kafka_admin import (
    AdminMetadata,
    KafkaAdmin,
    LogDirs,
    ReplicaOnDisk,
)
from controller.operator.reassignment.report import (
    DONE,
    NOT_AS_REQUESTED,
    NOT_DONE_YET,
    ProgressReport,
)
from controller.operator.reassignment.stray_deleting import delete_strays
from controller.operator.reassignment.stray_listing import list_strays
from controller.operator.reassignment.strays import Stray, split_strays
from replay.world.requests import GetChildren
from tests.controller.core.procedures.reassignment.interrupting import submit
from tests.controller.core.procedures.reassignment.reassigning import T0, catch_up
from tests.controller.operator.reassignment.harness import LOG_BYTES, ReassignHarness
from tests.controller.operator.reassignment.scripted_admin import Output, ScriptedAdmin

GONE = ("gone", 3)


def with_strays() -> ReassignHarness:
    """Broker 5 has t-0, which is on [1,2,3], and a partition of a topic that does not exist. No
    controller is active, so that requests stay pending."""
    harness = ReassignHarness()
    harness.without_controller()
    harness.leave_on_disk(5, T0, GONE)
    return harness


def add_deletion(harness: ReassignHarness, child: str, broker: int, *names: Partition) -> str:
    """A deletion that the controller has recorded for a broker."""
    if harness.world.data(REPLICA_DELETIONS) is None:
        harness.world.put_quietly(REPLICA_DELETIONS, b"")
    content = write_deletion(ReplicaDeletion(broker, names))
    harness.world.put_quietly(deletion_path(child), content)
    return deletion_path(child)


def deletions(harness: ReassignHarness) -> list[ReplicaDeletion]:
    """The requested deletions."""
    return [read_deletion(path, harness.world.data(path)) for path in paths(harness)]


def paths(harness: ReassignHarness) -> list[str]:
    """The znodes of these deletions."""
    found = harness.world.ask(GetChildren(REPLICA_DELETIONS)).children or ()
    return [deletion_path(one) for one in sorted(found)]


async def run_list(harness: ReassignHarness) -> ProgressReport:
    report = harness.report()
    await list_strays(harness.with_disks, report)
    return report


async def run_delete(
    harness: ReassignHarness, *, timeout_ms: int = 0, dry_run: bool = False
) -> ProgressReport:
    report = harness.report()
    await delete_strays(harness.with_disks, report, timeout_ms=timeout_ms, dry_run=dry_run)
    return report


# --list-strays ----------------------------------------------------------------------------------


async def test_list_without_strays_is_empty() -> None:
    harness = ReassignHarness()
    report = await run_list(harness)
    assert report.status == DONE
    assert harness.lines == ["No stray replicas found."]
    assert not harness.warnings
    assert report.data["strays"] == []


async def test_replicas_without_an_assignment_are_listed() -> None:
    harness = with_strays()
    report = await run_list(harness)
    assert report.status == NOT_AS_REQUESTED
    assert harness.lines == [
        "2 stray replicas, which no assignment contains:",
        "  gone-3 on broker 5: 1.0 KiB in /data; the partition does not exist",
        "  t-0 on broker 5: 1.0 KiB in /data; assigned to 1,2,3",
        "--delete-strays deletes those that no pending deletion covers",
    ]
    assert report.data["strays"][1] == Stray("t", 0, 5, "/data", LOG_BYTES, (1, 2, 3))
    assert harness.client.writes == 0


async def test_replicas_of_a_moving_partition_are_no_strays() -> None:
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5)})
    harness.leave_on_disk(6, T0)
    assert (await run_list(harness)).status == DONE


async def test_replicas_of_a_topic_being_deleted_are_no_strays() -> None:
    harness = with_strays()
    harness.world.put_quietly(znodes.delete_topic_path("gone"), b"")
    await run_list(harness)
    assert harness.lines[0] == "1 stray replica, which no assignment contains:"
    assert "gone" not in harness.output


async def test_replicas_of_an_unreadable_topic_are_no_strays_and_the_topic_is_reported() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    harness.world.put_quietly(znodes.topic_path("t"), b"garbage")
    report = await run_list(harness)
    assert harness.lines == ["No stray replicas found."]
    assert "/brokers/topics/t cannot be read" in harness.warnings[0]
    assert report.status == NOT_DONE_YET


async def test_log_of_kraft_is_no_stray() -> None:
    harness = ReassignHarness()
    harness.leave_on_disk(5, ("__cluster_metadata", 0))
    assert (await run_list(harness)).status == DONE


async def test_move_started_during_the_scan_leaves_no_strays() -> None:
    harness = ReassignHarness()
    harness.disks.looking = lambda: submit(harness.world, {T0: (4, 5, 6)})
    assert (await run_list(harness)).status == DONE


async def test_move_completed_during_the_scan_leaves_no_strays() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    harness.leave_on_disk(4, T0)
    harness.disks.looking = lambda: harness.world.change_topic_quietly("t", {0: (4,)})
    assert (await run_list(harness)).status == DONE


async def test_stray_with_a_pending_deletion_is_listed_with_it() -> None:
    harness = with_strays()
    path = add_deletion(harness, "7_1", 5, T0, GONE)
    report = await run_list(harness)
    assert report.status == NOT_DONE_YET
    assert harness.lines[1:] == [
        f"  gone-3 on broker 5: 1.0 KiB in /data; the partition does not exist; {path} is "
        "pending: the controller deletes the replica",
        f"  t-0 on broker 5: 1.0 KiB in /data; assigned to 1,2,3; {path} is pending: the "
        "controller deletes the replica",
    ]
    assert report.data["strays"][0].deletion == path


async def test_pending_deletion_for_another_broker_does_not_cover_a_stray() -> None:
    harness = with_strays()
    add_deletion(harness, "7_1", 4, T0, GONE)
    assert (await run_list(harness)).status == NOT_AS_REQUESTED


async def test_pending_deletions_for_an_unregistered_broker_are_listed() -> None:
    harness = ReassignHarness()
    harness.world.unregister(6)
    harness.without_controller()
    path = add_deletion(harness, "7_1", 6, T0)
    report = await run_list(harness)
    assert report.status == NOT_DONE_YET
    assert harness.lines[-1] == (
        f"Pending deletion of t-0 ({path}): broker 6 is not registered; the controller deletes the "
        "replicas when the broker registers. If the broker never registers, delete the znode."
    )
    assert report.data["pending_deletions"] == [
        {"znode": path, "broker": 6, "registered": False, "partitions": (T0,)}
    ]


async def test_unreadable_deletion_is_reported() -> None:
    harness = with_strays()
    path = add_deletion(harness, "7_1", 5, T0)
    harness.world.put_quietly(path, b"garbage")
    assert (await run_list(harness)).status == NOT_AS_REQUESTED
    assert f"{path} cannot be read as a replica deletion" in harness.warnings[0]


async def test_broker_that_does_not_answer_is_reported_and_the_list_incomplete() -> None:
    harness = ReassignHarness()
    harness.disks.unresponsive.add(2)
    report = await run_list(harness)
    assert report.status == NOT_DONE_YET
    assert harness.warnings == [
        "Warning: cannot list the replicas of broker 2: node 2 does not answer: timed out"
    ]
    assert report.data["brokers_not_asked"] == [2]


async def test_unregistered_broker_with_replicas_is_reported() -> None:
    harness = ReassignHarness()
    harness.world.unregister(3)
    harness.world.run()
    report = await run_list(harness)
    assert report.status == NOT_DONE_YET
    assert harness.warnings == [
        "Warning: brokers 3 are not registered: their disks cannot be scanned"
    ]


async def test_offline_log_directory_is_reported() -> None:
    harness = ReassignHarness()
    harness.disks.broken.add(2)
    report = await run_list(harness)
    assert report.status == NOT_DONE_YET
    assert harness.warnings == [
        "Warning: /broken of broker 2 cannot be read: kafka_storage_error (code 56)"
    ]


class ScriptedDisks(ScriptedAdmin):
    """Brokers without access to ZooKeeper: t-0 is on [1,2,3], and broker 4 has more."""

    async def metadata(self, topics: Iterable[str] | None) -> AdminMetadata:
        return await super().metadata({"t"} if topics is None else topics)

    async def log_dirs(self, broker: int) -> LogDirs:
        on_disk = (T0, GONE) if broker == 4 else (T0,)
        return LogDirs(tuple(ReplicaOnDisk(one, "/data", 7) for one in on_disk))


async def test_strays_are_listed_without_zookeeper_with_a_warning_about_deleted_topics() -> None:
    output = Output()
    await list_strays(ClusterConnection(None, KafkaClusterAdmin(ScriptedDisks())), output)
    assert output.lines[1:3] == [
        "  gone-3 on broker 4: 7 B in /data; the partition does not exist",
        "  t-0 on broker 4: 7 B in /data; assigned to 1,2,3",
    ]
    assert "without --zookeeper, topics that are being deleted" in output.warnings[0]


class ScriptedClient:
    """Answers one DescribeLogDirs."""

    def __init__(self, *results: Any) -> None:
        self.results = results
        self.asked: list[Any] = []

    async def ask(self, node: int, asked: Any, request: Any) -> Any:
        self.asked.append(request)
        return SimpleNamespace(results=self.results)


def log_dir(path: str, *partitions: tuple[int, bool]) -> Any:
    """A directory of a response with partitions of t. True marks a future replica."""
    schema = __import__("kio.schema.describe_log_dirs.v1.response", fromlist=["response"])
    return schema.DescribeLogDirsResult(
        error_code=schema.ErrorCode.none,
        log_dir=path,
        topics=(
            schema.DescribeLogDirsTopic(
                name="t",
                partitions=tuple(
                    schema.DescribeLogDirsPartition(
                        partition_index=number,
                        partition_size=10,
                        offset_lag=0,
                        is_future_key=is_future,
                    )
                    for number, is_future in partitions
                ),
            ),
        ),
    )


async def test_future_replicas_are_omitted() -> None:
    client = ScriptedClient(log_dir("/a", (0, False)), log_dir("/b", (0, True), (1, False)))
    found = await KafkaAdmin(client).log_dirs(1)  # type: ignore[arg-type]
    assert found == LogDirs((ReplicaOnDisk(T0, "/a", 10), ReplicaOnDisk(("t", 1), "/b", 10)))
    assert client.asked[0].topics is None


async def test_broker_that_names_no_directory_requires_a_permission() -> None:
    with pytest.raises(KafkaUnavailable, match="DescribeLogDirs requires DESCRIBE on the cluster"):
        await KafkaAdmin(ScriptedClient()).log_dirs(1)  # type: ignore[arg-type]


# --delete-strays --------------------------------------------------------------------------------


def carry_out(harness: ReassignHarness, *, deletes: bool = True) -> None:
    """The controller carries out the pending deletions, or drops them."""
    for path, one in zip(paths(harness), deletions(harness), strict=True):
        for name in one.partitions if deletes else ():
            harness.world.brokers[one.broker].disk.logs.pop(name, None)
        harness.world.ask(Delete(path, ANY_VERSION))


async def test_delete_requests_one_deletion_per_broker_and_reports_deleted_replicas() -> None:
    harness = with_strays()
    harness.leave_on_disk(4, GONE)
    asked: list[ReplicaDeletion] = []
    harness.client.after_write = lambda: asked.extend(deletions(harness))
    async with harness.while_waiting(lambda: carry_out(harness)):
        report = await run_delete(harness, timeout_ms=60_000)
    assert harness.lines[-3:] == [
        "Asked the controller to delete from broker 4: gone-3",
        "Asked the controller to delete from broker 5: gone-3,t-0",
        "Deleted 3 replicas, 3.0 KiB.",
    ]
    assert report.status == DONE
    assert report.data["deleted"] == [
        {"topic": "gone", "partition": 3, "broker": 4},
        {"topic": "gone", "partition": 3, "broker": 5},
        {"topic": "t", "partition": 0, "broker": 5},
    ]
    assert (await run_list(harness)).status == DONE


async def test_delete_writes_children_that_the_controller_reads() -> None:
    harness = with_strays()
    await run_delete(harness)
    assert deletions(harness) == [ReplicaDeletion(5, (GONE, T0))]
    [path] = paths(harness)
    assert path.startswith("/admin/replica_deletions/requested_")


async def test_delete_reports_unconfirmed_deletions_at_the_timeout() -> None:
    harness = with_strays()
    report = await run_delete(harness)
    [path] = paths(harness)
    assert report.status == NOT_DONE_YET
    assert harness.warnings[-1] == (
        f"Warning: broker 5 has not confirmed the deletion of gone-3,t-0 yet; {path} remains, and "
        "the controller deletes the replicas when the broker answers"
    )
    assert any("there is no controller" in one for one in harness.warnings)
    assert report.data["left"] == [{"znode": path, "broker": 5, "partitions": (GONE, T0)}]


async def test_delete_reports_deletions_that_the_controller_dropped() -> None:
    harness = with_strays()
    async with harness.while_waiting(lambda: carry_out(harness, deletes=False)):
        report = await run_delete(harness, timeout_ms=60_000)
    assert report.status == NOT_AS_REQUESTED
    assert "Deleted" not in harness.output
    assert "t-0 on broker 5" in harness.warnings[-1]
    assert "see the controller's log for the reason" in harness.warnings[-1]


async def test_delete_requests_no_pending_deletion_again() -> None:
    harness = with_strays()
    add_deletion(harness, "7_1", 5, T0)
    await run_delete(harness)
    assert deletions(harness) == [ReplicaDeletion(5, (T0,)), ReplicaDeletion(5, (GONE,))]


async def test_delete_without_strays_writes_nothing() -> None:
    harness = ReassignHarness()
    report = await run_delete(harness)
    assert report.status == DONE
    assert harness.lines == ["No stray replicas found."]
    assert harness.client.writes == 0


async def test_dry_run_of_delete_prints_the_steps() -> None:
    harness = with_strays()
    await run_delete(harness, dry_run=True)
    assert harness.client.writes == 0
    assert harness.lines[-2:] == [
        "1. check that the version of /brokers/topics/t is 1",
        "2. create /admin/replica_deletions/requested_NNNNNNNNNN: "
        '{"version":1,"broker":5,"partitions":{"gone":[3],"t":[0]}}',
    ]


@pytest.mark.parametrize(
    "assign",
    [
        lambda harness: harness.world.change_topic_quietly("t", {0: (1, 2, 5)}),
        lambda harness: harness.world.change_topic_quietly(
            "t", {0: (6, 1, 2, 3)}, adding_replicas={"0": [6]}
        ),
        lambda harness: (
            harness.world.put_quietly(znodes.delete_topic_path("t"), b"")
            or harness.world.change_topic_quietly("t", {0: (1, 2, 3)})
        ),
    ],
    ids=["assigned", "moving", "deleted"],
)
async def test_delete_omits_a_replica_that_was_assigned_meanwhile(
    assign: Callable[[ReassignHarness], object],
) -> None:
    harness = with_strays()
    harness.world.ask(Create(REPLICA_DELETIONS))
    harness.client.before_write = lambda: assign(harness)
    await run_delete(harness)
    assert deletions(harness) == [ReplicaDeletion(5, (GONE,))]
    assert "Asked the controller to delete from broker 5: gone-3" in harness.lines


async def test_delete_requests_nothing_if_all_replicas_were_assigned_meanwhile() -> None:
    harness = ReassignHarness()
    harness.without_controller()
    harness.leave_on_disk(5, T0)
    harness.world.ask(Create(REPLICA_DELETIONS))
    harness.client.before_write = lambda: harness.world.change_topic_quietly("t", {0: (5,)})
    report = await run_delete(harness)
    assert report.status == DONE
    assert deletions(harness) == []


async def test_delete_is_refused_under_a_stock_controller() -> None:
    harness = with_strays()
    harness.hand_over(2)
    with pytest.raises(ReassignmentRefused) as fault:
        await run_delete(harness)
    assert str(fault.value) == (
        "broker 2, a stock controller, has the role: it does not support /admin/replica_deletions. "
        "Let refold take the role"
    )
    assert harness.client.writes == 0


async def test_large_deletions_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [Stray("gone", number, 5, "/data", 1, None) for number in range(100)]
    parts = split_strays(many, 300)
    assert [one for part in parts for one in part] == many
    assert all(
        len(write_deletion(ReplicaDeletion(5, tuple(one.name for one in part)))) <= 300
        for part in parts
    )
    harness = with_strays()
    monkeypatch.setattr(stray_deleting, "DATA_BYTES_MAX", 60)
    await run_delete(harness)
    assert deletions(harness) == [ReplicaDeletion(5, (GONE,)), ReplicaDeletion(5, (T0,))]
    assert isinstance(harness.client.written[-1], CreateSequential)


async def test_replicas_left_on_disk_by_a_completed_move_are_listed() -> None:
    """Replicas remain if a broker was dead while the controller deleted its replicas."""
    harness = ReassignHarness()
    submit(harness.world, {T0: (4, 5, 6)})
    catch_up(harness.world, 4, 5, 6)
    harness.without_controller()
    harness.leave_on_disk(3, T0)
    report = await run_list(harness)
    assert "  t-0 on broker 3: 1.0 KiB in /data; assigned to 4,5,6" in harness.lines
    assert report.status == NOT_AS_REQUESTED
