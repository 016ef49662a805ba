"""--execute and --execute-extra."""

from collections.abc import Mapping, Sequence
from typing import Final

from controller.core import znodes
from controller.core.operations import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    OK,
    Check,
    Create,
    SetData,
    WriteOperation,
)
from controller.core.values import counted
from controller.core.znodes import (
    DATA_BYTES_MAX,
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    Entry,
    write_entries,
)
from controller.operator.reassignment.cluster import TRIES_MAX, ClusterConnection
from controller.operator.reassignment.cluster_state import (
    KAFKA_API,
    UNKNOWN_ROUTE,
    ClusterState,
    ControllerKind,
)
from controller.operator.reassignment.damaged_znodes import (
    unreadable_entries,
    warn_unusable_records,
)
from controller.operator.reassignment.documents import (
    Targets,
    as_document,
    format_partition,
    format_partitions,
    write_targets,
)
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.report import ProgressReport, pending_map
from controller.operator.reassignment.steps import Alter, Configure, Step, Write
from controller.operator.reassignment.submission import (
    CANCEL_EXISTS,
    below_min_insync,
    check_is_refold,
    check_submission,
)
from controller.operator.reassignment.throttling import planned_moves, set_throttle, throttle_steps

_PATH: Final = znodes.REASSIGN_PARTITIONS
_CHECK_BYTES: Final = 64
"""The size of a check in a multi, without its path; an upper bound with room for a chroot."""

_EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
_IF_CANCELLED: Final = (
    f"With refold as controller, nothing starts while {REASSIGN_CANCEL} exists, not even with "
    "--additional: --list --zookeeper reports it, and --remove-cancel --zookeeper removes it."
)


async def execute(
    cluster: ClusterConnection,
    report: ProgressReport,
    targets: Targets,
    throttle: int | None,
    *,
    additional: bool,
    dry_run: bool,
) -> None:
    """Start reassignments through /admin/reassign_partitions, or through Kafka's API without
    ZooKeeper. Raises ReassignmentRefused."""
    state = await cluster.admin.describe(_topics(targets))
    warn_unusable_records(report, state)
    limits: list[Configure] = []
    if throttle is not None:
        known = {one: replicas for one, replicas in targets.items() if one in state.assignments}
        limits = throttle_steps(planned_moves(known, state.assignments), throttle)
    if not cluster.has_zookeeper:
        await _execute_by_api(
            cluster, report, state, targets, limits, additional=additional, dry_run=dry_run
        )
    elif _runs_already(state, targets):
        report.print_line("There is an existing assignment running.")
        if state.znodes.cancel_exists:
            report.warn(CANCEL_EXISTS)
        if dry_run:
            report.print_steps(limits)
        else:
            await set_throttle(cluster, report, limits)
    else:
        await _execute_by_znode(cluster, report, state, targets, limits, dry_run=dry_run)


async def execute_extra(
    cluster: ClusterConnection,
    report: ProgressReport,
    targets: Targets,
    throttle: int | None,
    *,
    dry_run: bool,
) -> None:
    """Submit reassignments while others are in progress (KB 14.3:
    /admin/reassign_partitions_extra). Raises ReassignmentRefused."""
    limits: list[Configure] = []
    for tried in range(TRIES_MAX):
        state = await cluster.admin.describe(_topics(targets))
        check_is_refold(state, REASSIGN_PARTITIONS_EXTRA)
        check_submission(state, targets, (_PATH, REASSIGN_PARTITIONS_EXTRA))
        _warn_below_min_insync(report, state, targets)
        entries = state.znodes.extra.entries | {
            name: Entry(replicas) for name, replicas in targets.items()
        }
        content = write_entries(entries)
        _check_size(len(content), REASSIGN_PARTITIONS_EXTRA)
        write: WriteOperation = Create(REASSIGN_PARTITIONS_EXTRA, content)
        if state.znodes.extra.version is not None:
            version = state.znodes.extra.version
            write = SetData(REASSIGN_PARTITIONS_EXTRA, content, version)
        if not tried:
            warn_unusable_records(report, state)
            _print_current(report, state, targets)
            _print_rolled_back_first(report, state, targets)
            if throttle is not None:
                limits = throttle_steps(planned_moves(targets, state.assignments), throttle)
        if dry_run:
            report.print_steps([*limits, Write((write,))])
            return
        if not tried:
            await set_throttle(cluster, report, limits)
        error = await cluster.zookeeper.client.write((write,))
        if error == OK:
            _print_started(report, targets, REASSIGN_PARTITIONS_EXTRA)
            return
        if error not in (BAD_VERSION, NODE_EXISTS, NO_NODE):
            break
    raise ReassignmentRefused(f"{REASSIGN_PARTITIONS_EXTRA} could not be written: try again")


def _runs_already(state: ClusterState, targets: Targets) -> bool:
    """Whether /admin/reassign_partitions contains exactly these targets: then only their
    throttle can be changed. Raises ReassignmentRefused if it contains others."""
    pending = state.znodes.pending
    entries = pending.entries
    if pending.version is None:
        return False
    if unreadable := unreadable_entries(state):
        raise ReassignmentRefused("\n".join(unreadable))
    if all(name in entries and entries[name].replicas == targets[name] for name in targets):
        return True
    partitions = counted(len(entries), "partition")
    if state.znodes.cancel_exists:
        raise ReassignmentRefused(
            f"{CANCEL_EXISTS}. {_PATH} has {partitions}, being rolled back or waiting for the "
            "removal, too"
        )
    how = "add more with --execute-extra or --request, or end it with --cancel"
    if not state.is_interruptible and state.controller.kind is not ControllerKind.NONE:
        how = "or use --bootstrap-server without --zookeeper, which can add more and end it"
    raise ReassignmentRefused(
        f"There is an existing assignment running: {_PATH} has {partitions}. Wait for it, {how}"
    )


