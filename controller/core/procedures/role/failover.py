"""The steps of a new controller (KafkaController.onControllerFailover, KB 6.2)."""

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.outcomes import SLICE, suspend
from controller.core.pauses import SLICE_SIZE
from controller.core.prepared_topics import PreparedTopic, prepare
from controller.core.procedures.admin.acls import load_acls
from controller.core.procedures.admin.features import set_up_features
from controller.core.procedures.admin.mutation_quotas import load_mutation_quotas
from controller.core.procedures.brokers.registrations import (
    open_channels,
    read_brokers,
    require_no_leftover_channels,
)
from controller.core.procedures.dynamic_configuration import read_dynamic_configuration
from controller.core.procedures.elections.partition_state_machine import start_partition_states
from controller.core.procedures.elections.rebalance import FIRST_MS, schedule_rebalance
from controller.core.procedures.elections.replica_election import resume_election
from controller.core.procedures.elections.replica_state_machine import start_replica_states
from controller.core.procedures.reassignment.initiation import resume_reassignments
from controller.core.procedures.reassignment.recovery import load_reassignments
from controller.core.procedures.reassignment.replica_deletion import process_deletions
from controller.core.procedures.role.unseen_restarts import UnseenRestarts, elect_after_restarts
from controller.core.procedures.topics.daemon_id import report_daemon_in_sync
from controller.core.procedures.topics.deletion import queue_deletions, resume_deletions
from controller.core.procedures.topics.topics import read_new_topics
from controller.core.standby import StandbyState
from controller.core.state import ControllerContext, Partition
from controller.core.values import LeaderAndIsr, counted
from controller.core.zookeeper_io import (
    delete_notifications,
    end_subtree_watch,
    list_notifications,
    read_children,
    read_state_znodes,
    read_stats,
)

_RULE = "failover"


async def fail_over(controller: Controller) -> None:
    """Take over the cluster in its current state. After an error the role is given up."""
    context = controller.context
    context.is_loaded = True
    controller.notice(
        "info",
        "elected",
        znodes.CONTROLLER,
        f"elected controller, epoch {context.epoch}; the failover begins",
    )
    if controller.standby.is_watching:
        # From here on, this controller handles the changes of states.
        end_subtree_watch(controller, znodes.BROKERS, _RULE)
    await set_up_features(controller)
    requests = [znodes.PREFERRED_ELECTION, znodes.REASSIGN_PARTITIONS]
    await read_stats(controller, requests, _RULE, watch=True)
    # Old notifications are deleted unread: their subjects are read anyway (KB 6.2 step 4).
    for parent in (znodes.LOG_DIR_EVENTS, znodes.ISR_CHANGES):
        old = await list_notifications(controller, parent, _RULE)
        await delete_notifications(controller, old, "failover: delete old notifications")
    await read_dynamic_configuration(controller)
    await load_acls(controller)
    repaired, restarts = await load_context(controller)
    await queue_deletions(controller)
    legacy = None
    elected = dict.fromkeys((*repaired, *restarts.members))
    has_kip_236 = controller.configuration.has_kip_236
    if has_kip_236 and any(one in elected for one in context.reassigning):
        legacy = await load_reassignments(controller, may_pause=False)
    await elect_after_restarts(controller, restarts)
    controller.send_metadata("failover: spread the live brokers", context.brokers)
    # The channels connect during this pause.
    await suspend(SLICE)
    prepared = await _prepare_topics(controller, restarts, repaired)
    await start_replica_states(controller, prepared)
    if has_kip_236 and legacy is None and _elects_for_moves(context):
        legacy = await load_reassignments(controller, may_pause=False)
    await start_partition_states(controller, context.assigned_without(prepared), repaired)
    if has_kip_236 and legacy is None:
        legacy = await load_reassignments(controller, may_pause=True)
    await resume_reassignments(controller, legacy)
    await process_deletions(controller)
    await resume_deletions(controller)
    await resume_election(controller)
    await load_mutation_quotas(controller)
    schedule_rebalance(controller, FIRST_MS)
    controller.standby = StandbyState()
    controller.notice(
        "info",
        "failover_done",
        znodes.CONTROLLER,
        "failover completed: "
        f"{counted(len(context.brokers), 'broker')}, "
        f"{counted(len(context.known_topics()), 'topic')}, "
        f"{counted(context.count_assigned(), 'partition')}",
    )


