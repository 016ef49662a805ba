"""Deleting topics, from the marker to the last znode (Kafka's TopicDeletionManager, KB 8).

A topic is queued. Its replicas are stopped, then deleted, then removed from the context. While one
of its replicas is offline, the topic is ineligible and waits.
"""

from collections.abc import Iterable

from controller.core import znodes
from controller.core.commands import Reason, StopReplicaRequest
from controller.core.controller import Controller
from controller.core.deviations import (
    DELETION_ENDS_REASSIGNMENT,
    DELETION_MARK_ENDS,
    DELETION_NEEDS_NO_STATE,
    DELETIONS_OF_THIS_TERM,
    NEW_TOPICS_DELETED,
)
from controller.core.events import BrokerResponded
from controller.core.operations import NO_NODE, NOT_EMPTY, OK, Delete, WriteOperation
from controller.core.pauses import pause
from controller.core.procedures.elections.partition_state_machine import change_partitions
from controller.core.procedures.elections.replica_state_machine import Replicas, change_replicas
from controller.core.procedures.reassignment_znodes.entries import remove_entries
from controller.core.procedures.reassignment_znodes.records import (
    remove_records,
    report_ended_with_topic,
)
from controller.core.state import ControllerContext, Partition, sorted_partitions
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.triggers import TopicChange, TopicDeletion
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import read_children, write

_RULE = "topic deletion"
_REASSIGNED = "one of its partitions is being reassigned"
_OFFLINE = "some of its replicas are offline"
_FAILED = "some of its replicas could not be deleted"


async def process_topic_deletion(controller: Controller) -> None:
    """The children of /admin/delete_topics changed (processTopicDeletion, KB 8.2.1)."""
    context = controller.context
    children = await read_children(controller, znodes.DELETE_TOPICS, _RULE, watch=True)
    known = dict.fromkeys(context.known_topics())
    unknown = [name for name in children.children if name not in known]
    if unknown and _may_be_new(controller):
        controller.enqueue(TopicDeletion())
        for name in unknown:
            controller.observer.deviates(NEW_TOPICS_DELETED, name)
        unknown = []
    for name in unknown:
        text = f"there is no topic {name}: the request to delete it is removed"
        controller.notice("warning", "deletion_refused", znodes.delete_topic_path(name), text)
    await _delete_markers(controller, unknown)
    topics = [name for name in children.children if name in known]
    if not controller.configuration.delete_topic_enable:
        await _refuse(controller, topics)
        return
    _halt(controller, [one for one in topics if _is_being_reassigned(context, one)], _REASSIGNED)
    _queue(context, topics)
    ended = _end_reassignments(controller)
    for partition in ended:
        report_ended_with_topic(controller, partition, context.reassignments.get(partition))
    if topics:
        await resume_deletions(controller)
    if ended:
        targets = {one.key: one.assignment.target for one in ended}
        await remove_entries(controller, lambda name, target: targets.get(name) == target)
        await remove_records(controller, ended)


def _may_be_new(controller: Controller) -> bool:
    """Whether a topic that is not known may have been created (NEW_TOPICS_DELETED). ZooKeeper
    reports that before a later read of the markers."""
    applies = NEW_TOPICS_DELETED.applies(controller.configuration)
    return applies and TopicChange() in controller.triggers


async def queue_deletions(controller: Controller) -> None:
    """Queue the deletions that the last controller left (KB 6.2 steps 6 and 7); sends nothing."""
    context = controller.context
    children = await read_children(controller, znodes.DELETE_TOPICS, _RULE, watch=True)
    if not controller.configuration.delete_topic_enable:
        await _refuse(controller, children.children)
        return
    _queue(context, children.children)
    _end_reassignments(controller)
    queued = [name for name in children.children if name in context.topics]
    _halt(controller, [one for one in queued if _has_offline_replica(context, one)], _OFFLINE)
    _halt(controller, [one for one in queued if _is_being_reassigned(context, one)], _REASSIGNED)


def _queue(context: ControllerContext, topics: Iterable[str]) -> None:
    """Queue topics for deletion (queueTopicDeletion).

    Raises ProcedureError for a listed partition that has a leader and no replicas.
    """
    new = [name for name in topics if name not in context.queued_for_deletion]
    context.queued_for_deletion.update(dict.fromkeys(new))
    for name in new:
        for partition in context.topics[name].assigned() if name in context.topics else ():
            partition.check_balance()


