"""--verify and --verify-extra."""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

import anyio

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
    Targets,
    format_partition,
)
from controller.operator.reassignment.progress import PartitionProgress, lines_of, progress_of
from controller.operator.reassignment.report import (
    DONE,
    NOT_AS_REQUESTED,
    NOT_DONE_YET,
    ProgressReport,
)
from controller.operator.reassignment.throttling import (
    clear_throttles,
    steps_to_clear,
    why_throttles_remain,
)

_POLL_SECONDS: Final = 1.0


async def verify(
    cluster: ClusterConnection,
    report: ProgressReport,
    targets: Targets,
    *,
    wait: bool,
    preserve_throttles: bool,
    dry_run: bool,
    in_any_order: bool = False,
) -> None:
    """Print for each partition whether it has its target replicas. If nothing is being
    reassigned any more, clear the throttles. With `wait`, poll until no partition of `targets`
    is being reassigned. `in_any_order`: the order of the replicas in `targets` is unknown."""
    state = await cluster.admin.describe({topic for topic, _ in targets})
    printed: list[str] = []
    while wait and _under_way(state, targets):
        lines = lines_of(await _progress(cluster, state, _under_way(state, targets)))
        for line in lines:
            if line not in printed:
                report.print_line(line)
        printed = lines
        await anyio.sleep(_POLL_SECONDS)
        state = await cluster.admin.describe({topic for topic, _ in targets})
    report.print_line("Status of partition reassignment:")
    if in_any_order:
        targets = {one: _as_assigned(state, one, targets[one]) for one in targets}
    states = [_state(state, one, targets[one]) for one in sorted(targets)]
    for line, _ in states:
        report.print_line(line)
    progress = await _progress(cluster, state, _under_way(state, targets))
    for one in progress:
        report.print_line(f"  {one.line}")
    if progress and state.znodes.cancel_exists:
        report.warn(f"{REASSIGN_CANCEL} exists: reassignments in progress are rolled back or wait")
    report.data |= {
        "partitions": [
            {"topic": name[0], "partition": name[1], "state": state}
            for name, (_, state) in zip(sorted(targets), states, strict=True)
        ],
        "progress": progress,
    }
    report.status = _status(state for _, state in states)
    warn_unreadable_topics(report, state)
    if preserve_throttles:
        return
    why = await why_throttles_remain(cluster, state)
    if why:
        if report.status == DONE:
            report.warn(f"throttles are not cleared, because {why}")
        return
    if dry_run:
        report.print_steps(steps_to_clear(state, targets, report.brokers))
    else:
        await clear_throttles(cluster.admin, report, state, targets)


async def verify_ids(
    cluster: ClusterConnection, report: ProgressReport, czxids: Sequence[int]
) -> None:
    """Print for reassignments, by the czxid of their znode, whether they are ongoing, changed or
    done (KB 14.4, 14.5)."""
    state = await cluster.admin.describe(())
    answers: list[dict[str, Any]] = []
    named: list[Partition] = []
    for czxid in czxids:
        records = [(name, one) for name, one in state.znodes.records.items() if one.czxid == czxid]
        for name, record in sorted(records, key=itemgetter(0)):
            kind = "ongoing" if record.mzxid == czxid else "changed"
            answers.append({"id": f"{czxid:#x}", "state": kind, "partition": name})
            named.append(name)
            target = format_brokers(record.reassignment.replicas)
            report.print_line(
                f"Reassignment {czxid:#x} of {format_partition(name)} is {kind}, to {target}."
            )
        by_hand = [name for name, one in state.znodes.unusable.items() if one.czxid == czxid]
        for name in sorted(by_hand):
            answers.append({"id": f"{czxid:#x}", "state": "changed", "partition": name})
            named.append(name)
            report.print_line(
                f"Reassignment {czxid:#x} of {format_partition(name)} was changed by hand."
            )
        if not records and not by_hand:
            answers.append({"id": f"{czxid:#x}", "state": "done"})
            report.print_line(f"Reassignment {czxid:#x} is done.")
    progress = await _progress(cluster, state, named)
    for one in progress:
        report.print_line(f"  {one.line}")
    report.data |= {"reassignments": answers, "progress": progress}
    warn_unusable_records(report, state)
    states = [one["state"] for one in answers]
    if "done" in states:
        # A record that was deleted by hand looks the same.
        warn_missing_records(report, await cluster.admin.describe(None))
    if "changed" in states:
        report.status = NOT_AS_REQUESTED
    elif "ongoing" in states:
        report.status = NOT_DONE_YET


async def _progress(
    cluster: ClusterConnection, state: ClusterState, partitions: Sequence[Partition]
) -> list[PartitionProgress]:
    return progress_of(state, partitions, await cluster.sizes(state, partitions))


def _under_way(state: ClusterState, targets: Targets) -> list[Partition]:
    return [one for one in sorted(targets) if state.route(one)]


def _as_assigned(
    state: ClusterState, partition: Partition, target: tuple[int, ...]
) -> tuple[int, ...]:
    """The target in the order of the assignment, if that has the same replicas."""
    assignment = state.assignments.get(partition)
    if assignment is not None and set(assignment.replicas) == set(target):
        return assignment.replicas
    return target


def _state(state: ClusterState, partition: Partition, target: tuple[int, ...]) -> tuple[str, str]:
    """A line in Kafka's format (partitionReassignmentStatesToString), and a state for --json."""
    name = format_partition(partition)
    if state.route(partition):
        return f"Reassignment of partition {name} is still in progress.", "in progress"
    assignment = state.assignments.get(partition)
    if assignment is None and partition[0] in state.unreadable_topics:
        return f"The replicas of partition {name} cannot be read.", "unreadable"
    if assignment is None:
        return f"There is no partition {name}.", "missing"
    if assignment.replicas == target:
        return f"Reassignment of partition {name} is completed.", "completed"
    return (
        f"There is no active reassignment of partition {name}, but replica set is "
        f"{format_brokers(assignment.replicas)} rather than {format_brokers(target)}.",
        "different",
    )


def _status(states: Iterable[str]) -> int:
    found = set(states)
    if "in progress" in found:
        return NOT_DONE_YET
    return NOT_AS_REQUESTED if found - {"completed"} else DONE
