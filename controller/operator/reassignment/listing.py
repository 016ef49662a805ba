"""--list: all reassignments in progress."""

from controller.core.values import format_brokers
from controller.core.znodes import REASSIGN_CANCEL
from controller.operator.reassignment.cluster import ClusterConnection
from controller.operator.reassignment.cluster_state import ClusterState
from controller.operator.reassignment.damaged_znodes import (
    warn_missing_records,
    warn_unreadable_topics,
    warn_unusable_records,
)
from controller.operator.reassignment.documents import (
    Partition,
    format_partition,
    format_partitions,
)
from controller.operator.reassignment.progress import PartitionProgress, progress_of
from controller.operator.reassignment.report import ProgressReport


async def list_reassignments(cluster: ClusterConnection, report: ProgressReport) -> None:
    """List reassignments in Kafka's format (curReassignmentsToString), with route, id and
    progress."""
    state = await cluster.admin.describe(None)
    moving = state.moving
    progress = progress_of(state, moving, await cluster.sizes(state, moving))
    report.data |= {
        "reassignments": [
            {"progress": one, **_details(state, (one.topic, one.partition))} for one in progress
        ],
        "cancel_exists": state.znodes.cancel_exists,
    }
    if not progress:
        report.print_line("No partition reassignments found.")
    else:
        report.print_line("Current partition reassignments:")
    for one in progress:
        report.print_line(_line(state, one))
        report.print_line(f"  {one.line}")
    if completed := state.completed_elsewhere:
        report.data["completed_elsewhere"] = [list(one) for one in completed]
        report.warn(
            f"another controller completed the reassignments of {format_partitions(completed)}: "
            "--cancel does not undo them, and refold removes their entries and records when it "
            "takes the role"
        )
    for text in state.znodes.unreadable.values():
        report.warn(text)
    warn_unreadable_topics(report, state)
    warn_unusable_records(report, state)
    if state.znodes.cancel_exists:
        report.warn(
            f"{REASSIGN_CANCEL} exists: until --remove-cancel no reassignment starts, "
            "and those that are not cancelled do not end"
        )
    warn_missing_records(report, state)


def _line(state: ClusterState, one: PartitionProgress) -> str:
    name = (one.topic, one.partition)
    assignment = state.assignments.get(name)
    if assignment is None:
        what = "cannot be read" if one.topic in state.unreadable_topics else "does not exist"
        return f"{format_partition(name)}: {what}, requested: {format_brokers(one.target)}."
    text = f"{format_partition(name)}: replicas: {format_brokers(assignment.replicas)}."
    if assignment.adding:
        text += f" adding: {format_brokers(assignment.adding)}."
    if assignment.removing:
        text += f" removing: {format_brokers(assignment.removing)}."
    record = state.znodes.records.get(name)
    if record is not None:
        text += f" id: {record.czxid:#x}."
    return text


def _details(state: ClusterState, name: Partition) -> dict[str, object]:
    assignment = state.assignments.get(name)
    record = state.znodes.records.get(name)
    return {
        "replicas": assignment.replicas if assignment else (),
        "adding": assignment.adding if assignment else (),
        "removing": assignment.removing if assignment else (),
        "original_replicas": state.origin(name),
        "czxid": f"{record.czxid:#x}" if record else None,
    }