def _end_reassignments(controller: Controller) -> list[Partition]:
    """End the reassignments of queued topics (DELETION_ENDS_REASSIGNMENT); returns them."""
    if not DELETION_ENDS_REASSIGNMENT.applies(controller.configuration):
        return []
    context = controller.context
    ended = [one for one in context.reassigning if context.is_queued(one)]
    for partition in ended:
        del context.reassigning[partition]
        context.rollback_waiting.pop(partition, None)
        controller.observer.deviates(DELETION_ENDS_REASSIGNMENT, repr(partition))
    return ended


def mark_ineligible(context: ControllerContext, topics: Iterable[str]) -> None:
    """Make the queued ones among these topics wait (markTopicIneligibleForDeletion, KB 2.2.2)."""
    queued = [name for name in topics if name in context.queued_for_deletion]
    context.ineligible_for_deletion.update(dict.fromkeys(queued))


def _halt(controller: Controller, topics: Iterable[str], why: str) -> None:
    """Make the queued ones among these topics wait, and report those that did not wait before."""
    context = controller.context
    before = dict(context.ineligible_for_deletion)
    mark_ineligible(context, topics)
    for name in context.ineligible_for_deletion:
        if name not in before:
            text = f"the deletion of {name} waits: {why}"
            controller.notice("info", "topic_deletion_waits", znodes.topic_path(name), text)


def _has_offline_replica(context: ControllerContext, topic: str) -> bool:
    return any(not context.is_online(*replica) for replica in context.replicas_of(topic))


def _is_being_reassigned(context: ControllerContext, topic: str) -> bool:
    return any(one.topic.name == topic for one in context.reassigning)


async def _refuse(controller: Controller, topics: list[str]) -> None:
    for name in topics:
        text = f"topic {name} is kept, because delete.topic.enable is false: the request is removed"
        controller.notice("warning", "deletion_refused", znodes.delete_topic_path(name), text)
    await _delete_markers(controller, topics)


async def _delete_markers(controller: Controller, topics: list[str]) -> None:
    deletes: list[WriteOperation] = [
        Delete(znodes.delete_topic_path(name), ANY_VERSION) for name in topics
    ]
    if deletes:
        await write(controller, deletes, Reason("topic deletion: remove markers"))


# Responses and failures of brokers --------------------------------------------------------------


def is_of_an_earlier_term(controller: Controller, epoch: int) -> bool:
    """Whether a response confirms deletions that an earlier term requested. The failover has made
    brokers create the logs again since then (DELETIONS_OF_THIS_TERM)."""
    if not DELETIONS_OF_THIS_TERM.applies(controller.configuration):
        return False
    is_earlier = epoch not in (0, controller.context.epoch)
    if is_earlier:
        controller.observer.deviates(DELETIONS_OF_THIS_TERM, "")
    return is_earlier


def _deletions_in_flight(controller: Controller, broker: int) -> set[tuple[str, int]]:
    """The replicas whose deletion was requested after the request of this response, and not
    confirmed yet. A reassignment may have made the broker create a log again in between
    (DELETIONS_OF_THIS_TERM)."""
    if not DELETIONS_OF_THIS_TERM.applies(controller.configuration):
        return set()
    return {
        (one.topic, one.partition)
        for request in controller.context.in_flight.values()
        if isinstance(request, StopReplicaRequest) and request.broker == broker
        for one in request.partitions
        if one.delete
    }


async def process_stop_replica_response(
    controller: Controller, response: BrokerResponded, asked: list[tuple[str, int]]
) -> None:
    """A broker deleted replicas, or could not (KB 8.2.2). `asked`: the replicas of the request."""
    failed = {(topic, number) for topic, number, _ in response.partition_errors}
    partitions = [
        one
        for name in asked
        if (one := controller.context.find(*name)) is not None and one.replicas
    ]
    broker = response.broker
    await fail_deletion(controller, {broker: [one for one in partitions if one.key in failed]})
    in_flight = _deletions_in_flight(controller, broker)
    for one in partitions:
        if one.key in in_flight and one.key not in failed:
            controller.observer.deviates(DELETIONS_OF_THIS_TERM, repr(one))
    deleted = [one for one in partitions if one.key not in failed | in_flight]
    if deleted:
        done = {broker: _queued_partitions(controller.context, deleted)}
        await change_replicas(controller, done, ReplicaState.DELETION_SUCCESSFUL, _RULE)
        await resume_deletions(controller)


