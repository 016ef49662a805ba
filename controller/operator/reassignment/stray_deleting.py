"""--delete-strays: asks the controller to delete replicas that no assignment contains."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio

from controller.core import znodes
from controller.core.operations import BAD_VERSION, NO_NODE, OK, Check, Create, CreateSequential
from controller.core.znodes import (
    DATA_BYTES_MAX,
    DELETION_PREFIX,
    REPLICA_DELETIONS,
    ReplicaDeletion,
    write_deletion,
)
from controller.operator.reassignment.cluster import TRIES_MAX, ClusterConnection
from controller.operator.reassignment.cluster_state import ClusterState, ControllerKind
from controller.operator.reassignment.documents import format_partitions
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.progress import format_bytes
from controller.operator.reassignment.report import NOT_AS_REQUESTED, NOT_DONE_YET, ProgressReport
from controller.operator.reassignment.steps import Write
from controller.operator.reassignment.stray_listing import report_strays, scan
from controller.operator.reassignment.strays import Stray, deletion_of, split_strays, still_strays
from controller.operator.reassignment.submission import check_is_refold
from controller.operator.reassignment.zookeeper_state import pending_deletions

_POLL_SECONDS: Final = 0.2


async def delete_strays(
    cluster: ClusterConnection, report: ProgressReport, *, timeout_ms: int, dry_run: bool
) -> None:
    """Create a child of /admin/replica_deletions for each broker with strays, and wait until the
    controller has removed it. Raises ReassignmentRefused."""
    check_is_refold(await cluster.admin.describe(()), REPLICA_DELETIONS, by_brokers=False)
    found = await scan(cluster)
    report_strays(cluster, report, found)
    parts = split_strays(found.uncovered, DATA_BYTES_MAX)
    if dry_run:
        report.print_steps([_step(found.state, part) for part in parts])
        return
    asked = [one for part in parts for one in await _ask(cluster, report, found.state, part)]
    if not asked:
        return
    if found.state.controller.kind is ControllerKind.NONE:
        report.warn("there is no controller: refold deletes the replicas when it takes the role")
    left = await _until_confirmed(cluster, asked, timeout_ms)
    await _report_result(cluster, report, asked, left)


def _step(state: ClusterState, part: Sequence[Stray]) -> Write:
    """The write of the znode, on condition that the topics have not changed since they were
    read. A topic that does not exist allows no such condition; the controller checks it again."""
    topics = dict.fromkeys(one.topic for one in part)
    checks = (
        Check(znodes.topic_path(topic), state.versions[topic])
        for topic in topics
        if topic in state.versions
    )
    content = write_deletion(deletion_of(part))
    return Write((*checks, CreateSequential(DELETION_PREFIX, content)))


async def _ask(
    cluster: ClusterConnection, report: ProgressReport, state: ClusterState, part: Sequence[Stray]
) -> Sequence[Stray]:
    """Ask the controller to delete a part. Return what was requested, without replicas that are
    assigned by now."""
    store = cluster.zookeeper.client
    for _ in range(TRIES_MAX):
        if not part:
            return ()
        if not await store.exists(REPLICA_DELETIONS):
            await store.write((Create(REPLICA_DELETIONS),))
        error = await store.write(_step(state, part).operations)
        if error == OK:
            names = format_partitions(one.name for one in part)
            report.print_line(
                f"Asked the controller to delete from broker {part[0].broker}: {names}"
            )
            return part
        if error not in (BAD_VERSION, NO_NODE):
            raise ReassignmentRefused(
                f"{DELETION_PREFIX} could not be created (ZooKeeper code {error})"
            )
        # A topic changed since it was read.
        state = await cluster.admin.describe({one.topic for one in part})
        part = still_strays(state, part)
    raise ReassignmentRefused("the topics' znodes keep changing: try later")


async def _until_confirmed(
    cluster: ClusterConnection, asked: Sequence[Stray], timeout_ms: int
) -> dict[str, ReplicaDeletion]:
    """The deletions that are still pending when all are confirmed or the time limit has passed."""
    deadline = time.monotonic() + timeout_ms / 1000
    left = await _deletions_of_strays(cluster, asked)
    while left and time.monotonic() < deadline:
        await anyio.sleep(_POLL_SECONDS)
        left = await _deletions_of_strays(cluster, asked)
    return left


async def _deletions_of_strays(
    cluster: ClusterConnection, asked: Sequence[Stray]
) -> dict[str, ReplicaDeletion]:
    wanted = {(one.broker, one.name) for one in asked}
    pending = await pending_deletions(cluster.zookeeper.client)
    return {
        path: one
        for path, one in pending.by_path.items()
        if any((one.broker, name) in wanted for name in one.partitions)
    }


async def _report_result(
    cluster: ClusterConnection,
    report: ProgressReport,
    asked: Sequence[Stray],
    left: Mapping[str, ReplicaDeletion],
) -> None:
    """Print what was deleted and what is left, pending or still on disk."""
    again = await scan(cluster)
    on_disk = {(one.broker, one.name) for one in again.strays}
    pending = {(one.broker, name) for one in left.values() for name in one.partitions}
    deleted: list[Stray] = []
    refused: list[Stray] = []
    for one in asked:
        if (one.broker, one.name) in pending:
            continue
        is_there = (one.broker, one.name) in on_disk or one.broker not in again.disks
        (refused if is_there else deleted).append(one)
    report.data |= {
        "deleted": _by_partition(deleted),
        "not_deleted": _by_partition(refused),
        "left": [
            {"znode": path, "broker": one.broker, "partitions": one.partitions}
            for path, one in left.items()
        ],
    }
    if deleted:
        plural = "" if len(deleted) == 1 else "s"
        size = format_bytes(sum(one.bytes for one in deleted))
        report.print_line(f"Deleted {len(deleted)} replica{plural}, {size}.")
    for path, deletion in left.items():
        report.status = NOT_DONE_YET
        report.warn(
            f"broker {deletion.broker} has not confirmed the deletion of "
            f"{format_partitions(deletion.partitions)} yet; {path} remains, and the controller "
            "deletes the replicas when the broker answers"
        )
    for one in refused:
        report.status = NOT_AS_REQUESTED
        report.warn(
            f"{one.line}; {REPLICA_DELETIONS} no longer contains the replica, but the replica may "
            "still be on the disk: see the controller's log for the reason, and run --list-strays "
            "again"
        )


def _by_partition(strays: Sequence[Stray]) -> list[dict[str, Any]]:
    return [
        {"topic": one.topic, "partition": one.partition, "broker": one.broker} for one in strays
    ]
