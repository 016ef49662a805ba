"""--list: what is under way, by every route."""

from controller.core.znodes import REASSIGN_CANCEL
from controller.operator.reassignment.access import Cluster
from controller.operator.reassignment.by_hand import (
    warn_of_missing_records,
    warn_of_unreadable_topics,
    warn_of_unusable,
)
from controller.operator.reassignment.documents import Partition, listed, spelt
from controller.operator.reassignment.progress import Progress, progress_of
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.view import View


async def list_reassignments(cluster: Cluster, report: Report) -> None:
    """In Kafka's words (curReassignmentsToString), with route, identity and progress."""
    view = await cluster.access.look(None)
    moving = view.moving
    progress = progress_of(view, moving, await cluster.sizes(view, moving))
    report.data |= {
        "reassignments": [
            {"progress": one, **_details(view, (one.topic, one.partition))} for one in progress
        ],
        "cancel_stands": view.znodes.cancel_stands,
    }
    if not progress:
        report.say("No partition reassignments found.")
    else:
        report.say("Current partition reassignments:")
    for one in progress:
        report.say(_line(view, one))
        report.say(f"  {one.line}")
    for text in view.znodes.unreadable.values():
        report.warn(text)
    warn_of_unreadable_topics(report, view)
    warn_of_unusable(report, view)
    if view.znodes.cancel_stands:
        report.warn(
            f"{REASSIGN_CANCEL} stands: until --remove-cancel no reassignment starts, and what is "
            "not cancelled does not end"
        )
    warn_of_missing_records(report, view)


def _line(view: View, one: Progress) -> str:
    name = (one.topic, one.partition)
    assignment = view.assignments.get(name)
    if assignment is None:
        what = "cannot be read" if one.topic in view.unreadable_topics else "does not exist"
        return f"{spelt(name)}: {what}, asked to be {listed(one.target)}."
    text = f"{spelt(name)}: replicas: {listed(assignment.replicas)}."
    if assignment.adding:
        text += f" adding: {listed(assignment.adding)}."
    if assignment.removing:
        text += f" removing: {listed(assignment.removing)}."
    record = view.znodes.records.get(name)
    if record is not None:
        text += f" id: {record.czxid:#x}."
    return text


def _details(view: View, name: Partition) -> dict[str, object]:
    assignment = view.assignments.get(name)
    record = view.znodes.records.get(name)
    return {
        "replicas": assignment.replicas if assignment else (),
        "adding": assignment.adding if assignment else (),
        "removing": assignment.removing if assignment else (),
        "original_replicas": view.origin(name),
        "czxid": f"{record.czxid:#x}" if record else None,
    }
