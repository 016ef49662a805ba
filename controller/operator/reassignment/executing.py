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
from controller.core.znodes import DATA_BYTES_MAX, REASSIGN_PARTITIONS_EXTRA, Entry, write_entries
from controller.operator.reassignment.access import TRIES_MAX, Cluster
from controller.operator.reassignment.by_hand import unreadable_entries, warn_of_unusable
from controller.operator.reassignment.documents import (
    Targets,
    as_document,
    spelt,
    spelt_all,
    write_targets,
)
from controller.operator.reassignment.errors import Refused
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.rollback import pending_map
from controller.operator.reassignment.steps import Alter, Configure, Step, Write, throttle_steps
from controller.operator.reassignment.submission import (
    CANCEL_STANDS,
    below_min_insync,
    check_is_refold,
    check_submission,
)
from controller.operator.reassignment.throttles import moves
from controller.operator.reassignment.throttling import limit
from controller.operator.reassignment.view import KAFKA_API, UNKNOWN_ROUTE, Role, View

_PATH: Final = znodes.REASSIGN_PARTITIONS
_CHECK_BYTES: Final = 64
"""Of a check in a multi, beside its path; at most, and with room for a chroot."""

_EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)


async def execute(
    cluster: Cluster,
    report: Report,
    targets: Targets,
    throttle: int | None,
    *,
    additional: bool,
    dry_run: bool,
) -> None:
    """Start reassignments by /admin/reassign_partitions, or by Kafka's API where there is no
    ZooKeeper to write to. Raises Refused."""
    view = await cluster.access.look(_topics(targets))
    warn_of_unusable(report, view)
    limits: list[Configure] = []
    if throttle is not None:
        known = {one: replicas for one, replicas in targets.items() if one in view.assignments}
        limits = throttle_steps(moves(known, view.assignments), throttle)
    if not cluster.has_zookeeper:
        await _execute_by_api(
            cluster, report, view, targets, limits, additional=additional, dry_run=dry_run
        )
    elif _runs_already(view, targets):
        report.say("There is an existing assignment running.")
        if view.znodes.cancel_stands:
            report.warn(CANCEL_STANDS)
        if dry_run:
            report.say_steps(limits)
        else:
            await limit(cluster, report, limits)
    else:
        await _execute_by_znode(cluster, report, view, targets, limits, dry_run=dry_run)


async def execute_extra(
    cluster: Cluster, report: Report, targets: Targets, throttle: int | None, *, dry_run: bool
) -> None:
    """Submit reassignments while others are under way (KB 14.3: /admin/reassign_partitions_extra).
    Raises Refused."""
    limits: list[Configure] = []
    for tried in range(TRIES_MAX):
        view = await cluster.access.look(_topics(targets))
        check_is_refold(view, REASSIGN_PARTITIONS_EXTRA)
        check_submission(view, targets, (_PATH, REASSIGN_PARTITIONS_EXTRA))
        _warn_of_too_few(report, view, targets)
        entries = view.znodes.extra.entries | {
            name: Entry(replicas) for name, replicas in targets.items()
        }
        content = write_entries(entries)
        _check_size(len(content), REASSIGN_PARTITIONS_EXTRA)
        write: WriteOperation = Create(REASSIGN_PARTITIONS_EXTRA, content)
        if view.znodes.extra.version is not None:
            version = view.znodes.extra.version
            write = SetData(REASSIGN_PARTITIONS_EXTRA, content, version)
        if not tried:
            warn_of_unusable(report, view)
            _say_current(report, view, targets)
            _say_rolled_back_first(report, view, targets)
            if throttle is not None:
                limits = throttle_steps(moves(targets, view.assignments), throttle)
        if dry_run:
            report.say_steps([*limits, Write((write,))])
            return
        if not tried:
            await limit(cluster, report, limits)
        error = await cluster.zookeeper.store.write((write,))
        if error == OK:
            _say_started(report, targets, REASSIGN_PARTITIONS_EXTRA)
            return
        if error not in (BAD_VERSION, NODE_EXISTS, NO_NODE):
            break
    raise Refused(f"{REASSIGN_PARTITIONS_EXTRA} could not be written: try again")


def _runs_already(view: View, targets: Targets) -> bool:
    """Whether exactly that is in /admin/reassign_partitions: only its throttle can be changed."""
    pending = view.znodes.pending
    entries = pending.entries
    if pending.version is None:
        return False
    if unreadable := unreadable_entries(view):
        raise Refused("\n".join(unreadable))
    if all(name in entries and entries[name].replicas == targets[name] for name in targets):
        return True
    if view.znodes.cancel_stands:
        raise Refused(
            f"{CANCEL_STANDS}. {_PATH} has {len(entries)} partitions, which are being rolled back "
            "or wait for that, too"
        )
    how = "add more with --execute-extra or --request, or end it with --cancel"
    if not view.is_interruptible and view.controller.role is not Role.NOBODY:
        how = "or use --bootstrap-server without --zookeeper, which can add more and end it"
    raise Refused(
        f"There is an existing assignment running: {_PATH} has {len(entries)} partitions. Wait for "
        f"it, {how}"
    )