async def _prepare_topics(
    controller: Controller, restarts: UnseenRestarts, repaired: list[Partition]
) -> dict[str, PreparedTopic]:
    """The topics whose brokers are all live, without those that need another election. Their
    requests are made topic by topic, unless a standby has made them before. The requests of the
    other topics are made partition by partition."""
    context = controller.context
    to_elect = dict.fromkeys(one.topic.name for one in repaired)
    taken = controller.standby.take_prepared(context, [*restarts.members, *repaired])
    if controller.configuration.keeps_state_without_role:
        return taken
    prepared: dict[str, PreparedTopic] = {}
    handled = 0
    for name, topic in context.topics.items():
        one = taken.get(name)
        if one is None and name not in to_elect and name not in context.queued_for_deletion:
            one = prepare(topic, context.brokers.keys())
            handled += len(topic.partitions)
        if one is not None:
            prepared[name] = one
        if handled >= SLICE_SIZE:
            handled = 0
            await suspend(SLICE)
    return prepared


def _report_known(controller: Controller, unread: int) -> None:
    standby, context = controller.standby, controller.context
    if not standby.is_watching:
        return
    known = sum(1 for name, one in context.topics.items() if standby.topics.get(name) is one)
    text = (
        f"take-over as a standby: {known} of {counted(len(context.topics), 'topic')} are known; "
        f"{counted(unread, 'partition state')} will be read"
    )
    controller.notice("info", "standby_used", znodes.CONTROLLER, text)


def _elects_for_moves(context: ControllerContext) -> bool:
    """Whether partitions that are being reassigned need a leader: which replicas may lead depends
    on a cancellation. The brokers are informed of this controller before that is read."""
    return any(
        one.leadership is None or not context.is_online(one.leader, one)
        for one in context.reassigning
    )


async def load_context(controller: Controller) -> tuple[list[Partition], UnseenRestarts]:
    """Load brokers, topics, assignments and leaders (initializeControllerContext, KB 6.3).

    Returns the partitions whose assignment or ISR named the daemon, and the members of ISRs that
    have restarted. Raises ProcedureError if channels are left from an earlier term.
    """
    context = controller.context
    for broker in await read_brokers(controller, _RULE):
        context.brokers[broker.id] = broker
    kept = list(context.topics.values())
    children = await read_children(controller, znodes.TOPICS, _RULE, watch=True)
    others = controller.standby.adopt(context, children.children)
    topics = await read_new_topics(controller, others, _RULE)
    context.forget_leaders(kept, set(children.children))
    for place, partition in enumerate(topics.partitions, 1):
        if partition.assignment.is_being_reassigned:
            context.reassigning[partition] = None
        if place % SLICE_SIZE == 0:
            await suspend(SLICE)
    restarts = UnseenRestarts(controller)
    to_repair = await _load_leaders(controller, restarts)
    require_no_leftover_channels(controller)
    open_channels(controller, context.brokers.values(), _RULE)
    return topics.repaired + to_repair, restarts


async def _load_leaders(controller: Controller, restarts: UnseenRestarts) -> list[Partition]:
    """Read every state znode; if one is missing or unreadable, its partition has no leadership.

    Returns the partitions whose ISR names the daemon. Raises ProcedureError for a listed partition
    that has a leader, but no replicas.
    """
    to_repair = []
    context, standby = controller.context, controller.standby
    partitions = standby.unread_partitions(context)
    _report_known(controller, len(partitions))
    paths: list[str] = []
    while len(paths) < len(partitions):
        some = partitions[len(paths) : len(paths) + SLICE_SIZE]
        paths += [znodes.state_path(one.topic.name, one.number) for one in some]
        await suspend(SLICE)
    found = await read_state_znodes(controller, paths, _RULE)
    own = controller.configuration.id_without_replicas
    for place, partition in enumerate(partitions):
        state = found.parsed[place]
        if isinstance(state, LeaderAndIsr):
            partition.leadership = state
            # The conditions are those of what they guard: without them, three calls per partition.
            if found.mzxids[place] < restarts.latest:
                restarts.add(partition, found.mzxids[place])
            if partition.is_listed:
                partition.check_balance()
            if own in state.isr:
                report_daemon_in_sync(controller, partition)
                to_repair.append(partition)
        elif state is not None:
            controller.notice("error", "unreadable_znode", paths[place], f"{state}; skipped")
        if place % SLICE_SIZE == SLICE_SIZE - 1:
            await suspend(SLICE)
    restarts.add_known(standby.known_states(context))
    return to_repair
