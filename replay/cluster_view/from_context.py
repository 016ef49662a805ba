"""The cluster as refold's fold knows it."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import structs

from controller.core.commands import CommandId, LeaderAndIsrRequest
from controller.core.fold import Fold
from controller.core.state import ControllerContext, Partition, Topic
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.triggers import trigger_name
from controller.core.values import Assignment, Broker
from controller.core.znodes import broker_path
from replay.cluster_view.views import (
    NO_BROKER,
    BrokerView,
    ClusterView,
    ControllerView,
    DeletionStatus,
    DeletionView,
    PartitionStatus,
    PartitionView,
    ProcedureView,
    ReplicaDeletionView,
    StuckRegistrationView,
    TopicView,
    UnansweredView,
    partition_view,
    reassignments_of,
)
from replay.names import partition_name

_STATUS: dict[PartitionState, PartitionStatus] = {
    PartitionState.NEW: "new",
    PartitionState.ONLINE: "online",
    PartitionState.OFFLINE: "offline",
    PartitionState.NON_EXISTENT: "new",
}

Rewriting = Mapping[Partition, tuple[Assignment, Assignment]]
"""Partitions whose assignment is being changed in memory: the assignment that ZooKeeper still has,
and the one that the partition gets."""


def cluster_of(
    fold: Fold,
    seq: int,
    time: str,
    procedure: ProcedureView | None = None,
    context: ControllerContext | None = None,
    rewriting: Rewriting = MappingProxyType({}),
) -> ClusterView:
    """The cluster after an event; `context` is that of an earlier term, if it is wanted instead of
    the current one."""
    controller = fold.controller
    context = context or controller.context
    topics = [
        _topic(context, topic, rewriting)
        for _, topic in sorted(context.topics.items())
        if topic.is_known or topic.name in context.queued_for_deletion
    ]
    brokers = [_broker(context, context.brokers[id]) for id in sorted(context.brokers)]
    return ClusterView(
        seq=seq,
        time=time,
        log="recorded",
        controller=controller_of(fold, context),
        brokers=brokers,
        topics=topics,
        reassignments=reassignments_of(topics, brokers),
        deletions=[_deletion(context, name) for name in context.queued_for_deletion],
        replica_deletions=_replica_deletions(context),
        procedure=procedure,
        queued=[trigger_name(one) for one in controller.triggers],
        unanswered=_unanswered_requests(context),
        stuck_registrations=_stuck_registrations(context),
        requests=[f"request {one}" for one in (*context.waiting, *context.propagating)],
    )


def partition_of(
    context: ControllerContext,
    topic: str,
    number: int,
    rewriting: Rewriting = MappingProxyType({}),
) -> PartitionView | None:
    """One partition as `cluster_of` shows it; None if it does not exist."""
    found = context.topics.get(topic)
    if found is None or not (found.is_known or topic in context.queued_for_deletion):
        return None
    partition = found.partitions.get(number)
    if partition is None or not partition.is_assigned:
        return None
    return _partition(context, partition, rewriting)


def broker_of(context: ControllerContext, id: int) -> BrokerView | None:
    """One broker; None if it is not registered."""
    found = context.brokers.get(id)
    return _broker(context, found) if found is not None else None


def _topic(context: ControllerContext, topic: Topic, rewriting: Rewriting) -> TopicView:
    partitions = sorted(topic.assigned(), key=lambda one: one.number)
    id = topic.id.hex() if topic.id is not None else None
    return TopicView(topic.name, id, [_partition(context, one, rewriting) for one in partitions])


def controller_of(fold: Fold, context: ControllerContext) -> ControllerView:
    """The role of the daemon."""
    controller = fold.controller
    if not controller.is_active and context is controller.context:
        return ControllerView("standby", NO_BROKER, 0, controller.session_id)
    is_of_this_term = context is controller.context
    is_failing_over = not context.is_loaded or (is_of_this_term and fold.is_failing_over)
    return ControllerView(
        "failing over" if is_failing_over else "active",
        controller.configuration.broker_id,
        context.epoch,
        controller.session_id,
    )


def _broker(context: ControllerContext, broker: Broker) -> BrokerView:
    endpoints = [f"{one.listener}://{one.host}:{one.port}" for one in broker.endpoints]
    is_shutting_down = broker.id in context.shutting_down
    suspect = context.suspects.get(broker.id)
    is_stuck = suspect is not None and suspect.is_registered and suspect.is_reported
    return BrokerView(broker.id, broker.epoch, endpoints, broker.rack, is_shutting_down, is_stuck)


def _partition(
    context: ControllerContext, partition: Partition, rewriting: Rewriting
) -> PartitionView:
    stored, wanted = rewriting.get(partition, (partition.assignment, partition.assignment))
    replicas, record = stored.replicas, context.reassignments.get(partition)
    view = partition_view(
        partition.topic.name,
        partition.number,
        "deleting" if context.is_queued(partition) else _STATUS[partition.state],
        partition.leadership,
        stored,
        (one for one in replicas if not context.is_online(one, partition)),
    )
    return structs.replace(
        view,
        in_failed_dirs=tuple(
            one for one in replicas if partition in context.offline_dirs.get(one, ())
        ),
        replica_states={
            broker: one.name for broker, one in sorted(partition.replica_states.items())
        },
        rollback_waits=context.rollback_waiting.get(partition, ""),
        becoming=wanted.target if stored != partition.assignment else (),
        originals=record.original_replicas if record is not None else (),
    )


def _deletion(context: ControllerContext, name: str) -> DeletionView:
    replicas = list(context.replicas_of(name)) if name in context.topics else []
    offline = {broker for broker, one in replicas if not context.is_online(broker, one)}
    asked = {
        broker
        for broker, one in replicas
        if one.replica_states.get(broker) is ReplicaState.DELETION_STARTED
    }
    status: DeletionStatus = "queued"
    if name in context.ineligible_for_deletion:
        status = "waits"
    elif name in context.deletion_started:
        status = "under way"
    return DeletionView(name, status, tuple(sorted(offline)), tuple(sorted(asked)))


def _replica_deletions(context: ControllerContext) -> list[ReplicaDeletionView]:
    """The replicas whose deletion is not confirmed, each once."""
    pending: dict[tuple[str, int, int], bool] = {}
    for one in context.deletions.values():
        for name in one.names:
            key = (*name, one.broker)
            pending[key] = pending.get(key, False) or one.is_reported
    return [
        ReplicaDeletionView(
            partition_name(topic, number), broker, broker in context.brokers, is_reported
        )
        for (topic, number, broker), is_reported in sorted(pending.items())
    ]


def _stuck_registrations(context: ControllerContext) -> list[StuckRegistrationView]:
    return [
        StuckRegistrationView(
            one.broker,
            broker_path(one.broker),
            one.is_registered,
            one.session,
            f"{one.endpoint.host}:{one.endpoint.port}",
        )
        for _, one in sorted(context.suspects.items())
        if one.is_reported
    ]


def _unanswered_requests(context: ControllerContext) -> list[UnansweredView]:
    """By broker the oldest request that it has not answered. Of UpdateMetadata requests only the
    last one is known."""
    sent: dict[int, list[tuple[CommandId, str]]] = {}
    for id, request in context.in_flight.items():
        api = "LeaderAndIsr" if isinstance(request, LeaderAndIsrRequest) else "StopReplica"
        sent.setdefault(request.broker, []).append((id, api))
    for broker, id in context.unacked_metadata.items():
        sent.setdefault(broker, []).append((id, "UpdateMetadata"))
    return [
        UnansweredView(broker, api, id.cause, len(sent[broker]))
        for broker, (id, api) in sorted((broker, min(one)) for broker, one in sent.items())
    ]
