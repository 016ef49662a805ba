"""--cancel and --remove-cancel."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import chain

from controller.core import znodes
from controller.core.operations import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    OK,
    Create,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.core.values import ANY_VERSION, format_brokers
from controller.core.znodes import (
    CANCEL_CONTENT,
    FORCED_CANCEL_CONTENT,
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    Entries,
)
from controller.operator.reassignment.cluster import TRIES_MAX, ClusterConnection
from controller.operator.reassignment.cluster_state import ClusterState, ControllerKind
from controller.operator.reassignment.damaged_znodes import (
    unreadable_entries,
    warn_unreadable_topics,
    warn_unusable_records,
)
from controller.operator.reassignment.documents import (
    Partition,
    Targets,
    format_partition,
    format_partitions,
)
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.report import (
    NOT_DONE_YET,
    ProgressReport,
    pending_list,
    pending_map,
)
from controller.operator.reassignment.steps import Alter, Write
from controller.operator.reassignment.submission import check_is_refold
from controller.operator.reassignment.throttling import clear_throttles, steps_to_clear

_CANCEL_REMAINS = (
    f"{REASSIGN_CANCEL} exists until it is removed with --remove-cancel; until then no "
    "reassignment starts, and those of other routes do not end"
)


async def cancel_all(
    cluster: ClusterConnection, report: ProgressReport, *, force: bool = False, dry_run: bool
) -> None:
    """Roll back everything in /admin/reassign_partitions, see KB 14.2. Without pending
    reassignments nothing is created. `force`: do not wait until enough originals are in sync.
    Raises ReassignmentRefused."""
    state = await _describe_cancellable(cluster)
    check_is_refold(state, REASSIGN_CANCEL)
    if unreadable := unreadable_entries(state):
        raise ReassignmentRefused("\n".join(unreadable))
    warn_unreadable_topics(report, state)
    warn_unusable_records(report, state)
    entries = _cancellable(state)
    # The znode does not roll back what was submitted after its creation.
    going_back = {
        name: one
        for name, one in entries.items()
        if not state.znodes.cancel_exists or state.is_cancelled(name)
    }
    report.data["rolled_back"] = pending_list(state, going_back)
    if not entries:
        report.print_line(f"There are no pending reassignments in {znodes.REASSIGN_PARTITIONS}.")
        others = [one for one in state.moving if state.route(one)]
        if others:
            report.warn(
                "reassignments of other routes, which --cancel does not end: "
                f"{format_partitions(others)}"
            )
        if state.znodes.cancel_exists:
            report.warn(_CANCEL_REMAINS)
        return
    signal = _signal(state, force=force)
    if signal is None:
        _report_existing_cancel(report, state, entries)
        return
    report.print_line(
        f"Rolling back the current pending reassignments {pending_map(state, going_back)}"
    )
    if force:
        _warn_force(report, state, going_back)
    if dry_run:
        report.print_steps([Write((signal,))])
        return
    error = await _write(cluster, state, force=force)
    if error == NODE_EXISTS:
        _report_existing_cancel(report, state, entries)
        return
    if error != OK:
        raise ReassignmentRefused(
            f"{REASSIGN_CANCEL} could not be written (ZooKeeper code {error})"
        )
    report.print_line("Successfully submitted cancellation of reassignments.")
    report.awaited = {one: state.origin(one) for one in going_back}
    report.brokers = _brokers(state, going_back)
    if state.controller.kind is ControllerKind.NONE:
        report.warn("there is no controller: refold rolls back when it takes the role")
    report.warn(_CANCEL_REMAINS)
    others = [one for one in state.moving if one not in entries and state.route(one)]
    if others:
        report.warn(
            "reassignments of other routes, which make no progress until then: "
            f"{format_partitions(others)}"
        )
    _report_later_submissions(report, entries.keys() - going_back.keys())


async def _describe_cancellable(cluster: ClusterConnection) -> ClusterState:
    """The state of everything that can be cancelled, with min.insync.replicas of its topics."""
    state = await cluster.admin.describe(())
    topics = {topic for topic, _ in state.znodes.cancellable}
    return await cluster.admin.describe(topics) if topics else state


def _cancellable(state: ClusterState) -> Entries:
    """The reassignments that can be rolled back."""
    entries = state.znodes.cancellable
    return {name: one for name, one in entries.items() if not state.is_completed_elsewhere(name)}


def _brokers(state: ClusterState, partitions: Iterable[Partition]) -> frozenset[int]:
    """The brokers that these reassignments name: original, present and requested replicas."""
    entries, assignments = state.znodes.cancellable, state.assignments
    named: list[tuple[int, ...]] = []
    for one in partitions:
        named.append(state.origin(one))
        if one in entries:
            named.append(entries[one].replicas)
        if one in assignments:
            named.append(assignments[one].replicas)
    return frozenset(chain.from_iterable(named))


def _signal(state: ClusterState, *, force: bool) -> WriteOperation | None:
    """The write that makes the controller roll back; None if /admin/reassign_cancel exists already.

    The creation of the znode cancels. Its content can only force a rollback that waits.
    """
    cancellation = state.znodes.cancellation
    if cancellation is None:
        return Create(REASSIGN_CANCEL, FORCED_CANCEL_CONTENT if force else CANCEL_CONTENT)
    is_rolling_back = any(state.is_cancelled(one) for one in state.znodes.cancellable)
    if not force or cancellation.is_forced or not is_rolling_back:
        return None
    return SetData(REASSIGN_CANCEL, FORCED_CANCEL_CONTENT, cancellation.version)


async def _write(cluster: ClusterConnection, state: ClusterState, *, force: bool) -> int:
    """Return ZooKeeper's code; NODE_EXISTS also if another writer has written the same."""
    for _ in range(TRIES_MAX):
        signal = _signal(state, force=force)
        if signal is None:
            return NODE_EXISTS
        error = await cluster.zookeeper.client.write((signal,))
        if error not in (BAD_VERSION, NO_NODE, NODE_EXISTS):
            return error
        state = await _describe_cancellable(cluster)
    raise ReassignmentRefused(f"{REASSIGN_CANCEL} keeps being changed by another writer: try later")


