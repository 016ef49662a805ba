"""--cancel and --remove-cancel."""

from collections.abc import Set as AbstractSet

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
from controller.core.values import ANY_VERSION
from controller.core.znodes import (
    CANCEL_CONTENT,
    FORCED_CANCEL_CONTENT,
    REASSIGN_CANCEL,
    Entries,
)
from controller.operator.reassignment.access import TRIES_MAX, Cluster
from controller.operator.reassignment.by_hand import (
    unreadable_entries,
    warn_of_unreadable_topics,
    warn_of_unusable,
)
from controller.operator.reassignment.documents import Partition, Targets, listed, spelt, spelt_all
from controller.operator.reassignment.errors import Refused
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.rollback import pending_list, pending_map
from controller.operator.reassignment.statuses import NOT_DONE_YET
from controller.operator.reassignment.steps import Alter, Write
from controller.operator.reassignment.submission import check_is_refold
from controller.operator.reassignment.throttling import clear_throttles, clearing
from controller.operator.reassignment.view import Role, View

_STANDS = (
    f"{REASSIGN_CANCEL} stands until it is removed with --remove-cancel; no reassignment starts "
    "until then, nor does one of another route end"
)


async def cancel_all(
    cluster: Cluster, report: Report, *, force: bool = False, dry_run: bool
) -> None:
    """Roll back everything in /admin/reassign_partitions, as KB 14.2 says. With nothing pending
    nothing is created. `force`: do not wait until enough originals are in sync. Raises Refused."""
    view = await _look(cluster)
    check_is_refold(view, REASSIGN_CANCEL)
    if unreadable := unreadable_entries(view):
        raise Refused("\n".join(unreadable))
    warn_of_unreadable_topics(report, view)
    warn_of_unusable(report, view)
    entries = view.znodes.cancellable
    # What was submitted since the znode was created is not rolled back by it.
    going_back = {
        name: one
        for name, one in entries.items()
        if not view.znodes.cancel_stands or view.is_cancelled(name)
    }
    report.data["rolled_back"] = pending_list(view, going_back)
    if not entries:
        report.say(f"There are no pending reassignments in {znodes.REASSIGN_PARTITIONS}.")
        others = [one for one in view.moving if view.route(one)]
        if others:
            report.warn(f"by other routes, which --cancel does not end: {spelt_all(others)}")
        return
    signal = _signal(view, force=force)
    if signal is None:
        _tell_that_it_stands(report, view, entries)
        return
    report.say(f"Rolling back the current pending reassignments {pending_map(view, going_back)}")
    if force:
        _warn_of_force(report, view, going_back)
    if dry_run:
        report.say_steps([Write((signal,))])
        return
    error = await _write(cluster, view, force=force)
    if error == NODE_EXISTS:
        _tell_that_it_stands(report, view, entries)
        return
    if error != OK:
        raise Refused(f"{REASSIGN_CANCEL} could not be written (ZooKeeper code {error})")
    report.say("Successfully submitted cancellation of reassignments.")
    report.awaited = {one: view.origin(one) for one in going_back}
    if view.controller.role is Role.NOBODY:
        report.warn("nobody has the controller's role: refold rolls back when it takes it")
    report.warn(_STANDS)
    others = [one for one in view.moving if one not in entries and view.route(one)]
    if others:
        report.warn(f"by other routes, which go no further until then: {spelt_all(others)}")
    _tell_what_came_since(report, entries.keys() - going_back.keys())


async def _look(cluster: Cluster) -> View:
    """At what can be cancelled, and min.insync.replicas of its topics."""
    view = await cluster.access.look(())
    topics = {topic for topic, _ in view.znodes.cancellable}
    return await cluster.access.look(topics) if topics else view


def _signal(view: View, *, force: bool) -> WriteOperation | None:
    """What makes the controller roll back; None if /admin/reassign_cancel says so already.

    The creation of the znode is what cancels. Its content can only force a rollback that waits.
    """
    cancellation = view.znodes.cancellation
    if cancellation is None:
        return Create(REASSIGN_CANCEL, FORCED_CANCEL_CONTENT if force else CANCEL_CONTENT)
    is_rolling_back = any(view.is_cancelled(one) for one in view.znodes.cancellable)
    if not force or cancellation.is_forced or not is_rolling_back:
        return None
    return SetData(REASSIGN_CANCEL, FORCED_CANCEL_CONTENT, cancellation.version)


async def _write(cluster: Cluster, view: View, *, force: bool) -> int:
    """ZooKeeper's code; NODE_EXISTS also if somebody else has written the same meanwhile."""
    for _ in range(TRIES_MAX):
        signal = _signal(view, force=force)
        if signal is None:
            return NODE_EXISTS
        error = await cluster.zookeeper.store.write((signal,))
        if error not in (BAD_VERSION, NO_NODE, NODE_EXISTS):
            return error
        view = await _look(cluster)
    raise Refused(f"{REASSIGN_CANCEL} is changed by somebody else again and again: try later")