async def fail_deletion(controller: Controller, replicas: Replicas) -> None:
    """Replicas could not be deleted; their topics wait (failReplicaDeletion, KB 8.2.3)."""
    context = controller.context
    failed = {
        broker: _queued_partitions(context, partitions) for broker, partitions in replicas.items()
    }
    if any(failed.values()):
        await change_replicas(controller, failed, ReplicaState.DELETION_INELIGIBLE, _RULE)
        topics = [one.topic.name for partitions in failed.values() for one in partitions]
        _halt(controller, topics, _FAILED)
        await resume_deletions(controller)


async def resume_deletion_for(controller: Controller, topics: Iterable[str]) -> None:
    """Topics no longer have to wait (resumeDeletionForTopics, KB 8.2.5)."""
    context = controller.context
    resumed = [name for name in topics if name in context.queued_for_deletion]
    if resumed:
        for name in resumed:
            context.ineligible_for_deletion.pop(name, None)
        await resume_deletions(controller)


def _queued_partitions(
    context: ControllerContext, partitions: Iterable[Partition]
) -> list[Partition]:
    return sorted_partitions(one for one in partitions if context.is_queued(one))


# The steps --------------------------------------------------------------------------------------


async def resume_deletions(controller: Controller) -> None:
    """Process every queued topic as far as possible (resumeDeletions, KB 8.3)."""
    context = controller.context
    controller.observer.resumes_deletions()
    retried: list[str] = []
    started: list[str] = []
    for name in controller.order.topics(context.queued_for_deletion):
        if name in context.queued_for_deletion and _is_deleted(context, name):
            await _complete(controller, name)
            await pause(controller)
    for name in controller.order.topics(context.queued_for_deletion):
        states = _replica_states(context, name)
        if _is_deleted(context, name):
            continue
        is_under_way = ReplicaState.DELETION_STARTED in states
        if not is_under_way and ReplicaState.DELETION_INELIGIBLE in states:
            retried.append(name)
        if not is_under_way and name not in context.ineligible_for_deletion:
            started.append(name)
    if retried:
        again = _replicas(context, retried, ReplicaState.DELETION_INELIGIBLE)
        await change_replicas(controller, again, ReplicaState.OFFLINE, _RULE)
    if started:
        await _start(controller, started)


def _is_deleted(context: ControllerContext, topic: str) -> bool:
    """Whether every replica of a topic is deleted."""
    states = _replica_states(context, topic)
    return all(state is ReplicaState.DELETION_SUCCESSFUL for state in states)


def _replica_states(context: ControllerContext, topic: str) -> list[ReplicaState]:
    if topic not in context.topics:
        return []
    return [
        partition.replica_states.get(broker, ReplicaState.NON_EXISTENT)
        for broker, partition in context.replicas_of(topic)
    ]


def _replicas(context: ControllerContext, topics: Iterable[str], state: ReplicaState) -> Replicas:
    """The replicas of these topics that are in a state."""
    replicas: Replicas = {}
    for name in topics:
        for broker, partition in context.replicas_of(name):
            if partition.replica_states.get(broker) is state:
                replicas.setdefault(broker, []).append(partition)
    return replicas


async def _start(controller: Controller, topics: list[str]) -> None:
    """Send metadata to all brokers, then stop and delete the replicas that are online (KB 8.4)."""
    context = controller.context
    fresh = [name for name in topics if name not in context.deletion_started]
    for name in fresh:
        text = f"the deletion of {name} begins: its replicas are stopped and deleted"
        controller.notice("info", "topic_deletion_started", znodes.topic_path(name), text)
    partitions = sorted_partitions(one for name in fresh for one in context.topics[name].assigned())
    await change_partitions(controller, partitions, PartitionState.OFFLINE, _RULE)
    await change_partitions(controller, partitions, PartitionState.NON_EXISTENT, _RULE)
    context.deletion_started.update(dict.fromkeys(fresh))
    batch = controller.new_batch(_RULE)
    batch.add_update_metadata(
        context.brokers, [one for name in topics for one in context.topics[name].assigned()]
    )
    controller.send(batch)
    await _delete_replicas(controller, topics)