def _warn_force(report: ProgressReport, state: ClusterState, entries: Entries) -> None:
    report.warn(
        "--force: replicas that are not originals leave the ISR although fewer than "
        f"min({MIN_INSYNC_REPLICAS}, number of originals) originals are in sync. Until "
        "more originals have caught up, producers with acks=all are rejected "
        "(NOT_ENOUGH_REPLICAS). If the originals in sync fail, the partition goes "
        "offline or loses records"
    )
    for name in sorted(entries):
        in_sync, needed = state.originals_in_sync(name), state.originals_needed(name)
        origin = state.origin(name)
        least = len(origin) if needed is None else needed
        if name in state.leaderships and len(in_sync) < least:
            number = f"as many as {MIN_INSYNC_REPLICAS} of the controller's configuration"
            which = f"in sync: brokers {format_brokers(in_sync)}; " if in_sync else ""
            report.warn(
                f"{format_partition(name)}: {len(in_sync)} of {len(origin)} originals are in sync "
                f"({which}originals: brokers {format_brokers(origin)}); required without --force: "
                f"{needed or number}"
            )


def _report_existing_cancel(report: ProgressReport, state: ClusterState, entries: Entries) -> None:
    """Report that /admin/reassign_cancel existed before, so that these entries may not be
    cancelled: only its creation cancels, and entries submitted while it exists wait."""
    report.status = NOT_DONE_YET
    report.awaited = {one: state.origin(one) for one in entries}
    report.brokers = _brokers(state, entries)
    waiting = [one for one in entries if state.waits_for_originals(one) != 0]
    report.warn(
        f"{REASSIGN_CANCEL} exists already. {format_partitions(entries)}: not rolled "
        "back yet, or submitted later; to cancel these too, use --remove-cancel and "
        "then --cancel"
    )
    cancellation = state.znodes.cancellation
    if waiting and cancellation is not None and not cancellation.is_forced:
        report.warn(
            f"{format_partitions(waiting)}: the rollback waits until enough originals are in sync; "
            "--cancel --force does not wait"
        )