async def _execute_by_znode(
    cluster: ClusterConnection,
    report: ProgressReport,
    state: ClusterState,
    targets: Targets,
    limits: Sequence[Configure],
    *,
    dry_run: bool,
) -> None:
    check_submission(state, targets, ())
    _warn_below_min_insync(report, state, targets)
    _print_current(report, state, targets)
    remembers = state.controller.kind is ControllerKind.REFOLD and state.znodes.kip_236_active
    if not remembers:
        _warn_without_originals(report, state)
    step = _submission(state, targets, with_originals=remembers)
    if dry_run:
        report.print_steps([*limits, step])
        return
    await set_throttle(cluster, report, limits)
    for _ in range(TRIES_MAX):
        error = await cluster.zookeeper.client.write(step.operations)
        if error == OK:
            _print_started(report, targets, _PATH)
            return
        if error not in (BAD_VERSION, NODE_EXISTS, NO_NODE):
            raise ReassignmentRefused(f"{_PATH} could not be written (ZooKeeper code {error})")
        # A topic changed since it was read, or another submission came first.
        state = await cluster.admin.describe(_topics(targets))
        check_submission(state, targets, ())
        if state.znodes.pending.version is not None:
            raise ReassignmentRefused(
                f"There is an existing assignment running: {_PATH} was written just now"
            )
        step = _submission(state, targets, with_originals=remembers)
    raise ReassignmentRefused("the topics' znodes keep changing: try later")


def _warn_below_min_insync(report: ProgressReport, state: ClusterState, targets: Targets) -> None:
    for one in below_min_insync(state, targets):
        report.warn(f"{one}: producers with acks=all fail until it has more replicas")


def _submission(state: ClusterState, targets: Targets, *, with_originals: bool) -> Write:
    """The write of the znode, on condition that the topics have not changed since they were
    read."""
    entries = {
        name: Entry(replicas, state.origin(name) if with_originals else None)
        for name, replicas in targets.items()
    }
    content = write_entries(entries)
    checks = [
        Check(znodes.topic_path(topic), state.versions[topic]) for topic in sorted(_topics(targets))
    ]
    size = len(content) + sum(len(one.path) + _CHECK_BYTES for one in checks)
    _check_size(size, _PATH)
    return Write((*checks, Create(_PATH, content)))


def _check_size(size: int, path: str) -> None:
    if size > DATA_BYTES_MAX:
        raise ReassignmentRefused(
            f"{path} would have {size} bytes, but ZooKeeper accepts at most "
            f"{DATA_BYTES_MAX}: submit it in parts, or use --request, which splits it"
        )


def _warn_without_originals(report: ProgressReport, state: ClusterState) -> None:
    broker = state.controller.broker
    who = {
        ControllerKind.STOCK: f"broker {broker}, a stock controller, has the role",
        ControllerKind.REFOLD: (
            f"broker {broker}, a refold controller without KIP-236, has the role"
        ),
        ControllerKind.NONE: "there is no controller",
    }
    report.warn(
        f"{who[state.controller.kind]}: {_PATH} is written without original_replicas, "
        "which a stock controller cannot read, so --cancel requires refold. Keep the "
        "assignment above for a rollback"
    )


async def _execute_by_api(
    cluster: ClusterConnection,
    report: ProgressReport,
    state: ClusterState,
    targets: Targets,
    limits: Sequence[Configure],
    *,
    additional: bool,
    dry_run: bool,
) -> None:
    if state.moving and not additional:
        raise ReassignmentRefused(f"{_EXISTING}\n{_IF_CANCELLED}")
    check_submission(state, targets, (UNKNOWN_ROUTE,))
    _print_current(report, state, targets)
    steps: list[Step] = [*limits, Alter(dict(targets))]
    if dry_run:
        report.print_steps(steps)
        return
    await set_throttle(cluster, report, limits)
    refused = await cluster.kafka.api.alter(dict(targets))
    if refused:
        lines = [f"{format_partition(one)}: {text}" for one, text in sorted(refused.items())]
        raise ReassignmentRefused("Error reassigning partition(s):\n" + "\n".join(lines))
    _print_started(report, targets, KAFKA_API)


def _print_current(report: ProgressReport, state: ClusterState, targets: Targets) -> None:
    """Print the assignment to go back to (currentPartitionReplicaAssignmentToString)."""
    current = state.origins(targets)
    report.data["rollback"] = as_document(current)
    report.print_line(
        f"Current partition replica assignment\n\n{write_targets(current)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def _print_rolled_back_first(report: ProgressReport, state: ClusterState, targets: Targets) -> None:
    again = {one: entry for one, entry in state.znodes.pending.entries.items() if one in targets}
    if again:
        report.data["rolled_back_first"] = [list(one) for one in again]
        report.print_line(
            f"Rolling back the current pending reassignments {pending_map(state, again)}"
        )


def _print_started(report: ProgressReport, targets: Targets, route: str) -> None:
    plural = "" if len(targets) == 1 else "s"
    report.data |= {"route": route, "submitted": [list(one) for one in sorted(targets)]}
    report.awaited = targets
    report.print_line(
        f"Successfully started partition reassignment{plural} for {format_partitions(targets)}"
    )


def _topics(targets: Mapping[tuple[str, int], object]) -> set[str]:
    return {topic for topic, _ in targets}