async def _delete_replicas(controller: Controller, topics: list[str]) -> None:
    context = controller.context
    needs_no_state = DELETION_NEEDS_NO_STATE.applies(controller.configuration)
    dead: Replicas = {}
    alive: Replicas = {}
    waiting: dict[str, None] = {}
    for name in topics:
        for broker, partition in context.replicas_of(name):
            state = partition.replica_states.get(broker, ReplicaState.NON_EXISTENT)
            if not context.is_online(broker, partition):
                dead.setdefault(broker, []).append(partition)
                waiting[name] = None
                if state is ReplicaState.NEW and needs_no_state:
                    # Its broker was not alive when the reassignment began.
                    partition.set_replica_state(broker, ReplicaState.OFFLINE)
                    controller.observer.deviates(DELETION_NEEDS_NO_STATE, repr(partition))
            elif state is not ReplicaState.DELETION_SUCCESSFUL:
                alive.setdefault(broker, []).append(partition)
                if state is ReplicaState.NON_EXISTENT and needs_no_state:
                    # Its reassignment failed half way: the broker may have it, as at failover.
                    partition.set_replica_state(broker, ReplicaState.ONLINE)
                    controller.observer.deviates(DELETION_NEEDS_NO_STATE, repr(partition))
    await change_replicas(controller, dead, ReplicaState.DELETION_INELIGIBLE, _RULE)
    await change_replicas(controller, alive, ReplicaState.OFFLINE, _RULE)
    await change_replicas(controller, alive, ReplicaState.DELETION_STARTED, _RULE)
    _halt(controller, waiting, _OFFLINE)


async def _complete(controller: Controller, name: str) -> None:
    """Every replica is deleted: forget the topic and delete its znodes (KB 8.5)."""
    context = controller.context
    if name in context.topics:
        done = _replicas(context, [name], ReplicaState.DELETION_SUCCESSFUL)
        await change_replicas(controller, done, ReplicaState.NON_EXISTENT, _RULE)
    path = znodes.topic_path(name)
    error = await _delete_znodes(controller, name)
    if error not in (OK, NO_NODE):
        text = f"{path} cannot be deleted (ZooKeeper code {error}): the next deletion tries again"
        controller.notice("error", "topic_not_deleted", path, text)
        return
    forget_topic(controller, name)
    controller.notice("info", "topic_deleted", path, f"topic {name} is deleted")


def forget_topic(controller: Controller, name: str) -> None:
    """Forget a deleted topic, and with DELETION_MARK_ENDS the mark that it had to wait."""
    topic = controller.context.topics.get(name)
    controller.context.remove_topic(name)
    if topic is not None and name not in controller.context.topics:
        controller.observer.drops_topics([topic])
    waiting = controller.context.ineligible_for_deletion
    if name in waiting and DELETION_MARK_ENDS.applies(controller.configuration):
        del waiting[name]
        controller.observer.deviates(DELETION_MARK_ENDS, name)


async def _delete_znodes(controller: Controller, name: str) -> int:
    """Delete the topic with all that is below it, then its configuration and its marker.

    Returns ZooKeeper's code for the topic: while it exists, the other two stay.
    """
    topic, parent = znodes.topic_path(name), znodes.partitions_path(name)
    numbers = (await read_children(controller, parent, _RULE)).children
    partitions = [znodes.partition_path(name, number) for number in numbers]
    states = [znodes.state_path(name, number) for number in numbers]
    errors = await _delete(controller, [*states, *partitions, parent, topic])
    if errors[-1] == NOT_EMPTY:
        # There are znodes that Kafka does not create.
        errors = await _delete(controller, await _tree(controller, topic))
    if errors[-1] in (OK, NO_NODE):
        await _delete(controller, [znodes.topic_config_path(name), znodes.delete_topic_path(name)])
    return errors[-1]


async def _delete(controller: Controller, paths: list[str]) -> list[int]:
    deletes: list[WriteOperation] = [Delete(path, ANY_VERSION) for path in paths]
    return (await write(controller, deletes, Reason("topic deletion: remove znodes"))).errors


async def _tree(controller: Controller, root: str) -> list[str]:
    """The paths of a znode and all below it, children before their parents."""
    paths = [root]
    for path in paths:
        children = await read_children(controller, path, _RULE)
        paths += [f"{path}/{child}" for child in children.children]
    return paths[::-1]
