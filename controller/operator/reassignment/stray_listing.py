"""--list-strays: replicas on disk that no assignment contains."""

from collections.abc import Iterable

import anyio
from msgspec import Struct

from controller.core.values import format_brokers
from controller.core.znodes import REPLICA_DELETIONS, ReplicaDeletion
from controller.operator.reassignment.cluster import ClusterConnection
from controller.operator.reassignment.cluster_state import ClusterState, Deletions
from controller.operator.reassignment.damaged_znodes import warn_unreadable_topics
from controller.operator.reassignment.documents import format_partitions
from controller.operator.reassignment.errors import KafkaUnavailable
from controller.operator.reassignment.kafka_admin import LogDirs
from controller.operator.reassignment.report import NOT_AS_REQUESTED, NOT_DONE_YET, ProgressReport
from controller.operator.reassignment.strays import Stray, find_strays
from controller.operator.reassignment.zookeeper_state import pending_deletions

_DELETE = "--delete-strays deletes those that no pending deletion covers"


class StrayScan(Struct, frozen=True):
    """A scan of the disks of all live brokers. `unresponsive`: why brokers did not answer.
    `state`: the cluster after the scan."""

    strays: list[Stray]
    state: ClusterState
    deletions: Deletions
    disks: dict[int, LogDirs]
    unresponsive: dict[int, str]

    @property
    def uncovered(self) -> list[Stray]:
        """The strays that no pending deletion covers."""
        return [one for one in self.strays if one.deletion is None]

    @property
    def unreachable_deletions(self) -> dict[str, ReplicaDeletion]:
        """Pending deletions for brokers whose disks could not be scanned, by path."""
        pending = self.deletions.by_path.items()
        return {path: one for path, one in pending if one.broker not in self.disks}

    @property
    def unregistered(self) -> list[int]:
        """Brokers with assigned replicas that are not registered."""
        assigned = {one for it in self.state.assignments.values() for one in it.replicas}
        return sorted(assigned - self.state.brokers.keys())


async def scan(cluster: ClusterConnection) -> StrayScan:
    """Read the assignment, the pending deletions, the disks, and the assignment again.

    With this order a replica that a reassignment leaves on disk is assigned, covered by a pending
    deletion, or already deleted. Therefore no replica is reported wrongly.
    """
    before = await cluster.admin.describe_all()
    deletions = Deletions()
    if cluster.has_zookeeper:
        deletions = await pending_deletions(cluster.zookeeper.client)
    disks, unresponsive = await _disks(cluster, before.brokers)
    after = await cluster.admin.describe_all()
    strays = find_strays(before, after, disks, deletions.by_path)
    return StrayScan(strays, after, deletions, disks, unresponsive)


async def _disks(
    cluster: ClusterConnection, brokers: Iterable[int]
) -> tuple[dict[int, LogDirs], dict[int, str]]:
    disks: dict[int, LogDirs] = {}
    unresponsive: dict[int, str] = {}

    async def scan_disks(broker: int) -> None:
        try:
            disks[broker] = await cluster.kafka.api.log_dirs(broker)
        except KafkaUnavailable as fault:
            unresponsive[broker] = str(fault)

    async with anyio.create_task_group() as group:
        for broker in brokers:
            group.start_soon(scan_disks, broker)
    return dict(sorted(disks.items())), dict(sorted(unresponsive.items()))


async def list_strays(cluster: ClusterConnection, report: ProgressReport) -> None:
    """List strays, and pending deletions for brokers that do not answer."""
    found = await scan(cluster)
    report_strays(cluster, report, found)
    if found.uncovered:
        report.print_line(_DELETE)
        report.status = NOT_AS_REQUESTED
    elif found.strays or found.unreachable_deletions or not _is_whole(found):
        report.status = NOT_DONE_YET


def report_strays(cluster: ClusterConnection, report: ProgressReport, found: StrayScan) -> None:
    """Print the results of a scan, and what could not be scanned."""
    report.data |= {
        "strays": found.strays,
        "pending_deletions": [
            {
                "znode": path,
                "broker": one.broker,
                "registered": one.broker in found.state.brokers,
                "partitions": one.partitions,
            }
            for path, one in found.deletions.by_path.items()
        ],
        "brokers_not_asked": sorted({*found.unresponsive, *found.unregistered}),
    }
    count = len(found.strays)
    if not count:
        report.print_line("No stray replicas found.")
    else:
        plural = "" if count == 1 else "s"
        report.print_line(f"{count} stray replica{plural}, which no assignment contains:")
    for one in found.strays:
        report.print_line(f"  {one.line}")
    for path, pending in found.unreachable_deletions.items():
        when = "does not answer"
        if pending.broker not in found.state.brokers:
            when = (
                "is not registered; the controller deletes the replicas when the broker registers. "
                "If the broker never registers, delete the znode"
            )
        names = format_partitions(pending.partitions)
        report.print_line(f"Pending deletion of {names} ({path}): broker {pending.broker} {when}.")
    _warn(cluster, report, found)


def _warn(cluster: ClusterConnection, report: ProgressReport, found: StrayScan) -> None:
    for broker, why in found.unresponsive.items():
        report.warn(f"cannot list the replicas of broker {broker}: {why}")
    if found.unregistered:
        report.warn(
            f"brokers {format_brokers(found.unregistered)} are not registered: their "
            "disks cannot be scanned"
        )
    for broker, disk in found.disks.items():
        for log_dir, why in disk.unreadable.items():
            report.warn(f"{log_dir} of broker {broker} cannot be read: {why}")
    for text in found.deletions.unreadable.values():
        report.warn(f"{text}: its replicas are unknown")
    warn_unreadable_topics(report, found.state)
    if not cluster.has_zookeeper and found.strays:
        report.warn(
            "without --zookeeper, topics that are being deleted or that the client may "
            f"not see look like topics that do not exist, and {REPLICA_DELETIONS} is not "
            "read"
        )


def _is_whole(found: StrayScan) -> bool:
    """Whether every disk was scanned."""
    unreadable = any(one.unreadable for one in found.disks.values())
    unknown = found.unresponsive or found.unregistered or found.state.unreadable_topics
    return not (unreadable or unknown)
