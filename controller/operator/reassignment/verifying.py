"""--verify and --verify-extra."""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

import anyio

from controller.core.znodes import REASSIGN_CANCEL
from controller.operator.reassignment.access import Cluster
from controller.operator.reassignment.by_hand import (
    warn_of_missing_records,
    warn_of_unreadable_topics,
    warn_of_unusable,
)
from controller.operator.reassignment.documents import Partition, Targets, listed, spelt
from controller.operator.reassignment.progress import Progress, lines_of, progress_of
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.statuses import DONE, NOT_DONE_YET, OTHERWISE
from controller.operator.reassignment.throttling import (
    clear_throttles,
    clearing,
    is_anything_under_way,
)
from controller.operator.reassignment.view import View

_POLL_SECONDS: Final = 1.0


async def verify(
    cluster: Cluster,
    report: Report,
    targets: Targets,
    *,
    wait: bool,
    preserve_throttles: bool,
    dry_run: bool,
    in_any_order: bool = False,
) -> None:
    """Say of each partition whether it is where it shall be; where nothing is under way any more,
    clear the throttles. With `wait` look until nothing of `targets` is under way. `in_any_order`:
    the order of the replicas in `targets` is not known."""
    view = await cluster.access.look({topic for topic, _ in targets})
    told: list[str] = []
    while wait and _under_way(view, targets):
        lines = lines_of(await _progress(cluster, view, _under_way(view, targets)))
        for line in lines:
            if line not in told:
                report.say(line)
        told = lines
        await anyio.sleep(_POLL_SECONDS)
        view = await cluster.access.look({topic for topic, _ in targets})
    report.say("Status of partition reassignment:")
    if in_any_order:
        targets = {one: _as_assigned(view, one, targets[one]) for one in targets}
    states = [_state(view, one, targets[one]) for one in sorted(targets)]
    for line, _ in states:
        report.say(line)
    progress = await _progress(cluster, view, _under_way(view, targets))
    for one in progress:
        report.say(f"  {one.line}")
    if progress and view.znodes.cancel_stands:
        report.warn(f"{REASSIGN_CANCEL} stands: what is under way is rolled back or waits")
    report.data |= {
        "partitions": [
            {"topic": name[0], "partition": name[1], "state": state}
            for name, (_, state) in zip(sorted(targets), states, strict=True)
        ],
        "progress": progress,
    }
    report.status = _status(state for _, state in states)
    warn_of_unreadable_topics(report, view)
    if preserve_throttles or await is_anything_under_way(cluster, report, view):
        return
    if dry_run:
        report.say_steps(clearing(view, targets))
    else:
        await clear_throttles(cluster.access, report, view, targets)


async def verify_ids(cluster: Cluster, report: Report, czxids: Sequence[int]) -> None:
    """Say of reassignments by the czxid of their znode whether they go on, were changed or are
    done (KB 14.4, 14.5)."""
    view = await cluster.access.look(())
    answers: list[dict[str, Any]] = []
    named: list[Partition] = []
    for czxid in czxids:
        records = [(name, one) for name, one in view.znodes.records.items() if one.czxid == czxid]
        for name, record in sorted(records, key=itemgetter(0)):
            state = "ongoing" if record.mzxid == czxid else "changed"
            answers.append({"id": f"{czxid:#x}", "state": state, "partition": name})
            named.append(name)
            target = listed(record.reassignment.replicas)
            report.say(f"Reassignment {czxid:#x} of {spelt(name)} is {state}, to {target}.")
        by_hand = [name for name, one in view.znodes.unusable.items() if one.czxid == czxid]
        for name in sorted(by_hand):
            answers.append({"id": f"{czxid:#x}", "state": "changed", "partition": name})
            named.append(name)
            report.say(f"Reassignment {czxid:#x} of {spelt(name)} is changed, by hand.")
        if not records and not by_hand:
            answers.append({"id": f"{czxid:#x}", "state": "done"})
            report.say(f"Reassignment {czxid:#x} is done.")
    progress = await _progress(cluster, view, named)
    for one in progress:
        report.say(f"  {one.line}")
    report.data |= {"reassignments": answers, "progress": progress}
    warn_of_unusable(report, view)
    states = [one["state"] for one in answers]
    if "done" in states:
        # One that is gone by hand looks the same.
        warn_of_missing_records(report, await cluster.access.look(None))
    if "changed" in states:
        report.status = OTHERWISE
    elif "ongoing" in states:
        report.status = NOT_DONE_YET


async def _progress(
    cluster: Cluster, view: View, partitions: Sequence[Partition]
) -> list[Progress]:
    return progress_of(view, partitions, await cluster.sizes(view, partitions))


def _under_way(view: View, targets: Targets) -> list[Partition]:
    return [one for one in sorted(targets) if view.route(one)]


def _as_assigned(view: View, partition: Partition, target: tuple[int, ...]) -> tuple[int, ...]:
    """The same replicas in the order of the assignment, if these are assigned."""
    assignment = view.assignments.get(partition)
    if assignment is not None and set(assignment.replicas) == set(target):
        return assignment.replicas
    return target


def _state(view: View, partition: Partition, target: tuple[int, ...]) -> tuple[str, str]:
    """A line in Kafka's words (partitionReassignmentStatesToString), and one word for --json."""
    name = spelt(partition)
    if view.route(partition):
        return f"Reassignment of partition {name} is still in progress.", "in progress"
    assignment = view.assignments.get(partition)
    if assignment is None and partition[0] in view.unreadable_topics:
        return f"The replicas of partition {name} cannot be read.", "unreadable"
    if assignment is None:
        return f"There is no partition {name}.", "missing"
    if assignment.replicas == target:
        return f"Reassignment of partition {name} is completed.", "completed"
    return (
        f"There is no active reassignment of partition {name}, but replica set is "
        f"{listed(assignment.replicas)} rather than {listed(target)}.",
        "different",
    )


def _status(states: Iterable[str]) -> int:
    found = set(states)
    if "in progress" in found:
        return NOT_DONE_YET
    return OTHERWISE if found - {"completed"} else DONE