def _report_later_submissions(report: ProgressReport, since: AbstractSet[Partition]) -> None:
    """--force speeds up a rollback; it does not cancel what was submitted after the znode's
    creation."""
    if since:
        report.status = NOT_DONE_YET
        report.warn(
            f"{format_partitions(since)}: submitted later, and not cancelled; to cancel "
            "these too, use --remove-cancel and then --cancel"
        )


async def remove_cancel(
    cluster: ClusterConnection, report: ProgressReport, *, dry_run: bool
) -> None:
    """Allow reassignments again. Raises ReassignmentRefused."""
    state = await cluster.admin.describe(())
    step = Write((Delete(REASSIGN_CANCEL, ANY_VERSION),))
    if not state.znodes.cancel_exists:
        report.print_line(f"There is no znode {REASSIGN_CANCEL}.")
        return
    requested = {one for each in state.znodes.requests.values() for one in each.assignments}
    extra = state.znodes.extra.entries if state.is_interruptible else ()
    replaced = {one for one in extra if state.is_cancelled(one)}
    waiting = {*state.znodes.pending.entries, *state.znodes.extra.entries, *requested} - replaced
    if replaced:
        report.warn(
            f"{format_partitions(sorted(replaced))}: not rolled back yet; the rollback continues, "
            f"and the entry of {REASSIGN_PARTITIONS_EXTRA} begins afterwards"
        )
    if waiting:
        report.warn(
            f"not rolled back yet, or submitted later: {format_partitions(sorted(waiting))}; "
            f"without {REASSIGN_CANCEL} their reassignment begins or continues"
        )
    if dry_run:
        report.print_steps([step])
        return
    error = await cluster.zookeeper.client.write(step.operations)
    if error not in (OK, NO_NODE):
        raise ReassignmentRefused(
            f"{REASSIGN_CANCEL} could not be removed (ZooKeeper code {error})"
        )
    report.print_line(f"Successfully remove the znode {REASSIGN_CANCEL}.")


async def cancel_listed(
    cluster: ClusterConnection,
    report: ProgressReport,
    targets: Targets,
    *,
    preserve_throttles: bool,
    dry_run: bool,
) -> None:
    """Cancel the reassignments of these partitions through Kafka's API. Raises
    ReassignmentRefused."""
    state = await cluster.kafka.describe({topic for topic, _ in targets})
    known = [one for one in targets if one in state.assignments]
    active = [one for one in known if state.assignments[one].is_being_reassigned]
    report.data["cancelled"] = [list(one) for one in active]
    report.brokers = _brokers(state, active)
    steps = [Alter(dict.fromkeys(active))] if active else []
    if dry_run:
        cleared = [] if preserve_throttles else steps_to_clear(state, targets, report.brokers)
        report.print_steps([*steps, *cleared])
        return
    plural = "" if len(active) == 1 else "s"
    if active:
        report.awaited = {one: state.origin(one) for one in active}
        refused = await cluster.kafka.api.alter(dict.fromkeys(active))
        if refused:
            lines = [f"{format_partition(one)}: {text}" for one, text in sorted(refused.items())]
            plural = "" if len(refused) == 1 else "s"
            text = f"Error cancelling partition reassignment{plural} for:\n"
            raise ReassignmentRefused(text + "\n".join(lines))
        names = format_partitions(active)
        report.print_line(f"Successfully cancelled partition reassignment{plural} for: {names}")
    else:
        report.print_line("None of the specified partition reassignments are active.")
    if not preserve_throttles:
        await clear_throttles(cluster.admin, report, state, targets)