async def _execute_by_znode(
    cluster: Cluster,
    report: Report,
    view: View,
    targets: Targets,
    limits: Sequence[Configure],
    *,
    dry_run: bool,
) -> None:
    check_submission(view, targets, ())
    _warn_of_too_few(report, view, targets)
    _say_current(report, view, targets)
    remembers = view.controller.role is Role.REFOLD and view.znodes.are_served
    if not remembers:
        _warn_without_originals(report, view)
    step = _submission(view, targets, with_originals=remembers)
    if dry_run:
        report.say_steps([*limits, step])
        return
    await limit(cluster, report, limits)
    for _ in range(TRIES_MAX):
        error = await cluster.zookeeper.store.write(step.operations)
        if error == OK:
            _say_started(report, targets, _PATH)
            return
        if error not in (BAD_VERSION, NODE_EXISTS, NO_NODE):
            raise Refused(f"{_PATH} could not be written (ZooKeeper code {error})")
        # A topic was changed since it was read, or somebody else was faster.
        view = await cluster.access.look(_topics(targets))
        check_submission(view, targets, ())
        if view.znodes.pending.version is not None:
            raise Refused(f"There is an existing assignment running: {_PATH} was written just now")
        step = _submission(view, targets, with_originals=remembers)
    raise Refused("the topics' znodes are changed again and again: try later")


def _warn_of_too_few(report: Report, view: View, targets: Targets) -> None:
    for one in below_min_insync(view, targets):
        report.warn(f"{one}: producers with acks=all fail until it has more")


def _submission(view: View, targets: Targets, *, with_originals: bool) -> Write:
    """The znode, on condition that the topics are as they were when the originals were read."""
    entries = {
        name: Entry(replicas, view.origin(name) if with_originals else None)
        for name, replicas in targets.items()
    }
    content = write_entries(entries)
    checks = [
        Check(znodes.topic_path(topic), view.versions[topic]) for topic in sorted(_topics(targets))
    ]
    size = len(content) + sum(len(one.path) + _CHECK_BYTES for one in checks)
    _check_size(size, _PATH)
    return Write((*checks, Create(_PATH, content)))


def _check_size(size: int, path: str) -> None:
    if size > DATA_BYTES_MAX:
        raise Refused(
            f"{path} would have {size} bytes, and ZooKeeper takes {DATA_BYTES_MAX}: submit it in "
            "parts, or with --request, which splits it"
        )


def _warn_without_originals(report: Report, view: View) -> None:
    broker = view.controller.broker
    who = {
        Role.STOCK: f"broker {broker}, a stock controller, has the role",
        Role.REFOLD: f"broker {broker}, a refold controller without KIP-236, has the role",
        Role.NOBODY: "nobody has the controller's role",
    }
    report.warn(
        f"{who[view.controller.role]}: {_PATH} is written without original_replicas, which a stock "
        "controller cannot read, and --cancel needs refold. Keep the assignment above to go back to"
    )


async def _execute_by_api(
    cluster: Cluster,
    report: Report,
    view: View,
    targets: Targets,
    limits: Sequence[Configure],
    *,
    additional: bool,
    dry_run: bool,
) -> None:
    if view.moving and not additional:
        raise Refused(_EXISTING)
    check_submission(view, targets, (UNKNOWN_ROUTE,))
    _say_current(report, view, targets)
    steps: list[Step] = [*limits, Alter(dict(targets))]
    if dry_run:
        report.say_steps(steps)
        return
    await limit(cluster, report, limits)
    refused = await cluster.kafka.admin.alter(dict(targets))
    if refused:
        lines = [f"{spelt(one)}: {text}" for one, text in sorted(refused.items())]
        raise Refused("Error reassigning partition(s):\n" + "\n".join(lines))
    _say_started(report, targets, KAFKA_API)


def _say_current(report: Report, view: View, targets: Targets) -> None:
    """What goes back (currentPartitionReplicaAssignmentToString)."""
    current = view.origins(targets)
    report.data["rollback"] = as_document(current)
    report.say(
        f"Current partition replica assignment\n\n{write_targets(current)}\n\n"
        "Save this to use as the --reassignment-json-file option during rollback"
    )


def _say_rolled_back_first(report: Report, view: View, targets: Targets) -> None:
    again = {one: entry for one, entry in view.znodes.pending.entries.items() if one in targets}
    if again:
        report.data["rolled_back_first"] = [list(one) for one in again]
        report.say(f"Rolling back the current pending reassignments {pending_map(view, again)}")


def _say_started(report: Report, targets: Targets, route: str) -> None:
    plural = "" if len(targets) == 1 else "s"
    report.data |= {"route": route, "submitted": [list(one) for one in sorted(targets)]}
    report.awaited = targets
    report.say(f"Successfully started partition reassignment{plural} for {spelt_all(targets)}")


def _topics(targets: Mapping[tuple[str, int], object]) -> set[str]:
    return {topic for topic, _ in targets}