def _warn_of_force(report: Report, view: View, entries: Entries) -> None:
    report.warn(
        "--force: replicas outside of the originals leave the ISR although fewer than "
        f"min({MIN_INSYNC_REPLICAS}, number of originals) originals are in sync. Until more "
        "originals have caught up, producers with acks=all are refused "
        "(NOT_ENOUGH_REPLICAS), and the partition is offline or loses records if the originals in "
        "sync fail"
    )
    for name in sorted(entries):
        in_sync, needed = view.originals_in_sync(name), view.originals_needed(name)
        origin = view.origin(name)
        least = len(origin) if needed is None else needed
        if name in view.leaderships and len(in_sync) < least:
            number = f"as many as {MIN_INSYNC_REPLICAS} of the controller's configuration"
            report.warn(
                f"{spelt(name)}: originals in sync: {listed(in_sync) or 'none'}, of "
                f"{listed(origin)}; needed without --force: {needed or number}"
            )


def _tell_that_it_stands(report: Report, view: View, entries: Entries) -> None:
    """Its creation is what cancels: what is written while it stands waits instead."""
    report.status = NOT_DONE_YET
    report.awaited = {one: view.origin(one) for one in entries}
    waiting = [one for one in entries if view.waits_for_originals(one) != 0]
    report.warn(
        f"{REASSIGN_CANCEL} stands already. {spelt_all(entries)}: not rolled back yet, or "
        "submitted since; to cancel these, too, use --remove-cancel and then --cancel"
    )
    cancellation = view.znodes.cancellation
    if waiting and cancellation is not None and not cancellation.is_forced:
        report.warn(
            f"{spelt_all(waiting)}: the rollback waits until enough originals are in sync; "
            "--cancel --force does not wait"
        )


def _tell_what_came_since(report: Report, since: AbstractSet[Partition]) -> None:
    """--force speeds up a rollback; it cancels nothing that was submitted after the znode."""
    if since:
        report.status = NOT_DONE_YET
        report.warn(
            f"{spelt_all(since)}: submitted since, and not cancelled; to cancel these, too, use "
            "--remove-cancel and then --cancel"
        )


async def remove_cancel(cluster: Cluster, report: Report, *, dry_run: bool) -> None:
    """Let reassignments start again. Raises Refused."""
    view = await cluster.access.look(())
    step = Write((Delete(REASSIGN_CANCEL, ANY_VERSION),))
    if not view.znodes.cancel_stands:
        report.say(f"There is no znode {REASSIGN_CANCEL}.")
        return
    entries = view.znodes.pending.entries
    if entries:
        report.warn(
            f"not rolled back yet, or submitted meanwhile: {spelt_all(entries)}; without "
            f"{REASSIGN_CANCEL} their reassignment goes on"
        )
    if dry_run:
        report.say_steps([step])
        return
    error = await cluster.zookeeper.store.write(step.operations)
    if error not in (OK, NO_NODE):
        raise Refused(f"{REASSIGN_CANCEL} could not be removed (ZooKeeper code {error})")
    report.say(f"Successfully remove the znode {REASSIGN_CANCEL}.")


async def cancel_listed(
    cluster: Cluster,
    report: Report,
    targets: Targets,
    *,
    preserve_throttles: bool,
    dry_run: bool,
) -> None:
    """Kafka's own cancellation of these partitions, by its API. Raises Refused."""
    view = await cluster.kafka.look({topic for topic, _ in targets})
    known = [one for one in targets if one in view.assignments]
    active = [one for one in known if view.assignments[one].is_being_reassigned]
    report.data["cancelled"] = [list(one) for one in active]
    steps = [Alter(dict.fromkeys(active))] if active else []
    if dry_run:
        cleared = [] if preserve_throttles else clearing(view, targets)
        report.say_steps([*steps, *cleared])
        return
    plural = "" if len(active) == 1 else "s"
    if active:
        report.awaited = {one: view.origin(one) for one in active}
        refused = await cluster.kafka.admin.alter(dict.fromkeys(active))
        if refused:
            lines = [f"{spelt(one)}: {text}" for one, text in sorted(refused.items())]
            plural = "" if len(refused) == 1 else "s"
            text = f"Error cancelling partition reassignment{plural} for:\n"
            raise Refused(text + "\n".join(lines))
        names = spelt_all(active)
        report.say(f"Successfully cancelled partition reassignment{plural} for: {names}")
    else:
        report.say("None of the specified partition reassignments are active.")
    if not preserve_throttles:
        await clear_throttles(cluster.kafka, report, view, targets)
