"""--list-strays: replicas on disk that no assignment names."""

from collections.abc import Iterable

from msgspec import Struct

from controller.core.znodes import REPLICA_DELETIONS, ReplicaDeletion
from controller.operator.reassignment.access import Cluster
from controller.operator.reassignment.by_hand import warn_of_unreadable_topics
from controller.operator.reassignment.documents import listed, spelt_all
from controller.operator.reassignment.errors import KafkaUnavailable
from controller.operator.reassignment.kafka_admin import LogDirs
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.statuses import NOT_DONE_YET, OTHERWISE
from controller.operator.reassignment.strays import Stray, find_strays
from controller.operator.reassignment.view import Deletions, View
from controller.operator.reassignment.zookeeper_view import pending_deletions

_DELETE = "--delete-strays deletes those that no pending deletion covers"


class Found(Struct, frozen=True):
    """A look at the disks of every live broker. `silent` says of brokers why they did not answer;
    `view` is the cluster afterwards."""

    strays: list[Stray]
    view: View
    deletions: Deletions
    disks: dict[int, LogDirs]
    silent: dict[int, str]

    @property
    def uncovered(self) -> list[Stray]:
        """The strays that no pending deletion covers."""
        return [one for one in self.strays if one.deletion is None]

    @property
    def unasked(self) -> dict[str, ReplicaDeletion]:
        """The pending deletions for brokers whose disks nobody could look at, by path."""
        pending = self.deletions.by_path.items()
        return {path: one for path, one in pending if one.broker not in self.disks}

    @property
    def unregistered(self) -> list[int]:
        """Brokers with assigned replicas that are not registered."""
        assigned = {one for it in self.view.assignments.values() for one in it.replicas}
        return sorted(assigned - self.view.brokers.keys())


async def find(cluster: Cluster) -> Found:
    """Look at the assignment, the pending deletions, the disks, and the assignment again.

    In that order a replica that a move leaves behind is assigned, covered by a pending deletion or
    deleted already: none is reported wrongly.
    """
    before = await cluster.access.look_at_all()
    deletions = Deletions()
    if cluster.has_zookeeper:
        deletions = await pending_deletions(cluster.zookeeper.store)
    disks, silent = await _disks(cluster, before.brokers)
    after = await cluster.access.look_at_all()
    strays = find_strays(before, after, disks, deletions.by_path)
    return Found(strays, after, deletions, disks, silent)


async def _disks(
    cluster: Cluster, brokers: Iterable[int]
) -> tuple[dict[int, LogDirs], dict[int, str]]:
    disks: dict[int, LogDirs] = {}
    silent: dict[int, str] = {}
    for broker in sorted(brokers):
        try:
            disks[broker] = await cluster.kafka.admin.log_dirs(broker)
        except KafkaUnavailable as fault:
            silent[broker] = str(fault)
    return disks, silent


async def list_strays(cluster: Cluster, report: Report) -> None:
    """List them, with the pending deletions for brokers that cannot be asked."""
    found = await find(cluster)
    tell(cluster, report, found)
    if found.uncovered:
        report.say(_DELETE)
        report.status = OTHERWISE
    elif found.strays or found.unasked or not _is_whole(found):
        report.status = NOT_DONE_YET


def tell(cluster: Cluster, report: Report, found: Found) -> None:
    """What was found, and what nobody could look at."""
    report.data |= {
        "strays": found.strays,
        "pending_deletions": [
            {
                "znode": path,
                "broker": one.broker,
                "registered": one.broker in found.view.brokers,
                "partitions": one.partitions,
            }
            for path, one in found.deletions.by_path.items()
        ],
        "brokers_not_asked": sorted({*found.silent, *found.unregistered}),
    }
    count = len(found.strays)
    if not count:
        report.say("No stray replicas found.")
    else:
        plural = "" if count == 1 else "s"
        report.say(f"{count} stray replica{plural}, which no assignment names:")
    for one in found.strays:
        report.say(f"  {one.line}")
    for path, pending in found.unasked.items():
        when = "does not answer"
        if pending.broker not in found.view.brokers:
            when = (
                "is not registered; the controller deletes the replicas when it registers. If it "
                "never does, delete the znode"
            )
        names = spelt_all(pending.partitions)
        report.say(f"Pending deletion of {names} ({path}): broker {pending.broker} {when}.")
    _warn(cluster, report, found)


def _warn(cluster: Cluster, report: Report, found: Found) -> None:
    for broker, why in found.silent.items():
        report.warn(f"broker {broker} could not be asked for its replicas: {why}")
    if found.unregistered:
        report.warn(
            f"brokers {listed(found.unregistered)} are not registered: what is on their disks is "
            "unknown"
        )
    for broker, disk in found.disks.items():
        for log_dir, why in disk.unreadable.items():
            report.warn(f"{log_dir} of broker {broker} cannot be read: {why}")
    for text in found.deletions.unreadable.values():
        report.warn(f"{text}: which replicas it names is unknown")
    warn_of_unreadable_topics(report, found.view)
    if not cluster.has_zookeeper and found.strays:
        report.warn(
            "without --zookeeper topics that are being deleted, or that the client may not see, "
            f"look like topics that do not exist, and {REPLICA_DELETIONS} is not looked at"
        )


def _is_whole(found: Found) -> bool:
    """Whether every disk could be looked at."""
    unreadable = any(one.unreadable for one in found.disks.values())
    unknown = found.silent or found.unregistered or found.view.unreadable_topics
    return not (unreadable or unknown)
