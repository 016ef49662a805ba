"""--cancel and --remove-cancel."""

from controller.core import znodes
from controller.core.operations import NO_NODE, NODE_EXISTS, OK, Create, Delete
from controller.core.reassignment_znodes import CANCEL_CONTENT, REASSIGN_CANCEL, Entries
from controller.core.values import ANY_VERSION
from controller.operator.reassignment.access import Cluster
from controller.operator.reassignment.by_hand import (
    unreadable_entries,
    warn_of_unreadable_topics,
    warn_of_unusable,
)
from controller.operator.reassignment.documents import Targets, spelt, spelt_all
from controller.operator.reassignment.errors import Refused
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.rollback import pending_list, pending_map
from controller.operator.reassignment.statuses import NOT_DONE_YET
from controller.operator.reassignment.steps import Alter, Write
from controller.operator.reassignment.submission import check_is_refold
from controller.operator.reassignment.throttling import clear_throttles, clearing
from controller.operator.reassignment.view import Role

_STANDS = (
    f"{REASSIGN_CANCEL} stands until it is removed with --remove-cancel; no reassignment starts "
    "until then, nor does one of another route end"
)


async def cancel_all(cluster: Cluster, report: Report, *, dry_run: bool) -> None:
    """Roll back everything in /admin/reassign_partitions, as seed 000 says. With nothing pending
    nothing is created. Raises Refused."""
    view = await cluster.access.look(())
    check_is_refold(view, REASSIGN_CANCEL)
    if unreadable := unreadable_entries(view):
        raise Refused("\n".join(unreadable))
    warn_of_unreadable_topics(report, view)
    warn_of_unusable(report, view)
    entries = view.znodes.cancellable
    report.data["rolled_back"] = pending_list(view, entries)
    if not entries:
        report.say(f"There are no pending reassignments in {znodes.REASSIGN_PARTITIONS}.")
        others = [one for one in view.moving if view.route(one)]
        if others:
            report.warn(f"by other routes, which --cancel does not end: {spelt_all(others)}")
        return
    if view.znodes.cancel_stands:
        _tell_that_it_stands(report, entries)
        return
    report.say(f"Rolling back the current pending reassignments {pending_map(view, entries)}")
    step = Write((Create(REASSIGN_CANCEL, CANCEL_CONTENT),))
    if dry_run:
        report.say_steps([step])
        return
    error = await cluster.zookeeper.store.write(step.operations)
    if error == NODE_EXISTS:
        _tell_that_it_stands(report, entries)
        return
    if error != OK:
        raise Refused(f"{REASSIGN_CANCEL} could not be created (ZooKeeper code {error})")
    report.say("Successfully submitted cancellation of reassignments.")
    report.awaited = {one: view.origin(one) for one in entries}
    if view.controller.role is Role.NOBODY:
        report.warn("nobody has the controller's role: refold rolls back when it takes it")
    report.warn(_STANDS)
    others = [one for one in view.moving if one not in entries and view.route(one)]
    if others:
        report.warn(f"by other routes, which go no further until then: {spelt_all(others)}")


def _tell_that_it_stands(report: Report, entries: Entries) -> None:
    """Its creation is what cancels: what is written while it stands waits instead."""
    report.status = NOT_DONE_YET
    report.warn(
        f"{REASSIGN_CANCEL} stands already. {spelt_all(entries)}: not rolled back yet, or "
        "submitted since; to cancel these, too, use --remove-cancel and then --cancel"
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
